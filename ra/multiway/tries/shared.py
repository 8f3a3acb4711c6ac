"""Tries shared by the processes of a host: the first process that needs one writes it to a file, the others wait, and all map
it.
"""

import contextlib
import logging
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from semi_naive.host import private
from semi_naive.host.exclusive import exclusive
from semi_naive.host.private import digest
from semi_naive.ra.multiway.tries.arrays import ArrayFile
from semi_naive.ra.multiway.tries.domain import NOTHING, Domain
from semi_naive.ra.multiway.tries.paged import StoredTrie
from semi_naive.ra.multiway.tries.trie import TrieArray, Tries
from semi_naive.ra.storage.missing import RunMissing
from semi_naive.ra.storage.runs import Store

log = logging.getLogger("semi_naive")

Opened = TypeVar("Opened")


def make_once(path: str, make: Callable[[], Any], open_value: Callable[[Any], Opened] = lambda value: value) -> Opened:
    """Return open_value(value) for a value that one process of the host makes for all: the first calls `make` and pickles its
    result to a file, and the others load it.

    The value is small, such as handles of files that `make` has written and `open_value` opens. If the pickle is damaged, or
    `open_value` raises RunMissing for one of the files, the value is made again. The file's content is trusted, so the
    directory must be private.
    """
    try:
        return open_value(_load_or_make(path, make))
    except RunMissing as missing:
        log.info("made again: %s", missing)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return open_value(_load_or_make(path, make))


def _load_or_make(path: str, make: Callable[[], Any]):
    """Load the pickled value; if there is none, make it under a lock of the host's processes."""
    data = private.load(path)
    if data is None:
        private.folder(os.path.dirname(path))
        with exclusive(f"{path}.lock"):
            data = private.load(path)  # the process that had the lock may have made it
            if data is None:
                data = pickle.dumps(make())
                private.save_checked(path, data)
    return pickle.loads(data)


@dataclass
class SharedTries(Tries):
    """The tries of a folder, shared by the processes of a host. Relations that are added later belong to this process only."""

    folder: str = ""
    shared: frozenset[str] = frozenset()

    @classmethod
    def open(cls, folder: str, relations: Callable[[], Mapping]) -> "SharedTries":
        """Open the tries of a folder, or write them. relations: a function that returns {name: columns}, called only by the
        process that writes. Opening maps the files: it takes 1 ms, and pages are read at their first use."""
        path = _description_path(folder)
        domain, arities, (names, *columns) = make_once(
            path, lambda: _write_tries(Tries.of(relations()), f"{path}.run"), _open_tries
        )
        arrays = iter(columns)
        relations_by_name = {name: tuple(next(arrays) for _ in range(arity)) for name, arity in arities.items()}
        return cls(replace(domain, names=names), relations_by_name, folder=folder, shared=frozenset(relations_by_name))

    @staticmethod
    def exist(folder: str) -> bool:
        """True if a folder has shared tries."""
        return os.path.exists(_description_path(folder))

    def trie(self, relation: str, order: tuple[int, ...], equal: tuple[tuple[int, int], ...] = ()) -> TrieArray:
        """Return a trie; for a relation of the folder, one shared by the host's processes."""
        key = (relation, order, equal)
        if relation in self.shared and key not in self.built:
            path, build = os.path.join(self.folder, digest(*key)), super().trie
            self.built[key] = make_once(path, lambda: ArrayFile.write(build(*key).arrays(), f"{path}.trie"), TrieArray.mapped)
        return super().trie(*key)

    def stored(self, key: tuple, store: Store, name: str, sc=None) -> StoredTrie:
        """Write a trie to a file; that of a relation of the folder is written there, once for all processes of the host."""
        if key[0] not in self.shared:
            return super().stored(key, store, name, sc)
        write = partial(super().stored, key, Store(self.folder), name)
        return make_once(os.path.join(self.folder, f"{digest(*key)}.paged"), write, _opened)


def _opened(stored: StoredTrie) -> StoredTrie:
    """Return a trie whose file is here and undamaged. Raises RunMissing."""
    stored.open()
    return stored


def _description_path(folder: str) -> str:
    """Return the path of the file that describes a folder's relations."""
    return os.path.join(folder, "columns")


def _write_tries(tries: Tries, path: str) -> tuple[Domain, dict[str, int], ArrayFile]:
    """Write the domain's values and the columns of all relations to a file. Return (domain without values, arities, file)."""
    columns = [column for relation in tries.relations.values() for column in relation]
    file = ArrayFile.write([tries.domain.names, *columns], path)
    return (
        replace(tries.domain, names=NOTHING),
        {name: len(columns_of_relation) for name, columns_of_relation in tries.relations.items()},
        file,
    )


def _open_tries(written: tuple[Domain, dict[str, int], ArrayFile]) -> tuple[Domain, dict[str, int], list]:
    """Return (domain, arities, arrays) from the result of `_write_tries`."""
    domain, arities, file = written
    return domain, arities, list(file.open())
