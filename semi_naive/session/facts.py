"""The explicit facts of a session, from the program's text or inserted by users, and the changes that transactions request."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

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

MOST_WAITING = 4096  # tuples of operations above which they are made net, to bound their memory


@dataclass
class PendingChange:
    """The net change that a transaction requests of one relation: the last operation on a tuple wins. explicit: the relation's
    explicit facts before.

    Operations wait as (True for inserts, columns), and many are made net at a time: 100 ns a tuple.

    >>> asked = PendingChange(Table(1))
    >>> asked.add(True, np.array([[1, 2]])); asked.add(False, np.array([[2, 3]]))
    >>> change, ignored = asked.net()
    >>> change.born.column(0).tolist(), change.lost.size, ignored
    ([1], 0, 2)
    """

    explicit: Table
    inserted: Block = field(init=False)
    deleted: Block = field(init=False)
    waiting: list[tuple[bool, np.ndarray]] = field(default_factory=list)

    def __post_init__(self):
        self.arity, self.waited = self.explicit.arity, 0
        self.inserted = self.deleted = empty(self.arity)

    def add(self, insert: bool, columns: np.ndarray) -> None:
        """Insert or delete tuples, given as columns (arity, n)."""
        self.waiting.append((insert, columns))
        self.waited += columns.shape[1]
        if self.waited > MOST_WAITING:
            self._fold()

    def clear(self) -> None:
        """Delete all facts."""
        self.waiting, self.waited, self.inserted = [], 0, empty(self.arity)
        self.deleted = union_of_blocks(self.explicit.blocks("all", tuple(range(self.arity))), self.arity)

    def replaced(self, columns: np.ndarray, key: tuple[int, ...]) -> Block:
        """The facts that an upsert of columns replaces: they agree with one of them in the key, and are none of them."""
        self._fold()
        mine = Table(self.arity)
        mine.insert_block(self.inserted)
        mine.settle()
        kept = block_minus(agreeing(self.explicit, columns, key), self.deleted)
        return union_of_blocks([kept, agreeing(mine, columns, key)], self.arity)

    def net(self) -> tuple[Change, int]:
        """The change, and the number of net operations that change nothing."""
        self._fold()
        known = membership(self.inserted, self.explicit)
        there = membership(self.deleted, self.explicit)
        change = Change(selected_tuples(self.inserted, ~known), selected_tuples(self.deleted, there))
        return change, self.inserted.size + self.deleted.size - change.size

    def _fold(self) -> None:
        """Add the waiting operations to the blocks `inserted` and `deleted`."""
        if not self.waiting:
            return
        waiting = [each for each in self.waiting if each[1].shape[1]]
        self.waiting, self.waited, born, lost = [], 0, empty(self.arity), empty(self.arity)
        if len({insert for insert, _ in waiting}) == 2:
            columns = np.concatenate([columns for _, columns in waiting], axis=1)
            inserts = np.concatenate([np.full(columns.shape[1], insert) for insert, columns in waiting])
            last = last_of(columns)
            born, lost = (block_of(columns[:, last & inserts]), block_of(columns[:, last & ~inserts]))
        elif waiting:  # all insert, or all delete: of equal tuples any one will do
            one = block_of(np.concatenate([columns for _, columns in waiting], axis=1))
            born, lost = (one, lost) if waiting[0][0] else (born, one)
        self.inserted = union_of_blocks([block_minus(self.inserted, lost), born], self.arity)
        self.deleted = union_of_blocks([block_minus(self.deleted, born), lost], self.arity)


def columns_of(tuples: Block | Table) -> np.ndarray:
    """All tuples as columns (arity, n); also of a nullary relation."""
    size = tuples.size if isinstance(tuples, Block) else tuples.count
    return np.array(tuples.columns(), np.int64).reshape(tuples.arity, size)


def block_of(columns: np.ndarray) -> Block:
    return Block.of(list(columns), columns.shape[1]) if columns.shape[1] else empty(len(columns))


def last_of(columns: np.ndarray) -> np.ndarray:
    """Return booleans (n,): True at the last occurrence of each tuple in columns (arity, n).

    >>> last_of(np.array([[7, 5, 7]])).tolist()
    [False, True, True]
    """
    size = columns.shape[1]
    order = np.lexsort((np.arange(size), *columns[::-1]))
    rows = columns[:, order]
    ends = np.append((rows[:, 1:] != rows[:, :-1]).any(axis=0), True)[:size]
    last = np.zeros(size, np.bool_)
    last[order[ends]] = True
    return last


def agreeing(table: Table, columns: np.ndarray, key: tuple[int, ...]) -> Block:
    """Return the tuples of a settled table that agree with one of columns (arity, n) in the columns of a key, without those
    tuples themselves. Builds an index by the key."""
    wanted = block_of(columns[list(key)])
    order = (*key, *(i for i in range(table.arity) if i not in key))
    back = tuple(order.index(i) for i in range(table.arity))
    found = [with_prefixes(block, wanted).reordered(back) for block in table.blocks("all", order)]
    return block_minus(union_of_blocks(found, table.arity), block_of(columns))


def with_prefixes(block: Block, keys: Block) -> Block:
    """The tuples of a block that begin with one of some keys."""
    lows, highs = block.ranges(keys.columns(), keys.size)
    rows = np.concatenate([np.empty(0, np.int64), *map(np.arange, lows, highs)]).astype(np.int64)
    return Block(block.packing, np.ascontiguousarray(block.words[:, rows]))


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
        """Add the facts among the rules of a program."""
        facts: dict[str, list[Rule]] = {}
        for rule in filter(is_fact, rules):
            facts.setdefault(rule.head.relation, []).append(rule)
        for name, some in facts.items():
            columns = run.constant_columns(name, some)
            self.rules[name] = columns, some
            self.written[name] = Table(len(columns))
            self.written[name].insert(list(columns), len(some))
            self.written[name].settle()

    def change(self, name: str, change: Change) -> None:
        """Insert and delete facts of users."""
        self.given[name] = grown(table_without(self.given[name], change.lost), change.born)
        self.given[name].settle()

    def forget(self, name: str) -> None:
        """Discard a relation."""
        for facts in (self.given, self.written, self.rules):
            facts.pop(name, None)
        self.base.discard(name)

    def is_shared(self, name: str) -> bool:
        """True if the table of a relation is that of its given facts."""
        return name in self.base and name not in self.written

    def tables(self, name: str) -> Iterator[Table]:
        """The tables with facts of a relation, up to two."""
        for facts in (self.given, self.written):
            if name in facts and facts[name].count:
                yield facts[name]

    def table(self, name: str, arity: int) -> Table:
        """All explicit facts of a relation as one table."""
        first, *others = [*self.tables(name)] or [Table(arity)]
        if not others:
            return first
        both = snapshot(first)
        for block in others[0].blocks("all", others[0].home):
            both.insert_block(block)
        both.settle()
        return both

    def rule_of(self, name: str, tuples: np.ndarray) -> Rule | None:
        """Return the first fact of the program's text that is among the columns (arity, n) of some tuples; None if there is
        none."""
        if name not in self.rules or not tuples.shape[1]:
            return None
        (columns, rules), block = self.rules[name], Block.of(list(tuples), tuples.shape[1])
        for number, rule in enumerate(rules):
            one = Block.of([column[number : number + 1] for column in columns], 1)
            if not block_minus(one, block).size:
                return rule
        return None
