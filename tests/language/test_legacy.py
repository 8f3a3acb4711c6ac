"""Programs as they were once written: warnings at the places where Soufflé has them, and none of them with --legacy."""

import pytest

from semi_naive import Program, ProgramError

OLD = """.type T
.number_type N
.symbol_type S
.type U = T
.decl a(x: T, n: N) input
.decl b(x: U) output
.decl c(n: N, x: S) brie printsize output
b(x) :- a(x, _).
c(n, x) :- a(x, n).
.decl d(n: number) btree
d(n + $) :- n = 4.
.output d
"""
WARNED = [
    (1, 1, "Deprecated type declaration used"),
    (2, 1, "Deprecated type declaration used"),
    (3, 1, "Deprecated type declaration used"),
    (5, 21, "Deprecated input qualifier was used"),
    (6, 15, "Deprecated output qualifier was used"),
    (7, 26, "Deprecated printsize qualifier was used"),
    (7, 36, "Deprecated output qualifier was used"),
    (11, 7, "Deprecated $ symbol was used. Use functor 'autoinc()' instead."),
]


def test_warnings_are_at_their_places():
    with pytest.raises(ProgramError) as caught:
        Program(OLD)
    found = [(each.span.line, each.span.column, each.message) for each in caught.value.problems if each.severity == "Warning"]
    assert found == WARNED
    [error] = [each for each in caught.value.problems if each.severity == "Error"]
    assert (error.span.line, error.message) == (9, "Atom's argument type is not a subtype of its declared type")


def test_a_legacy_program_runs_without_a_warning(capsys):
    program = Program(OLD, legacy=True)
    assert program.warnings == []
    result = program.run({"a": [("x", 1), ("y", 2)]})
    assert result["b"].to_set() == {("x",), ("y",)} and result["c"].to_set() == {(1, "x"), (2, "y")}
    assert result["d"].to_set() == {(4,)}


def test_a_pragma_lets_old_types_pass_and_keeps_the_warnings():
    program = Program('.pragma "legacy"\n' + OLD)
    assert [(each.span.line - 1, each.span.column, each.message) for each in program.warnings] == WARNED
    assert program.run({"a": [("x", 1)]})["c"].to_set() == {(1, "x")}


def test_what_is_written_anew_has_no_warning():
    program = Program(OLD.replace("c(n, x) :- a(x, n).", "c(n, as(x, S)) :- a(x, n)."))
    assert [(each.span.line, each.span.column, each.message) for each in program.warnings] == WARNED
    new = ".type T <: symbol\n.decl a(x: T)\n.input a\n.decl b(x: T, n: number)\n.output b\n.printsize a\n"
    new += "b(x, autoinc()) :- a(x)."
    assert Program(new).warnings == []


def test_components_have_the_same_warnings_once():
    text = '.comp C { .type T  .decl a(x: T) output  a("x"). }\n.init one = C\n.init two = C'
    assert [each.message for each in Program(text).warnings] == [WARNED[0][2], WARNED[4][2]]
    assert Program(text, legacy=True).run()["two.a"].to_list() == [("x",)]


def test_another_kind_is_an_error_all_the_same():
    text = '.type T\n.type S\n.decl a(x: T)\n.decl b(x: S)\na("x").\nb(x) :- a(x).\n.decl c(x: number)\nc(x) :- a(x).\n'
    with pytest.raises(ProgramError) as caught:
        Program(text, legacy=True)
    assert [each.span.line for each in caught.value.problems if each.severity == "Error"] == [8]
    assert Program(text.partition(".decl c")[0], legacy=True).run()["b"].to_list() == [("x",)]


def test_many_warnings_hide_no_error():
    text = ".type T\n" + "".join(f".decl a{i}(x: T) output\n" for i in range(30)) + "a0(1) :- .\na1(2) :- .\n"
    with pytest.raises(ProgramError) as caught:
        Program(text)
    assert [each.span.line for each in caught.value.problems if each.severity == "Error"] == [32, 33]


def test_the_commands(run, tmp_path):
    (tmp_path / "p.dl").write_text(OLD)
    (tmp_path / "a.facts").write_text("x\t1\n")
    status, _, told = run("run", "p.dl", "-D-")
    assert status != 0 and told.count("Warning: Deprecated") == len(WARNED)
    status, out, told = run("run", "p.dl", "-D-", "--legacy")
    assert (status, told) == (0, "") and "c\t1\n" in out and "1\tx" in out
    assert run("check", "p.dl")[0] == 1 and run("check", "p.dl", "--legacy")[0] == 0
