"""Negated atoms that loops decide: the same answers, and a plan that says so."""

import numpy as np
import pytest
from test_multiway_datalog import interpreted  # noqa: F401

from semi_naive import Program
from semi_naive.planning.rewriting import passes

pytestmark = pytest.mark.usefixtures("interpreted")

EDGES = np.unique(np.random.default_rng(1).integers(0, 25, (150, 2)), axis=0)
BANNED = EDGES[EDGES[:, 0] % 3 == 0]
HEADS = """
.decl edge(x: number, y: number)
.decl banned(x: number, y: number)
.decl found(x: number, z: number)
.output found
"""


def triangles(denied: str, head: str = "found(x, z)") -> str:
    return f"{HEADS}{head} :- edge(x, y), edge(y, z), edge(x, z), {denied}."


@pytest.mark.parametrize(
    "denied", ["!banned(x, z)", "!banned(z, _)", "!banned(y, y)", "!banned(6, y)", "!banned(x, z), !banned(z, y), x < z"]
)
@pytest.mark.parametrize("banned", [BANNED, BANNED[:0]], ids=["some", "none"])
def test_loops_decide_negated_atoms(denied, banned):
    program, facts = Program(triangles(denied)), {"edge": EDGES, "banned": banned}
    text = program.explain(facts)
    assert text.count("within: ") == denied.count("!") + denied.count("<") and "unless" not in text
    with program.run(facts) as result, program.run(facts, multiway="never") as expected:
        assert result["found"].to_set() == expected["found"].to_set()
        assert expected["found"].count() > 5


def test_recursion_and_aggregates(monkeypatch):
    monkeypatch.setattr(passes, "join_static", lambda program: program)  # the triangles never change
    rules = "found(x, x) :- edge(x, _), x < 3.\nfound(s, z) :- found(s, x), edge(x, y), edge(y, z), edge(x, z), !banned(x, z)."
    counted = triangles("!banned(x, z)", "").replace(" :- ", "found(n, 0) :- n = count : { ").replace("z).", "z) }.")
    facts = {"edge": EDGES, "banned": BANNED}
    for text in (HEADS + rules, counted):
        program = Program(text)
        assert "within: !banned(x" in program.explain(facts)
        with program.run(facts) as result, program.run(facts, multiway="never") as expected:
            assert result["found"].to_set() == expected["found"].to_set() != set()


def test_what_loops_do_not_decide():
    """A relation that is larger than all the others would cost more than it saves; a term that is made is no variable."""
    facts = {"edge": EDGES, "banned": np.random.default_rng(2).integers(0, 99, (500, 2))}
    assert "unless banned(x, z)" in Program(triangles("!banned(x, z)")).explain(facts)
    assert "unless banned" in Program(triangles("!banned(x, z + 1)")).explain({"edge": EDGES, "banned": BANNED})
