"""The paper's own numbers, each with its place; what is not here is not known to us, and a dash in the tables.

Figures and sections of *Load-balancing Parallel Relational Algebra* (Kumar, Gilray, ISC 2020).
"""

IMBALANCE = {("up", "T"): 204.8, ("down", "T"): 1.001}  # Fig. 8: heaviest ÷ average bucket, at IMBALANCE_HEIGHT
IMBALANCE_HEIGHT = 25
BOWTIE_PAIRS = 400_440_055  # Fig. 12: the closure of a bow tie of width 20,000 and length 10
MOST_RANKS = 32_768  # Fig. 13: the largest number of processes
OUTER_ITERATIONS = 20  # Fig. 11
REFINEMENT_RATIO = 3.0  # section 3.2: a bucket is refined beyond 3:1 …
REFINEMENT_FACTOR = 4  # … into four times as many subbuckets
CONSOLIDATION_FRACTION = 0.6  # section 3.2: more refined buckets than that, and the light ones are consolidated
ROLLOVER_THRESHOLD = 8_000_000  # tuples of a join, before it rolls over
