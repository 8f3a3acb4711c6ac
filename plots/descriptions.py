"""Descriptions of figures in words, shown next to the figure and to readers who cannot see it."""

import numpy as np

from semi_naive.host.numbers import about, number, seconds, series, size
from semi_naive.plots.run import RecordedRun

TITLES = {
    "heat": "Heat map: tuples in each subbucket over the iterations", "imbalance": "Line chart: imbalance over the iterations",
    "times": "Stacked areas: time of each iteration by phase", "tuples": "Line chart: tuples in new, delta and full",
    "bytes": "Stacked areas: bytes shuffled in each iteration",
    "duplicates": "Stacked areas: tuples made, and those dropped",
    "partitions": "Bar chart: tuples on each partition", "strata": "Bar chart: time of each stratum",
    "rules": "Bar chart: time of each rule", "balance": "Overview of the balance",
}  # fmt: skip


def title_of_figure(name: str, runs: list[RecordedRun]) -> str:
    """Return the kind and the subject of a figure; figures of the decomposed plan are by task."""
    if any(run.by_task for run in runs) and name in ("times", "partitions"):
        return f"Bar chart: {'time' if name == 'times' else 'tuples'} of each task"
    return TITLES.get(name, name)


def description(name: str, runs: list[RecordedRun]) -> list[str]:
    """Return the description of a figure: a sentence, or for several runs one each, with its label; [] if there is none."""
    describe = DESCRIBE.get(name)
    described = [(run.label, describe(run)) for run in runs if describe and len(run)]
    texts = [text if len(runs) == 1 else f"{label}: {text}" for label, text in described if text]
    return [f"{text[0].upper()}{text[1:]}." for text in texts]


def _heat(run: RecordedRun) -> str:
    """Describe the heat map: buckets, subbuckets, and the range of their sizes."""
    if not run.has_sizes:
        return _partitions(run)
    sizes = run.iterations[-1]["sizes"]
    subs = [count for bucket in sizes for count in bucket]
    split = f" in {about(len(subs), 'subbucket')}" if len(subs) > len(sizes) else ""
    many = f"from {number(min(subs))} to {number(max(subs))}"
    return f"{about(len(sizes), 'bucket')}{split} at the end, with {many} tuples in a subbucket"


def _imbalance(run: RecordedRun) -> str:
    """Describe the imbalance: the ratios at worst and at the end."""
    return "heaviest ÷ average: " + "; ".join(
        f"{run.place + 's' if level == 'partitions' else level} {np.nanmax(ratios):.2f} at worst, {ratios[-1]:.2f} at the end"
        for level in ("partitions", "buckets", "subbuckets")
        if not np.isnan(ratios := run.ratios(level)).all()
    )


def _times(run: RecordedRun) -> str:
    """Describe the times: in total, and of each phase."""
    if run.by_task:
        durations = [time for entry in run.iterations for phase in entry["phases"] for time in phase["seconds"]]
        slowest = seconds(max(durations, default=0))
        return f"{about(len(durations), 'task')} that took {seconds(sum(durations))} together, the slowest {slowest}"
    phases = {name: run.seconds(name).sum() for name in [*run.phases(()), "driver"]}
    total = f"{seconds(sum(phases.values()))} in all"
    slowest_first = sorted(phases, key=phases.__getitem__, reverse=True)
    parts = [f"{name} {seconds(phases[name])}" for name in slowest_first if phases[name] > 0]
    most = int(run.inner.max())
    inner = f"; up to {most} inner iterations" if most > 1 else ""
    return f"{total}, of the slowest {run.place} in each phase{': ' * bool(parts)}{', '.join(parts)}{inner}"


def _tuples(run: RecordedRun) -> str:
    """Describe the number of tuples at the end, and the iteration with the most births."""
    steps = run.steps
    busiest = int(np.argmax(steps["new"]))
    full, born = number(run.iterations[-1]["full"]), number(steps["new"][busiest])
    return f"full grows to {full} tuples; most are born in iteration {steps['iteration'][busiest]}: {born}"


def _bytes(run: RecordedRun) -> str:
    """Describe the bytes shuffled: in total, and by phase."""
    sent = {name: int(run.shuffled(name).sum()) for name in run.phases(()) if name != "insert"}
    parts = [f"{name} {size(count)}" for name, count in sent.items() if count]
    return f"{size(sum(sent.values()))} shuffled in all" + (f": {series(parts)}" if len(parts) > 1 else "")


def _duplicates(run: RecordedRun) -> str:
    born = run.iterations[-1]["full"]
    return f"{about(int(run.known.sum()), 'tuple')} dropped as known, beside {number(born)} kept"


def _partitions(run: RecordedRun) -> str:
    """Describe the number of partitions, and the tuples on them at the end."""
    loads = run.loads["at the end"]
    return (
        f"{about(len(loads), run.place)}, at the end with {number(min(loads))} to {number(max(loads))} tuples, "
        f"imbalance {run.imbalance:.2f}"
    )


DESCRIBE = {
    "heat": _heat, "imbalance": _imbalance, "times": _times, "tuples": _tuples, "bytes": _bytes, "duplicates": _duplicates,
    "partitions": _partitions,
}  # fmt: skip
