"""The tuples and the times of the iterations of a stratum in the driver, from its `balance.course`."""

from functools import cached_property

import numpy as np

from semi_naive.host.numbers import about, number, quantity, seconds
from semi_naive.plots.style import DARK, SAND, YELLOW, iteration_axis, legend, log_ticks, number_ticks, titled


class StratumCourse:
    """The course of one stratum, as arrays of one value for each entry. An entry is one iteration, or several merged ones.

    iteration: the number of the last one; steps: how many there are; compiled: how many ran a tuple at a time; born: their new
    tuples; full: the tuples after them; seconds: their time.
    """

    def __init__(self, course: dict):
        """course: the record, with a list for each attribute."""
        self.iteration, self.steps, self.compiled, self.born, self.full = (
            np.array(course[key], np.int64) for key in ("iteration", "steps", "compiled", "born", "full")
        )
        self.seconds = np.array(course["seconds"], np.float64)

    def __len__(self) -> int:
        return self.steps.size

    @cached_property
    def iterations(self) -> int:
        return int(self.steps.sum())

    @cached_property
    def spans(self) -> np.ndarray:
        """The bounds of the entries on the axis of iterations, one more than there are entries."""
        return np.append(self.iteration - self.steps, self.iteration[-1]) + 0.5

    def sentence(self) -> str:
        """Return a sentence on the tuples made and the time taken."""
        busiest = int(np.argmax(self.born / self.steps))
        which, suffix = f"iteration {self.iteration[busiest]:,}", ""
        if self.steps[busiest] > 1:
            first = self.iteration[busiest] - self.steps[busiest] + 1
            which, suffix = f"iterations {first:,} to {self.iteration[busiest]:,}", " each"
        compiled = int(self.compiled.sum())
        how = f", {quantity(compiled, 'iteration')} of them a tuple at a time" if compiled else ""
        births = number(self.born[busiest] / self.steps[busiest])
        return (
            f"{quantity(self.iterations, 'iteration')} in the driver in {seconds(self.seconds.sum())}{how}; "
            f"{about(self.born.sum(), 'tuple')} born, most in {which}: {births}{suffix}"
        )


def stratum_courses(trace: dict) -> list[tuple[dict, StratumCourse]]:
    """Return (stratum, its course) for a program's strata that recurred in the driver, slowest first."""
    courses = [(stratum, StratumCourse(stratum["course"])) for stratum in trace.get("strata", []) if "course" in stratum]
    return sorted(courses, key=lambda pair: -pair[1].seconds.sum())


MAX_STEPS = 400  # more steps would be too narrow to see
LOGARITHMIC_TUPLE_RATIO = 1000  # ratio of tuples between iterations above which the axis is logarithmic
LOGARITHMIC_TIME_RATIO = 100  # ratio of the longest to the median iteration above which the axis is logarithmic


def births_panel(axes, course: StratumCourse) -> None:
    """Draw the tuples born in each iteration, and the total after it."""
    starts, steps = _steps_of_figure(course)
    values = np.add.reduceat(course.born, starts) / steps
    full = course.full[np.append(starts[1:], len(course)) - 1].astype(float)
    positive = values[values > 0]
    log = positive.size > 1 and full.max() > LOGARITHMIC_TUPLE_RATIO * positive.min()
    values, full = (np.where(each > 0, each, np.nan) if log else each for each in (values, full))
    edges = np.append(course.spans[starts], course.spans[-1])
    axes.stairs(full, edges, baseline=None, color=SAND, linewidth=3, label=f"all: {course.full[-1]:,} at the end")
    axes.stairs(values, edges, baseline=None, color=DARK, linewidth=1.2, label=f"new: {course.born.sum():,} in all")
    if log:
        axes.set_yscale("log")
        axes.set_ylim(0.7 * min(positive.min(), np.nanmin(full)), 1.5 * np.nanmax(full))
        log_ticks(axes.yaxis)
    else:
        axes.set_ylim(0, max(1, full.max()) * 1.05)
        number_ticks(axes.yaxis)
    axes.set_ylabel("tuples" + _means(course, starts))
    axes.grid(axis="y", linewidth=0.4, alpha=0.6)
    titled(axes, "Tuples of each iteration")
    iteration_axis(axes, course.spans)
    legend(axes)


def iteration_times(axes, course: StratumCourse) -> None:
    """Draw the time of each iteration, by evaluation: a tuple at a time, or a block at a time."""
    starts, steps = _steps_of_figure(course)
    edges, means = np.append(course.spans[starts], course.spans[-1]), np.add.reduceat(course.seconds, starts) / steps
    positive = means[means > 0]
    log = positive.size > 0 and positive.max() > LOGARITHMIC_TIME_RATIO * np.median(positive)
    base = np.full(len(starts), positive.min() / 2 if log else 0.0)
    by_tuple = course.seconds * course.compiled / course.steps  # merged iterations are taken to be equally long
    for label, values, style in (
        ("a tuple at a time", by_tuple, {"facecolor": YELLOW, "hatch": "----"}),
        ("a block at a time", course.seconds - by_tuple, {"facecolor": DARK}),
    ):
        if values.any():
            top = base + np.add.reduceat(values, starts) / steps  # a logarithmic axis begins at half of the shortest
            axes.stairs(top, edges, baseline=base, fill=True, label=f"{label}: {values.sum():.3f} s", linewidth=0.2, **style)
            base = top
    if log:
        axes.set_yscale("log")
        axes.set_ylim(positive.min() / 2, base.max() * 1.5)
        log_ticks(axes.yaxis, "s")
    else:
        axes.set_ylim(0, max(base.max() * 1.05, 1e-9))
        number_ticks(axes.yaxis, "s", whole=False)
    axes.set_ylabel("time of an iteration" + _means(course, starts))
    titled(axes, "Time of each iteration")
    iteration_axis(axes, course.spans)
    legend(axes)


def _steps_of_figure(course: StratumCourse) -> tuple[np.ndarray, np.ndarray]:
    """Return (the first entry, the number of iterations) of each step of a figure, which has at most MAX_STEPS."""
    starts = np.arange(0, len(course), -(-len(course) // MAX_STEPS))
    return starts, np.add.reduceat(course.steps, starts)


def _means(course: StratumCourse, starts: np.ndarray) -> str:
    """Return the note on an axis whose steps are several iterations, "" if each is one."""
    most = int(np.add.reduceat(course.steps, starts).max())
    return f" (means of up to {most:,})" if most > 1 else ""
