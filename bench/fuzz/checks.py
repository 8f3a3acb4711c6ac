"""Checks of a random case: runs and sessions have the relations of the oracle."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from math import inf
from unittest.mock import patch

from bench.fuzz.cases import Case
from bench.fuzz.operators import canonical
from bench.fuzz.oracle import solve, value
from semi_naive import BadInput, Config, Program
from semi_naive.balance.record import checked
from semi_naive.balance.trace import VERSION
from semi_naive.host.limits import OverBudget, Work
from semi_naive.planning.rewriting.passes import apply_passes
from semi_naive.ra import ir
from semi_naive.running.run import ProgramRun
from semi_naive.session.maintenance.recomputation import Budget

LAYOUTS = [
    Config(local_tuples=0, partitions=3, buckets=5),
    Config(local_tuples=0, partitions=2, buckets=2, refinement_minimum=1, tolerance=1.0, grain=0.1, horizon=inf),
    Config(local_tuples=0, partitions=2, buckets=2, policy="paper", refinement_minimum=1, refinement_ratio=1.0),
    Config(local_tuples=0, partitions=4, buckets=8, rollover_threshold=2, refine=False, consolidate=False),
    Config(local_tuples=3, partitions=2, buckets=4),  # begun in the driver, handed over, taken back
]


def layouts(*replicated: int) -> list[Config]:
    """Layouts on partitions, with at most so many bytes of replicated relations."""
    return [config.with_options({"replicate_bytes": most}) for config in LAYOUTS for most in replicated]


def load_machine() -> None:
    """Compile the machine, or load it: from now on small iterations are evaluated a tuple at a time from the first one on."""
    from semi_naive.ra.tuple_at_a_time.machine import KERNELS

    for kernel in KERNELS:
        kernel.compiled()


def contents(relations) -> dict[str, set[tuple]]:
    return {name: canonical(relations[name].to_set()) for name in relations}


def same_relations(found: dict[str, set], expected: dict[str, set], told: str = "") -> None:
    for name in found.keys() & expected.keys():
        missing, extra = expected[name] - found[name], found[name] - expected[name]
        assert not missing and not extra, f"{name}: missing {missing}, extra {extra} {told}"


def solved(case: Case, facts: dict | None = None, iterations: int | None = None) -> dict[str, set[tuple]]:
    """The oracle's relations."""
    facts = case.facts if facts is None else facts
    return solve(case.meaning(facts, iterations is not None), facts, iterations)


def run(case: Case, config: Config, spark=None, plan: str | None = None, progress=None) -> tuple[dict[str, set], dict]:
    """The relations of a run, and its trace, which can be drawn. Of every second case, by its seed, those with rules are asked
    for by name: then equivalences are kept as classes, and facts are read as far as rules read them."""
    made = {rule.head.relation for rule in case.checked.rules if rule.body}
    limited, keep = config.max_iterations is not None, made if (case.seed or 0) % 2 else None
    planned, options = apply_passes(case.checked, keep, list(case.facts), limited, once=True), {"plan": plan} if plan else {}
    run = ProgramRun(Program.from_checked(case.checked), planned, config, spark, progress, **options)
    with run.run(case.facts, False) as result:
        checked(result.trace, VERSION)
        return contents(result), result.trace


def check(case: Case, *configs: Config, spark=None) -> None:
    """Under each configuration, all of as many iterations, every relation is as the oracle has it."""
    (iterations,) = {config.max_iterations for config in configs}
    wanted = solved(case, None, iterations)
    for config in configs:
        same_relations(run(case, config, spark)[0], wanted, f"by {config}")


# -- sessions


def refused(program: ir.Program, operation: str, name: str, rows: list) -> bool:
    """True if an operation would delete what is written in the program."""
    written = {tuple(value(arg, {}) for arg in r.head.args) for r in program.rules if r.head.relation == name and not r.body}
    if operation == "upsert":
        last = {row[:1]: row for row in rows}
        return any(row[:1] in last and row != last[row[:1]] for row in written)
    return operation == "delete" and bool(written & set(rows))


def perform(facts: dict[str, set], operation: str, relation: ir.Relation, rows: Iterable[tuple]) -> None:
    """An operation, done on sets."""
    now, rows = facts[relation.name], [row for each in rows for row in canonical([each])]
    if operation == "clear":
        now.clear()
    if operation == "delete":
        now.difference_update(rows)
    if operation == "insert":
        now.update(rows)
    if operation == "upsert":
        for row in rows:
            now.difference_update({other for other in now if other[:1] == row[:1]})
            now.add(row)


def ask(transaction, operation: str, relation: ir.Relation, rows: list) -> None:
    if operation == "clear":
        transaction.clear(relation.name)
    elif operation == "upsert":
        transaction.upsert(relation.name, rows, key=[name for name, _ in relation.attributes[:1]])
    else:
        getattr(transaction, operation)(relation.name, rows)


def commit(session, case: Case, facts: dict[str, set], step: list):
    """One transaction, on a session and on sets. What would delete a fact of the program is refused."""
    relations = case.program.relations
    with session.transaction() as transaction:
        for operation, name, rows in step:
            if not refused(case.program, operation, name, rows):
                ask(transaction, operation, relations[name], rows)
                perform(facts, operation, relations[name], rows)
                continue
            try:
                ask(transaction, operation, relations[name], rows)
            except BadInput as error:
                assert "written in the program" in str(error)
            else:
                raise AssertionError(f"{operation} {name} {rows} deletes what is written in the program")
    return transaction


def folded(told: dict[str, list], contents: dict[str, set]) -> dict[str, set]:
    """Contents after changes: what comes was not there, what goes was."""
    contents = {name: set(rows) for name, rows in contents.items()}
    for name, changes in told.items():
        assert changes and len({row[:-1] for row in changes}) == len(changes)
        for *row, diff in changes:
            (row,) = canonical([row])
            assert (row in contents[name]) == (diff == -1), f"{name}: {row} {diff}"
            contents[name] ^= {row}
    return contents


def agrees(case: Case, **config) -> None:
    """After each transaction every relation is as the oracle has it, the changes add up, and the last two epochs are kept."""
    facts = {name: canonical(case.facts.get(name, ())) for name in case.changed}
    with Program.from_checked(case.checked).session(facts, retain=2, **config) as session:
        past, now = {}, contents(session)
        seen = {name: now[name] for name in session.program.outputs}
        same_relations(now, solved(case, facts), "at first")
        for epoch, step in enumerate(case.steps, 1):
            past[epoch - 1] = now
            transaction = commit(session, case, facts, step)
            now = contents(session)
            same_relations(now, solved(case, facts), f"after transaction {epoch}")
            assert all(session[name].count() == len(rows) for name, rows in now.items())
            seen = folded({name: list(change) for name, change in transaction.changes.items()}, seen)
            same_relations(seen, now, f"as told after transaction {epoch}")
            for number in range(max(0, epoch - 2), epoch):
                same_relations(contents(session.at(number)), past[number], f"at {number} after transaction {epoch}")


@contextmanager
def ending(fails: Callable[[int], bool]) -> Iterator[Iterator[int]]:
    """Maintenance has a budget that no change exceeds, but some of the counts of its work do: those by whose number
    `fails` says so. To compute a stratum anew has no budget."""
    times, visit = count(), Work.visit

    def visited(work: Work, bindings: int) -> None:
        if work.most < math.inf and fails(next(times)):
            raise OverBudget
        visit(work, bindings)

    with ExitStack() as stack:
        stack.enter_context(patch("semi_naive.session.maintenance.recomputation.MIN_BUDGET", 10**15))
        stack.enter_context(patch.object(Budget, "tries", lambda *_: True))
        stack.enter_context(patch.object(Work, "visit", visited))
        yield times


BUDGETS = 0, 1, 10, 30, 100, math.inf  # bindings


def agrees_within(bindings: float, case: Case, **config) -> None:
    """Maintenance may visit so many bindings, and so few more that a small program exceeds them."""
    with patch("semi_naive.session.maintenance.recomputation.MIN_BUDGET", bindings), patch("semi_naive.host.limits.CALL", 3):
        agrees(case, follow=1e-9, **config)


def agrees_wherever_it_ends(case: Case, most: int, **config) -> None:
    """Maintenance ends each of the times that its work is counted; of more than `most`, at so many of them."""
    with ending(lambda _: False) as times:
        agrees(case, **config)
    counted = next(times)
    for at in range(0, counted, 1 + counted // most):
        with ending(lambda time, at=at: time == at):
            agrees(case, **config)
