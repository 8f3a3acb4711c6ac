"""Whole programs that must be refused: the command says so with status 1 and names file and line, also across files."""

import pytest

from semi_naive.__main__ import main

PROGRAMS = {
    "in an included file": (
        {"main.dl": '.include "rules.dl"\n.decl a(x: number)\n', "rules.dl": ".decl b(x: number)\nb(x) :- c(x).\n"},
        [("Undefined relation c", "rules.dl", 2)],
    ),
    "in what a macro makes": (
        {"main.dl": "#define PAIR(x, y) pair(x, y)\n.decl pair(x: number, y: number)\n\nPAIR(1, z).\n"},
        [("Argument in fact is not constant", "main.dl", 4)],
    ),
    "in a component, once for its instances": (
        {"main.dl": ".comp C<T> {\n  .decl a(x: T)\n  a(x) :- b(x).\n}\n.init one = C<number>\n.init two = C<symbol>\n"},
        [("Undefined relation b", "main.dl", 3)],
    ),
    "outside of components only": (
        {"main.dl": '.comp C {\n  .pragma "legacy"\n  .functor f(number): number\n  .semantics wellfounded\n}\n'},
        [("unexpected directive", "main.dl", 2), ("unexpected functor", "main.dl", 3), ("unexpected directive", "main.dl", 4)],
    ),
    "all in one go": (
        {"main.dl": ".decl a(x: number)\na(x) :- !a(x).\n.output b\na(\"one\").\na(1, 2).\n"},
        [
            ("Ungrounded variable x", "main.dl", 2), ("Unable to stratify", "main.dl", 2),
            ("Undefined relation b", "main.dl", 3),
            ("Symbol constant (type mismatch)", "main.dl", 4), ("Mismatching arity of relation a", "main.dl", 5),
        ],
    ),
    "by syntax, in several places": (
        {"main.dl": ".decl a(x: number\n\na(1) :- .\na(2).\na(3) a(4).\n"},
        [("unexpected", "main.dl", 3), ("unexpected", "main.dl", 5)],
    ),
    "after a #line": (
        {"main.dl": '.decl a(x: number)\n#line 40 "origin.dl"\na(x) :- a(y).\n'},
        [("Ungrounded variable x", "origin.dl", 40)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_refused(name, tmp_path, monkeypatch, capsys):
    files, expected = PROGRAMS[name]
    monkeypatch.chdir(tmp_path)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    with pytest.raises(SystemExit) as stop:
        main(["run", "main.dl", "-w", "-D", "out"])
    printed = capsys.readouterr()
    assert stop.value.code == 1 and not printed.out
    for message, file, line in expected:
        said = [row for row in printed.err.splitlines() if row.startswith("Error: ") and message in row]
        assert any(f"in file {file} at line {line}, column" in row for row in said), printed.err
    assert not (tmp_path / "out").exists()
