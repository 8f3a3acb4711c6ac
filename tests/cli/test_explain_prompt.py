"""`semi-naive run PROGRAM -t explain`: questions a line at a time, proofs in Soufflé's form."""

import io
import json
import re

import pytest

PATHS = """
.decl edge(x: symbol, y: symbol)
edge("a", "b"). edge("b", "c"). edge("c", "d"). edge("d", "e"). edge("e", "f").
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.decl many(x: symbol, k: number)
many(x, k) :- path(x, _), !path(x, "a"), k = count : { path(x, _) }, k > 1.
"""
RECORDS = """
.type Pair = [x: number, y: number]
.decl n(x: number)
n(1). n(2). n(-3).
.decl pair(p: Pair, s: number)
.output pair
pair([x, y], x + y) :- n(x), n(y), x < y.
"""


@pytest.fixture
def ask(run, tmp_path, monkeypatch):
    """What is printed in answer to some lines, about a program."""

    def call(program: str, *lines: str, terminal: bool = False, options=("-t", "explain")) -> list[str]:
        (tmp_path / "p.dl").write_text(program)
        stream = io.StringIO("".join(f"{line}\n" for line in lines))
        stream.isatty = lambda: terminal
        monkeypatch.setattr("sys.stdin", stream)
        status, out, err = run("run", "-q", "p.dl", "-D", tmp_path, *options)
        assert (status, err) == (0, "")
        return out.splitlines()

    return call


def test_a_proof_stands_over_its_conclusion(ask, tmp_path):
    assert ask(PATHS, 'explain path("a", "c")', "exit", "never") == [
        'edge("a", "b")                 ',
        "-----------(R1)                ",
        'path("a", "b")  edge("b", "c") ',
        "---------------------------(R2)",
        '        path("a", "c")         ',
    ]
    assert (tmp_path / "path.csv").exists()


def test_what_is_too_deep_is_a_proof_of_its_own(ask):
    lines = ask(PATHS, "setdepth 2", 'explain path("a", "e")', "subproof path(0)", "subproof path(7)", 'explain path("a", "d")')
    assert [line.rstrip() for line in lines] == [
        'subproof path(0) edge("d", "e")', "----------------------------(R2)", '         path("a", "e")',
        'subproof path(1) edge("c", "d")', "----------------------------(R2)", '         path("a", "d")',
        "Subproof not found",
        'subproof path(1) edge("c", "d")', "----------------------------(R2)", '         path("a", "d")',
    ]  # fmt: skip


def test_negations_and_aggregates_are_leaves(ask):
    told = ask(PATHS, 'explain many("b", 4)')
    assert told[2].split("  ")[1].strip() == '!path("b", "a") 4 = count : { path("b", _) } 4 > 1'


def test_proofs_as_json_and_in_a_file(ask, tmp_path):
    lines = ask(PATHS, "format json", 'explain path("a", "c")', 'output a "proof".json', 'explain edge("a", "b")', "output")
    told = json.loads("\n".join(lines))
    assert told["proof"]["premises"] == 'path("a", "c")' and told["proof"]["rule-number"] == "(R2)"
    first, second = told["proof"]["children"]
    assert first["children"] == [{"axiom": 'edge("a", "b")'}] and second == {"axiom": 'edge("b", "c")'}
    assert {"rule-number": "(R2)", "rule": "path(x, z) :- path(x, y), edge(y, z)."} in told["rules"]
    kept = json.loads((tmp_path / 'a "proof".json').read_text())
    assert kept["proof"] == {"axiom": 'edge("a", "b")'} and kept["rules"] == told["rules"]


def test_negation_asks_for_a_rule_and_values(ask):
    asked = ask(PATHS, 'explainnegation path("a", "x")', "2", "b")
    assert asked == [
        'path("a", "b") ✓ edge("b", "x") x ', "------------------------------(R2)", '          path("a", "x")          '
    ]  # fmt: skip
    assert ask(PATHS, 'explainnegation path("a", "x") 2 y="b"') == asked
    assert ask(PATHS, 'explainnegation path("a", "x") 2 ')[0] == asked[0]  # a path from a that there is
    assert ask(PATHS, 'explainnegation path("a", "x")', "1")[0] == 'edge("a", "x") x '
    assert ask(PATHS, 'explainnegation path("a", "b")', "1") == ["The tuple exists, cannot explain negation of it!"]
    assert ask(PATHS, 'explainnegation edge("a", "x")') == ["The tuple would be an input fact!"]
    terminal = ask(PATHS, 'explainnegation path("a", "x")', "2", "b", terminal=True)
    assert "Pick a value for y: " + asked[0] in "\n".join(terminal) and terminal[-1] == "Enter command > Exiting explain"


def test_without_questions_each_rule_tells_what_it_lacks(ask):
    lines = ask(PATHS, 'whynot path("f", "a")')
    assert [line.split("   ")[1] for line in lines if line[0] == " "] == [
        'there is no edge("f", "a")',
        'there is no path("f", y)',
    ]


def test_records_and_negative_numbers(ask):
    lines = ask(RECORDS, "explain pair([-3, 2], -1)", "explain pair([2, -3], -1)", "explainnegation pair([2, -3], -1) 1")
    assert lines[2].strip() == "pair([-3, 2], -1)" and lines[3] == "Tuple not found"
    assert lines[4] == "n(2) ✓ n(-3) ✓ 2 < -3 x "


def test_queries_and_measures(ask):
    assert ask(PATHS, 'query edge("a", "b")', 'query edge("a", "c")') == [
        "true.",
        "false.",
        'Tuple edge("a", "c") does not exist',
    ]
    assert ask(PATHS, 'query edge("a", x), edge(x, y)') == ["x = b, y = c"]
    assert ask(PATHS, 'query path(x, "d")', ";", "?", ".", 'query path(x, "a")') == [
        "x = a", "x = b", "use ; to find next solution, use . to break from current query", "false."
    ]  # fmt: skip
    assert ask(PATHS, "measure edge")[-1] == "total: 5"


def test_rules_and_what_is_wrong(ask):
    lines = ask(
        PATHS, "rule path 1", "rule path", "rule path 9", "rule", 'explain path("a")', 'explain nope("a")', "explain path"
    )
    assert lines[:3] == ["path(x, y) :- edge(x, y).", "1: path(x, y) :- edge(x, y).",
                         "2: path(x, z) :- path(x, y), edge(y, z)."]  # fmt: skip
    assert lines[3:6] == ["Rule not found", "Usage: rule <relation name> [<rule number>]",
                          "Relation path has arity 2, but 1 argument(s) were given"]  # fmt: skip
    assert lines[6] == "Relation not found" and lines[7].startswith("Usage: explain <relation>")
    lines = ask(PATHS, "setdepth x", "setdepth", "format x", 'explainnegation path("a", "x") 7', "what", "explain path(1, 2)")
    assert lines[:4] == ["<x> is not a valid depth", "Usage: setdepth <depth>", "Usage: format <json|proof>",
                         "path has the rules 1 to 2: '7' is none of them"]  # fmt: skip
    assert any(line.startswith("setdepth <depth>:") for line in lines) and re.search("not a symbol", "\n".join(lines[-3:]))


def test_a_pragma_asks_for_it_and_an_option_for_none_of_it(ask):
    pragma = '.pragma "provenance" "explain"\n'
    assert ask(pragma + PATHS, 'explain edge("a", "b")', options=()) == ['edge("a", "b")']
    assert ask(pragma + PATHS, 'explain edge("a", "b")', options=("-t", "none")) == []


def test_explore_shows_whole_proofs_a_line_for_each_tuple(ask, monkeypatch):
    question, options = 'explain path("a", "f")', ("-t", "explore")
    whole = ask(PATHS, question, options=options)
    assert len(whole) == 10 and whole[0].startswith('path("a", "f")   [path(x, z) :- ') and whole[-1].endswith("[fact]")
    assert ask(PATHS, "setdepth 1", question, options=options) == [whole[0], '   path("a", "e")   […]', whole[-1]]
    assert ask(PATHS, "format json", question, options=options)[0] == '{ "proof":'
    shown = []
    monkeypatch.setattr("click.echo_via_pager", shown.append)
    ask(PATHS, question, "exit", terminal=True, options=options)
    assert shown == ["\n".join(whole) + "\n"]
