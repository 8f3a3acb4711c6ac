"""Compile all kernels of the engine in advance: `python -m semi_naive.ra.compiling FOLDER` writes their machine code to a
folder.

`setup.py` puts the folder into a wheel. Takes 65 s of processor time, on all cores, if this user's cache is empty.
"""

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import semi_naive.ra
from semi_naive.host import jit
from semi_naive.host.threads import cpus

MAX_PROCESSES = 8  # each takes 150 MB and 2 s to start
NOT_IMPORTED = "semi_naive.ra.spark.daemon"  # it changes the module path of the process, and has no kernels


def compile_into(folder: str) -> None:
    """Compile all kernels into a folder, whose other contents are removed. Raises CalledProcessError."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    shares = min(cpus(), MAX_PROCESSES)
    command = [sys.executable, "-m", "semi_naive.ra.compiling", folder]
    processes = [subprocess.Popen([*command, str(share), str(shares)]) for share in range(shares)]
    for process in processes:  # all end before an error is raised, so none writes to the folder afterwards
        process.wait()
    for process in processes:
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)


def compile_share(folder: str, share: int, shares: int) -> None:
    """Compile every `shares`-th kernel from number `share` on, unless this user's cache has it, and copy its machine code into
    the folder."""
    from semi_naive.host import native

    for module in walk_packages(semi_naive.ra.__path__, "semi_naive.ra."):
        if module.name != NOT_IMPORTED:
            import_module(module.name)
    for kernel in jit.defined_kernels()[share::shares]:
        if not native.is_cached(kernel):
            kernel.compiled()
        for path in native.files(kernel):
            shutil.copyfile(path, Path(folder, path.name))


if __name__ == "__main__":
    if len(sys.argv) == 2:
        compile_into(sys.argv[1])
    else:
        compile_share(sys.argv[1], *map(int, sys.argv[2:]))
