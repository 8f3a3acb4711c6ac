"""Find the strata that a change of a relation concerns, by the constants of the atoms that read it.

If there are ten thousand rules such as `near(y) :- edge(7, y)`, a new edge concerns those with its first value. They are found
by a search for this value, and no other rule is examined.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from semi_naive.planning.rewrite import walk
from semi_naive.planning.strata import Stratum
from semi_naive.ra.expressions.terms import bits_of_constant
from semi_naive.ra.ir import Atom, Const
from semi_naive.ra.values.values import Values
from semi_naive.session.maintenance.implied import CountedClosure
from semi_naive.session.maintenance.spread import AnyChange, SpreadChange


class Dependents:
    """An index of the strata of a session by the relations that they read. Strata are given by their numbers."""

    def __init__(self, strata: Sequence[Stratum], values: Values):
        """strata: each has its place as its number; values: number the symbols of constants."""
        self.values = values
        self.readers: dict[str, set[int]] = defaultdict(set)  # all strata that read a relation
        self.homes: dict[str, int] = {}  # the stratum that derives a relation
        self._strata: dict[int, Stratum] = {}
        self._pending: dict[int, Stratum] = {}  # strata that are not in `_always` and `_by_value` yet
        for number, stratum in enumerate(strata):
            self.add(number, stratum)
        self.forget_values()

    def add(self, number: int, stratum: Stratum) -> None:
        """Add a stratum. Its constants are indexed when they are needed."""
        self._strata[number] = self._pending[number] = stratum
        self.homes.update(dict.fromkeys(stratum.relations, number))
        for name in stratum.reads:
            self.readers[name].add(number)

    def remove(self, number: int, stratum: Stratum) -> None:
        """Remove a stratum."""
        for name in stratum.relations:
            del self.homes[name]
        if self._pending.pop(number, None) is None:  # it has been indexed by its constants
            for concerned in self._index_entries(stratum):
                concerned.discard(number)
        for name in self._strata.pop(number).reads:
            self.readers[name].discard(number)

    def forget_values(self) -> None:
        """Drop the index by values, which contains ids of symbols; `concerned` builds it again. Ids change when a transaction
        fails that has numbered new symbols, and when a directory is read."""
        self._pending = dict(self._strata)
        self._always: dict[str, set[int]] = defaultdict(set)  # strata that any change of a relation concerns
        # The strata that read tuples with a constant, by relation, place of the constant, and value.
        self._by_value: dict[str, dict[int, dict[int, set[int]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))

    def _index_entries(self, stratum: Stratum) -> Iterator[set[int]]:
        """Yield the sets of `_always` and `_by_value` to which a stratum belongs: for each relation that it reads, those of the
        first constants of the atoms, or that in `_always` if an atom has no constant."""
        constants: dict[str, list[tuple[int, Const] | None]] = defaultdict(list)
        for rule in stratum.rules:
            for atom in (node for node in walk(rule.body) if isinstance(node, Atom)):
                first = next(((place, arg) for place, arg in enumerate(atom.args) if isinstance(arg, Const)), None)
                constants[atom.relation].append(first)
        for name in stratum.reads:
            firsts = constants[name]
            if not firsts or None in firsts:
                yield self._always[name]
                continue
            for place, constant in filter(None, firsts):
                yield self._by_value[name][place][int(bits_of_constant(constant, self.values))]

    def concerned(self, name: str, change: AnyChange) -> set[int]:
        """Return the strata that a change of a relation, of one tuple or more, may concern: all readers if the changed tuples
        are not in this process, otherwise those whose constants occur in a changed tuple. Only the first constant of an atom
        is looked at: a superset is right, as a stratum that no tuple changes is maintained without effect."""
        if isinstance(change, SpreadChange | CountedClosure):
            return self.readers.get(name, set())
        while self._pending:
            number, stratum = self._pending.popitem()
            for strata in self._index_entries(stratum):
                strata.add(number)
        concerned = set(self._always.get(name, ()))
        for place, by_value in self._by_value.get(name, {}).items():
            changed = np.concatenate([block.column(place) for block in (change.born, change.lost) if block.size])
            for value in by_value.keys() & set(changed.tolist()):
                concerned |= by_value[value]
        return concerned
