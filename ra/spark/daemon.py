"""The process that Spark starts on each host to fork Python workers, for sessions of `ra.spark.spark_context`.

Spark puts its own sources as a zip in front of the path, where no byte code is kept, and every worker would import numba
and the kernels anew. Here the installed pyspark comes first, and numba and the kernels of words and of closures are loaded
once, before the first fork, as far as they have been compiled. All others are left to the workers that need them, which load
them side by side: here everybody would wait for them, one after the other.
"""

import os
import sys

sys.path.sort(key=lambda path: path.endswith(".zip"))  # stable: the rest keeps its order
sys.path.append(
    os.getcwd()
)  # last (see PYTHONSAFEPATH in `ra.spark.spark_context`): for functors that a user imports from a file there

import numpy  # noqa: E402, F401

import semi_naive.ra.closures.bitset_bfs  # noqa: E402, F401
from semi_naive.host import jit  # noqa: E402

if __name__ == "__main__":
    from pyspark.daemon import manager

    jit.load_kernels()
    manager()
