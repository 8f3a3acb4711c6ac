"""Tries that the processes of a host have in common: files that the first to need one writes, and all of them map."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from semi_naive.host.private import digest
from semi_naive.ra.multiway.tries.arrays import ArrayFile
from semi_naive.ra.multiway.tries.domain import NOTHING, Domain
from semi_naive.ra.multiway.tries.trie import TrieArray, TrieFile, Tries
from semi_naive.ra.storage.once import make_once


@dataclass
class SharedTries(Tries):
    """Those of a folder. What is added to the relations afterwards is this process's own."""

    folder: str = ""
    shared: frozenset[str] = frozenset()

    @classmethod
    def at(cls, folder: str, relations: Callable[[], Mapping]) -> "SharedTries":
        """`relations`: of the process that finds nothing there. For all others this costs a millisecond, and the pages that
        they touch."""
        path = _columns(folder)
        domain, arities, (names, *columns) = make_once(
            path, lambda: _write_tries(Tries.of(relations()), f"{path}.run"), _open_tries
        )
        arrays = iter(columns)
        found = {name: tuple(next(arrays) for _ in range(arity)) for name, arity in arities.items()}
        return cls(replace(domain, names=names), found, folder=folder, shared=frozenset(found))

    @staticmethod
    def there(folder: str) -> bool:
        return os.path.exists(_columns(folder))

    def trie(self, relation: str, order: tuple[int, ...], equal: tuple[tuple[int, int], ...] = ()) -> TrieArray:
        key = (relation, order, equal)
        if relation in self.shared and key not in self.kept:
            path, build = os.path.join(self.folder, digest(*key)), super().trie
            self.kept[key] = make_once(path, lambda: TrieFile.write(build(*key), f"{path}.trie"), TrieFile.open)
        return super().trie(*key)


def _columns(folder: str) -> str:
    return os.path.join(folder, "columns")


def _write_tries(tries: Tries, path: str) -> tuple[Domain, dict[str, int], ArrayFile]:
    """The domain but for its names, the columns of each relation, and a file of the names and all columns."""
    columns = [column for relation in tries.relations.values() for column in relation]
    file = ArrayFile.write([tries.domain.names, *columns], path)
    return replace(tries.domain, names=NOTHING), {name: len(found) for name, found in tries.relations.items()}, file


def _open_tries(written: tuple[Domain, dict[str, int], ArrayFile]) -> tuple[Domain, dict[str, int], list]:
    domain, arities, file = written
    return domain, arities, list(file.open())
