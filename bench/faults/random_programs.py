"""Random programs as text: those that the tests make, with the answers of the naive evaluation there."""

import sys
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
DRAWN = 8  # programs for each seed, of which the last is taken: the first ones are the smallest that there are


def drawn(seed: int) -> tuple[str, dict[str, str], dict[str, str]]:
    """(program, texts of its facts by relation, texts of what it outputs): the first that has a text, from the seed on. What
    is solved is the text: `_` in an aggregate is not what a rule without a text means by it."""
    while True:
        program, facts = _cases(seed)[-1]
        text = program_text(program)
        if read := _read(text):
            return text, _texts(program, facts), _texts(program, _solve(read, facts), "output")
        seed += 1


def _cases(seed: int) -> list[tuple]:
    import hypothesis

    _from_tests()
    from datalog_programs import programs

    found: list[tuple] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=DRAWN, database=None, deadline=None, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(programs())
    def keep(case):
        found.append(case)

    keep()
    return found


def _solve(program, facts: dict) -> dict:
    _from_tests()
    from datalog_oracle import solve

    return solve(program, facts)


def _from_tests() -> None:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))


def program_text(program) -> str:
    """The program as Datalog; in the head of a rule of a lattice `min` or `max` says which it is."""
    from semi_naive.cli.show import datalog

    rules = [_bounded(rule, program.relations[rule.head.relation].lattice) for rule in program.rules]
    return datalog(replace(program, rules=rules)) + "\n"


def _bounded(rule, lattice: str | None):
    from semi_naive.ra.rules.ir import Call, Rule

    if lattice is None:
        return rule
    *keys, value = rule.head.args
    return Rule(replace(rule.head, args=(*keys, Call(lattice, (value,), value.kind))), rule.body)


def _read(text: str):
    """The rules of a text; None if it is no program: what rules mean is not always in their text."""
    from semi_naive import Program, ProgramError

    try:
        return Program(text).checked
    except ProgramError:
        return None


def _texts(program, tuples: dict, directive: str = "input") -> dict[str, str]:
    """The files of the relations that a directive names."""
    names = [each.relation for each in program.directives if each.kind == directive]
    return {name: "".join(_line(row, program.relations[name].kinds) for row in tuples[name]) for name in names}


def _line(row: tuple, kinds) -> str:
    return "\t".join(map(_field, row, kinds)) + "\n" if row else "()\n"


def _field(value, kind) -> str:
    from semi_naive.io.bits import short_float_text

    if value is None:
        return "nil"
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return short_float_text(value) if isinstance(value, float) else str(value)
