"""A program in a sandbox includes, reads and writes no file outside, whatever it says; the error has its place."""

import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semi_naive import BadInput, Program, ProgramError

INPUT = ".decl r(x: symbol)\n.input r({})\n.decl s(x: symbol)\ns(x) :- r(x).\n.output s(IO=stdout)\n"
OUTPUT = ".decl r(x: number)\nr(1).\n.output r({})\n"


@pytest.fixture
def box(tmp_path):
    """A folder with a secret beside it, and links to that."""
    box = tmp_path / "box"
    (box / "facts").mkdir(parents=True)
    (box / "r.facts").write_text("inside\n")
    (tmp_path / "secret.dl").write_text(".decl secret(x: number)\n")
    (tmp_path / "secret.facts").write_text("secret\n")
    (tmp_path / "boxed").mkdir()
    with sqlite3.connect(tmp_path / "secret.db") as database:
        database.execute("CREATE TABLE r AS SELECT 'secret' AS x")
    pq.write_table(pa.table({"x": ["secret"]}), tmp_path / "secret.parquet")
    for name in ("secret.facts", "secret.db", "secret.dl"):
        (box / f"link.{name}").symlink_to(tmp_path / name)
    (box / "up").symlink_to(tmp_path)
    (box / "parts.parquet").mkdir()
    (box / "parts.parquet" / "a.parquet").symlink_to(tmp_path / "secret.parquet")
    (box / "more.parquet").mkdir()
    (box / "more.parquet" / "sub").symlink_to(tmp_path)
    return box


OUTSIDE = [
    'filename="{}/secret.facts"', 'filename="../secret.facts"', 'filename="facts/../../secret.facts"',
    'filename="link.secret.facts"', 'filename="up/secret.facts"',
    'IO=sqlite, dbname="{}/secret.db"', 'IO=sqlite, filename="../secret.db"',
    'IO=sqlite, dbname="link.secret.db"', 'IO=sqlite, dbname="file:{}/secret.db"', 'IO=jsonfile, filename="../secret.facts"',
    'IO=parquet, filename="../secret.parquet"', 'IO=parquet, filename="parts.parquet"',
    'IO=parquet, filename="more.parquet"', 'filename="file://{}/secret.facts"', 'filename="/dev/stdin"',
    'filename="{}/boxed/../secret.facts"', 'filename="../nowhere"',
]  # fmt: skip


@pytest.mark.parametrize("parameters", OUTSIDE)
def test_facts_outside(box, monkeypatch, parameters):
    monkeypatch.chdir(box)
    program = Program(INPUT.format(parameters.format(box.parent)), "p.dl", sandbox=box)
    with pytest.raises(BadInput, match=r"^p\.dl:2:8: \.input r: .* is outside of the sandbox\n  .* must be below /.*/box$"):
        program.run(str(box))


@pytest.mark.parametrize("folder", ["..", "up", "/"])
def test_a_folder_of_facts_outside(box, monkeypatch, folder):
    monkeypatch.chdir(box)
    with pytest.raises(BadInput, match="outside of the sandbox"):
        Program(INPUT.format('filename="secret.facts"'), sandbox=box).run(folder)


@pytest.mark.parametrize(
    "parameters",
    ['filename="../out.csv"', 'filename="{}/out.csv"', 'filename="up/out.csv"',
     'filename="up/out.csv.gz", compress=true', 'IO=sqlite, dbname="../out.db"', 'IO=sqlite, dbname="link.secret.db"',
     'IO=jsonfile, filename="up/out.json"', 'IO=parquet, filename="{}/out.parquet"', 'filename="link.secret.facts"'],
)  # fmt: skip
def test_results_outside(box, monkeypatch, parameters):
    monkeypatch.chdir(box)
    before = {path: path.read_bytes() for path in box.parent.iterdir() if path.is_file()}
    with Program(OUTPUT.format(parameters.format(box.parent)), "p.dl", sandbox=box).run() as result:
        with pytest.raises(BadInput, match=r"^p\.dl:3:9: \.output r: .* is outside of the sandbox"):
            result.write(box)
    assert {path: path.read_bytes() for path in box.parent.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "text",
    ['.include "../secret.dl"', '.include "{}/secret.dl"', '.include "link.secret.dl"', '.include "up/secret.dl"',
     '#include "../secret.dl"', '#include "{}/secret.dl"', '#include "link.secret.dl"', "#include <secret.dl>",
     '#define NAME "../secret.dl"\n#include NAME', '#include "../nowhere.dl"'],
)  # fmt: skip
def test_includes_outside(box, monkeypatch, text):
    monkeypatch.chdir(box)
    (box / "p.dl").write_text(text.format(box.parent))
    with pytest.raises(ProgramError, match="outside of the sandbox.* in file p.dl at line|cannot find include file"):
        Program.from_file("p.dl", include_dirs=[str(box.parent)], sandbox=".")
    Program(".decl r(x: number)", include_dirs=[str(box.parent)], sandbox=box)


def test_functors_of_libraries_are_no_way_out(box):
    with pytest.raises(ProgramError, match="There is no function for functor f"):
        Program(".functor f(x: number): number\n.decl r(x: number)\nr(@f(1)).", sandbox=box)


def test_what_is_inside(box, monkeypatch):
    monkeypatch.chdir(box)
    (box / "inner.dl").write_text(INPUT.format('filename="facts/../r.facts"'))
    (box / "inner").symlink_to(box / "facts")
    program = Program('.include "inner.dl"\n.output r(filename="inner/out.csv")', sandbox=box)
    with program.run() as result:
        result.write(".")
    assert (box / "facts" / "out.csv").read_text() == "inside\n"


def test_the_command(box, run):
    (box / "p.dl").write_text(INPUT.format('filename="../secret.facts"'))
    status, out, err = run("run", box / "p.dl", "-F", box, "-D", "-", "--sandbox", box)
    assert (status, out) == (2, "") and "is outside of the sandbox" in err and "p.dl:2:8" in err
    status, out, err = run("run", box / "p.dl", "-F", box, "-D", box.parent / "new", "--sandbox", box)
    assert status == 2 and not (box.parent / "new").exists()
    assert "does not exist" in run("run", box / "p.dl", "--sandbox", box / "none")[2]


@pytest.mark.parametrize("sandbox", [None, "box"])
@pytest.mark.parametrize(
    "text, told",
    {
        '.include "../secret.dl"': "include no files", '.include "{}/secret.dl"': "include no files",
        '.include "r.facts"': "include no files", '#include "secret.dl"': "include no files",
        "#include <{}/secret.dl>": "include no files", '#include "nowhere.dl"': "include no files",
        '#define NAME "../secret.dl"\n#include NAME': "include no files",
        '.decl q(x: symbol)\n.input q(filename="../secret.facts")': "Registered rules have no .input",
        '.comp C {{ .decl a(x: symbol)\n.input a(filename="../secret.facts") }}\n.init c = C\n.decl q(x: symbol)':
            "Registered rules have no .input",
        '.pragma "fact-dir" "{}"\n.decl q(x: symbol)\nq("a").': "Registered rules have no .pragma fact-dir",
        ".functor system(x: symbol): number\n.decl q(x: number)\nq(@system(\"true\")).": "Registered rules declare no functors",
        ".functor f(x: number): number\n.decl q(x: number)\nq(@f(1)).": "Registered rules declare no functors",
    }.items(),
)  # fmt: skip
def test_registered_rules_and_queries_name_no_files(box, monkeypatch, sandbox, text, told):
    """Whether or not the program is in a sandbox: the rules may come over a network."""
    monkeypatch.chdir(box)
    with Program(INPUT.format("")).session({"r": [("a",)]}) as session:
        for number in range(2):  # the second time, rules of the shape have been seen
            with pytest.raises(ProgramError, match=told) as error:
                session.register("q", text.format(box.parent))
            assert "decl secret" not in str(error.value) and not session.registry.rules, number
        if "include" in text:
            with pytest.raises(ProgramError, match=told) as error:
                session.query(text.format(box.parent))
            assert "decl secret" not in str(error.value)
        session.register("ok", ".decl ok(x: symbol)\nok(x) :- r(x).")
        assert session.query("ok(x)").to_set() == {("a",)}
