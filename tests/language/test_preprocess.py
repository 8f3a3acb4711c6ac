"""Macros and included files: what the parser gets to see, and that places stay those of the files."""

import pytest

from semi_naive.language.errors import ProgramError, Span
from semi_naive.language.origins import Text
from semi_naive.language.parsing.parse import parse, parse_file
from semi_naive.language.syntax import Atom, Number, String


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Writes files into an empty directory that is the present one."""
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.dl"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    return write


def heads(source):
    return [head for clause in source.statements for head in clause.heads]


def problems(text, **more):
    with pytest.raises(ProgramError) as caught:
        parse(text, "p.dl", **more)
    return caught.value.problems


def place(node_or_problem):
    span = node_or_problem.span
    return span.file, span.line, span.column


# -- the C preprocessor's directives


def test_macros():
    text = "#define TWO 2\n#define PAIR(a, b) A(a, b), \\\n  B(b)\nPAIR(1, TWO) :- C(TWO).\n#undef TWO\nD(TWO) :- E(TWO)."
    source = parse(text)
    assert heads(source)[:2] == [Atom("A", (Number(1), Number(2))), Atom("B", (Number(2),))]
    assert heads(source)[2].args[0].name == "TWO"
    assert [clause.span.line for clause in source.statements] == [4, 6]


def test_conditions():
    text = (
        "#define X 3\n#if X > 2\nA(1).\n#elif 1\nA(2).\n#else\n'\n#endif\n#ifdef Y\nA(3).\n#endif\n#ifndef Y\n  A(4).\n#endif"
    )
    source = parse(text, "p.dl")
    assert [place(clause) for clause in source.statements] == [("p.dl", 3, 1), ("p.dl", 13, 3)]


def test_text_that_only_looks_like_the_preprocessors_stays():
    text = '#define x y\nA("x // #define /* x */ it\'s", 1.2.3.4, ?x). // don\'t\n/* x isn\'t */ B("x").'
    first, second = heads(parse(text))
    assert first.args[0] == String("x // #define /* x */ it's") and first.args[1] == Number(0x01020304)
    assert second == Atom("B", (String("x"),)) and second.span.line == 3 and second.span.column == 15


def test_macros_of_the_command_line():
    assert heads(parse("A(N).", defines={"N": "4"})) == [Atom("A", (Number(4),))]
    source = parse("#ifdef N\nA(1).\n#endif\nB(2).", "p.dl", defines={"N": ""})
    assert [head.relation for head in heads(source)] == ["A", "B"]


def test_how_wide_numbers_are_is_known():
    assert heads(parse("#if RAM_DOMAIN_SIZE == 64\nA(RAM_DOMAIN_SIZE).\n#endif")) == [Atom("A", (Number(64),))]


def test_places_after_a_macro_are_right():
    text = "#define LONG_NAME 1\nA(LONG_NAME) :- B(LONG_NAME), C(x, LONG_NAME), D(y)."
    rule = parse(text, "p.dl").statements[0]
    line = text.split("\n")[1]
    assert [atom.span.column for atom in rule.body.items] == [line.index(atom.relation + "(") + 1 for atom in rule.body.items]
    assert rule.body.items[1].args[1].span.column == line.index("LONG_NAME", line.index("C")) + 1
    [problem] = problems(text.replace("D(y)", "D(y"))
    assert place(problem) == ("p.dl", 2, len(line) - 1)


def test_file_and_line():
    assert heads(parse("#define HERE __FILE__, __LINE__\n\nA(HERE).", "p.dl"))[0].args == (String("p.dl"), Number(3))


def test_line_directives():
    [problem] = problems('# 12 "other.dl"\nA(1).\nB(.')
    assert place(problem) == ("other.dl", 13, 3)
    [problem] = problems("A(1).\n#line 40\nB(.")
    assert place(problem) == ("p.dl", 40, 3)


def test_include(folder):
    folder(lib__a='#ifndef GUARD\n#define GUARD\n#include "b.dl"\nA(1).\n#endif\n', lib__b="B(2).\n", c="C(3).")
    source = parse('#include "lib/a.dl"\n#include "lib/a.dl"\n#include "c.dl"\nD(4).', "p.dl")
    assert [place(head) for head in heads(source)] == [("lib/b.dl", 1, 1), ("lib/a.dl", 4, 1), ("c.dl", 1, 1), ("p.dl", 4, 1)]
    assert source.texts["lib/b.dl"] == "B(2).\n"
    assert heads(parse('#include "b.dl"\n', include_dirs=["lib"])) == [Atom("B", (Number(2),))]


@pytest.mark.parametrize(
    "text, line, message",
    [
        ('A(1).\n#include "no.h"\nB(2).', 2, 'cannot find include file "no.h"'),
        ("\n#ifdef\nA(1).\n#endif", 2, "malformed #ifdef"),
        ("A(1).\n#if 1\nB(2).", 2, "Unterminated #if 1"),
        ("\n#endif", 2, "Misplaced #endif"),
        ("#error not here", 1, "#error not here"),
        ("\n  #inculde <x>", 2, "unknown directive #inculde"),
        ("#define F(x) x\nA(F(1, 2)).", 2, "Macro F requires 1 arguments but was passed 2"),
    ],
)
def test_bad_directives_are_problems_at_their_line(folder, text, line, message):
    problem = next(problem for problem in problems(text) if problem.message == message)
    assert (problem.span.file, problem.span.line) == ("p.dl", line)


def test_a_file_that_includes_itself(folder):
    folder(a='#include "a.dl"\n')
    [problem] = problems('#include "a.dl"\n')
    assert "includes itself" in problem.message and problem.span.file == "a.dl"


# -- .include and .once


def test_dot_include(folder):
    folder(lib__a='.include "b.dl"\nA(1).', lib__b="B(2).", c="  C(.")
    source = parse('X(1). .include "lib/a.dl" Y(2).', "p.dl")
    assert [place(head) for head in heads(source)] == [
        ("p.dl", 1, 1),
        ("lib/b.dl", 1, 1),
        ("lib/a.dl", 2, 1),
        ("p.dl", 1, 27),
    ]
    assert heads(parse('.include "b.dl"', include_dirs=["nowhere", "lib"])) == [Atom("B", (Number(2),))]
    [problem] = problems('.include "c.dl"')
    assert place(problem) == ("c.dl", 1, 5)


def test_the_directory_of_the_including_file_comes_first(folder, tmp_path):
    folder(lib__main='.include "a.dl"', lib__a="A(1).", a="A(2).")
    assert heads(parse_file("lib/main.dl", ["."])) == heads(parse_file(tmp_path / "lib/main.dl")) == [Atom("A", (Number(1),))]


def test_an_include_in_a_string_or_comment_is_none(folder):
    text = 'A(".include \\"no.dl\\""). // .include "no.dl"\n/* .include "no.dl" .once */ B(1).'
    assert len(heads(parse(text))) == 2


def test_once(folder):
    folder(a=".once\nA(1).", b='.once\n.include "b.dl"\nB(2).')
    source = parse('.include "a.dl"\n.include "a.dl"\n.include "b.dl"\nC(3).', "p.dl")
    assert [head.relation for head in heads(source)] == ["A", "B", "C"]


def test_both_kinds_of_include_together(folder):
    folder(a="#define N 1\nA(N).", b='.include "a.dl"\nB(N).')
    source = parse('#define N 2\n#include "b.dl"\nC(N).', "p.dl")
    assert [(head.relation, head.args[0].value, place(head)[0]) for head in heads(source)] == [
        ("A", 1, "a.dl"),
        ("B", 2, "b.dl"),
        ("C", 2, "p.dl"),
    ]


def test_bad_includes(folder):
    folder(a='A(1).\n .include "a.dl"')
    [problem] = problems('.include "a.dl"')
    assert (problem.message, place(problem)) == ("a.dl includes itself", ("a.dl", 2, 2)) and ".once" in problem.hint
    [problem] = problems('A(1).\n.include "no.dl"\n', include_dirs=["lib"])
    assert problem.message == 'cannot find include file "no.dl"' and "lib" in problem.hint
    assert problem.span == Span("p.dl", 2, 1, 2, 17)
    assert problems(".include foo\n")[0].message == ".include needs the name of a file"


def test_problems_of_all_kinds_come_together(folder):
    found = problems('#include "no.h"\n.include "no.dl"\nA(x) :- .\nA(1.2.3.400).')
    assert [problem.span.line for problem in found] == [1, 2, 3, 4]


@pytest.mark.parametrize("first", ["#define N 1\n", '.include "q.dl"\n'])
def test_tokens_get_their_places_in_one_pass(folder, monkeypatch, first):
    """The text before a token is not searched again for each token of a file with a macro or an include."""
    folder(q=".decl q(x: number)")
    place, searched = Text.place, []

    def counted(self, position):
        searched.append(position - max(start for start in self._starts if start <= position))
        return place(self, position)

    monkeypatch.setattr(Text, "place", counted)
    text = first + "\n".join(f"p{i}(x, y) :- q(x), q(y), x < {i}." for i in range(200))
    source = parse(text, "p.dl")
    assert source.statements[-1].span == Span("p.dl", 201, 1, 201, 35)
    assert sum(searched) < 2 * len(text)


def test_advice_names_the_lines_of_the_file(folder):
    folder(q='.decl q(x: number)\nq(1) :- "a\nb" "c".\n')
    [problem] = problems('.decl p(x: number)\n\n\n.include "q.dl"\n')
    assert problem.span == Span("q.dl", 3, 4, 3, 7)
    assert problem.hint.startswith("the string that begins in line 2 ends in line 3")
