"""What the samples amount to: medians, ratios, the target beside each, and whether it is met."""

import statistics
from dataclasses import dataclass, replace

ENGINES = {
    "decomposed": "decomposed", "balanced": "balanced", "duckdb": "DuckDB", "written": "to parquet",
    "duckdb_written": "DuckDB to parquet", "dataframes": "DataFrame loop",
}  # fmt: skip
RATIOS = {  # (slower, faster): the targets by graph
    ("duckdb", "decomposed"): {"gnp": 8, "rmat": 15, "grid": 20, "gnutella": 5},
    ("duckdb", "balanced"): {"rmat": 1.5, "gnp": 1},
    ("duckdb_written", "written"): {"gnutella": 4},
    ("dataframes", "decomposed"): {"tree": 50},
}


@dataclass
class Measure:
    """A figure and the target it is held to. `bound`: a peer was stopped, the ratio is at least this."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False
    bound: bool = False

    @property
    def met(self) -> bool | None:
        """None: there is no target, or a lower bound does not reach it.

        >>> Measure("ratio", 9, "×", 8, at_least=True).met, Measure("ratio", 7, "×", 8, at_least=True, bound=True).met
        (True, None)
        """
        if self.limit is None:
            return None
        holds = self.value >= self.limit if self.at_least else self.value <= self.limit
        return None if self.bound and not holds else holds

    def text(self) -> str:
        return f"{'≥ ' if self.bound else ''}{_short(self.value)}{self.unit}"

    def target(self) -> str:
        """
        >>> Measure("ratio", 7, "×", 8, at_least=True).target()
        '≥ 8×: NOT met'
        """
        if self.limit is None:
            return ""
        verdict = {True: "met", False: "NOT met", None: "unknown"}[self.met]
        return f"{'≥' if self.at_least else '≤'} {_short(self.limit)}{self.unit}: {verdict}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def seconds_of(samples: list[dict]) -> tuple[float, float, float, bool] | None:
    """Median, least, most; and whether a run was stopped."""
    if not samples:
        return None
    seconds = [sample["seconds"] for sample in samples]
    stopped = any(sample["pairs"] is None for sample in samples)
    return statistics.median(seconds), min(seconds), max(seconds), stopped


def in_seconds(times: tuple | None, digits: int = 2, between: str = " ") -> str:
    """A cell of what `seconds_of` found.

    >>> in_seconds((2.0, 1.5, 3.0, False)), in_seconds((600.0, 600.0, 600.0, True)), in_seconds(None)
    ('2.00 (1.50–3.00)', '> 600', '–')
    """
    if not times:
        return "–"
    median, least, most, stopped = times
    return f"> {median:,.0f}" if stopped else f"{median:.{digits}f}{between}({least:.{digits}f}–{most:.{digits}f})"


def measures(results: dict) -> list[Measure]:
    """All figures with their targets; of toy graphs without."""
    found = [*ratios(results["rows"]), *others(results["rows"], results["extras"])]
    return [replace(measure, limit=None) for measure in found] if results["toy"] else found


def ratios(rows: dict) -> list[Measure]:
    """One for each graph and each pair of engines that ran on it, named "graph: slower ÷ faster"."""
    found = []
    for name, row in rows.items():
        for (slower, faster), targets in RATIOS.items():
            over, under = seconds_of(row["samples"].get(slower, [])), seconds_of(row["samples"].get(faster, []))
            if over and under:
                what = f"{name}: {ENGINES[slower]} ÷ {ENGINES[faster]}"
                found.append(Measure(what, over[0] / under[0], "×", targets.get(name), at_least=True, bound=over[3]))
    return found


def others(rows: dict, extras: dict) -> list[Measure]:
    """The figures that are not a ratio of two engines."""
    found = []
    for name, row in rows.items():
        if samples := row["samples"].get("balanced"):
            bytes_each = samples[-1]["facts"]["disk_bytes_per_tuple"]
            found.append(Measure(f"{name}: bytes a tuple on disk, balanced", bytes_each, " B", 9))
    for plan, peaks in extras.get("memory", {}).items():
        found.append(Measure(f"rmat: peak memory of Python, {plan}", peaks["python"] / 1e9, " GB", 3))
        found.append(Measure(f"rmat: … without mapped files, {plan}", peaks["python_anonymous"] / 1e9, " GB"))
        found.append(Measure(f"rmat: … of the JVM, {plan}", peaks["jvm"] / 1e9, " GB"))
    if chain := extras.get("chain"):
        found.append(Measure("chain: an iteration, run_ahead=0", chain["iteration"] * 1e3, " ms", 100))
        for plan in ("decomposed", "balanced"):
            if whole := seconds_of(rows["chain"]["samples"].get(plan, [])):
                found.append(Measure(f"chain: whole, {plan}", whole[0], " s", 10))
    if tree := extras.get("balancing"):
        found.append(Measure("tree up: imbalance, refine on", tree["on"]["imbalance"], "", 1.5))
        found.append(Measure("tree up: imbalance, refine off", tree["off"]["imbalance"], ""))
        found.append(Measure("tree up: seconds, refine on", tree["on"]["seconds"], " s", tree["off"]["seconds"]))
    for name, seconds in extras.get("importing", {}).items():
        found.append(Measure(name.replace("_", " "), seconds, " s", 0.3))
    if "seconds" in extras.get("five_edges", {}):
        found.append(Measure("five edges, command line", extras["five_edges"]["seconds"], " s", 8))
    return found


def tables(results: dict):
    """Two rich tables: the engines side by side, and the other figures."""
    from rich.table import Table

    found = {measure.name: measure for measure in measures(results)}
    side = Table(title="Transitive closure, seconds: median (least–most)")
    for column in ("graph", "pairs", *ENGINES.values(), *(f"{ENGINES[a]} ÷ {ENGINES[b]}" for a, b in RATIOS)):
        side.add_column(column, justify="left" if column == "graph" else "right")
    for name, row in results["rows"].items():
        times = [in_seconds(seconds_of(row["samples"].get(engine, [])), between="\n") for engine in ENGINES]
        these = [found.pop(f"{name}: {ENGINES[a]} ÷ {ENGINES[b]}", None) for a, b in RATIOS]
        side.add_row(name, f"{row['pairs']:,}", *times, *(m and f"{m.text()}\n{m.target()}" or "–" for m in these))
    rest = Table("measure", "value", "target", title="Besides")
    for m in found.values():
        rest.add_row(m.name, m.text(), m.target())
    return side, rest
