"""The process that Spark starts on each host to fork Python workers, for sessions of `ra.spark.spark_context`.

Spark puts its own sources as a zip at the front of the module path. No byte code is cached for it, and every worker would
import its modules again. Here the installed pyspark comes first. LLVM and the kernels of words and closures, as far as they are
compiled, are loaded once, before the first fork. Workers load other kernels themselves.
"""

import os
import sys

sys.path.sort(key=lambda path: path.endswith(".zip"))  # stable: the rest keeps its order
# Last (see PYTHONSAFEPATH in `ra.spark.spark_context`), for functors that a user imports from a file in this directory.
sys.path.append(os.getcwd())

import numpy  # noqa: E402, F401

import semi_naive.ra.closures.bitset_bfs  # noqa: E402, F401
from semi_naive.host import jit  # noqa: E402

if __name__ == "__main__":
    from pyspark.daemon import manager

    jit.load_kernels()
    manager()
