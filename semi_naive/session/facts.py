"""The explicit facts of a session, from the program's text or inserted by users, and the changes that transactions request."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from semi_naive.io.relations import columns_table
from semi_naive.planning.strata import is_fact
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import (
    Change,
    block_minus,
    empty,
    grown,
    membership,
    selected_tuples,
    table_without,
    union_of_blocks,
)
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Rule
from semi_naive.running.run import ProgramRun

MAX_WAITING_TUPLES = 4096  # tuples of operations above which they are folded, to bound their memory


@dataclass
class PendingChange:
    """The net change that a transaction requests of one relation: the last operation on a tuple wins. explicit: the relation's
    explicit facts before the transaction. Operations wait in a list, as (True for inserts, columns), and folded into `inserted`
    and `deleted` many at a time: 100 ns a tuple.

    >>> pending = PendingChange(Table(1))
    >>> pending.add(insert=True, columns=np.array([[1, 2]])); pending.add(insert=False, columns=np.array([[2, 3]]))
    >>> change, ignored = pending.net()
    >>> change.born.column(0).tolist(), change.lost.size, ignored
    ([1], 0, 2)
    """

    explicit: Table
    inserted: Block = field(init=False)
    deleted: Block = field(init=False)
    waiting: list[tuple[bool, np.ndarray]] = field(default_factory=list)

    def __post_init__(self):
        self.arity, self.waiting_tuples = self.explicit.arity, 0
        self.inserted = self.deleted = empty(self.arity)

    def add(self, insert: bool, columns: np.ndarray) -> None:
        """Insert or delete tuples, given as columns (arity, n)."""
        self.waiting.append((insert, columns))
        self.waiting_tuples += columns.shape[1]
        if self.waiting_tuples > MAX_WAITING_TUPLES:
            self._fold()

    def clear(self) -> None:
        """Delete all facts, and forget the operations so far."""
        self.waiting, self.waiting_tuples, self.inserted = [], 0, empty(self.arity)
        self.deleted = union_of_blocks(self.explicit.blocks("all", tuple(range(self.arity))), self.arity)

    def replaced(self, columns: np.ndarray, key: tuple[int, ...]) -> Block:
        """Return the facts that an upsert of tuples, columns (arity, n), replaces: other facts with the same key as one of the
        tuples. key: the places of its columns."""
        self._fold()
        not_deleted = block_minus(same_key(self.explicit, columns, key), self.deleted)
        inserted = same_key(settled_table([self.inserted]), columns, key)
        return union_of_blocks([not_deleted, inserted], self.arity)

    def net(self) -> tuple[Change, int]:
        """Return the net change, and the number of operations that change nothing: such as deletes of absent facts."""
        self._fold()
        inserts_present = membership(self.inserted, self.explicit)
        deletes_present = membership(self.deleted, self.explicit)
        change = Change(selected_tuples(self.inserted, ~inserts_present), selected_tuples(self.deleted, deletes_present))
        return change, self.inserted.size + self.deleted.size - change.size

    def _fold(self) -> None:
        """Apply the waiting operations to `inserted` and `deleted`."""
        waiting, self.waiting, self.waiting_tuples = self.waiting, [], 0
        if not waiting:
            return
        columns = np.concatenate([columns for _, columns in waiting], axis=1)
        inserts = np.repeat([insert for insert, _ in waiting], [columns.shape[1] for _, columns in waiting])
        if inserts.any() and not inserts.all():  # otherwise the order of equal tuples does not matter
            last = last_occurrences(columns)
            columns, inserts = columns[:, last], inserts[last]
        born, lost = block_of(columns[:, inserts]), block_of(columns[:, ~inserts])
        self.inserted = union_of_blocks([block_minus(self.inserted, lost), born], self.arity)
        self.deleted = union_of_blocks([block_minus(self.deleted, born), lost], self.arity)


def columns_of(tuples: Block | Table) -> np.ndarray:
    """Return all tuples as columns (arity, n); those of a nullary relation have the shape (0, n)."""
    size = tuples.size if isinstance(tuples, Block) else tuples.count
    return np.array(tuples.columns(), np.int64).reshape(tuples.arity, size)


def settled_table(blocks: list[Block]) -> Table:
    """Return a settled table of the tuples of one or more blocks."""
    table = Table(blocks[0].arity)
    for block in blocks:
        table.insert_block(block)
    table.settle()
    return table


def block_of(columns: np.ndarray) -> Block:
    """Return a block of the tuples in columns (arity, n), which may be unsorted and have duplicates."""
    return Block.of(list(columns), columns.shape[1]) if columns.shape[1] else empty(len(columns))


def last_occurrences(columns: np.ndarray) -> np.ndarray:
    """Return booleans (n,): True at the last occurrence of each tuple in columns (arity, n).

    >>> last_occurrences(np.array([[7, 5, 7]])).tolist()
    [False, True, True]
    """
    size = columns.shape[1]
    order = np.lexsort((np.arange(size), *columns[::-1]))  # by the first column first, and by the position last
    rows = columns[:, order]
    ends = np.append((rows[:, 1:] != rows[:, :-1]).any(axis=0), True)[:size]  # of groups of equal rows; none if size is 0
    last = np.zeros(size, np.bool_)
    last[order[ends]] = True
    return last


def same_key(table: Table, columns: np.ndarray, key: tuple[int, ...]) -> Block:
    """Return the tuples of a settled table that have the same key as one of the tuples in columns (arity, n), without those
    tuples themselves. key: the places of its columns. Builds an index by the key."""
    keys = block_of(columns[list(key)])
    order = (*key, *(place for place in range(table.arity) if place not in key))
    own = tuple(order.index(place) for place in range(table.arity))  # restores the relation's own order
    matching = [with_prefixes(block, keys).reordered(own) for block in table.blocks("all", order)]
    return block_minus(union_of_blocks(matching, table.arity), block_of(columns))


def with_prefixes(block: Block, keys: Block) -> Block:
    """Return the tuples of a block whose first columns are equal to one of the keys. keys: a block of fewer columns."""
    lows, highs = block.ranges(keys.columns(), keys.size)
    rows = np.concatenate([np.empty(0, np.int64), *map(np.arange, lows, highs)]).astype(np.int64)
    return block.picked(rows)


@dataclass
class ExplicitFacts:
    """The explicit facts by relation, stored separately from derived tuples."""

    given: dict[str, Table] = field(default_factory=dict)  # facts inserted by users
    written: dict[str, Table] = field(default_factory=dict)  # facts in the program's text
    # For each relation, the facts in the text as columns (arity, n) and as the n rules.
    rules: dict[str, tuple[np.ndarray, list[Rule]]] = field(default_factory=dict)
    base: set[str] = field(default_factory=set)  # relations without rules, whose only tuples are their explicit facts

    def copy(self) -> "ExplicitFacts":
        return ExplicitFacts(dict(self.given), dict(self.written), dict(self.rules), set(self.base))

    def read_text(self, run: ProgramRun, rules: Iterable[Rule]) -> None:
        """Add the facts of a program's text. rules: the program's rules, of which facts are those without a body."""
        by_relation: dict[str, list[Rule]] = {}
        for rule in filter(is_fact, rules):
            by_relation.setdefault(rule.head.relation, []).append(rule)
        for name, facts in by_relation.items():
            columns = run.constant_columns(name, facts)
            self.rules[name] = columns, facts
            self.written[name] = columns_table(columns)

    def change(self, name: str, change: Change) -> None:
        """Insert and delete facts of users."""
        self.given[name] = grown(table_without(self.given[name], change.lost), change.born)
        self.given[name].settle()

    def forget(self, name: str) -> None:
        """Remove the facts of a relation that is dropped."""
        for facts in (self.given, self.written, self.rules):
            facts.pop(name, None)
        self.base.discard(name)

    def is_shared(self, name: str) -> bool:
        """True if a relation's table is the same object as the table of its facts of users, because it has no other tuples."""
        return name in self.base and name not in self.written

    def tables(self, name: str) -> Iterator[Table]:
        """Yield the tables with facts of a relation: those of users, those in the program's text, or none."""
        for facts in (self.given, self.written):
            if name in facts and facts[name].count:
                yield facts[name]

    def table(self, name: str, arity: int) -> Table:
        """Return all explicit facts of a relation as one table."""
        tables = list(self.tables(name))
        if len(tables) < 2:  # no copy is needed
            return tables[0] if tables else Table(arity)
        of_users, in_text = tables
        both = snapshot(of_users)
        for block in in_text.blocks("all", in_text.home):
            both.insert_block(block)
        both.settle()
        return both

    def first_written_fact(self, name: str, tuples: np.ndarray) -> Rule | None:
        """Return the first fact of the program's text that is one of the tuples, columns (arity, n); None if no fact is."""
        if name not in self.rules or not tuples.shape[1]:
            return None
        (columns, rules), wanted = self.rules[name], Block.of(list(tuples), tuples.shape[1])
        for number, rule in enumerate(rules):
            fact = Block.of([column[number : number + 1] for column in columns], 1)
            if not block_minus(fact, wanted).size:
                return rule
        return None
