"""The package as it is installed: all of it below `semi_naive`, whatever the user's own files are called."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import semi_naive

ROOT = Path(__file__).parents[2]
NAMESAKES = ("ra", "balance", "graphs", "plots", "bench", "tests")
PROGRAM = '''
from semi_naive import BadInput, NoJava, Program, graphs, transitive_closure
import semi_naive, semi_naive.plots.pages.report
text = """.decl e(x: number, y: number) .input e .decl p(x: number, y: number) .output p
p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z)."""
print(semi_naive.__file__, Program(text).run({"e": [(1, 2), (2, 3)]})["p"].count(), graphs.bundled("p2p-gnutella09").name)
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the wheel's contents, as `pip install` leaves them."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}  # no kernels are compiled: .ci/plain has a wheel that carries them
    subprocess.run([*pip, "--target", folder / "site", str(ROOT)], check=True, cwd=folder, env=env)
    return folder / "site"


def test_every_file_is_in_the_wheel_once(installed):
    """The links `semi_naive/ra` and the like are folders there, and nothing is installed beside `semi_naive`."""
    files = {path.relative_to(ROOT).parts for top in (*NAMESAKES[:4], "semi_naive") for path in (ROOT / top).rglob("*.py")}
    listed = {path.relative_to(installed).parts for path in installed.rglob("*.py")}
    assert listed == {parts if parts[0] == "semi_naive" else ("semi_naive", *parts) for parts in files}


def test_the_checkout_can_be_imported_from(tmp_path):
    """Who has installed the package and stays in the folder imports the folder's own files, whatever is on the path."""
    code = "import semi_naive.ra.words as words, semi_naive.graphs.generators as graphs; print(words.__file__, graphs.__file__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == [str(ROOT / "semi_naive" / name) for name in ("ra/words.py", "graphs/generators.py")]


def test_the_wheel_has_one_name(installed):
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} <= {"semi_naive", "bin"}
    assert (installed / "semi_naive" / "py.typed").exists() and (installed / "semi_naive" / "ra" / "words.py").exists()


def test_a_folder_of_namesakes(installed, tmp_path):
    """A user's own graphs.py or plots/ is never taken for a part of the package."""
    for name in NAMESAKES:
        (tmp_path / f"{name}.py").write_text("raise ImportError('the file of the user')\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    env = os.environ | {"PYTHONPATH": str(installed), "NUMBA_DISABLE_JIT": "1"}  # which would compile all kernels once more
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0].startswith(str(installed)) and done.stdout.split()[1:] == ["3", "p2p-gnutella09.tsv.gz"]


def test_modules_of_the_library_in_the_folder(tmp_path):
    """Python workers start in the user's folder: a file there with the name of a module of Python's library shadows nothing."""
    for name in ("random", "queue", "socket", "heapq"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('the file of the user')\n")
    (tmp_path / "edges.tsv").write_text("1\t2\n2\t3\n")
    command = [Path(sys.executable).with_name("semi-naive"), "tc", "edges.tsv", "--plan", "balanced", "-q", "-o", "closure.tsv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted((tmp_path / "closure.tsv").read_text().split()) == ["1", "1", "2", "2", "3", "3"]


@pytest.mark.parametrize("name", semi_naive.__all__)
def test_public_names(name):
    assert getattr(semi_naive, name).__name__.split(".")[-1] == name


def test_type_checkers_see_the_public_names():
    """Each name that is loaded lazily stands, from the same module, in the block that type checkers read."""
    tree = ast.parse((ROOT / "semi_naive" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert {alias.name: node.module for node in block.body for alias in node.names} == semi_naive._LAZY


USER = """
from semi_naive import Program, Relation, transitive_closure
program = Program(".decl a(x: number)")
count: int = program.run({"a": [(1,)]})["a"].count()
pairs: set[tuple] = transitive_closure([(1, 2)]).to_set()
with program.session() as session:
    epoch: int | None = session.insert("a", [(1,)]).epoch
Program(3)
Program("", bogus=1)
program.run(plan=3)
Relation.from_tuples([(1,)], ["x"]).project(1)
"""


def test_types_that_a_user_sees(tmp_path):
    """mypy knows what results are, and finds the four mistakes. It shares the cache of .ci/types."""
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER)
    options = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache", "user.py"]
    env = os.environ | {"MYPYPATH": str(ROOT)}
    command = [sys.executable, "-m", "mypy", *options]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    found = [line.split(": ")[0] for line in done.stdout.splitlines() if ": error: " in line]
    assert found == ["user.py:8", "user.py:9", "user.py:10", "user.py:11"], done.stdout


def test_the_imports_have_no_circle():
    """No file needs itself through others, for its types or inside of functions either."""
    files = {
        ".".join(p if p[0] == "semi_naive" else ("semi_naive", *p)): path
        for top in (*NAMESAKES[:4], "semi_naive")
        for path in (ROOT / top).rglob("*.py")
        for p in [path.relative_to(ROOT).with_suffix("").parts]
    }
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    del files["semi_naive"]  # the public names, each loaded when it is asked for
    needs = {name: _imported(path) & files.keys() - {name} for name, path in files.items()}
    while free := [name for name, others in needs.items() if not others]:
        for name in free:
            del needs[name]
        needs = {name: others & needs.keys() for name, others in needs.items()}
    assert not needs, f"these files import each other: {', '.join(sorted(needs))}"


def _imported(path) -> set[str]:
    """The modules that a file names in its imports, and the names that it takes from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found
