"""What is said about a program that does not parse: where, what was found and expected, what to do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semi_naive.language.errors import ProgramError, Span
from semi_naive.language.parsing import syntax_errors
from semi_naive.language.parsing.parse import parse, parse_all
from semi_naive.language.parsing.tables import tables


def problems(text, **more):
    with pytest.raises(ProgramError) as caught:
        parse(text, "p.dl", **more)
    return caught.value.problems


def places(text):
    return [(problem.span.line, problem.span.column) for problem in problems(text)]


@pytest.mark.parametrize(
    "text, place, message, hint",
    [
        ("A(x) :- B(x)\nC(x) :- D(x).", (2, 1), "unexpected identifier C", "end with a dot"),
        ("A(x) :- .", (1, 9), "unexpected ., expecting a literal", ""),
        ("A(x)", (1, 5), "unexpected end of file", "end with a dot"),
        ("x", (1, 2), "unexpected end of file, expecting '(' or '.'", ""),
        ("*", (1, 1), "unexpected *, expecting a clause or a declaration", ""),
        (".dcel A(x: number)", (1, 1), "unexpected .", "is it .decl"),
        ("A(x).\n .bad", (2, 2), "unexpected .", "the directives are"),
        (".decl A(x)", (1, 10), "unexpected ), expecting ':'", "x: number"),
        (".decl count(x: number)", (1, 7), "unexpected count, expecting identifier", "word of the language"),
        ("A(x) == B(x).", (1, 6), "unexpected =", "with one ="),
        ("A(x) :- x == 1.", (1, 12), "unexpected =", "with one ="),
        ("A(x) :- B(x) && C(x).", (1, 14), "unexpected &", "a comma"),
        ("A(x) :- B('a').", (1, 11), "unexpected '", "double quotes"),
        ("A(x) := B(x).", (1, 6), "unexpected :", ":- body"),
        ("A(x, count(*)) :- B(x).", (1, 12), "unexpected *", "n = count : { edge(x, _) }"),
        ("A(x) :- B(x), not C(x).", (1, 19), "unexpected identifier C", "is written !"),
        (r"A(x) :- B(x), \+ C(x).", (1, 15), r"unexpected \ ".strip(), "is written !"),
        (r"A(x) :- B(x), x \= 1.", (1, 17), r"unexpected \ ".strip(), "inequality is written !="),
        ("A(x) :- B(x) and C(x).", (1, 14), "unexpected identifier and", "a comma"),
        ("A(x) :- B(y), x is y + 1.", (1, 17), "unexpected identifier is", "one ="),
        ("A(1).\n% more\nB(2).", (2, 1), "unexpected %", "comments begin with //"),
        ("A(1).\n?- A(x).", (2, 2), "unexpected -", "names a relation to print"),
        ("A(n) :- n = count { B(_) }.", (1, 19), "unexpected {", "has a colon"),
        ("A(x) B(x).", (1, 6), "unexpected identifier B", ":- body"),
        ('A("x).\nB(1).', (1, 3), "unclosed string", "double quote"),
        ('A("x).\nB("y").', (2, 4), "unexpected identifier y", "begins in line 1 ends in line 2"),
        ("A(1). /* x\n", (1, 7), "unterminated comment block, missing '*/'", "close it"),
        ("A(1.", (1, 4), "expecting an operator, ')' or ','", "close the ("),
        (r'A("a\q").', (1, 3), r"Unknown escape sequence \q", "backslash"),
        ("A(1.2.3.256).", (1, 3), "IP out of range", "at most 255"),
        (".decl A(x: number) brie btree", (1, 25), "btree/brie/eqrel/ordered qualifier already set", ""),
        (".decl A(x: number) inline inline", (1, 27), "inline qualifier already set", ""),
        ("A(x) :- x = count y : { B(y) }.", (1, 13), "incorrect expression arity", "count : { … }"),
        ("A(x) :- x = sum : { B(y) }.", (1, 13), "incorrect expression arity", "sum e : { … }"),
        ("A(x) :- x = sum(1, 2).", (1, 13), "sum is an aggregate", "sum e"),
    ],
)
def test_errors_say_where_what_and_what_to_do(text, place, message, hint):
    problem = problems(text)[0]
    assert (problem.span.line, problem.span.column) == place
    assert message in problem.message and hint in problem.hint


def test_one_argument_for_min_and_max_outside_of_a_head():
    [problem] = problems("A(x) :- B(y), x = 1 + max(y).")
    assert (problem.message, problem.span.column) == ("max with one argument outside of a head", 23)
    [problem] = problems("A(1 + min(x)) :- B(x).")
    assert problem.span.column == 7


def test_several_syntax_errors_are_reported_at_once():
    text = "A(x) :- .\nB(1).\n.decl C(x)\n.decl D(x: number)\nE(x :- F(x).\nG(a.b(1)).\nH(2).\n.output ,\n"
    assert places(text) == [(1, 9), (3, 10), (5, 5), (6, 4), (8, 9)]


def test_a_component_goes_on_after_an_error():
    text = ".comp C {\n A(x) :- y = sum z : { B( }, C(x).\n D(1)\n .decl E(x: number)\n}\nF(x) :- ."
    assert places(text) == [(2, 27), (4, 2), (6, 9)]


def test_brackets_left_open_are_shown():
    [problem] = problems(".comp C {\n .decl A(x: number)\n")
    assert problem.notes == [("opened here", Span("p.dl", 1, 9, 1, 10))]


def test_the_caret_stands_under_the_token():
    with pytest.raises(ProgramError) as caught:
        parse("A(x) :-\n  B(x) C(x).\n", "p.dl")
    expected = "expecting a comparison, an operator, ',', '.' or ';'"
    assert str(caught.value).split("\n")[:3] == [
        f"Error: syntax error, unexpected identifier C, {expected} in file p.dl at line 2, column 8",
        "  B(x) C(x).",
        "-------^----",
    ]


def test_the_words_for_tokens_are_of_tokens_that_there_are():
    terminals = set(tables().terminals)
    for group in (
        set(syntax_errors.KINDS),
        syntax_errors.EXPRESSION,
        syntax_errors.OPERATORS,
        syntax_errors.COMPARISONS,
        syntax_errors.LITERALS,
        syntax_errors.QUALIFIERS,
        syntax_errors.STATEMENTS,
    ):
        assert group <= terminals


PIECES = 'A( B x ) , ; . :- { } [ ] ! = < 1 2u "s" " min count : sum _ $ @ .decl .comp .init .plan .type |'.split(" ")
PIECES += ["\n", "#", "'", "/*", "*/", "//", "nil"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_text_is_parsed_or_refused_with_places(pieces):
    text = " ".join(pieces)
    try:
        parse(text)
    except ProgramError as error:
        lines = text.count("\n") + 1
        assert error.problems and all(1 <= problem.span.line <= lines for problem in error.problems)


def test_a_statement_before_an_error_is_there_once():
    """The parser has reduced it, in vain, when it finds that the brace is of no component."""
    source, [error] = parse_all(".decl a(x: number)\n.output a }\n.decl b(x: number)")
    assert [type(statement).__name__ for statement in source.statements] == ["RelationDecl", "Directive", "RelationDecl"]
    assert error.span.line == 2
