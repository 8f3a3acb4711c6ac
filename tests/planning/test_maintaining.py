"""The rules that maintain strata: what a program becomes (fixtures/maintaining.txt), and what a session says of it."""

from pathlib import Path

import pytest

from semi_naive import Program

CASES = (Path(__file__).parent / "fixtures" / "maintaining.txt").read_text().split("\n== ")[1:]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.partition("\n")[0])
def test_a_program_is_maintained_by(case):
    before, after = case.partition("\n")[2].strip().split("\n----\n")
    with Program(before).session({}) as session:
        assert session.explain(changes=True).strip() == after


def test_one_relation_or_one_without_rules():
    text = ".decl e(x: number)\n.input e\n.decl a, b(x: number)\n.output a, b\na(x) :- e(x).\nb(x) :- a(x).\n"
    with Program(text).session({}) as session:
        told = session.explain("b", changes=True)
        assert told.startswith("b\n  suspected\n    b:(x) :- a-(x).\n") and told in session.explain(changes=True)
        assert session.explain("e", changes=True) == "e\n  no rule derives it\n"
        with pytest.raises(KeyError, match="nothing"):
            session.explain("nothing", changes=True)


def test_an_atom_with_a_computed_argument_still_begins_a_rule_that_suspects():
    """A mean is computed again for the heads that may change: those that match the changed tuple, whatever it takes apart."""
    text = """.type Pair = [a: number, b: number]
    .decl e(a: Pair, b: number)\n.input e\n.decl f(a: number)\n.input f
    .decl r(a: number, m: float)\n.output r
    r(z, m) :- e([z, z + 2], _), f(z), m = mean to_float(b) : { e([z, _], b) }."""
    facts = {"e": [((1, 3), 4), ((1, 5), 6), ((2, 4), 1)], "f": [(1,), (2,)]}
    with Program(text).session(facts) as session:
        assert session["r"].to_set() == {(1, 5.0), (2, 1.0)}
        session.delete("e", [((1, 5), 6)])
        session.insert("e", [((2, 9), 3)])
        assert session["r"].to_set() == {(1, 4.0), (2, 2.0)}
        session.delete("e", [((1, 3), 4)])
        assert session["r"].to_set() == {(2, 2.0)}
