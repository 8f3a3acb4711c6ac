"""The rules that maintain a stratum when the relations below it, or its explicit facts, change.

For each relation `p` of a stratum and each `q` below it, `q-` and `q+` are the tuples that q has lost and gained, `p=` the
explicit facts of p, `p:` its suspects (overdeleted tuples).

1. suspected: `p:(x) :- body with q- or p: in place of one q or p, !p=(x).` For a negated or aggregated q see `flips`.
2. guarded: a suspect stays if an instance of a rule over what remains has only older tuples of the stratum.
3. rederived: `p(x) :- p:(x), body.` with all relations as they are now.
4. gained: `p(x) :- body with q+ in place of one q.` The recursion of the stratum continues from there.
5. counted: counts and sums of aggregates change by the bindings that their bodies gain and lose.

Gupta, Mumick, Subrahmanian 1993, *Maintaining views incrementally*; Motik et al. 2019, *Maintenance of Datalog materialisations
revisited*."""

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace

from semi_naive.planning.maintaining.counted import counting
from semi_naive.planning.maintaining.flips import flips
from semi_naive.planning.maintaining.gained import delta_rules
from semi_naive.planning.maintaining.guarded import proof
from semi_naive.planning.maintaining.names import Kinds, column_variables, gained, lost
from semi_naive.planning.maintaining.rederived import has_single_instances, rederiving, restored
from semi_naive.planning.maintaining.suspected import suspected, suspecting
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.ir import Atom, Rule

StartingRules = list[tuple[str, Rule]]  # rules, each with the relation of changed tuples that it begins with


@dataclass
class Maintained:
    """The rules that maintain one stratum. with_facts: its relations that may have explicit facts; best: its relations that
    keep the best value of each key; kinds: the kinds of each relation's columns."""

    stratum: Stratum
    with_facts: set[str]
    best: Set[str] = frozenset()
    kinds: Kinds = field(default_factory=dict)

    def __post_init__(self):
        """Derive the delta rules of the stratum. below: the relations that it reads from other strata; flips: of its negations
        and aggregates; insertions, overdeletions: the rules that derive heads gained, and suspects, from changed tuples."""
        rules = self.stratum.rules
        self.below = names_read(rules) - set(self.stratum.relations)
        self.flips = [flip for rule in rules for flip in flips(rule)]
        self.suspecting = suspecting(self.stratum, self.with_facts, self.best)
        # in recursion, a suspect may be derived again from another one that is
        self.single_derivation = set() if self.stratum.recursive else self._with_single_derivations()
        self.rederiving = [rederiving(rule, rule.head.relation in self.best) for rule in rules]
        self.insertions: StartingRules = self._change_rules(gained, now=True)
        losing = self._change_rules(lost, now=False)
        self.overdeletions: StartingRules = [(name, self._suspected(rule)) for name, rule in losing]

    def _with_single_derivations(self) -> set[str]:
        """Return the relations whose tuples have at most one derivation by the rules, which does not depend on a best value."""
        rules_of = Counter(rule.head.relation for rule in self.stratum.rules)
        single_derivation = {rule.head.relation for rule in self.stratum.rules if has_single_instances(rule)}
        return {name for name in single_derivation if rules_of[name] == 1} - self.best

    def _change_rules(self, name_of: Callable[[str], str], now: bool) -> StartingRules:
        """Return the rules that start from changed tuples, each with the relation of these. name_of: `gained` or `lost`, the
        changes from which a positive atom starts. now: a flip derives its heads in the state after the change."""
        versions = (version for rule in self.stratum.rules for version in delta_rules(rule, self.below, name_of))
        starting = [(name_of(name), version) for name, version in versions]
        return starting + [starting_rule for flip in self.flips for starting_rule in flip.beginning(now)]

    def _suspected(self, rule: Rule) -> Rule:
        """Return the rule that derives suspects instead of the heads of a rule."""
        return suspected(rule, self.with_facts, self.best)

    def deleted(self) -> list[Rule]:
        """Return the rules that suspect explicit facts that have been deleted."""
        names = [name for name in self.stratum.relations if name in self.with_facts]
        columns = {name: column_variables(self.kinds[name]) for name in names}
        return [self._suspected(Rule(Atom(name, columns[name]), (Atom(lost(name), columns[name]),))) for name in names]

    def restoring(self) -> list[Rule]:
        """Return the rules that insert explicit facts again, of keys that have lost their best value."""
        return [restored(name, self.kinds[name]) for name in sorted(self.best & self.with_facts)]

    def steps(self) -> dict[str, list[Rule]]:
        """Return the rules of each step, in the order of their evaluation."""
        return {
            "suspected": [*self.deleted(), *(rule for _, rule in self.overdeletions), *self.suspecting.rules],
            "guarded": [_proving(rule, self.kinds) for rule in self.stratum.rules] if self.stratum.recursive else [],
            "rederived": [*self.rederiving, *self.restoring()],
            "gained": [rule for _, rule in self.insertions],
        }


def _proving(rule: Rule, kinds: Kinds) -> Rule:
    """Return the rule that proves a suspect, which has all of its columns."""
    name = rule.head.relation
    return replace(proof(rule, kinds).rule, head=Atom(name, column_variables(kinds[name])))


def maintaining(stratum: Stratum, with_facts: set[str], best: Set[str], kinds: Kinds) -> dict[str, list[str]]:
    """Return the rules that maintain a stratum as text, by step that has rules. The parameters are those of `Maintained`."""
    stratum, counted = counting(stratum)
    steps = Maintained(stratum, with_facts, best, kinds).steps()
    texts = {step: list(dict.fromkeys(map(str, rules))) for step, rules in steps.items()}
    texts["counted"] = [f"{aggregate.atom} ± {{ {', '.join(map(str, aggregate.body))} }}" for aggregate in counted]
    return {step: lines for step, lines in texts.items() if lines}
