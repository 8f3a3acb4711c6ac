"""The rules that maintain a stratum when the relations below it, or its explicit facts, change.

For each relation `p` of a stratum and each `q` below it, `q-` and `q+` are what q has lost and gained, `p=` the explicit facts
of p, `p:` its suspects.

1. suspected: `p:(x) :- body with q- or p: in place of one q or p, !p=(x).` A negated or aggregated q begins with what flips it.
2. guarded: a suspect stays if an instance of a rule over what remains has only older tuples of the stratum.
3. rederived: `p(x) :- p:(x), body.` with all relations as they are now.
4. gained: `p(x) :- body with q+ in place of one q.` The recursion of the stratum goes on from there.
5. counted: counts and sums of aggregates change by the bindings that their bodies gain and lose.

Gupta, Mumick, Subrahmanian 1993, *Maintaining views incrementally*; Motik et al. 2019, *Maintenance of Datalog materialisations
revisited*.
"""

from collections.abc import Container
from dataclasses import dataclass, replace

from semi_naive.planning.maintaining.counted import counting
from semi_naive.planning.maintaining.flips import flips
from semi_naive.planning.maintaining.gained import delta_rules
from semi_naive.planning.maintaining.guarded import proof
from semi_naive.planning.maintaining.names import Kinds, column_variables, gained, lost
from semi_naive.planning.maintaining.rederived import rederiving
from semi_naive.planning.maintaining.suspected import suspected, suspecting
from semi_naive.planning.strata import Stratum, names_read
from semi_naive.ra.ir import Atom, Rule

Begun = list[tuple[str, Rule]]  # rules, each with the relation below whose change it begins with


@dataclass
class Maintained:
    """The rules that maintain one stratum. known: its relations that may have explicit facts; best: those that keep the best
    value of each key."""

    stratum: Stratum
    known: set[str]
    best: Container[str] = ()

    def __post_init__(self):
        rules = self.stratum.rules
        self.below = names_read(rules) - set(self.stratum.relations)
        self.flips = [flip for rule in rules for flip in flips(rule)]
        self.suspecting = suspecting(self.stratum, self.known, self.best)
        self.rederiving = [rederiving(rule, rule.head.relation in self.best) for rule in rules]
        self.gained: Begun = [one for rule in rules for one in delta_rules(rule, self.below, gained)]
        self.lost: Begun = [(name, self._suspected(one)) for rule in rules for name, one in delta_rules(rule, self.below, lost)]

    def _suspected(self, rule: Rule) -> Rule:
        return suspected(rule, self.known, self.best)

    def steps(self, kinds: Kinds) -> dict[str, list[Rule]]:
        """The rules of each step, in the order of their evaluation. kinds: of the columns of the stratum's relations."""
        flipped = [self._suspected(flip.rule) for flip in self.flips]
        return {
            "suspected": [*(rule for _, rule in self.lost), *flipped, *self.suspecting.rules],
            "guarded": [_proving(rule, kinds) for rule in self.stratum.rules] if self.stratum.recursive else [],
            "rederived": self.rederiving,
            "gained": [*(rule for _, rule in self.gained), *(flip.rule for flip in self.flips)],
        }


def _proving(rule: Rule, kinds: Kinds) -> Rule:
    """The rule that proves a suspect, which has all of its columns."""
    name = rule.head.relation
    return replace(proof(rule, kinds).rule, head=Atom(name, column_variables(kinds[name])))


def maintaining(stratum: Stratum, known: set[str], best: Container[str], kinds: Kinds) -> dict[str, list[str]]:
    """Return the rules that maintain a stratum, as text, by step; steps without rules are left out.

    known: relations that may have explicit facts; best: those that keep the best value of each key; kinds: of columns.
    """
    stratum, counted = counting(stratum)
    steps = Maintained(stratum, known, best).steps(kinds)
    told = {step: list(dict.fromkeys(map(str, rules))) for step, rules in steps.items()}
    told["counted"] = [f"{one.atom} ± {{ {', '.join(map(str, one.body))} }}" for one in counted]
    return {step: lines for step, lines in told.items() if lines}
