"""A sandbox restricts the files that a program may read and write: to those below a folder, or to none."""

import os
from collections.abc import Iterator


class Sandbox:
    """A folder that must contain all files, after resolving symbolic links. It guards against paths in the program, not against
    other processes that change links meanwhile.

    >>> Sandbox("/tmp").holds("/tmp/../etc/passwd"), Sandbox("/tmp").holds("/tmp/a/../b.facts")
    (False, True)
    """

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.advice = f"in a sandbox, all files must be below {self.folder}"
        if not os.path.isdir(self.folder):
            raise ValueError(f"the sandbox {os.fspath(folder)} is no folder: expected one that is there")

    def __fspath__(self) -> str:
        return self.folder

    def refusal(self, path: str) -> str:
        """Return the message for a path outside of the sandbox."""
        return f"{path} is outside of the sandbox"

    def holds(self, path: str) -> bool:
        """True if a path, and everything below it if it is a folder, is inside the sandbox. URIs are not."""
        if path == ":memory:":  # SQLite's name for a database without a file
            return True
        if "://" in path or path.startswith("file:") or "\0" in path:
            return False
        return all(map(self.below, _with_links(path)))

    def below(self, path: str) -> bool:
        """True if the path is inside the sandbox, symbolic links resolved."""
        return os.path.commonpath([self.folder, os.path.realpath(path)]) == self.folder


def _with_links(path: str) -> Iterator[str]:
    """Yield a path, and the symbolic links below it if it is a folder. A link to a folder is yielded as "/", which is outside
    of every sandbox, as that folder may contain more links."""
    yield path
    for folder, folders, files in os.walk(path):
        links = [os.path.join(folder, name) for name in (*folders, *files) if os.path.islink(os.path.join(folder, name))]
        yield from ("/" if os.path.isdir(link) else link for link in links)


class NoFiles(Sandbox):
    """A sandbox without files, for rules and queries that are registered with a running session, possibly over a network."""

    def __init__(self):
        self.advice = "write the content of the file here"

    def refusal(self, path: str) -> str:
        return "Registered rules and queries include no files"

    def below(self, path: str) -> bool:
        return False

    holds = below
