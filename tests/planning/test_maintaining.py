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
