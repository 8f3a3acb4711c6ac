"""Packages that not everybody has: an error that says who needs them, and how they are installed."""

from importlib import import_module


class NotInstalled(ImportError):
    """A package is not installed; the message says which, what needs it, and how to install it."""


def import_optional(package: str, by: str, requirement: str | None = None):
    """The module of that name. requirement: what pip is asked for, where it is not the name alone."""
    try:
        return import_module(package)
    except ImportError:
        how = f"pip install {requirement or package}"
        raise NotInstalled(f"{by} needs the package {package}, which is not installed: {how}") from None
