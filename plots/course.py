"""The iterations of a recursive stratum in the driver: a `balance.course` in the form that panels use."""

from functools import cached_property

import numpy as np

from semi_naive.host.numbers import about, number, quantity, seconds


class StratumCourse:
    """The course of one stratum, a value for each entry; an entry is one iteration, or several merged ones."""

    def __init__(self, found: dict, name: str = ""):
        self.name = name
        self.iteration, self.steps, self.compiled, self.born, self.full = (
            np.array(found[name], np.int64) for name in ("iteration", "steps", "compiled", "born", "full")
        )
        self.seconds = np.array(found["seconds"], np.float64)

    def __len__(self) -> int:
        return self.steps.size

    @cached_property
    def iterations(self) -> int:
        """The number of iterations."""
        return int(self.steps.sum())

    @cached_property
    def spans(self) -> np.ndarray:
        """The beginning and end of each entry on the axis of iterations."""
        return np.append(self.iteration - self.steps, self.iteration[-1]) + 0.5

    def told(self) -> str:
        """A sentence on the tuples made and the time taken."""
        most = int(np.argmax(self.born / self.steps))
        where, each = f"iteration {self.iteration[most]:,}", ""
        if self.steps[most] > 1:
            where, each = f"iterations {self.iteration[most] - self.steps[most] + 1:,} to {self.iteration[most]:,}", " each"
        compiled = int(self.compiled.sum())
        how = f", {quantity(compiled, 'iteration')} of them a tuple at a time" if compiled else ""
        return (
            f"{quantity(self.iterations, 'iteration')} in the driver in {seconds(self.seconds.sum())}{how}; "
            f"{about(self.born.sum(), 'tuple')} born, most in {where}: {number(self.born[most] / self.steps[most])}{each}"
        )


def stratum_courses(trace: dict) -> list[tuple[dict, StratumCourse]]:
    """The courses of a program's strata that recurred in the driver, longest first."""
    found = [(stratum, StratumCourse(stratum["course"])) for stratum in trace.get("strata", []) if "course" in stratum]
    return sorted(found, key=lambda one: -one[1].seconds.sum())
