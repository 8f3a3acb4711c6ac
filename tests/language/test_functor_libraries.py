"""Functors of modules and of shared libraries, on the command line and on Spark's workers."""

import subprocess
import sys

import pytest
from test_user_functors import G, triple

from semi_naive import BadInput, EvaluationError, Libraries, Program, ProgramError

MODULE = "def g(x):\n    return x * 3 + 1\n"
C_SOURCE = """
#include <stdint.h>
#include <stdio.h>
static char text[64];
int64_t g(int64_t x) { return x * 3 + 1; }
uint64_t top(uint64_t x) { return x | (1ull << 63); }
double half(double x) { return x / 2; }
const char *said(const char *s, int64_t n) { snprintf(text, sizeof text, "%s-%lld", s, (long long) n); return text; }
const char *nothing(void) { return 0; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    (folder / "g.c").write_text(C_SOURCE)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libgs.so", folder / "g.c"], check=True)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    (folder / "g32.c").write_text(
        "#include <stdint.h>\nint32_t g(int32_t x) { return -x; }\nfloat half(float x) { return x / 2; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libgs32.so", folder / "g32.c"], check=True)
    return folder


def test_a_module_on_the_command_line(run, tmp_path):
    (tmp_path / "p.dl").write_text(G)
    (tmp_path / "in.facts").write_text("4\n")
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "mine.py").write_text(MODULE)
    for options in (["-l", "functions/mine.py"], ["-l", "mine.py", "-L", "functions"]):
        assert run("run", "p.dl", "-D-", *options)[:2] == (
            0,
            "---------------\nout\nx\ty\n===============\n4\t13\n===============\n",
        )
    status, _, told = run("run", "p.dl", "-D-")
    assert status != 0 and "There is no function for functor g" in told and "-l MODULE.py" in told
    status, _, told = run("run", "p.dl", "-l", "other.py")
    assert status != 0 and "there is no library other.py" in told and "looked for other.py" in told
    (tmp_path / "bad.py").write_text("x = 1\ny = 1 / 0\n")
    status, _, told = run("run", "p.dl", "-l", "bad.py")
    assert status != 0 and "bad.py:2: it cannot be loaded: ZeroDivisionError" in told


def test_a_library_of_c(run, tmp_path, library):
    (tmp_path / "in.facts").write_text("4\n")
    (tmp_path / "p.dl").write_text(
        G
        + """
        .functor top(unsigned): unsigned
        .functor half(float): float
        .functor said(symbol, number): symbol
        .decl more(u: unsigned, f: float, s: symbol)
        more(@top(1), @half(0.5), @said("ä", x)) :- in(x).
        .output more
        """
    )
    status, out, _ = run("run", "p.dl", "-D-", "-l", "gs", "-L", str(library))
    assert status == 0 and "4\t13" in out and f"{2**63 + 1}\t0.25\tä-4" in out
    found = Program((tmp_path / "p.dl").read_text(), functors=Libraries(["gs"], [library])).run({"in": [5]})
    assert found["out"].to_list() == [(5, 16)]


def test_the_library_that_souffle_looks_for(run, tmp_path, library):
    (tmp_path / "p.dl").write_text(G)
    (tmp_path / "in.facts").write_text("4\n")
    (tmp_path / "libfunctors.so").write_bytes((library / "libgs.so").read_bytes())
    assert "4\t13" in run("run", "p.dl", "-D-")[1]
    status, _, told = run("run", "p.dl", "-D-", "--sandbox", ".")
    assert status != 0 and "There is no function for functor g" in told


def test_a_library_on_the_workers(library, spark):
    found = Program(G, functors=Libraries(["gs"], [library])).run({"in": range(4)}, spark=spark, local_tuples=0)
    assert found["out"].to_set() == {(x, triple(x)) for x in range(4)}


def test_a_library_of_32_bits(library):
    text = G + ".functor half(float): float\n.decl h(x: float)\nh(@half(3)).\n.output h"
    program = Program(text, functors=Libraries(["gs32"], [library], bits=32))
    found = program.run({"in": [5]})
    assert (found["out"].to_list(), found["h"].to_list()) == ([(5, -5)], [(1.5,)])
    with pytest.raises(EvaluationError, match=r"@g\(2147483648\): OverflowError: 2147483648 does not fit into 32 bits"):
        program.run({"in": [2**31]})


def test_what_a_library_cannot_do(library):
    with pytest.raises(ProgramError, match="Functors of a shared library cannot use records or branches"):
        text = ".type R = [x: number]\n.functor g(x: R): number\n.decl a(x: number)\na(@g(nil))."
        Program(text, functors=Libraries(["gs"], [library]))
    text = ".functor nothing(): symbol\n.decl a(x: symbol)\na(@nothing()).\n.output a"
    with pytest.raises(EvaluationError, match=r"@nothing\(\): ValueError: it gives no string"):
        Program(text, functors=Libraries(["gs"], [library])).run()
    with pytest.raises(BadInput, match="64 or 32 bits"):
        Libraries([], bits=16)
    (library / "libnone.so").write_text("none")
    with pytest.raises(BadInput, match="it cannot be loaded"):
        Program(G, functors=Libraries(["none"], [library]))


def test_rules_that_call_no_compiled_function_load_no_numba():
    code = """
import sys
from semi_naive import Program
text = ".functor f(): number  .decl a(x: number)  a(@f()).  .output a"
Program(text, functors={"f": lambda: 1}).run()["a"].to_list()
sys.exit("numba" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
