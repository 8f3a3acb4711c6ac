"""Random programs as files, with the answers of the oracle."""

from random import Random

from bench.fuzz.checks import solved
from bench.fuzz.random_programs import random_case
from bench.fuzz.texts import datalog, lines


def drawn(seed: int) -> tuple[str, dict[str, str], dict[str, str]]:
    """(program, texts of its facts by relation, texts of its outputs) of the case of a seed."""
    case = random_case(Random(seed), features={"text"})
    found = solved(case)
    outputs = [each.relation for each in case.program.directives if each.kind == "output"]
    return datalog(case.program) + "\n", _texts(case.facts, case.facts), _texts(found, outputs)


def _texts(tuples: dict, names) -> dict[str, str]:
    return {name: "".join(f"{line}\n" for line in lines(tuples[name])) for name in names}
