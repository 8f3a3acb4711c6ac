"""What is wrong with a program is said at its place: every case marks the lines that have an error, with its message."""

import re

import pytest

from semi_naive.language import compile_text
from semi_naive.language.errors import ProgramError

CASES = {
    "relations": """
        .decl a(x: number)
        .decl a(x: symbol)                    //! Redefinition of relation a
        .decl b(x: number, x: number)         //! Doubly defined attribute name x:number
        .decl c(x: nowhere)                   //! Undefined type in attribute x:nowhere
        .type d <: symbol
        .decl d(x: number)                    //! Name clash on relation d
        .input e                              //! Undefined relation e
        a(x) :- f(x).                         //! Undefined relation f
        a(x) :- a(x, 1).                      //! Mismatching arity of relation a (expected 1, got 2)
        a(x) :- a(x), !a(x, x).               //! Mismatching arity of relation a (expected 1, got 2)
        a(1, 2).                              //! Mismatching arity of relation a (expected 1, got 2)
    """,
    "types": """
        .type number <: symbol                //! Redefinition of the predefined type
        .type A <: number
        .type A <: symbol                     //! Redefinition of type A
        .type B <: Nowhere                    //! Undefined base type Nowhere in definition of type B
        .type C = Nowhere                     //! Undefined alias type Nowhere in definition of type C
        .type D = A | Nowhere                 //! Undefined type Nowhere in definition of union type D
        .type E = number | symbol             //! Union type E is defined over {number, symbol}
        .type F = A | number
        .type G <: F                          //! Subset type G can't be derived from union F
        .type R = [a: number, r: R]
        .type H <: R                          //! Subset type H can't be derived from record type R
        .type I = R | number                  //! Union type I contains the non-primitive type R
        .type J <: K                          //! Infinite descent in the definition of type J
        .type K <: J                          //! Infinite descent in the definition of type K
        .type L = [a: Nowhere]                //! Undefined type Nowhere in definition of field a
        .type M = [a: number, a: symbol]      //! Doubly defined field name a in definition of type M
    """,
    "algebraic data types": """
        .type A = X {a: number} | Y {}
        .type B = P {a: Sub, b: symbol} | Y2 {}
        .type Sub <: number
        .type Other <: number
        .type Twice = T {} | T {a: number}    //! Branch T is defined multiple times
        .type Again = T2 {} | U {}
        .type Odd = V {q: Nowhere, r: number} //! Undefined type Nowhere in definition of branch V
        .type D = A | number                  //! Union type D contains the non-primitive type A
    """,
    "names of branches": """
        .type A = X {a: number} | Y {}        //! Branch Y is defined multiple times
        .type B = Z {} | Y {b: A}
    """,
    "branches": """
        .type A = X {a: number} | Y {}
        .type B = P {a: Sub, b: symbol} | Q {}
        .type Sub <: number
        .type Other <: number
        .type C <: A
        .type E = A
        .decl a(x: A)
        .decl b(x: B)
        .decl c(x: C)
        .decl e(x: E)
        .decl n(x: number)
        .decl o(x: Other)
        a($X(1)).
        a($Why()).                            //! Undeclared branch
        a($X()).                              //! Invalid arity, the declared arity of X is 1
        a($Y(1)).                             //! Invalid arity, the declared arity of Y is 0
        a($X("a")).                           //! Symbol constant (type mismatch)
        a($P(1, "b")).                        //! Atom's argument type is not a subtype of its declared type
        a($X($Y())).                          //! Ambiguous branch
        a(1).                                 //! Atom's argument type is not a subtype of its declared type
        a(nil).                               //! Nil constant used as a non-record
        n($Y()).                              //! Ambiguous branch
        c($Y()).                              //! Atom's argument type is not a subtype of its declared type
        e($X(1)).
        e(x) :- a(x).
        a(x) :- e(x).
        c(as(x, C)) :- a(x).
        b(x) :- a(x).                         //! Atom's argument type is not a subtype of its declared type
        n(x) :- a(x).                         //! Unable to deduce type for variable x
        b($P(x, "b")) :- n(x).
        b($P(x, "b")) :- o(x).                //! Unable to deduce type for variable x
        n(1) :- a($P(_, _)).                  //! Ambiguous branch
        n(1) :- a([1]).                       //! Ambiguous record  //! Number constant (type mismatch)
        n(1) :- a(x), x < $Y().               //! Constraint requires an operand  //! Constraint requires an operand
        n(1) :- a(x), x != 3.                 //! Unable to deduce type for variable x  //! Number constant (type mismatch)
        n(min x : { a(x) }).                  //! Couldn't assign types  //! Unable to deduce type for variable x
        n(strlen(x)) :- a(x).                 //! no valid overloads
    """,
    "groundedness of branches": """
        .type A = X {a: number} | Y {}
        .decl a(x: A, y: A)
        a($Y(), $X(3)).
        a($X(x), x).                          //! Argument in fact is not constant  //! Argument in fact is not constant
        a($X(1), $X(_)).                      //! Argument in fact is not constant  //! Underscore in head of rule
        a($X(u), $Y()) :- a($X(_), $Y()).     //! Ungrounded ADT branch  //! Ungrounded variable u
        a(x, x) :- a(x, _), !a(x, $X(_)).     //! Ungrounded ADT branch
        a(x, x) :- a(x, _), x != $X(_).       //! Ungrounded ADT branch
        a(x, x) :- a(x, _), _ = $Y().         //! Underscore in binary relation
        a(x, $X(z)) :- a(x, _), x = $X(y), z = y + 1.
    """,
    "branches of components": """
        .comp Option<T> {
            .type Option = None {} | Some {it: T}
            .decl option(o: Option)
            option($None()).
            option($Some(1)).                 //! Number constant (type mismatch)
            option($Other()).                 //! Undeclared branch
        }
        .init names = Option<symbol>
        .decl a(o: names.Option)
        a($names.None()).
        a($None()).                           //! Undeclared branch
    """,
    "equivalence relations": """
        .decl a(x: number, y: number) eqrel
        .decl b(x: number) eqrel              //! Equivalence relation b is not binary
        .decl c(x: number, y: symbol) eqrel   //! Domains of equivalence relation c are different
    """,
    "facts and underscores": """
        .decl a(x: number)
        .decl s(x: symbol)
        a(1 + 2).
        a(-3).
        a(x).                                 //! Argument in fact is not constant
        a(1 + x).                             //! Argument in fact is not constant
        s(word).                              //! Argument in fact is not constant
        a(autoinc()).                         //! Argument in fact is not constant
        a(_) :- a(_).                         //! Underscore in head of rule
        a(x) :- a(x), x < _.                  //! Underscore in binary relation
        a(count : { a(_) }) :- s(_), s("x").  //! Unable to stratify relation(s) {a}
    """,
    "groundedness": """
        .decl a(x: number)
        .decl b(x: number, y: number)
        a(x) :- a(y), b(y, y).                //! Ungrounded variable x
        a(x) :- !b(x, 1).                     //! Ungrounded variable x
        a(x) :- a(y), x = y + z.              //! Ungrounded variable x  //! Ungrounded variable z
        a(x) :- a(y), y = x + 1.              //! Ungrounded variable x
        a(x) :- a(x + y).                     //! Ungrounded variable x  //! Ungrounded variable y
        a(x) :- a(y), (x = y ; y < 3).        //! Ungrounded variable x
        a(x) :- b(x, y), z < y.               //! Ungrounded variable z
        a(x) :- x = y, y = z, z = 3.
        a(x) :- x = y * 2, y = range(1, z), a(z).
        a(1) :- x = x.                        //! Ungrounded variable x
    """,
    "groundedness of what is inlined": """
        .pragma "inline-exclude" "out, other"
        .decl a(x: number)
        .decl succ(x: number, y: number) inline
        .decl positive(x: number) inline
        .decl both(x: number, y: number) inline
        .decl out(x: number) inline
        .decl kept(x: number) inline no_inline
        succ(x, y) :- x = y + 1.                  //! Ungrounded variable y
        positive(1).
        positive(x) :- x > 1.                     //! Ungrounded variable x
        both(x, y) :- positive(x), succ(y, x).
        out(x) :- x > 1.                          //! Ungrounded variable x
        kept(x) :- x < 1.                         //! Ungrounded variable x
        a(x) :- succ(x, 0).
        a(x) :- a(y), succ(x, y), positive(x), both(x, _).
        a(y) :- a(x), both(x, y).
        a(x) :- succ(0, x).                       //! Ungrounded variable x
        a(x) :- positive(x).                      //! Ungrounded variable x
    """,
    "records": """
        .type R = [a: number, b: symbol]
        .decl r(x: R)
        .decl a(x: number)
        a(x) :- r([x, _]).
        a(x) :- r(y), y = [x, _].
        a(x) :- r([x, _]), _ = [x, x], [_, 3] = [[x], 3].
        a(1) :- r(y), y != [1, _].            //! Ungrounded record
        r([1, "a", 2]).                       //! Ambiguous record  //! Number constant (type mismatch)
        r([1]).                               //! Wrong number of arguments given to record
        r(["a", "b"]).                        //! Symbol constant (type mismatch)
        a(nil).                               //! Nil constant used as a non-record
        a([1, "b"]).                          //! Ambiguous record
        r(nil).
    """,
    "subtypes": """
        .type A <: symbol
        .type B <: symbol
        .type U = A | B
        .decl a(x: A)
        .decl b(x: B)
        .decl u(x: U)
        .decl s(x: symbol)
        a("constant"). b("constant"). u("constant").
        a(x) :- b(x).                         //! Atom's argument type is not a subtype of its declared type
        a(x) :- s(x).                         //! Atom's argument type is not a subtype of its declared type
        s(x) :- a(x).
        u(x) :- a(x).
        u(x) :- a(x), s(x), x != "no".
        a(x) :- a(x), b(x).                   //! Unable to deduce type for variable x
        s(x) :- a(x), b(y), x = y.            //! Unable to deduce type for variable x  //! Unable to deduce type for variable y
        a(x) :- a(x), !s(x), !b(x).           //! Unable to stratify relation(s)
        a(as(x, A)) :- b(x).
    """,
    "kinds": """
        .decl n(x: number)
        .decl u(x: unsigned)
        .decl f(x: float)
        .decl s(x: symbol)
        n("a").                               //! Symbol constant (type mismatch)
        s(1).                                 //! Number constant (type mismatch)
        n(1.5).                               //! Float constant (type mismatch)
        n(1u).                                //! Unsigned constant (type mismatch)
        u(1). u(1u). f(1). f(1.5).
        u(-1).                                //! Unsigned constant (type mismatch)
        n(9223372036854775808).               //! Number constant (type mismatch)
        n(-9223372036854775808). u(18446744073709551615).
        n(x) :- s(x).                         //! Unable to deduce type for variable x
        n(x) :- s(x), n(x).                   //! Unable to deduce type for variable x
        n(x) :- n(x), u(y), x < y.            //! Unable to deduce type for variable x  //! Unable to deduce type for variable y
        n(x) :- n(x), s(x + 1).               //! Number constant (type mismatch)  //! no valid overloads
        n(cat("a", "b")).                     //! no valid overloads
        n(strlen("a", "b")).                  //! invalid overload (arity mismatch)
        f(x) :- n(y), x = to_float(y) / 2.
        u(x) :- n(y), x = to_unsigned(y) bshl 3.
        s(x) :- n(y), x = to_string(y), match("1.*", x).
        s(x) :- n(x), s(x).                   //! Unable to deduce type for variable x
        n(as(x, R)) :- n(x).                  //! Type cast to the undeclared type "R"
    """,
    "aggregates": """
        .decl a(x: number)
        .decl b(x: number, y: number)
        .decl s(x: symbol)
        .decl f(x: float)
        .decl out(x: number)
        out(x) :- x = sum y : { a(y) }.
        out(y) :- 3 = count : { a(y) }.       //! Witness problem
        out(y) :- 3 = sum x : { a(x), 1 < max z : { b(z, x), b(z, y) } }.    //! Witness problem
        out(y) :- 3 = max x : { b(x, y) }.
        out(1) :- x = min y : { s(y) }, s(x). //! Couldn't assign types to the aggregator  //! variable x  //! variable y
        f(x) :- x = mean y : { a(y) }.        //! Couldn't assign types to the aggregator  //! variable x  //! variable y
        out(x) :- x = sum y : { a(z) }.       //! Ungrounded variable y
        out(x) :- a(y), x = sum y : { a(z) }. //! Ungrounded variable y
        out(x) :- x = count : { b(y, _), a(z), y < w }.                      //! Ungrounded variable w
        out(x) :- x = count : { a(z), z < y }, y = count : { a(z), z < x }.  //! Mutually dependent  //! Mutually dependent
        out(x) :- b(x, y), 0 = count : { b(_, x), a(y) }, 0 = count : { b(y, _), a(x) }, y < 3.
        out(x) :- b(x, y), 0 = count : { b(z, x), z < y }, 0 = count : { b(y, z), z < x }.  //! Mutually  //! Mutually
        out(x) :- b(x, y), 0 = count : { b(z, x), z < y }, 0 = count : { b(z, x), z > y }.
        out(x) :- x = count : { a(1) ; a(2) }.                               //! Disjunctions in aggregation clauses
    """,
    "stratification": """
        .decl a(x: number)
        .decl b(x: number)
        .decl c(x: number)
        .decl d(x: number)
        a(1).
        b(x) :- a(x), !c(x).                  //! the cycle b → !c → d → b has a cyclic negation
        c(x) :- d(x).
        d(x) :- b(x).
        a(x) :- a(x), 1 < count : { a(_) }.   //! the cycle a → aggregate of a has a cyclic aggregation
    """,
    "counters": """
        .decl a(x: number)
        .decl b(x: number)
        a(autoinc()) :- b(_).
        b(x + autoinc()) :- b(x).             //! Auto-increment functor in a recursive rule
    """,
    "inlining": """
        .decl a(x: number) inline             //! Cannot inline cyclically dependent relations {a, b}
        .decl b(x: number) inline
        .decl c(x: number) inline             //! IO relation c cannot be inlined
        .decl d(x: number) inline
        .decl e(x: number, y: number) inline
        .decl f(x: number)
        .output c
        a(x) :- b(x).
        b(x) :- a(x).
        c(x) :- f(x).
        d(x) :- f(x), f(y), x < y.
        e(x, y) :- f(x), f(y).
        f(x) :- f(x), !d(x).                  //! Cannot inline negated relation which may introduce new  //! Unable to stratify
        f(x) :- f(x), !e(x, _).               //! Cannot inline negated atom containing an unnamed variable
        f(x) :- x = count : { e(_, _) }.      //! Cannot inline relations that appear in aggregator
        e(x, $) :- f(x).                      //! inline clause containing a counter  //! literal containing  //! Auto-inc
    """,
    "plans": """
        .decl a(x: number, y: number)
        a(1, 2).
        a(x, z) :- a(x, y), a(y, z). .plan 0: (1, 2), 1: (2, 1)
        a(x, z) :- a(x, y), a(y, z). .plan 0: (1, 1)     //! Invalid execution order in plan
        a(x, z) :- a(x, y), a(y, z).
            .plan 0: (1, 2), 2: (2, 1)                   //! execution plan for version 2
    """,
    "recursive aggregation": """
        .decl edge(x: number, y: number, w: number)
        .decl path(y: number, d: number)
        .decl far(x: number)
        .input edge
        path(0, 0).
        path(y, min(d + w)) :- path(x, d), edge(x, y, w).
        path(y, min(d)) :- path(y, d), d < 100.
        path(y, min(e)) :- path(x, d), edge(x, y, w), e = d * 2 + w.
        far(x) :- path(x, 7).
        path(y, min(w - d)) :- path(x, d), edge(x, y, w).         //! Not monotone: a better value in the body
        path(y, min(e)) :- path(y, d), e = -d.                    //! Not monotone: a better value in the body
        path(y, min(d * y)) :- path(y, d).                        //! Not monotone: a better value in the body
        path(y, min(d)) :- path(y, d), d > 3.                     //! is compared
        path(y, min(d)) :- path(y, d), d != 3.                    //! is compared
        path(y, min(e)) :- path(y, d), e = d, e = 3.              //! is compared
        path(y, min(d)) :- path(y, d), edge(_, _, d).             //! is joined with another
        path(y, min(d)) :- path(y, d), !edge(y, y, d).            //! is negated
        path(y, min(n)) :- path(y, d), n = count : { edge(d, _, _) }.  //! is used in an aggregate
        path(y, min(w)) :- path(y, 3), edge(y, _, w).             //! Not monotone: it is compared with something
        path(d, min(d)) :- path(_, d).                            //! path would keep values
        path(y, d) :- path(y, d), edge(y, _, _).                  //! so must be every recursive rule for it
        path(y, max(w)) :- edge(_, y, w).                         //! aggregated by both min and max
        path(min(y), w) :- edge(_, y, w).                         //! aggregated in different columns
        path(x, sum(w)) :- edge(x, _, w).                         //! aggregated by both min and sum
        .decl total(x: number, w: number)
        total(x, sum(w)) :- part(x, w).
        .decl part(x: number, w: number)
        part(x, w) :- total(x, w).                                //! part is in recursion with total
    """,
}


def marked(text: str) -> list[tuple[int, str]]:
    return [(at, m) for at, line in enumerate(text.split("\n"), 1) for m in re.findall(r"//! (.*?)\s*(?=//!|$)", line)]


def errors_of(text: str) -> list[tuple[int, str]]:
    with pytest.raises(ProgramError) as caught:
        compile_text(text, "p.dl")
    return [(problem.span.line, problem.message) for problem in caught.value.problems if problem.severity == "Error"]


@pytest.mark.parametrize("name", CASES)
def test_every_error_is_at_its_line(name):
    text = CASES[name]
    found, expected = errors_of(text), marked(text)
    for line, message in expected:
        matching = [error for error in found if error[0] == line and message in error[1]]
        assert matching, (line, message, found)
        found.remove(matching[0])
    assert [error for error in found if error[0] not in dict(expected)] == []


RULES_ONLY = [name for name, text in CASES.items() if not re.search(r"^ *\..*//!", text, re.MULTILINE)]


@pytest.mark.parametrize("name", RULES_ONLY)
def test_without_the_marked_rules_the_program_is_fine(name):
    kept = "\n".join(line for line in CASES[name].split("\n") if "//!" not in line)
    assert compile_text(kept).rules


def test_an_error_shows_the_place_and_what_to_do():
    text = ".decl path(x: number)\npath(x) :- Path(x)."
    with pytest.raises(ProgramError) as caught:
        compile_text(text, "p.dl")
    assert str(caught.value).split("\n")[:4] == [
        "Error: Undefined relation Path in file p.dl at line 2, column 12",
        "path(x) :- Path(x).",
        "-----------^~~~~~~-",
        "hint: did you mean path?",
    ]


@pytest.mark.parametrize(
    "text, hint",
    [
        (".decl path(x: int)", "it is called number here"),
        (".decl path(x: String)", "it is called symbol here"),
        (".decl path(x: number)\npath(1) :- pth(1).", "did you mean path?"),
        (".decl path(x: number)\npath(1) :- cycle(1).", "declare it: .decl cycle(…)"),
    ],
)
def test_an_unknown_name_is_told_the_known_one(text, hint):
    with pytest.raises(ProgramError) as raised:
        compile_text(text)
    assert [problem.hint for problem in raised.value.problems if problem.severity == "Error"] == [hint]


def test_a_constant_of_another_kind_is_told_what_its_place_asks_for():
    declared = ".type P = [a: number]\n.decl n(x: number)\n.decl r(p: P)\n"
    with pytest.raises(ProgramError) as raised:
        compile_text(declared + 'n("a").\nr("a").\n')
    assert [p.hint for p in raised.value.problems] == ["attribute x of n is a number", "attribute p of r is a record"]


def test_what_an_ambiguous_record_is_advised_leads_to_a_program():
    declared = ".type R = [x: number, y: number]\n.decl r(x: R)\n.decl a(x: number)\n"
    with pytest.raises(ProgramError) as caught:
        compile_text(declared + "a(1) :- x = as([1, 2], R), x != nil.")
    [problem] = [each for each in caught.value.problems if each.severity == "Error"]
    assert problem.message == "Ambiguous record" and "write it in an atom, or = a variable of one" in problem.hint
    compile_text(declared + "r([1, 2]).\na(1) :- r([1, 2]).\na(2) :- r(x), x = [1, 2].")


def test_a_clash_of_types_says_where_each_comes_from():
    text = ".decl a(x: number)\n.decl b(x: symbol)\n.decl c(x: number)\nc(x) :- a(x), b(x)."
    with pytest.raises(ProgramError) as caught:
        compile_text(text)
    [problem] = [p for p in caught.value.problems if p.severity == "Error"]
    assert [(message, span.column) for message, span in problem.notes] == [
        ("x should be a subtype of number", 9),
        ("x should be a subtype of symbol", 15),
    ]


def test_a_cycle_names_every_relation_on_it():
    text = ".decl a(x:number)\n.decl b(x:number)\n.decl c(x:number)\na(x) :- c(x), !b(x).\nb(x) :- a(x).\nc(1)."
    with pytest.raises(ProgramError) as caught:
        compile_text(text)
    [problem] = caught.value.problems
    assert "Unable to stratify relation(s) {a, b}" in problem.message
    assert (problem.span.line, problem.span.column) == (4, 16)
    assert [message for message, _ in problem.notes] == ["Relation a", "b reads a"]


def test_several_heads_and_disjunctions_report_an_error_once():
    text = ".decl a(x: number) .decl b(x: number)\na(x), b(x) :- (a(y) ; b(y)), y < z."
    assert sorted(errors_of(text)) == [(2, "Ungrounded variable x"), (2, "Ungrounded variable x"), (2, "Ungrounded variable z")]


def test_an_expression_too_deep_is_an_error_and_not_a_crash():
    text = ".decl a(x: number)\na(" + " + ".join(["1"] * 2000) + ")."
    assert errors_of(text) == [(2, "Expression nested more than 250 levels deep")]
    assert compile_text(".decl a(x: number)\na(" + " + ".join(["1"] * 200) + ").").rules


WARNINGS = """
    .decl a(x: number)
    .decl b(x: number, y: number)
    .decl empty(x: number)
    .input b
    a(x) :- b(x, y).
    a(x) :- b(x, _y).
    a(_x) :- b(_x, 1).
    a(x), b(x, x) :- b(x, z).
"""


def test_warnings():
    found = [(problem.span.line, problem.message) for problem in compile_text(WARNINGS).warnings]
    assert sorted(found) == [
        (4, "No rules/facts defined for relation empty"),
        (6, "Variable y only occurs once"),
        (8, "Variable _x marked as singleton but occurs more than once"),
        (9, "Variable z only occurs once"),
    ]


def test_a_type_without_a_sound_definition_is_undefined_for_others():
    text = """.type A = B
    .type B <: Nope
    .type C <: A
    .type F = G
    .type G = F
    .type I = F | number
    .type J = I
    .type L = [x: F]
    .type M = Branch {x: A}
    """
    with pytest.raises(ProgramError) as caught:
        compile_text(text)
    assert [(each.span.line, each.message) for each in caught.value.problems] == [
        (1, "Undefined alias type B in definition of type A"),
        (2, "Undefined base type Nope in definition of type B"),
        (3, "Undefined base type A in definition of type C"),
        (4, "Infinite descent in the definition of type F"),
        (5, "Infinite descent in the definition of type G"),
        (7, "Undefined alias type I in definition of type J"),
        (8, "Undefined type F in definition of field x"),
        (9, "Undefined type A in definition of branch Branch"),
    ]
