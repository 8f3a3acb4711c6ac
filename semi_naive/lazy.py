"""Names of a package that are loaded when they are first used: importing the package must not cost what the kernels do."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package. modules: of each name that the package shows, the module that defines it."""

    def found(name: str):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return found
