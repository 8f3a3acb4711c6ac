"""Build wheels with the machine code of the kernels for the processor that builds them; setup.cfg has all other settings.

So the first run on a machine compiles nothing. Compiling takes 65 s of processor time, on all cores. With NUMBA_DISABLE_JIT=1
the wheel has no machine code, and the first runs compile the kernels, as they do if the processor, Python, numpy or numba
differs.
"""

import os
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

COMPILE = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


class WithKernels(build_py):
    def run(self):
        if not self.editable_mode:  # modules of an earlier build that are gone would go into the wheel
            shutil.rmtree(os.path.join(self.build_lib, "semi_naive"), ignore_errors=True)
        super().run()
        if COMPILE and not self.editable_mode:
            command = [sys.executable, "-m", "semi_naive.ra.compiling", os.path.join("semi_naive", "kernels")]
            done = subprocess.run(command, cwd=self.build_lib)
            if done.returncode:
                self.warn("the wheel has no machine code: kernels will be compiled when they are first run")


setup(cmdclass={"build_py": WithKernels}, setup_requires=["numba >=0.61", "numpy >=2.0"] if COMPILE else [])
