"""Lazy imports of a package's names, so that importing the package does not load the kernels."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`. modules: the defining module of each exported name."""

    def found(name: str):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return found
