"""The explicit facts of a session: those that somebody has given, and those that the program's text has."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from semi_naive.io import Options, source_of_directive
from semi_naive.io.errors import BadInput
from semi_naive.io.files import is_uri
from semi_naive.planning.strata import is_fact
from semi_naive.ra.blocks.block import Block
from semi_naive.ra.blocks.changes import apart, settled_copy
from semi_naive.ra.blocks.table import Table, snapshot
from semi_naive.ra.ir import Rule
from semi_naive.ra.reduce.choice import Choice
from semi_naive.running.relations.cluster import Cluster
from semi_naive.running.run import ProgramRun

PAIR = 2  # columns that are packed in the same way whatever they hold


@dataclass
class Facts:
    """Explicit facts by relation: those given to the session (`given`), and those in the program's text (`written`)."""

    given: dict[str, Table] = field(default_factory=dict)
    written: dict[str, Table] = field(default_factory=dict)

    def columns(self, name: str) -> Iterable[list[np.ndarray]]:
        for tables in (self.given, self.written):
            if name in tables and tables[name].count:
                yield tables[name].columns()


class Explicit(ProgramRun):
    """A run that keeps explicit facts apart from what rules derive. `database.tables` are settled plain tables of whatever sort
    a relation is: a lattice's or an equivalence's own table is there while its stratum is computed."""

    def __post_init__(self):
        super().__post_init__()
        self.facts = Facts()
        self.lines: dict[str, tuple[np.ndarray, list[Rule]]] = {}  # facts in the program's text, and the rules that they are

    @property
    def tables(self) -> dict[str, Table]:
        return cast(dict[str, Table], self.database.tables)

    @tables.setter
    def tables(self, tables: dict[str, Table]) -> None:
        self.database.tables = cast(dict, tables)

    def _load(self, given, changeable: set[str]) -> None:
        self.tables = {name: Table(each.arity) for name, each in self.program.relations.items()}
        if given is None or isinstance(given, dict):
            self.load(given or {}, True, set(given or {}))
        else:
            if not is_uri(folder := os.fspath(given)) and not os.path.isdir(folder):
                raise BadInput(f"fact directory {folder} does not exist", hint="facts is a folder, or {relation: data}")
            self.load(folder, True)
        self.database.collect(set(self.database.on_partitions))
        self._end_job()
        for name in changeable:
            self.facts.given[name] = settled_copy(snapshot(self.tables[name]))
        self._read_text(self.program.rules)

    def _named(self, wanted, folder: str, lenient: bool):
        """The sources that the program names; a missing file is an empty relation, and nobody has to be told."""
        options = Options(missing_ok=True, warn=lambda text: None, sandbox=self.asked.sandbox)
        for directive in self.program.directives:
            if directive.kind == "input" and directive.relation in wanted:
                relation = self.program.relations[directive.relation]
                yield relation.name, source_of_directive(directive, relation, self.program.types, folder, options)

    def load_constants(self, wanted=None) -> None:
        """Facts in the program's text are kept apart: see `_read_text`."""

    def _read_text(self, all_rules: list[Rule]) -> None:
        rows: dict[str, list[Rule]] = {}
        for rule in all_rules:
            if is_fact(rule):
                rows.setdefault(rule.head.relation, []).append(rule)
        for name, rules in rows.items():
            kinds = self.program.relations[name].kinds
            columns = [self._column([rule.head.args[i] for rule in rules], kind) for i, kind in enumerate(kinds)]
            self.lines[name] = np.array(columns, np.int64).reshape(len(kinds), len(rules)), rules
            self.facts.written[name] = Table(len(kinds))
            self.facts.written[name].insert(list(self.lines[name][0]), len(rules))
            self.facts.written[name].settle()

    def written_at(self, name: str, tuples: np.ndarray) -> Rule | None:
        """A fact of the program's text among some tuples of a relation, as columns (arity, n), if there is one."""
        if name not in self.lines or not tuples.shape[1]:
            return None
        (columns, rules), block = self.lines[name], Block.of(list(tuples), tuples.shape[1])
        for number, rule in enumerate(rules):
            one = Block.of([column[number : number + 1] for column in columns], 1)
            if one.size > apart(one, block).size:
                return rule
        return None

    def explicit(self, name: str) -> Table:
        """The explicit facts of a relation, those that the program's text has too."""
        tables = [facts[name] for facts in (self.facts.given, self.facts.written) if name in facts and facts[name].count]
        if len(tables) < 2:
            return tables[0] if tables else Table(self.program.relations[name].arity)
        both = snapshot(tables[0])
        for block in tables[1].blocks("all", tables[1].home):
            both.insert_block(block)
        both.settle()
        return both

    def _restart(self, name: str) -> None:
        """A relation has its facts, and they are new. Where it has a choice, the first of those in the program's text stay.
        Many columns in one word are packed as they were, to be compared as words."""
        self.database.on_partitions.pop(name, None)
        known = self.tables[name].packing if name in self.tables else None
        table = self.database.tables[name] = self.database.empty_table(name)
        if known and known.lanes == 1 and table.arity > PAIR and table.reduction is None:
            table.packing = known
        for facts in (self.facts.given, self.facts.written):
            if name not in facts or not facts[name].count:
                continue
            if isinstance(table.reduction, Choice) and facts is self.facts.written:
                columns, rules = self.lines[name]
                table.reduction.choose(table, list(columns), len(rules))
            else:
                table.insert(facts[name].columns(), facts[name].count)

    def _end_job(self) -> None:
        """What Spark has of this session is gone, as the tuples are in this process now."""
        if self.cluster.started:
            self.cluster.release()
            self.cluster = self.loading.cluster = Cluster(self.cluster.spark, self.config)
