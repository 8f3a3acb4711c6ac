"""Simulate a closure or a program on many ranks: `simulate(edges, ranks)`, `simulate(program, ranks, facts)`.

The method is described in `balance.simulate` for closures, and in `simulated_ranks` for programs.
"""

from typing import TYPE_CHECKING, Any

from semi_naive.balance.machine import Machine
from semi_naive.config import Config
from semi_naive.host.numbers import quantity
from semi_naive.tuples import Evaluated

if TYPE_CHECKING:
    import numpy as np


class Simulated(dict, Evaluated):
    """The record of a simulated run, a dictionary as described in `balance.trace`. It has no tuples."""

    @property
    def trace(self) -> dict:
        return self

    def explain(self) -> str:
        """Return a summary of the run as text."""
        from semi_naive.plots.pages.summary import summary

        return "".join(f"{name}: {value}\n" for name, value in summary(self).items())

    def _repr_html_(self) -> str:
        from semi_naive.notebooks.html import run_shown

        return run_shown(repr(self)[1:-1], self)

    def __repr__(self) -> str:
        strata, iterations = self.get("strata"), self["result"].get("iterations", 0)
        steps = quantity(iterations, "iteration") if strata is None else quantity(len(strata), "stratum", "strata")
        return f"<Simulated: {quantity(self['result']['tuples'], 'tuple')}, {steps}, {self['seconds']:.2f} s>"


def simulate(
    source: Any, ranks: int, config: Config | None = None, machine: Machine | None = None, facts: Any = None, **options: Any
) -> Simulated:
    """Simulate `source` by the balanced plan on `ranks` ranks. Return the record, with lists by rank, and seconds priced by
    `machine`.

    source: a `Program`: the record is like `Result.trace`, and every rank's tasks are run in this process, some milliseconds a
        rank, phase and iteration. Or edges of any kind that `transitive_closure` reads into this process: the record is like
        `Closure.trace`, and the tuples of each rank are only counted: some 20 ns a head, 16 bytes a pair and 24 a pair of the
        largest iteration. Raises ValueError for the rule path-path, whose two relations grow.
    facts: of a program, as for `Program.run`.
    """
    from semi_naive.program import Program

    if isinstance(source, Program):
        from semi_naive.simulated_ranks import simulate_program

        return Simulated(simulate_program(source, facts, ranks, config, machine, **options))
    return Simulated(Replayable.of(source, (config or Config()).with_options(options)).simulate(ranks, machine=machine))


class Replayable:
    """The births of a closure by iteration, which do not depend on the number of ranks: computed once for many simulations.

    births: the pairs of each iteration, a word each; edges: a word each; domain: the number of vertices, which are numbered
    from 0. A word is the first vertex above the bits of the second.
    """

    def __init__(self, births: "list[np.ndarray]", edges: "np.ndarray", domain: int, config: Config):
        self.births, self.edges, self.domain, self.config = births, edges, domain, config

    @classmethod
    def of(cls, source, config: Config) -> "Replayable":
        """Evaluate a closure. source: the edges."""
        import numpy as np

        from semi_naive.io.edges import as_edges
        from semi_naive.ra.closures.births_by_iteration import births
        from semi_naive.ra.closures.graph import adjacency, intern, relabel

        if config.rule == "path-path":
            raise ValueError("only rules that carry a column are simulated, path-edge and edge-path: path-path carries none")
        graph = relabel(intern(as_edges(source).pairs))
        graph = graph.reversed() if config.rule == "edge-path" else graph  # it is path-edge along reversed edges
        shift = np.uint64(max(1, (graph.domain - 1).bit_length()))
        born_by_iteration = births(*adjacency(graph), int(shift), config.max_iterations or graph.domain + 1)
        return cls(born_by_iteration, graph.sources << shift | graph.targets, graph.domain, config)

    def simulate(self, ranks: int, config: Config | None = None, machine: Machine | None = None, **options) -> dict:
        from semi_naive.balance.simulate import Simulation

        if not isinstance(ranks, int) or ranks < 1:
            raise ValueError(f"ranks is {ranks!r}: expected a whole number from 1")
        config = (config or self.config).with_options(options)
        return Simulation(self.births, self.edges, self.domain, ranks, config, machine or Machine()).run()
