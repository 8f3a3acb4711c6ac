"""Generated kernels: compiled once for each source, kept in memory, and as machine code where all kernels are."""

import sys
from functools import cache
from types import ModuleType

from semi_naive.host.private import digest


@cache
def compile_kernel(source: str):
    """The function `kernel` of a source. 1 to 3 s the first time on a machine, a few milliseconds in later processes."""
    name = f"semi_naive.ra.multiway.kernel_{digest(source)}"
    module = sys.modules[name] = ModuleType(name)  # machine code that is read back asks for its module by name
    exec(compile(source, f"<{name}>", "exec"), vars(module))
    return module.kernel
