"""Looking up what is asked in the tables of BiGJoin-S (`spreading`), where they are."""

from dataclasses import dataclass

import numpy as np

from semi_naive.ra.multiway.partitions import dealing, wire
from semi_naive.ra.multiway.partitions.spreading import COUNT, MEMBER, RESOLVER
from semi_naive.ra.multiway.partitions.tasks import Here, Task
from semi_naive.ra.multiway.prefixes.indexes import Index
from semi_naive.ra.multiway.prefixes.intersecting import intersect
from semi_naive.ra.multiway.prefixes.lists import Lists


def counts_of(table: Index, keys: np.ndarray) -> np.ndarray:
    """The count of each key (columns, n), 0 where there is none."""
    groups = table.groups(keys)
    found = np.zeros(groups.size, np.int64)
    some = groups >= 0
    found[some] = table.values[table.begins[groups[some]]]
    return found


def resolved(table: Index, asked: np.ndarray) -> np.ndarray:
    """The values of pieces of blocks (key columns, first number, how many; n), one piece after the other."""
    *keys, first, sizes = asked
    begins = table.begins[table.groups(np.stack((*keys, first >> dealing.BLOCK)))] + (first & ((1 << dealing.BLOCK) - 1))
    return Lists(first, begins, begins + sizes, table.values).pairs()[1]


def members_of(table: Index, keys: np.ndarray, lists: Lists) -> Lists:
    """Those of the values of each list that the key (columns, n) of its row has."""
    return intersect(lists, table.groups(keys)[lists.rows], table.begins, table.values)


@dataclass
class Answer(Task):
    """Look up what is asked of the tables of one kind, those of the atoms of stage `asking`."""

    kind: str
    asking: int

    def work(self, here: Here, messages):
        answer = {COUNT: self._counts, RESOLVER: self._values, MEMBER: self._members}[self.kind]
        for message in messages:
            table = here.indexes[self.kind, here.setting.plan.stages[self.asking].atoms[message.name].index]
            yield message.source, answer(here, table, message)

    def _counts(self, here: Here, table, message):
        found = counts_of(table, wire.columns_of([message], len(message.columns)))
        here.got(found.size)
        return self._reply(here, message, found)

    def _values(self, here: Here, table, message):
        found = resolved(table, wire.columns_of([message], len(message.columns)))
        here.got(found.size)
        return self._reply(here, message, found)

    def _reply(self, here: Here, message, found):
        here.made(found.size)
        return wire.columns_message(self.number + 1, message.name, here.partition, found[None])

    def _members(self, here: Here, table, message):
        columns, lists = wire.lists_of([message], len(message.columns) - 2)
        here.got(lists.total)
        found = members_of(table, columns[1:], lists)
        here.made(found.total)
        return wire.lists_message(self.number + 1, message.name, here.partition, columns[:1], found)
