"""The files that a program may name: those below a folder, or none."""

import os
from collections.abc import Iterator


class Sandbox:
    """Holds the files below a folder, as they are once symbolic links are followed. It guards against what a program says, not
    against other processes that change links meanwhile.

    >>> Sandbox("/tmp").holds("/tmp/../etc/passwd"), Sandbox("/tmp").holds("/tmp/a/../b.facts")
    (False, True)
    """

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.advice = f"in a sandbox, what a program names stays below {self.folder}"
        if not os.path.isdir(self.folder):
            raise ValueError(f"the sandbox {os.fspath(folder)} is no folder: expected one that is there")

    def __fspath__(self) -> str:
        return self.folder

    def refusal(self, path: str) -> str:
        """The message for a path that is outside."""
        return f"{path} is outside of the sandbox"

    def holds(self, path: str) -> bool:
        """Whether a path is below the folder; of a folder, whether everything in it is. No URI is."""
        if path == ":memory:":
            return True
        if "://" in path or path.startswith("file:") or "\0" in path:
            return False
        return all(map(self.below, _with_links(path)))

    def below(self, path: str) -> bool:
        """True if the path is inside the sandbox, symbolic links resolved."""
        return os.path.commonpath([self.folder, os.path.realpath(path)]) == self.folder


def _with_links(path: str) -> Iterator[str]:
    """A path, and the links in it if it is a folder, where they must not lead to other folders: these may hold links again."""
    yield path
    for folder, folders, files in os.walk(path):
        links = [os.path.join(folder, name) for name in (*folders, *files) if os.path.islink(os.path.join(folder, name))]
        yield from ("/" if os.path.isdir(link) else link for link in links)


class NoFiles(Sandbox):
    """A sandbox without files, for rules and queries that a session gets while it runs, perhaps over a network."""

    def __init__(self):
        self.advice = "write here what the file says"

    def refusal(self, path: str) -> str:
        return "Registered rules and queries include no files"

    def below(self, path: str) -> bool:
        return False

    holds = below
