"""Cyclic joins by our plans, by tools that do nothing else, and by DuckDB, in turn, in one process.

    python -m bench.multiway [--rows triangle,4-clique,…] [--repeat 3] [--timeout 100] [--toy] [--out FILE]

Counts are compared; loading, orienting by degree and indexing are done before the clock runs, for everyone (of the star,
the chain and the hubs, which are Datalog programs, nothing is). Prints medians, ratios, targets; writes every sample as JSON.
"""

import contextlib
import ctypes
import gc
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.util import find_spec

import numpy as np

from bench import joins
from bench.closure import WrongCount, compare
from bench.command import command, parser_of, say, surroundings
from bench.inputs import Row
from bench.peers import Sample
from bench.report import Measure, in_seconds, seconds_of
from semi_naive import graphs

PACKAGES = {"duckdb": "duckdb", "graphblas": "graphblas", "networkit": "networkit"}
ENGINES = {
    "ours": joins.searched, "mgt": joins.massive, "graphblas": joins.graphblas, "networkit": joins.networkit,
    "duckdb": joins.duckdb, "leapfrog": joins.plain_leapfrog, "boxed 100%": joins.boxed(100), "boxed 25%": joins.boxed(25),
    "boxed 10%": joins.boxed(10), "bigjoin": joins.bigjoin,
}  # fmt: skip
ANY = ("mgt", "graphblas", "networkit")  # the fastest of those that are installed


@dataclass(frozen=True)
class Contest:
    """Who is measured on what, and the ratios asked for: (slower, faster) -> (limit, whether it is the least)."""

    make: Callable
    engines: tuple[str, ...] | dict
    ratios: dict = field(default_factory=dict)


@cache
def rmat(scale: int, toy: bool) -> np.ndarray:
    """16 edges a vertex are drawn."""
    scale = 7 if toy else scale
    return graphs.rmat(scale, 16 << scale)


def _search(pattern: str, scale: int) -> Callable:
    return lambda toy: joins.PatternSearch(rmat(scale, toy), pattern)


def _against_duckdb(pattern: str) -> Contest:
    return Contest(_search(pattern, 14), ("ours", "duckdb"), {("duckdb", "ours"): (10, True)})


STAR = """
.decl sale(item: number, shop: number, day: number, price: number)
.decl item(item: number, kind: number)
.decl shop(shop: number, town: number)
.decl day(day: number, month: number)
.decl sold(kind: number, town: number, month: number, price: number)
.input sale, item, shop, day
.output sold
sold(k, t, m, p) :- sale(i, s, d, p), item(i, k), shop(s, t), day(d, m), k < 5.
"""
CHAIN = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.decl c(x: number, y: number)
.decl d(x: number, y: number)
.decl ends(x: number, y: number)
.input a, b, c, d
.output ends
ends(v, z) :- a(v, w), b(w, x), c(x, y), d(y, z).
"""
HUBS = """
.decl a(w: number, x: number)
.decl b(x: number, y: number)
.decl c(y: number, z: number)
.decl path(w: number, x: number, y: number, z: number)
.input a, b, c
.output path
path(w, x, y, z) :- a(w, x), b(x, y), c(y, z).
"""


def star(toy: bool) -> dict:
    """Half a million sales of 10,000 items, in 1,000 shops, on 2,000 days."""
    rng, size = np.random.default_rng(5), 2_000 if toy else 500_000
    keys = (10_000, 1_000, 2_000)
    sale = np.column_stack([*(rng.integers(0, most, size) for most in keys), np.arange(size)])
    dimensions = {
        name: np.column_stack([np.arange(most), rng.integers(0, kinds, most)])
        for name, most, kinds in zip(("item", "shop", "day"), keys, (100, 50, 24), strict=True)
    }
    return {"sale": sale, **dimensions}


def chain(toy: bool) -> dict:
    rng, size = np.random.default_rng(6), 500 if toy else 200_000
    return {name: rng.integers(0, size, (size, 2)) for name in "abcd"}


def hubs(toy: bool) -> dict:
    """200,000 pairs in each, and two hubs that 5,000 pairs of a, or of c, and as many of b meet in, but never all three."""
    rng, size, spokes = np.random.default_rng(7), 1_000 if toy else 200_000, 50 if toy else 5_000
    a, b, c = (rng.integers(1, size, (size, 2)) for _ in "abc")
    ends, hub = np.arange(spokes), np.zeros(spokes, np.int64)
    nowhere = size + ends
    return {
        "a": np.vstack([a, np.column_stack([ends, hub])]),
        "b": np.vstack([b, np.column_stack([hub, nowhere]), np.column_stack([nowhere, hub])]),
        "c": np.vstack([c, np.column_stack([hub, ends])]),
    }


def program(text: str, output: str, multiway: str) -> Callable:
    """The Datalog engine, with its joins chosen (auto), binary (never) or leapfrog (always). Reading the facts is in it."""

    def engine(facts: dict, spark, timeout: float) -> Sample:
        from semi_naive import Program

        def work():
            with Program(text).run(facts, spark, multiway=multiway) as result:
                return result[output].count()

        settle()
        return joins.timed(work)

    return engine


def settle() -> None:
    """Give back what those before have used: otherwise who follows whom decides who has memory at hand, a tenth of the time."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # of the GNU C library
        ctypes.CDLL(None).malloc_trim(0)


def _plans(text: str, output: str) -> dict:
    modes = {"planner": "auto", "binary": "never", "multiway": "always"}
    return {name: program(text, output, mode) for name, mode in modes.items()}


PLANNER = {("planner", ("binary", "multiway")): (1.2, False)}
CONTESTS = {
    "triangle": Contest(
        _search("triangle", 18),
        ("ours", "mgt", "graphblas", "networkit", "duckdb"),
        {(ANY, "ours"): (1, True), ("duckdb", "ours"): (20, True)},
    ),
    **{name: _against_duckdb(name) for name in ("4-clique", "diamond", "house", "5-clique")},
    "boxed": Contest(
        _search("triangle", 18),
        ("leapfrog", "boxed 100%", "boxed 25%", "boxed 10%"),
        {("boxed 100%", "leapfrog"): None, ("boxed 25%", "leapfrog"): (1.3, False), ("boxed 10%", "leapfrog"): (2, False)},
    ),
    "bigjoin": Contest(
        _search("triangle", 16),
        ("bigjoin", "duckdb"),
        {("duckdb", "bigjoin"): (2, True)},
    ),
    "star": Contest(star, _plans(STAR, "sold"), PLANNER),
    "chain": Contest(chain, _plans(CHAIN, "ends"), PLANNER),
    "hubs": Contest(hubs, _plans(HUBS, "path"), PLANNER),
}


def main(arguments=None) -> int:
    return command("bench.multiway", parsed(arguments), run, tables, (WrongCount, ValueError))


def parsed(arguments):
    return parser_of("bench.multiway", __doc__, CONTESTS, timeout=100).parse_args(arguments)


def run(options) -> dict:
    """Everything, as one dictionary: versions, machine, rows with their samples, measures."""
    from semi_naive.ra.spark import spark_context

    for name in (wanted := options.rows.split(",")):
        if name not in CONTESTS:
            raise ValueError(f"there is no row {name!r}: expected some of {', '.join(CONTESTS)}")
    spark = spark_context.start()
    results = {**surroundings(spark, options), "rows": {}}
    for name in wanted:
        results["rows"][name] = contest(name, spark, options)
    found = [replace(m, limit=None) if options.toy else m for m in measures(results["rows"])]
    results["measures"] = [{**asdict(measure), "met": measure.met} for measure in found]
    return results


def contest(name: str, spark, options) -> dict:
    """Engines are warmed up on the toy graph, those that are peers; ours load what they need in the first call."""
    asked = CONTESTS[name].engines
    engines = asked if isinstance(asked, dict) else {engine: ENGINES[engine] for engine in asked if installed(engine)}
    _compare(name, engines, True, spark, 1, options.timeout)
    return _compare(name, engines, options.toy, spark, options.repeat, options.timeout)


def _compare(name: str, engines: dict, toy: bool, spark, repeat: int, timeout: float) -> dict:
    data = CONTESTS[name].make(toy)
    try:
        return compare(Row(name, data, None), engines, spark, repeat, timeout)
    finally:
        if isinstance(data, joins.PatternSearch):
            data.close()


def installed(engine: str) -> bool:
    package = PACKAGES.get(engine)
    if package and find_spec(package) is None:
        say(f"{engine} is left out: the package is not installed (pip install .[bench])")
        return False
    return True


def measures(rows: dict) -> list[Measure]:
    """The ratios of each row, and what boxes and BiGJoin say of themselves."""
    found = []
    for name, row in rows.items():
        times = {engine: seconds_of(samples) for engine, samples in row["samples"].items()}
        for pair, target in CONTESTS[name].ratios.items():
            if measure := ratio(name, pair, target, times):
                found.append(measure)
        for engine, samples in row["samples"].items():
            found += _facts(f"{name}: {engine}", samples[-1].get("facts", {}))
    return found


def ratio(name: str, pair: tuple, target: tuple | None, times: dict) -> Measure | None:
    """Of the medians; of several engines the fastest counts. None where one did not run."""
    slower, faster = (_fastest(side, times) for side in pair)
    if slower is None or faster is None:
        return None
    limit, at_least = target or (None, False)
    (over, _, _, stopped), (under, *_) = times[slower], times[faster]
    return Measure(f"{name}: {slower} ÷ {faster}", over / under, "×", limit, at_least, bound=stopped)


def _fastest(side: str | tuple, times: dict) -> str | None:
    sides = (side,) if isinstance(side, str) else side
    return min((engine for engine in sides if times.get(engine)), key=lambda engine: times[engine][0], default=None)


def _facts(name: str, facts: dict) -> list[Measure]:
    found = []
    if "of_budget" in facts:
        found.append(Measure(f"{name}: most in memory, of the budget; {facts['boxes']} boxes", facts["of_budget"], "", 1.1))
    if "peak" in facts:
        found.append(Measure(f"{name}: most in flight, of the bound", facts["peak"] / facts["bound"], "", 1))
    return found


def tables(results: dict):
    """The engines of each row, and the measures."""
    from rich.table import Table

    times = Table("row", "answer", "engine", "seconds", title="Joins: median (least–most)")
    for name, row in results["rows"].items():
        for place, (engine, samples) in enumerate(row["samples"].items()):
            answer = ("", "") if place else (name, f"{row['pairs']:,}")
            times.add_row(*answer, engine, in_seconds(seconds_of(samples), digits=3))
    rest = Table("measure", "value", "target", title="Ratios and bounds")
    for kept in results["measures"]:
        measure = Measure(**{name: value for name, value in kept.items() if name != "met"})
        rest.add_row(measure.name, measure.text(), measure.target())
    return times, rest


if __name__ == "__main__":
    sys.exit(main())
