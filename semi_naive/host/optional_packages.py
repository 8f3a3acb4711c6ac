"""Import optional packages, with an error that says what needs them and how to install them."""

from importlib import import_module


class NotInstalled(ImportError):
    """A package is not installed. The message names it, what needs it, and how to install it."""


def import_optional(package: str, by: str, requirement: str | None = None):
    """Import an optional package, and return it. by: the function that needs it, for errors; requirement: its name for pip."""
    try:
        return import_module(package)
    except ImportError:
        how = f"pip install {requirement or package}"
        raise NotInstalled(f"{by} needs the package {package}, which is not installed: {how}") from None
