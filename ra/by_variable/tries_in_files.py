"""The tries of a cyclic core in files, joined box by box: for rules whose tries would take more memory than they may.

The tuples of the relations stay where they are; here are only the tries, one for each column order that the core reads.
"""

import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from semi_naive.ra.multiway.query import ConjunctiveQuery
from semi_naive.ra.multiway.tries.paged import StoredTrie
from semi_naive.ra.multiway.tries.shape import Shape, TrieKey
from semi_naive.ra.multiway.tries.trie import Tries
from semi_naive.ra.storage.runs import Store


@dataclass(eq=False)
class TriesInFiles:
    """Tries of the relations of a core, which are written to files when they are first needed, and removed with this object.

    budget: the bytes of slices of tries that may be in memory.
    always: the tries are in files whatever their size, as a rule asks by `.join boxed`.
    folder: the folder for the files, None for the system's temporary one.
    """

    budget: int
    always: bool
    folder: str | None
    written: dict[TrieKey, StoredTrie] = field(default_factory=dict)

    @cached_property
    def store(self) -> Store:
        store = Store.create(self.folder)
        weakref.finalize(self, store.remove).atexit = False  # at exit `host.leftovers` removes it, in this process only
        return store

    def hold(self, tries: Tries, shape: Shape) -> bool:
        """True if a query is joined over files: its tries are expected to exceed the budget, or a rule asks for it."""
        from semi_naive.ra.multiway.boxing import expected_bytes

        return self.always or sum(expected_bytes(tries, key) for key in shape.tries) > self.budget

    def cost_of_copies(self, query: ConjunctiveQuery, tries: Tries) -> Callable[[tuple[str, ...]], float]:
        """Return the function that estimates what copying slices costs in a variable order."""
        from semi_naive.ra.multiway.boxing import cost_of_copies

        return partial(cost_of_copies, query, tries, self.budget)

    @contextmanager
    def shelf(self, tries: Tries, shape: Shape, changing: str) -> Iterator:
        """Return the files of the tries of a query as a `Shelf`. changing: the relation whose tries are written anew each time,
        and removed afterwards."""
        from semi_naive.ra.multiway.boxing import Shelf

        files = {}
        try:
            for key in shape.tries:
                if key.relation == changing:
                    files[key] = tries.stored(key, self.store, uuid.uuid4().hex)
                elif key not in self.written:
                    self.written[key] = tries.stored(key, self.store, uuid.uuid4().hex)
            yield Shelf(
                shape.query, shape.order, tries.domain, {key: files.get(key) or self.written[key] for key in shape.tries}
            )
        finally:
            for file in files.values():
                file.arrays.file.remove()
