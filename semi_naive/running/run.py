"""One run of a program: load the facts, evaluate stratum after stratum, each by the plan that fits it, hand back the result."""

import time
from dataclasses import dataclass, field, replace

import numpy as np

from ra.rules.ir import Autoinc, Const, Kind, Rule
from ra.rules.values import Values
from semi_naive.facts import Options, as_columns, read
from semi_naive.planning.indexes import Indexes
from semi_naive.planning.rewrite import walk
from semi_naive.planning.strata import rule_edges
from semi_naive.running.answers import Result
from semi_naive.running.cluster import Cluster
from semi_naive.running.database import Database
from semi_naive.running.distributed import Distributed
from semi_naive.running.local import Local, TooLarge
from semi_naive.running.profile import Profile
from semi_naive.running.shapes import closure_of

READ_HERE = 4  # times Config.local_tuples: what a stratum may read in the driver


@dataclass
class Run:
    """Everything one call of `Program.run` needs, once its arguments are known to be good."""

    asked: object  # the Program
    compiled: object
    config: object
    spark: object = None
    progress: object = None
    plans: list[dict] = field(default_factory=list)

    def __post_init__(self):
        self.program = self.compiled.program
        self.values = Values()
        self.database = Database(self.program, self.values)
        self.indexes = Indexes({name: relation.arity for name, relation in self.program.relations.items()})
        self.profile = Profile()
        self.cluster = Cluster(self.spark, self.config)
        self.read_by = self._readers()

    def run(self, facts, lenient: bool) -> Result:
        try:
            self._load(facts, lenient)
            for number, stratum in enumerate(self.compiled.strata):
                self._evaluate(number, stratum)
            return Result(self)
        except BaseException:
            self.cluster.release()
            raise

    # -- facts

    def _load(self, facts, lenient: bool) -> None:
        given = facts if isinstance(facts, dict) else {}
        folder = "." if facts is None or isinstance(facts, dict) else facts
        for name in given:
            if name not in self.asked.relations:
                known = ", ".join(sorted(self.asked.relations))
                raise ValueError(f"facts for {name!r}: the program has no such relation; it has {known}")
        for name, data in given.items():
            if name in self.program.relations:
                self._add(name, as_columns(data, self.program.relations[name], self.program.types, self.values))
        options = Options(missing_ok=lenient)
        for directive in self.program.directives:
            if directive.kind == "input" and directive.relation in self.program.relations and directive.relation not in given:
                relation = self.program.relations[directive.relation]
                self._add(relation.name, read(directive, relation, self.program.types, str(folder), self.values, options))
        self._load_constants()

    def _add(self, name: str, columns: np.ndarray) -> None:
        self.database.load(name, columns)

    def _load_constants(self) -> None:
        """Facts in the program's text, those of one relation together."""
        rows: dict[str, list[Rule]] = {}
        for stratum in self.compiled.strata:
            plain = [rule for rule in stratum.rules if is_fact(rule)]
            for rule in plain:
                rows.setdefault(rule.head.relation, []).append(rule)
        for name, facts in rows.items():
            kinds = self.program.relations[name].kinds
            columns = [self._column([rule.head.args[i].value for rule in facts], kind) for i, kind in enumerate(kinds)]
            self._add(name, np.array(columns, np.int64).reshape(len(kinds), len(facts)))

    def _column(self, constants: list, kind: Kind) -> np.ndarray:
        if kind == Kind.SYMBOL:
            return self.values.intern(constants)
        if kind == Kind.RECORD:
            return np.zeros(len(constants), np.int64)
        dtype = {Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}.get(kind, np.int64)
        return np.array(constants, dtype).view(np.int64)

    # -- strata

    def _readers(self) -> dict[str, set[int]]:
        """Of each relation, the strata whose rules read it."""
        readers: dict[str, set[int]] = {}
        for number, stratum in enumerate(self.compiled.strata):
            for rule in stratum.rules:
                for edge in rule_edges(rule):
                    readers.setdefault(edge.body, set()).add(number)
        return readers

    def _evaluate(self, number: int, stratum) -> None:
        """One stratum, by the first plan that takes it: closure, local, distributed."""
        rules = [rule for rule in stratum.rules if not is_fact(rule)]
        begun = time.perf_counter()
        if not rules:
            for name in stratum.relations:
                self.database.tables[name].settle()
            return
        plan, reason, trace = self._planned(number, stratum, rules)
        for name in stratum.relations:
            self.database.forget_sizes(name)
        tuples = sum(self.database.count(name) for name in stratum.relations)
        entry = {
            "number": number, "relations": list(stratum.relations), "plan": plan, "reason": reason, "tuples": tuples,
            "seconds": time.perf_counter() - begun, "recursive": stratum.recursive,
        }  # fmt: skip
        self.profile.strata.append(entry)
        self.plans.append(entry | ({"trace": trace} if trace else {}))

    def _planned(self, number: int, stratum, rules):
        closure = closure_of(stratum, rules, self.database, self.read_by.get(stratum.relations[0], set()) - {number})
        if closure and closure.large(self.database, self.config):
            trace = closure.run(self.database, self.cluster, self.config, self._telling(number, stratum))
            return trace["plan"], f"a transitive closure; {trace['reason']}", trace
        reason = self._too_large_to_read(rules)
        local = Local(
            replace(stratum, rules=rules), number, self.database, self.indexes, self.profile,
            self.config.local_tuples, self._telling(number, stratum),
        )  # fmt: skip
        if reason is None:
            try:
                local.run()
                return "local", f"it reads and makes fewer than {self.config.local_tuples:,} tuples: no job is worth it", None
            except TooLarge:
                reason = f"it made more than {self.config.local_tuples:,} tuples in iteration {local.iteration}"
                if closure:
                    trace = closure.run(self.database, self.cluster, self.config, self._telling(number, stratum))
                    return trace["plan"], f"a transitive closure; {trace['reason']}", trace
        distributed = Distributed(local, self.database, self.cluster, self.config)
        return "balanced", reason, distributed.run()

    def _too_large_to_read(self, rules) -> str | None:
        names = {edge.body for rule in rules for edge in rule_edges(rule)}
        if any(makes_numbers(rule) for rule in rules):
            self.database.collect(names)
            return None  # autoinc() counts in one place
        if any(name in self.database.spread for name in names):
            return "it reads a relation that is on the partitions"
        total = sum(self.database.count(name) for name in names)
        if self.config.local_tuples == 0 or total > READ_HERE * self.config.local_tuples:
            return f"it reads {total:,} tuples"
        return None

    def _telling(self, number: int, stratum):
        if self.progress is None:
            return None
        name = ", ".join(stratum.relations[:3]) + " …" * (len(stratum.relations) > 3)
        return lambda iteration, delta, tuples: self.progress(
            name, number + 1, len(self.compiled.strata), iteration, delta, tuples
        )


def is_fact(rule: Rule) -> bool:
    return not rule.body and all(isinstance(term, Const) for term in rule.head.args)


def makes_numbers(rule: Rule) -> bool:
    """Whether the rule counts with autoinc()."""
    return any(isinstance(node, Autoinc) for node in walk(rule))
