"""`semi-naive simulate`: simulate a closure, a program or a recorded run on many ranks, and print tables."""

import contextlib
import sys
from collections.abc import Callable, Iterator

import click

from semi_naive.balance.machine import Machine
from semi_naive.balance.policy import imbalance_ratio
from semi_naive.balance.recorded import check_record, replayed
from semi_naive.balance.trace import moved, read_trace, spread, work_of, write_trace
from semi_naive.cli.program import FactOptions, Origin
from semi_naive.config import Config
from semi_naive.host.numbers import quantity
from semi_naive.io.errors import BadInput

TUPLE_BYTES = 8  # bytes of a tuple in memory
MAX_RANKS = 1 << 20  # with more ranks, the lists for each phase and iteration do not fit into memory
MACHINES: dict[str, Callable[[], Machine]] = {"spark": Machine, "mpi": Machine.mpi}


def simulate_command(
    source: str, ranks: str, policies=(), options=None, trace: str | None = None, quiet=False, facts=(), header=False,
    machine: str = "spark",
) -> None:  # fmt: skip
    """Simulate runs, and print a table for each policy or stratum. One simulation's iterations are in memory at a time.

    source: edges, of any kind that `semi-naive tc` reads, a program (.dl) with its `facts`, each a folder or NAME=FILE, or the
    .json of a recorded run. machine: the prices, one of `MACHINES`.
    Raises ValueError for options that do not fit together.
    """
    numbers, policies, prices = rank_counts(ranks), list(dict.fromkeys(policies)), MACHINES[machine]()
    if trace and len(numbers) * len(policies or [""]) > 1:
        raise ValueError(f"--trace {trace}: expected one number of ranks and one policy, as it takes one record")
    if facts and not source.endswith(".dl"):
        raise BadInput(f"-F {facts[0]} is of a program (.dl), which {source} is not", hint="edges are a file, without -F")
    with _working(quiet) as say:
        if source.endswith(".json"):
            runs = _of_record(source, numbers, bool(policies or options), trace, prices)
        elif source.endswith(".dl"):
            runs = _of_program(source, FactOptions.given(facts, header), numbers, policies, options or {}, trace, prices)
        else:
            runs = _of_edges(source, header, numbers, policies, options or {}, say, prices)
        tables: dict[str, list[dict]] = {}
        for title, count, record in runs:
            say(f"{title}: {quantity(count, 'rank')}".removeprefix(": "))
            tables.setdefault(title, []).append(summary_row(record, count))
            if trace:
                write_trace(record, trace)
    _print(tables)


def rank_counts(text: str) -> list[int]:
    """Return the distinct numbers of --ranks, ascending.

    >>> rank_counts("64, 2,64")
    [2, 64]
    """
    numbers = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and 1 <= int(word) <= MAX_RANKS for word in numbers):
        raise ValueError(f"--ranks {text}: expected whole numbers from 1 to {MAX_RANKS:,} with commas between, as in 2,64,512")
    return sorted({int(word) for word in numbers})


def policy_config(policy: str | None, options: dict, ranks: int) -> Config:
    """Return the configuration that a policy simulates, with the --set options applied.

    policy: "paper" (the paper's settings), "work" (our default balancing), "none" (neither refinement nor copies): these three
    have one bucket a rank, and nothing replicated. None: the default configuration.

    >>> policy_config("paper", {}, 512).buckets, policy_config("work", {}, 512).buckets, policy_config("none", {}, 512).refine
    (512, 512, False)
    """
    if policy is None:
        return Config().with_options(options)
    default_policy = {
        name: getattr(Config(), name) for name in ("policy", "check_interval", "refinement_minimum", "copy_inner")
    }
    policies = {"paper": {}, "work": default_policy, "none": default_policy | {"refine": False, "copy_inner": False}}
    return Config.paper(ranks, **policies[policy]).with_options(options)


def _of_edges(
    source: str, header: bool, numbers: list[int], policies, options: dict, say: Callable[[str], object], machine: Machine
) -> Iterator[tuple[str, int, dict]]:
    """Yield (title, ranks, record) for each policy and number of ranks; the births of the closure are computed once. say: shows
    what is being done."""
    from semi_naive.io.edges import as_edges
    from semi_naive.simulation import Replayable

    configs = {(policy, count): policy_config(policy, options, count) for policy in policies or [None] for count in numbers}
    say("births")
    closure = Replayable.of(as_edges(source, header), next(iter(configs.values())))
    for (policy, count), config in configs.items():
        yield f"policy {policy}" if policy else "", count, closure.simulate(count, config, machine)


def _of_program(
    source: str, facts: FactOptions, numbers: list[int], policies, options: dict, trace: str | None, machine: Machine
):
    """Yield (title, ranks, record) for each policy, number of ranks and stratum; titles name its first relation."""
    from semi_naive.cli.run import folder_of
    from semi_naive.simulated_ranks import simulate_program

    program = Origin(source, facts=facts).checked({})
    named = facts.of(program, folder_of(facts, program.checked.pragmas, {}, None))
    for policy in policies or [None]:
        for count in numbers:
            records = spread(simulate_program(program, named, count, policy_config(policy, options, count), machine))
            if trace and len(records) > 1:
                raise ValueError(
                    f"--trace {trace}: it takes one record, and {len(records)} strata of {source} were on the ranks"
                )
            for name, record in records.items():
                yield f"{name}, policy {policy}" if policy else name, count, record


def _of_record(
    source: str, numbers: list[int], settings: bool, trace: str | None, machine: Machine
) -> Iterator[tuple[str, int, dict]]:
    """Yield (title, ranks, record) for each stratum that has buckets. settings: True if there are options of a simulation,
    which is an error."""
    if settings:
        raise ValueError(f"{source} is a record, replayed as it was balanced: --set and --policy are for edges")
    records, refused = spread(read_trace(source)), {}
    for name in list(records):
        try:
            check_record(records[name], numbers[0])
        except ValueError as wrong:
            refused[name] = wrong
            del records[name]
    if not records:
        raise ValueError(f"{source}: {'; '.join(str(wrong) for wrong in dict.fromkeys(refused.values()))}")
    if trace and len(records) > 1:
        raise ValueError(f"--trace {trace}: it takes one record, and of {source} {len(records)} strata were in buckets")
    for name, error in refused.items():
        click.echo(f"semi-naive: {name} is left out: {error}", err=True)
    return ((name, count, replayed(record, count, machine)) for name, record in records.items() for count in numbers)


def summary_row(record: dict, ranks: int) -> dict:
    """Return a simulated run as a row of a table.

    driver, balancing: seconds between phases, and between iterations.
    work: heaviest ÷ average rank of the whole run, in tuples that enter joins and inserts, and matching pairs.
    moved: tuples moved or copied to another rank for balance.
    """
    phases = [phase for entry in record["iterations"] for phase in entry["phases"]]
    return {
        "ranks": ranks, "seconds": record["seconds"], "driver": sum(entry["driver"] for entry in record["iterations"]),
        "balancing": max(0.0, record["seconds"] - sum(entry["seconds"] for entry in record["iterations"])),
        "work": imbalance_ratio(sum(work_of(entry) for entry in record["iterations"])),
        "imbalance": record["iterations"][-1]["imbalance"]["partitions"],
        "messages": sum(sum(phase.get("messages", ())) for phase in phases),
        "moved": moved(record),
        "peak": max(record["result"]["peak_tuples"]),
    }  # fmt: skip


def _print(tables: dict[str, list[dict]]) -> None:
    """Print the tables. Without a terminal they are 160 characters wide."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=160)
    for title, rows in tables.items():
        console.print(_table(title, rows))


COLUMNS = {
    "ranks": lambda row, base: f"{row['ranks']:,}",
    "critical path": lambda row, base: f"{row['seconds']:.4g} s",
    "of it driver": lambda row, base: f"{row['driver']:.3g} s",
    "balancing": lambda row, base: f"{round(row['balancing'], 9):.3g} s",
    "efficiency": lambda row, base: f"{base / (row['ranks'] * row['seconds']):.1%}",
    "work, heaviest ÷ average": lambda row, base: f"{row['work']:.2f}",
    "imbalance at the end": lambda row, base: f"{row['imbalance']:.2f}",
    "messages": lambda row, base: f"{row['messages']:,}",
    "tuples moved": lambda row, base: f"{row['moved']:,}",
    "peak tuples": lambda row, base: f"{row['peak']:,}",
    "peak MB": lambda row, base: f"{row['peak'] * TUPLE_BYTES / 1e6:,.3g}",
}


def _table(title: str, rows: list[dict]):
    """Return a table with a row for each number of ranks; the efficiency is relative to the fewest."""
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in COLUMNS:
        table.add_column(name, justify="right")
    base = rows[0]["ranks"] * rows[0]["seconds"]  # of the efficiency: rank-seconds
    for row in rows:
        table.add_row(*(show(row, base) for show in COLUMNS.values()))
    return table


@contextlib.contextmanager
def _working(quiet: bool) -> Iterator[Callable[[str], object]]:
    """Show a spinner on standard error; yields a function that sets its text."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda text: None
        return
    with console.status("reading") as status:
        yield status.update
