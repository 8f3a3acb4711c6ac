"""`semi-naive session`: transactions and queries, a line at a time."""

import io

import pytest
from session_cases import PATHS

pytestmark = pytest.mark.usefixtures("patient")


SCRIPT = """
begin
insert edge 1 2
insert edge 2\t3
commit
query path(1, y).
# a comment
delete edge 2 3
load edge more.facts
subscribe edge
unload edge "more.facts"
begin
insert edge 9 9
abort
quit
insert never 1
"""


@pytest.fixture
def command(run, tmp_path, monkeypatch):
    """Run the commands of a text in `tmp_path`, where there is a program p.dl; (status, lines, standard error)."""
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "more.facts").write_text("7\t8\n")

    def call(text: str, *arguments, terminal: bool = False):
        stream = io.StringIO(text)
        stream.isatty = lambda: terminal
        monkeypatch.setattr("sys.stdin", stream)
        status, out, err = run("session", "p.dl", *arguments)
        return status, out.splitlines(), err

    return call


def test_the_command_prints_what_each_commit_changes(command):
    status, lines, err = command(SCRIPT)
    assert (status, err) == (0, "")
    assert lines == [
        "path\t+1\t1\t2", "path\t+1\t1\t3", "path\t+1\t2\t3", "2", "3", "path\t-1\t1\t3", "path\t-1\t2\t3", "path\t+1\t7\t8",
        "path\t-1\t7\t8", "edge\t-1\t7\t8",
    ]  # fmt: skip


def test_the_command_begins_with_the_facts_of_a_folder(command, tmp_path):
    (tmp_path / "edge.facts").write_text("5\t6\n")
    assert command("query path(x, y).\n", "-F", ".")[1] == ["5\t6"]
    assert command("query path(x, y).\n")[1] == []


def test_the_command_begins_with_files_of_relations_beside_a_folder(command, tmp_path):
    (tmp_path / "p.dl").write_text(PATHS + '.decl more(x: number)\n.input more\n.input more(filename="2.facts")\n')
    (tmp_path / "edge.facts").write_text("5\t6\n")
    (tmp_path / "more.facts").write_text("1\n")
    (tmp_path / "2.facts").write_text("2\n")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(f"from,to\n{ord(name[0])},6\n")
    asked = "query path(x, y).\nquery more(x).\n"
    assert command(asked, "-F", "edge=?.csv", "--header", "-F", ".")[1] == ["97\t6", "98\t6", "1", "2"]
    assert command(asked, "-F", "edge=?.csv", "--header")[1] == ["97\t6", "98\t6"]
    (tmp_path / "more.facts").unlink()
    assert command("insert more 3\n" + asked, "-F", "edge=edge.facts", "-F", ".")[1] == ["5\t6", "2", "3"]
    status, _, errors = command(asked, "-F", "edges=edge.facts")
    assert status == 2 and "facts: unknown relation 'edges'; did you mean 'edge'?" in errors


RULES = """
insert edge 1 2
register near
.decl near(y: number)
near(y) :- edge($src, y), !edge($but, y).

register far share=true .decl far(x: number) far(x) :- path(_, x), !edge(1, x).
subscribe near src=1 but=9
subscribe far
insert edge 1 3
insert edge 3 10
query near(y). src=1  but=3
query path($from, y), y > 2. from=1
unsubscribe near but=9 src=1
insert edge 1 4
query far(x).
unsubscribe far
unregister far
upsert edge(x) 3 5
clear edge
"""


def test_rules_are_registered_and_answered_for_values(command):
    status, lines, err = command(RULES)
    assert (status, err) == (0, "")
    paths = ["path\t+1\t1\t10", "path\t+1\t3\t10", "far\t+1\t10"]
    assert lines[:6] == ["path\t+1\t1\t2", "path\t+1\t1\t3", "near\t+1\t1\t9\t3", *paths]
    assert lines[6:12] == ["2", "3", "3", "10", "path\t+1\t1\t4", "10"]
    changed = ["path\t-1\t1\t10", "path\t-1\t3\t10", "path\t+1\t1\t5", "path\t+1\t3\t5"]
    assert lines[12:16] == changed and len(lines[16:]) == 5 and all(line.startswith("path\t-1\t") for line in lines[16:])


def test_rules_are_added_to_a_name(command):
    added = "register two .decl two(x: number) two(1).\nregister two add=true two(x) :- edge(x, _).\n"
    assert command(f"{added}insert edge 5 6\nquery two(x).\n")[:2] == (0, ["path\t+1\t5\t6", "1", "5"])
    status, _, errors = command("register two add=true two(1).\n")
    assert status == 2 and "<stdin>:1: two is not registered, so no rules can be added to it" in errors


def test_proofs_and_plans(command):
    status, lines, err = command(
        "begin\ninsert edge 1 2\ninsert edge 2 3\ncommit\nwhy path 1 3\nwhy_not path 3 1\nexplain path\n"
    )
    assert (status, err) == (0, "")
    assert lines[3].startswith("path(1, 3)") and "   edge(2, 3)   [fact]" in lines
    assert "path(3, 1) is not there:" in lines and any("recursive" in line for line in lines)


def test_patterns_are_watched(command):
    text = "insert edge 1 2\ninsert edge 2 3\nwatch triangle symmetry=true\nwatch triangle count=true\ninsert edge 3 1\n"
    _, lines, err = command(text + "unsubscribe edge__triangle\nclear edge\n")
    watched = [line for line in lines if line.startswith("edge__")]
    counts = [f"edge__triangle_count\t{line}" for line in ("-1\t0", "+1\t1", "-1\t1", "+1\t0")]
    assert watched == ["edge__triangle\t+1\t1\t2\t3", *counts] and not err


@pytest.mark.parametrize(
    "text, told",
    [
        ("insert edge 1\n", "<stdin>:1: edge(x: number, y: number) has 2 attributes, found 1 field"),
        ("\ninsert edge 1 a\n", "<stdin>:2: 'a' is not a number"),
        ("frobnicate\n", "<stdin>:1: 'frobnicate' is no command"),
        ("commit\n", "<stdin>:1: no transaction is open"),
        ("begin\ninsert edge 1 2\nbegin\n", "<stdin>:3: a transaction is open already"),
        ("begin\ninsert edge 1 2\n", "the input ends inside of a transaction"),
        ("load edge nowhere.facts\n", "<stdin>:1: nowhere.facts: no such file\n  looked from /"),
        ("load edge n?.facts\n", "<stdin>:1: n?.facts: no file fits this pattern"),
        ("query path(1\n", "<stdin>:1: "),
        ("upsert edge 1 2\n", "<stdin>:1: expected upsert R(KEY, …) v…"),
        ("upsert edge(z) 1 2\n", "<stdin>:1: "),
        ("clear never\n", "<stdin>:1: "),
        ("register far .decl far(x: number) far(x) :- path(x, y, z).\n", "<stdin>:1: "),
        ("unregister far\n", "<stdin>:1: 'far' is not registered"),
        ("subscribe edge src 1\n", "<stdin>:1: expected R [NAME=VALUE…], found 'edge src 1'"),
        ("subscribe edge src=1\n", "<stdin>:1: edge has no parameters, and src is given"),
        ("unsubscribe edge\n", "<stdin>:1: edge is not subscribed to"),
        ("subscribe edge\nsubscribe edge\n", "<stdin>:2: edge is subscribed to already"),
        ("watch trio\n", "<stdin>:1: the pattern 'trio' is unknown: expected triangle, diamond, "),
        ("watch square count=yes\n", "<stdin>:1: expected watch PATTERN [edges=R] "),
        ("watch square\nwatch square\n", "<stdin>:2: square is watched already"),
        ("query path(1, y). src=1\n", "<stdin>:1: "),
        ("why path 1 2\n", "<stdin>:1: path(1, 2) is not there; why_not tells what it lacks"),
        ("begin\nsubscribe edge\n", "<stdin>:2: "),
        ("explain never\n", "<stdin>:1: "),
        ('insert edge "1\n', "a quote is not closed"),
        ('insert edge "1"2\t3\n', "a quoted field goes on behind its quote"),
    ],
)
def test_an_error_from_a_pipe_ends_the_command_and_nothing_is_half_done(command, text, told):
    status, lines, err = command(text)
    assert status == 2 and told in err and not lines


def test_limits_of_the_command(command, tmp_path):
    (tmp_path / "p.dl").write_text(PATHS + ".decl big(n: number)\n.output big\nbig(n + 1) :- big(n).\nbig(x) :- edge(x, _).")
    text = "insert edge 1 2\nquery path(x, y).\n"
    status, lines, err = command(text, "--query-seconds", "0.3")
    assert status == 2 and "<stdin>:1: evaluation stopped in iteration " in err and "in the rule at p.dl:" in err and not lines
    status, lines, err = command(text, "--query-bytes", "1M", terminal=True)
    assert status == 0 and "and the limit is 1,048,576 (query_bytes)" in err
    assert "1\t2" not in lines


def test_an_error_at_a_terminal_does_not_end_the_command(command):
    text = "insert edge 1 x\nbegin\ninsert edge 1 2\ninsert edge 1\ninsert edge 2 3\ncommit\ninsert path 1 2\n"
    status, lines, err = command(text, terminal=True)
    assert status == 0 and "<stdin>:1: 'x' is not a number" in err and "<stdin>:7: facts of path cannot be changed" in err
    assert [line for line in "\n".join(lines).replace("> ", "").replace("… ", "").splitlines() if line] == [
        "path\t+1\t1\t2", "path\t+1\t1\t3", "path\t+1\t2\t3",
    ]  # fmt: skip


def test_values_on_the_command_line(run, tmp_path, monkeypatch):
    text = """
    .type List = [head: symbol, tail: List]
    .decl r(s: symbol, l: List, f: float, u: unsigned)
    .input r
    .output r
    .decl on()
    .input on
    .output on
    """
    (tmp_path / "p.dl").write_text(text)
    lines = ['insert r "Ann Lee" [a, ["b c", nil]] 0.5 7', "insert r\t two \tnil\t1e3\t0x10", "insert on", "delete on ()"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))
    status, out, err = run("session", "p.dl")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "r\t+1\tAnn Lee\t[a, [b c, nil]]\t0.5\t7", "r\t+1\t two \tnil\t1000\t16", "on\t+1\t()", "on\t-1\t()",
    ]  # fmt: skip


def test_what_is_printed_is_read_back(run, tmp_path, monkeypatch):
    """Text with a tab, a line break or a quote at its beginning is printed in quotes, as `insert` takes it; a record, too."""
    (tmp_path / "p.dl").write_text(".type P = [s: symbol, n: number]\n.decl r(s: symbol, p: P)\n.input r\n.output r\n")
    printed = [r'"a\tb\n\r\\"' + "\t" + r'"[a\tb, 1]"', r'"\"q"' + "\tnil", 'q"\\' + '\t["a, b", 2]']
    for lines in (printed, [line.replace("\t", " ") for line in printed[:2]]):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"insert r {line}\n" for line in lines)))
        status, out, err = run("session", "p.dl")
        assert (status, err) == (0, "") and out.splitlines() == [f"r\t+1\t{line}" for line in printed[: len(lines)]]


def test_a_relation_is_added(command):
    text = "declare color(x: number, c: symbol)\ninsert color 1 red\nquery color(x, c).\n"
    assert command(f"{text}declare color(x: number)\n")[:2] == (2, ["1\tred"])
