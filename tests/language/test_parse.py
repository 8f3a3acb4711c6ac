"""Text → syntax tree: every form of the language, where each part stands, and what is said about what is wrong."""

import pytest
from counted import python_calls

from semi_naive.language.errors import Span
from semi_naive.language.parsing.parse import parse, parse_file
from semi_naive.language.syntax import (
    Aggregate,
    And,
    As,
    Atom,
    Clause,
    Component,
    Constraint,
    Directive,
    Functor,
    Init,
    Negation,
    Nil,
    Number,
    Or,
    Override,
    Pragma,
    RecordDecl,
    RecordInit,
    RelationDecl,
    String,
    SubtypeDecl,
    Underscore,
    UnionDecl,
    Variable,
)

X, Y, Z = map(Variable, "xyz")


def one(text):
    [statement] = parse(text).statements
    return statement


def body(text):
    return one(f"A(x) :- {text}.").body


def expression(text):
    """The tree of an expression, as nested tuples that are easily read: ("+", x, 1)."""

    def plain(node):
        match node:
            case Functor(name, args):
                return (name, *map(plain, args))
            case Variable(name):
                return name
            case Number(value, _) | String(value):
                return value
        return node

    return plain(body(f"x = {text}").args[1])


def written(text, span):
    """What stands at a span."""
    lines = text.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


# -- statements


@pytest.mark.parametrize(
    "text, expected",
    [
        (".type T <: number", SubtypeDecl("T", "number")),
        (".type T = a.U", UnionDecl("T", ("a.U",))),
        (".type T = U | V | number", UnionDecl("T", ("U", "V", "number"))),
        (".type T = [head: number, tail: T]", RecordDecl("T", (("head", "number"), ("tail", "T")))),
        (".type T = []", RecordDecl("T", ())),
        (".number_type T", SubtypeDecl("T", "number")),
        (".symbol_type T", SubtypeDecl("T", "symbol")),
        (".type T", SubtypeDecl("T", "symbol")),
        (".decl A()", RelationDecl("A", ())),
        (".decl A(x: number, ?y_1: c.T)", RelationDecl("A", (("x", "number"), ("?y_1", "c.T")))),
        (".decl A(x: T) inline no_magic btree", RelationDecl("A", (("x", "T"),), frozenset({"inline", "no_magic", "btree"}))),
        (".input A", Directive("input", "A")),
        ('.pragma "a"', Pragma("a")),
        ('.pragma "a" "b\\tc"', Pragma("a", "b\tc")),
        (".init a = C", Init("a", "C")),
        (".init a = C<T, number>", Init("a", "C", ("T", "number"))),
        (".comp C {}", Component("C", (), (), ())),
        (".comp C<T> : B<T, U>, D { .override r }", Component("C", ("T",), (("B", ("T", "U")), ("D", ())), (Override("r"),))),
        ("A(1).", Clause((Atom("A", (Number(1),)),))),
        ("a.b.C().", Clause((Atom("a.b.C", ()),))),
    ],
)
def test_statements(text, expected):
    assert one(text) == expected
    assert one(f"// before\n {text} /* after */") == expected


def test_one_declaration_of_several_relations():
    a, b = parse(".decl A, B(x: number) eqrel").statements
    assert a == RelationDecl("A", (("x", "number"),), frozenset({"eqrel"})) and b.name == "B"
    assert (a.span, b.span) == (Span("<program>", 1, 7, 1, 8), Span("<program>", 1, 10, 1, 11))


def test_old_qualifiers_are_directives():
    statements = parse(".decl A(x: number) output eqrel input").statements
    assert statements[0].qualifiers == {"eqrel"}
    assert statements[1:] == [Directive("input", "A"), Directive("output", "A")]


def test_ordered_is_a_word_only_as_a_qualifier():
    a, b, fact, rule = parse(".decl A(x: T) ordered\n.decl ordered(x: T)\nordered (1). A(1) :- ordered(1).").statements
    assert a.qualifiers == {"ordered"} and (b.name, b.qualifiers) == ("ordered", frozenset())
    assert fact.heads[0].relation == rule.body.relation == "ordered"


def test_directives_with_settings():
    a, b = parse('.output A, b.C(IO=file, delimiter=",", headers=true, n=0x10)').statements
    assert (a.kind, a.relation, b.relation) == ("output", "A", "b.C")
    assert a.parameters == b.parameters == {"IO": "file", "delimiter": ",", "headers": "true", "n": "0x10"}
    assert parse(".limitsize A()\n.printsize B").statements == [Directive("limitsize", "A"), Directive("printsize", "B")]


def test_words_of_directives_are_only_words_of_directives():
    assert one("c.declared(1).").heads[0].relation == "c.declared"
    assert parse(".output A\n.decl A()").statements == [Directive("output", "A"), RelationDecl("A", ())]


def test_clauses():
    rule = one("A(x), B(x, y) :- C(x, y). .plan 0: (1, 2), 1: (2, 1)")
    assert [head.relation for head in rule.heads] == ["A", "B"]
    assert rule.plan == {0: (1, 2), 1: (2, 1)}
    assert one("A(x) :- B(x). .plan 0: ()").plan == {0: ()}
    assert [one(f"A(x) :- B(x). {hint}").join for hint in (".join multiway", ".plan 0: (1) .join binary", "")] == [
        "multiway",
        "binary",
        "",
    ]
    assert [len(parse(text).statements) for text in ("A(x) :- B(x). .join binary C(1).", ".decl join(x: T) join(1).")] == [2, 2]


# -- bodies


def test_bodies():
    a, b, c = (Atom(name, (X,)) for name in "abc")
    assert body("a(x)") == a
    assert body("a(x), b(x), c(x)") == And((a, b, c))
    assert body("a(x), b(x); c(x)") == Or((And((a, b)), c))
    assert body("a(x), (b(x); !c(x))") == And((a, Or((b, Negation(c)))))
    assert body("!(a(x), !b(x))") == Negation(And((a, Negation(b))))
    assert body("true, false") == And((Constraint("true"), Constraint("false")))


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_comparisons(op):
    assert body(f"x {op} (y)") == Constraint(op, (X, Y))
    assert body(f"(x) {op} y") == Constraint(op, (X, Y))
    assert body(f"((x {op} y))") == Constraint(op, (X, Y))


def test_tests():
    assert body('match("a.*", x)') == Constraint("match", (String("a.*"), X))
    assert body("contains(x, y)") == Constraint("contains", (X, Y))


# -- expressions


@pytest.mark.parametrize(
    "text, tree",
    [
        ("1 + 2 * y", ("+", 1, ("*", 2, "y"))),
        ("1 - 2 - 3", ("-", ("-", 1, 2), 3)),
        ("2 ^ 3 ^ 4", ("^", 2, ("^", 3, 4))),
        ("-y ^ 2", ("neg", ("^", "y", 2))),
        ("-y * 2", ("*", ("neg", "y"), 2)),
        ("2 ^ -y * 3", ("*", ("^", 2, ("neg", "y")), 3)),
        ("y -1", ("-", "y", 1)),
        ("--2", ("neg", -2)),
        ("-2", -2),
        ("-(2)", -2),
        ("bnot y band z", ("band", ("bnot", "y"), "z")),
        ("lnot y * z", ("*", ("lnot", "y"), "z")),
        ("a lor b lxor c land d", ("lor", "a", ("lxor", "b", ("land", "c", "d")))),
        ("a land b bor c bxor d band e", ("land", "a", ("bor", "b", ("bxor", "c", ("band", "d", "e"))))),
        ("a band b bshl c + d", ("band", "a", ("bshl", "b", ("+", "c", "d")))),
        ("a bshr b bshru c", ("bshru", ("bshr", "a", "b"), "c")),
        ("a * b / c % d", ("%", ("/", ("*", "a", "b"), "c"), "d")),
        ("(a + b) * c", ("*", ("+", "a", "b"), "c")),
        ("min(a, b, c) + max(d, e)", ("+", ("min", "a", "b", "c"), ("max", "d", "e"))),
        ('cat("a", "b", y)', ("cat", "a", "b", "y")),
        ("substr(a, 0, strlen(a) - 1)", ("substr", "a", 0, ("-", ("strlen", "a"), 1))),
        ("to_number(to_string(ord(a)))", ("to_number", ("to_string", ("ord", "a")))),
        ("range(1, 5)", ("range", 1, 5)),
        ("autoinc()", ("autoinc",)),
        ("$", ("autoinc",)),
    ],
)  # fmt: skip
def test_operators_and_functors(text, tree):
    assert expression(text) == tree


@pytest.mark.parametrize(
    "text, number",
    [
        ("0", Number(0)),
        ("007", Number(7)),
        ("0xfF", Number(255)),
        ("0b101", Number(5)),
        ("12u", Number(12, "u")),
        ("0x1Fu", Number(31, "u")),
        ("0b1u", Number(1, "u")),
        ("1.50", Number(1.5, "f")),
        ("-1.5", Number(-1.5, "f")),
        ("127.0.0.1", Number(127 * 2**24 + 1)),
        ("255.255.255.255", Number(-1)),
        ("18446744073709551615", Number(2**64 - 1)),
    ],
)
def test_numbers(text, number):
    assert body(f"x = {text}").args[1] == number


def test_other_operands():
    assert body("x = [1, [_, nil], []]").args[1] == RecordInit((Number(1), RecordInit((Underscore(), Nil())), RecordInit(())))
    assert body("x = as(y, a.T)").args[1] == As(Y, "a.T")
    source = parse("A(__FILE__,\n __LINE__).", "dir/p.dl").statements[0]
    assert source.heads[0].args == (String("dir/p.dl"), Number(2))


def test_strings():
    assert body(r'x = "\a\b\f\n\r\t\v\\\"\'"').args[1] == String("\a\b\f\n\r\t\v\\\"'")
    assert body('x = "// /* no comment */ #define X é"').args[1] == String("// /* no comment */ #define X é")


def test_aggregates():
    b = Atom("B", (X, Y))
    assert body("z = count : { B(x, y) }").args[1] == Aggregate("count", None, b)
    assert body("z = sum x : B(x, y)").args[1] == Aggregate("sum", X, b)
    assert body("z = min (x) : { B(x, y), x < 1 }").args[1].target == X
    assert body("z = max (x) * 2 : { B(x, y) }").args[1].target == Functor("*", (X, Number(2)))
    assert body("z = 1 + mean x : { B(x, y) } * 2, z > 0").items[0].args[1].args[1].args[0] == Aggregate("mean", X, b)
    nested = body("z = sum x : { B(x, y), y = count : { B(_, _) ; B(y, y) } }").args[1]
    assert isinstance(nested.body.items[1].args[1].body, Or)


def test_min_and_max_of_one_argument_aggregate_in_heads():
    assert one("D(x, min(d + 1)) :- D(x, d).").heads[0].args[1] == Functor("min", (Functor("+", (Variable("d"), Number(1))),))
    assert one("D(x, (min(d))) :- D(x, d).").heads[0].args[1].name == "min"


# -- comments, annotations, preprocessing that is none


def test_comments_and_annotations_mean_nothing():
    plain = parse(".decl A(x: number)\nA(1) :- B(2).").statements
    assert (
        parse("/// doc\n@[a = {[(]}] @[b [c]]\n.decl A(@[t] x: /* ** / */ number)\n@![x]\nA(1) :- //! doc\n B(2).").statements
        == plain
    )
    assert parse("").statements == parse("// nothing").statements == []


# -- spans


def test_spans_cover_what_is_meant():
    text = "A(x,\n  y + 1) :-\n    b.C(x, _), !D([y]), x = count : { E(x) }.  F(2)."
    rule, fact = parse(text).statements
    assert written(text, rule.span) == text[: text.index("  F")]
    assert written(text, fact.span) == "F(2)."
    assert written(text, rule.heads[0].span) == "A(x,\n  y + 1)"
    assert written(text, rule.heads[0].args[1].span) == "y + 1"
    assert [written(text, item.span) for item in rule.body.items] == ["b.C(x, _)", "!D([y])", "x = count : { E(x) }"]
    assert written(text, rule.body.items[1].body.args[0].span) == "[y]"
    assert written(text, rule.body.items[2].args[1].span) == "count : { E(x) }"


def test_brackets_belong_to_what_they_hold():
    text = "A((x + y) * 2) :- (B(x); C(x)), !(D(y), E(y))."
    rule = one(text)
    assert written(text, rule.heads[0].args[0].span) == "(x + y) * 2"
    assert [written(text, item.span) for item in rule.body.items] == ["(B(x); C(x))", "!(D(y), E(y))"]


def test_the_span_of_a_rule_ends_at_its_dot():
    text = "A(x) :- B(x). .plan 1: (1)"
    assert written(text, one(text).span) == "A(x) :- B(x)."


def test_spans_of_types_in_declarations():
    text = ".decl A(x: number,\n y: a.T)\n.type R = [a: number, b: R]\n.type U = R | A"
    relation, record, union = parse(text).statements
    assert [written(text, span) for span in relation.spans] == ["number", "a.T"]
    assert [written(text, span) for span in record.spans] == ["number", "R"]
    assert [written(text, span) for span in union.spans] == ["R", "A"]
    assert written(text, record.span) == ".type R = [a: number, b: R]"


# -- size


def test_parsing_grows_with_the_text_and_no_faster():
    parse("A(1).")  # the parser is made once
    rules = [f"p{i}(x, z) :- p(x, y), e(y, z), x + 1 < y * 2, !q{i}(_, x)." for i in range(400)]
    few, many = (python_calls(lambda some=some: parse("\n".join(some))) for some in (rules[:40], rules))
    assert few > 40 and many < 10.5 * few


def test_deep_expressions_need_no_deep_stack():
    assert len(parse(f"A({'(' * 3000}1{')' * 3000}).").statements) == 1
    assert len(parse(f"A({'+'.join('1' * 3000)}).").statements) == 1


def test_files(tmp_path):
    path = tmp_path / "p.dl"
    path.write_bytes(b'\xef\xbb\xbfA("\xe9").\r\nB(1).\r\n')
    source = parse_file(path)
    assert source.statements[0].heads[0].args[0].value.encode("utf-8", "surrogateescape") == b"\xe9"
    assert source.statements[1].span == Span(str(path), 2, 1, 2, 6)
    assert list(source.texts) == [str(path)]
