"""What every figure is measured with: its size, the graphs that were given, and one Spark session for all."""

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.paper.datasets import chosen

SIZES = ("toy", "quick", "full")


@dataclass
class Evaluation:
    """size: one of `SIZES`. data: a folder of graphs, or None. cores: of the session; None: all."""

    size: str = "quick"
    data: Path | None = None
    cores: int | None = None
    quiet: bool = False
    figure: str = ""  # the one that is being measured

    def __post_init__(self):
        if self.size not in SIZES:
            raise ValueError(f"size is {self.size!r}: expected one of {', '.join(SIZES)}")
        if self.data is not None and not Path(self.data).is_dir():
            raise ValueError(f"{self.data} is not a folder: expected one with edge lists, such as p2p-gnutella09.tsv.gz")
        self.graphs = chosen(self.data, self.size)

    @cached_property
    def spark(self):
        """The session, started when first asked for, and warm: kernels are compiled, and Python workers are there."""
        from semi_naive import transitive_closure
        from semi_naive.graphs import grid
        from semi_naive.ra.spark.spark_context import start

        self.say("starting Spark")
        session = start(cores=self.cores)
        busy = {"run_ahead": 0, "rollover_threshold": 1000, "refinement_minimum": 16, "partitions": 8}
        edges = grid(self.pick({"toy": 3, "quick": 20, "full": 30}))  # some dozen iterations, until the JVM is fast too
        for plan, settings in (("balanced", busy), ("balanced", {}), ("decomposed", {})):
            with transitive_closure(edges, session, plan=plan, **settings) as warm:
                warm.count()
        return session

    def pick(self, sizes: dict):
        """What a figure has for this size.

        >>> Evaluation("full").pick({"toy": 1, "quick": 2, "full": 3})
        3
        """
        return sizes[self.size]

    def say(self, text: str) -> None:
        """A line of progress, on stderr."""
        if not self.quiet:
            print(f"{self.figure or 'paper'}: {text}", file=sys.stderr, flush=True)
