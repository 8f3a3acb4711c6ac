"""The paper's own numbers, each with its place; where it has none, the tables have a dash.

Figures and sections of *Load-balancing Parallel Relational Algebra* (Kumar, Gilray, ISC 2020), run on the Theta supercomputer.
"""

from typing import NamedTuple

IMBALANCE = {("up", "T"): 204.8, ("down", "T"): 1.001}  # section 4.1, beside Fig. 8: heaviest ÷ average bucket
IMBALANCE_HEIGHT = 25  # section 4.1: of these trees
TREE_PAIRS = {21: 39_845_890, 23: 176_160_770, 25: 771_751_938, 27: 3_355_443_202}  # section 4.1: by depth; ours: depth - 1
TREE_SECONDS = {27: (463, 209)}  # section 4.1: up, without and with balancing, on 512 cores; down trees do not gain
TREE_REFINEMENTS = 5  # section 4.1: of every up tree …
TREE_SUBBUCKETS = (512, 1088)  # … from so many subbuckets to so many
OUTER_ITERATIONS = 20  # Fig. 11: of Hardesty3 (40,451,631 edges) on 32,768 cores
ITERATIONS_SECONDS = 1256  # section 4.2: of these
ITERATIONS_PAIRS = 913_419_562_086  # section 4.2: after these
FIRST_ROLLED_OVER = 15  # section 4.2: every iteration after the 14th
INNER_ITERATIONS = {19: 11, 20: 16}  # section 4.2: of two outer ones
WITHOUT_ROLLOVER = 16  # section 4.2: the last iteration that was completed
BOWTIE_WIDTH = 10_000  # section 4.2, where the last iteration has 100 M edges; but its closure is that of width 20,000:
BOWTIE_PAIRS = 400_440_055  # section 4.2: the closure of a bow tie of width 20,000 and length 10
BOWTIE_INNER = {10_000: 20_020, 100_000: 3_343, 1_000_000: 402, 10_000_000: 49, 100_000_000: 13}  # section 4.2: by threshold
BOWTIE_BEST = (1_000_000, 516)  # section 4.2: threshold and seconds, on 256 cores
MOST_RANKS = 32_768  # section 4.2: the largest number of processes
TABLE_1_CHECKS = 10  # section 4.3: iterations between two looks at imbalance
CHECK_INTERVALS = (2, 10)  # section 3.2: iterations between two looks at imbalance, "only a small difference"
TEMPORAL_IMBALANCE = 5_000  # section 4.2: of the bow tie's last iteration
THRESHOLD_SECONDS = {100_000_000: 384, 10_000_000: 559, 1_000_000: 590}  # section 4.2: of sgpf5y6 on 8,192 cores
SCALING = {(512, 2048): 0.74, (2048, 8192): 0.60}  # section 4.3: efficiency of lhr34, which takes a seventh of the time
RIM_SPEEDUP = 5  # section 4.3: of rim, from 512 to 8,192 processes
REFINEMENT_RATIO = 3.0  # section 3.2: a bucket is refined beyond 3:1 …
REFINEMENT_FACTOR = 4  # … into four times as many subbuckets
CONSOLIDATION_FRACTION = 0.6  # section 3.2: more refined buckets than that, and the light ones are consolidated
ROLLOVER_THRESHOLD = 8_000_000  # sections 4.2 and 4.3: tuples of a join, before it rolls over


class TableRow(NamedTuple):
    """A row of Table 1: 8,192 processes, the threshold above, imbalance looked for at every tenth iteration."""

    name: str
    edges: int
    seconds: float
    balancing: str
    iterations: int
    pairs: int


TABLE_1 = [
    TableRow("lhr34", 764_014, 64.3391, "spatial", 30, 1_233_554_044),
    TableRow("nemeth13", 241_989, 28.8445, "spatial", 310, 45_186_771),
    TableRow("sgpf5y6", 831_976, 578.641, "spatial, temporal", 20, 76_382_533_943),
    TableRow("rim", 1_014_951, 46.7834, "spatial", 30, 508_931_041),
    TableRow("TSC OPF 300", 415_288, 2.11, "", 30, 1_876_367),
    TableRow("RMAT 1", 200_000, 68.8143, "spatial, temporal", 20, 2_502_341_599),
    TableRow("RMAT 2", 400_000, 220.993, "spatial, temporal", 20, 9_481_998_719),
]
