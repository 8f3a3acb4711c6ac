"""What each field of `Config` changes, counted where it can be: the figures of docs/tuning.md.

    python -m bench.tuning [--rows grain,horizon] [--toy] [--out FILE] [--draw docs/figures/imbalance.png]

Of each field some values on an input that shows it. What is simulated on ranks, or run by the engine's own tasks on ranks in
this process, is counted, and the same on every machine. Seconds are processor time of this one.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np

from bench.command import command, parser_of, say, surroundings
from semi_naive import Config, LimitExceeded, Program, graphs, transitive_closure
from semi_naive.closure import closure_program
from semi_naive.host.numbers import quantity
from semi_naive.simulated_ranks import SimulatedRanks
from semi_naive.simulation import Replayable

RANKS, TOY_RANKS = 64, 8
CLOSURE = closure_program("path-edge")
GIVEN = Program(".decl row(x: number, y: number) .input row\n.output row")
WALK = Program("""
.decl edge(x: number, y: number)
.input edge
.decl walk(label: number, x: number, y: number)
.output walk
walk(label, x, y) :- edge(x, y), label = x % 2.
walk(label, x, z) :- walk(label, x, y), edge(y, z).
""")
TRIANGLES = """
.decl edge(x: number, y: number)
.input edge
.decl triangle(x: number, y: number, z: number)
.output triangle
triangle(x, y, z) :- edge(x, y), edge(y, z), edge(x, z).
"""
CHAIN = """
.decl step(n: number)
.output step
step(0).
step(n + 1) :- step(n), n < LAST.
"""
LINE = """
.decl edge(x: number, y: number)
.input edge
.decl reached(x: number)
.output reached
reached(0).
reached(y) :- reached(x), edge(x, y).
"""


@dataclass(frozen=True)
class Effect:
    """A field, some of its values, the input, and what is measured: measure(settings, toy) -> number or text."""

    field: str
    values: tuple
    what: str
    measure: Callable
    besides: tuple = ()  # other settings, without which it has no effect


@cache
def graph(name: str, toy: bool):
    """The graphs that effects are shown on."""
    made = {
        "tree": lambda: graphs.tree(7 if toy else 15),
        "RMAT": lambda: graphs.rmat(*((8, 900) if toy else (13, 10_000))),
        "bow tie": lambda: graphs.bowtie(*((30, 6) if toy else (300, 60))),
        "star": lambda: graphs.bowtie(60 if toy else 1000, 0),
        "cyclic": lambda: graphs.rmat(*((7, 1_000) if toy else (14, 200_000))),
    }
    return made[name]()


@cache
def births(name: str, rule: str, toy: bool) -> Replayable:
    return Replayable.of(graph(name, toy), Config(rule=rule))


def simulated(name: str, figure: Callable) -> Callable:
    """A closure on simulated ranks, a job for each iteration, whose moves are worth it from a few tuples on."""

    def measure(settings: dict, toy: bool):
        ranks = TOY_RANKS if toy else RANKS
        given = {"run_ahead": 0, "refinement_minimum": 64} | settings
        return figure(births(name, given.get("rule", Config.rule), toy).simulate(ranks, Config(), **given))

    return measure


def path(record: dict) -> str:
    """The heaviest rank of each iteration ÷ the average, over all iterations: 1 is perfect."""
    from semi_naive.balance.trace import work_of

    work = np.array([work_of(entry) for entry in record["iterations"]])
    return f"{work.max(axis=1).sum() / max(1.0, work.mean(axis=1).sum()):.2f}"


def path_and_moved(record: dict) -> str:
    from semi_naive.balance.trace import moved

    return f"{path(record)}, {moved(record) / max(1, record['result']['tuples']):.2f} moved"


def path_and_subbuckets(record: dict) -> str:
    return f"{path(record)}, {sum(map(len, record['iterations'][-1]['sizes'])):,} subbuckets"


def largest_join(record: dict) -> str:
    """The most tuples that one rank's join has made before it shipped them."""
    joins = [phase for entry in record["iterations"] for phase in entry["phases"] if phase["phase"] == "join"]
    inner = sum(1 + max(phase["inner"] for phase in entry["phases"]) for entry in record["iterations"])
    return f"{max(max(phase['sent']) for phase in joins):,} tuples, {inner:,} jobs"


def on_ranks(name: str, figure: Callable, program: Program = CLOSURE) -> Callable:
    """The last stratum of a program by the balanced plan, whose tasks run in this process."""

    def measure(settings: dict, toy: bool):
        ranks = settings.get("partitions", 4)
        given = {"local_tuples": 0} | settings
        with program.run({"edge": graph(name, toy)}, SimulatedRanks(ranks), plan="balanced", **given) as result:
            return figure(result.trace["strata"][-1]["trace"])

    return measure


def jobs(record: dict) -> str:
    return f"{len(record['iterations']):,} jobs for {sum(e['steps'] for e in record['iterations']):,} iterations"


def bytes_shipped(record: dict) -> str:
    sent = sum(
        sum(p["bytes"]) for e in record["iterations"] for p in e["phases"] if p["phase"] in ("all-to-all", "intra-bucket")
    )
    return f"{sent / max(1, record['result']['tuples']):.2f} bytes a tuple"


def tasks(record: dict) -> str:
    return f"{len(record['iterations'][0]['loads']):,} tasks a phase"


def checkpoints(record: dict) -> str:
    made = sum(event["event"] == "checkpoint" for event in record["events"])
    return f"{quantity(made, 'checkpoint')} in {quantity(len(record['iterations']), 'iteration')}"


def kept(settings: dict, toy: bool) -> str:
    """As `on_ranks`, with a folder for checkpoints."""
    with tempfile.TemporaryDirectory(prefix="bench-tuning-") as folder:
        Path(folder).chmod(0o700)
        given = settings | {"run_ahead": 0} | ({"checkpoint_dir": folder} if settings.get("checkpoint_dir") else {})
        return on_ranks("tree", checkpoints)(given, toy)


def where_runs_are(settings: dict, toy: bool) -> str:
    with tempfile.TemporaryDirectory(prefix="bench-tuning-") as folder:
        given = settings | ({"local_dir": folder} if settings["local_dir"] else {})
        disk = on_ranks("tree", lambda record: record["result"]["disk_bytes"] / max(1, record["result"]["tuples"]))(given, toy)
    return f"{disk:.1f} bytes a tuple, {'there' if settings['local_dir'] else 'in the temporary directory'}"


def plan(settings: dict, toy: bool) -> str:
    """Where the closure of a tree is evaluated."""
    spark = SimulatedRanks(4)
    with CLOSURE.run({"edge": graph("tree", toy)}, spark, plan="balanced", **settings) as result:
        return f"plan {result.trace['strata'][-1]['plan']}"


def seconds(text: str, name: str | None) -> Callable:
    """Processor time of a warm run."""

    def measure(settings: dict, toy: bool) -> str:
        program = Program(text.replace("LAST", "500" if toy else "10000"))
        facts = {} if name is None else {"edge": graph(name, toy)}
        spent = []
        for _ in range(2):
            begun = time.process_time()
            with program.run(facts, **settings) as result:
                tuples = result[program.outputs[0]].count()
            spent.append(time.process_time() - begun)
        return f"{min(spent):.3f} s, {tuples:,} tuples"

    return measure


def following(settings: dict, toy: bool) -> str:
    """Processor time of a session for an edge near the end of a line that goes."""
    size = 500 if toy else 100_000
    with Program(LINE).session({"edge": [(n, n + 1) for n in range(size)]}, **settings) as session:
        spent = []
        for number in range(2, 5):
            begun = time.process_time()
            session.delete("edge", [(size - number, size - number + 1)])
            spent.append(time.process_time() - begun)
        return f"{min(spent):.3f} s, {session['reached'].count():,} tuples"


def iterations(settings: dict, toy: bool) -> str:
    with transitive_closure(graph("tree", toy), SimulatedRanks(4), "balanced", **settings) as found:
        return f"{found.iterations:,} iterations, {found.count():,} pairs"


def ended(settings: dict, toy: bool) -> str:
    """The pairs of a tree's closure, or the error that its evaluation ends in."""
    try:
        with CLOSURE.run({"edge": graph("tree", toy)}, **settings) as result:
            return f"{result['path'].count():,} pairs"
    except LimitExceeded as error:
        return type(error).__name__


def rows_read(settings: dict, toy: bool) -> str:
    """The facts that are read of rows of which every tenth has no value."""
    rows = [(n, None if n % 10 == 0 else n) for n in range(100 if toy else 10_000)]
    with GIVEN.run({"row": rows}, **settings) as result:
        return f"{result['row'].count():,} tuples"


PAPER = (("policy", "paper"), ("check_interval", 2))
FEW = (("policy", "paper"), ("buckets", 64))
EFFECTS = (
    Effect("buckets", (None, 64, 2048), "star", simulated("star", path_and_subbuckets)),
    Effect("partitions", (4, 16), "tree", on_ranks("tree", tasks)),
    Effect("check_interval", (1, 2, 5), "tree", simulated("tree", path)),
    Effect("policy", ("work", "paper"), "tree", simulated("tree", path_and_moved)),
    Effect("refine", (True, False), "tree", simulated("tree", path)),
    Effect("refinement_minimum", (64, 1024, 100_000), "tree", simulated("tree", path_and_moved)),
    Effect("tolerance", (1.1, 1.5, 3.0), "RMAT", simulated("RMAT", path_and_moved)),
    Effect("grain", (0.5, 0.1, 2.0), "RMAT", simulated("RMAT", path_and_subbuckets)),
    Effect("horizon", (2.0, 0.5, 20.0), "RMAT", simulated("RMAT", path_and_moved)),
    Effect("refinement_ratio", (3.0, 1.5, 10.0), "tree", simulated("tree", path_and_subbuckets), PAPER),
    Effect("refinement_factor", (4, 2, 16), "tree", simulated("tree", path_and_subbuckets), PAPER),
    Effect("consolidate", (True, False), "bow tie", simulated("bow tie", path_and_subbuckets), FEW),
    Effect("consolidation_fraction", (0.6, 0.9), "bow tie", simulated("bow tie", path_and_subbuckets), FEW),
    Effect("copy_inner", (True, False), "star", simulated("star", path_and_moved)),
    Effect("rollover", (True, False), "star", simulated("star", largest_join), (("rollover_threshold", 10_000),)),
    Effect("rollover_threshold", (8_000_000, 10_000), "star", simulated("star", largest_join)),
    Effect("run_ahead", (1_000_000, 0), "tree", on_ranks("tree", jobs)),
    Effect("run_ahead_budget", (4_000_000, 10_000), "walks over a tree", on_ranks("tree", jobs, WALK)),
    Effect("local_tuples", (None, 10_000), "tree", plan),
    Effect("small_delta", (1000, 0), "10,000 iterations", seconds(CHAIN, None)),
    Effect("memory", (None, 1_000_000), "tree", plan),
    Effect("replicate_bytes", (1 << 30, 0), "RMAT", on_ranks("RMAT", bytes_shipped)),
    Effect("multiway", ("auto", "never"), "triangles", seconds(TRIANGLES, "cyclic")),
    Effect("follow", (0.15, 0), "a line of edges", following),
    Effect("max_iterations", (None, 3), "tree", iterations),
    Effect("query_seconds", (None, 0.001), "tree", ended),
    Effect("query_bytes", (None, 1_000_000), "tree", ended),
    Effect("rule", ("path-edge", "path-path"), "tree", iterations),
    Effect("checkpoint_dir", (None, "a folder"), "tree", kept),
    Effect("checkpoint_interval", (10, 2), "tree", kept, (("checkpoint_dir", "a folder"),)),
    Effect("local_dir", (None, "a folder"), "tree", where_runs_are),
    Effect("null", ("skip", "0"), "rows with missing values", rows_read),
)
NAMES = tuple(effect.field for effect in EFFECTS)


def main(arguments=None) -> int:
    parser = parser_of("bench.tuning", __doc__, NAMES, repeat=1)
    parser.add_argument("--draw", metavar="FILE", help="draw what `refine` does, and measure nothing")
    options = parser.parse_args(arguments)
    if options.draw:
        draw(options.draw, options.toy)
        return 0
    return command("bench.tuning", options, run, lambda results: [table(results)], (ValueError,))


def run(options) -> dict:
    wanted = options.rows.split(",")
    if unknown := set(wanted) - set(NAMES):
        raise ValueError(f"there is no field {min(unknown)!r}: expected some of {', '.join(NAMES)}")
    results = {**surroundings(None, options), "rows": {}}
    for effect in EFFECTS:
        if effect.field in wanted:
            say(effect.field)
            given = dict(effect.besides)
            results["rows"][effect.field] = {
                told(value): effect.measure(given | {effect.field: value}, options.toy) for value in effect.values
            }
    return results


def draw(path: str, toy: bool) -> None:
    """The imbalance of a tree's closure over its iterations, without refinement and with it."""
    from semi_naive.plots.figures import comparison
    from semi_naive.plots.style import save_figure

    records = [simulated("tree", lambda record: record)({"refine": refine}, toy) for refine in (False, True)]
    save_figure(comparison(records, only=["imbalance"])["imbalance"], path)


def told(value) -> str:
    """A value as the page has it.

    >>> told(8_000_000), told(None), told("work")
    ('8,000,000', 'None', 'work')
    """
    return f"{value:,}" if type(value) is int else str(value)


def table(results: dict):
    from rich.table import Table

    found = Table(title="What each field of Config changes")
    for name in ("field", "on", "value", "what it makes"):
        found.add_column(name)
    on = {effect.field: effect.what for effect in EFFECTS}
    for field, values in results["rows"].items():
        for number, (value, made) in enumerate(values.items()):
            found.add_row(*((field, on[field]) if not number else ("", "")), value, made)
    return found


assert set(NAMES) == {field.name for field in fields(Config)}

if __name__ == "__main__":
    sys.exit(main())
