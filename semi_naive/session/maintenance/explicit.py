"""The explicit facts of a session: facts that users insert, and facts in the program's text."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from semi_naive.planning.strata import is_fact
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import Change, apart, grown, table_without
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Rule
from semi_naive.running.run import ProgramRun


@dataclass
class ExplicitFacts:
    """Explicit facts by relation, kept apart from derived tuples."""

    given: dict[str, Table] = field(default_factory=dict)  # inserted by users
    written: dict[str, Table] = field(default_factory=dict)  # in the program's text
    rules: dict[str, tuple[np.ndarray, list[Rule]]] = field(default_factory=dict)  # those in the text, as columns and rules
    base: set[str] = field(default_factory=set)  # relations without rules, which have their explicit facts only

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
        """The first fact of the program's text that is among some tuples, columns (arity, n); None if there is none."""
        if name not in self.rules or not tuples.shape[1]:
            return None
        (columns, rules), block = self.rules[name], Block.of(list(tuples), tuples.shape[1])
        for number, rule in enumerate(rules):
            one = Block.of([column[number : number + 1] for column in columns], 1)
            if not apart(one, block).size:
                return rule
        return None
