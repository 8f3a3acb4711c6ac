"""Delta rules for negated and aggregated relations: a tuple lost can give new heads, and a tuple gained can lose heads.

If n has lost the tuples n⁻ and gained the tuples n⁺, a rule `head :- a, !n(x, _).` gains heads of the first rule, and may lose
heads of the second:

    head :- n⁻(x, _), a, !n(x, _).        in the state after the change
    head :- n⁺(x, _), a, !n(x, _).        in the state before it

So only the existence of a tuple counts, not the number of tuples. In an aggregate, a changed tuple affects the groups that
agree with it in the variables shared with the rule outside. These groups are computed in the old state, for the heads that may
be lost, and in the new state. No result is computed from another one by a difference."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from semi_naive.planning.joins.body import names_of_variables
from semi_naive.planning.maintaining.names import after, before, gained, lost
from semi_naive.planning.rewrite import connected_with
from semi_naive.ra.ir import Aggregate, Atom, Const, Kind, Literal, Not, Rule, Term, Var, Wild

NEGATED, AGGREGATED = "!", "{}"


@dataclass(frozen=True)
class Flip:
    """A rule that starts from the changes of a relation that it negates or aggregates.

    how: the relation is `NEGATED` or `AGGREGATED`; rule: the rule, which begins with an atom of the changed tuples.
    closed: the rule without that first atom.
    within: the atoms that bind the aggregate's groups, the changed one first, unless the changed atom binds them alone.
    negative: the aggregate negates the relation."""

    relation: str
    how: str
    rule: Rule
    closed: Rule
    within: tuple[Atom, ...] = ()
    negative: bool = False

    @property
    def changed(self) -> str:
        """The name of the relation of changed tuples, lost and gained. No relation of a program can have this name."""
        return f"{self.relation}{self.how}"

    @property
    def is_whole(self) -> bool:
        """True if, by the form of the rule, any changed tuple changes all groups of an aggregate."""
        return self.how == AGGREGATED and not self.within and not names_of_variables(self.rule.body[0])

    def beginning(self, now: bool) -> Iterator[tuple[str, Rule]]:
        """Yield (relation of changed tuples, rule) for the heads that the change affects: derived in the state after the change
        if `now`, else in the state before it.

        >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
        >>> count = Aggregate(z, "count", None, (Atom("e", (x, y)), Atom("n", (y,))))
        >>> changed = list(flips(Rule(Atom("p", (x, z)), (Atom("a", (x,)), count))))[1]
        >>> for _, each in changed.beginning(now=False): print(each)
        p(x, z) :- n+(:y), e'(x, :y), a(x), z = count : { e(x, y), n(y) }.
        p(x, z) :- n-(:y), e(x, :y), a(x), z = count : { e(x, y), n(y) }.
        """
        first, *body = self.rule.body
        if self.how == NEGATED:
            changed_tuples = lost(self.relation) if now else gained(self.relation)
            yield changed_tuples, replace(self.rule, body=(replace(first, relation=changed_tuples), *body))
        elif not self.within:
            yield self.changed, self.rule
        else:
            changed_atom, *others = self.within
            for gains in (True, False):  # the aggregate's body gains or loses bindings
                changed_tuples = gained(self.relation) if gains != self.negative else lost(self.relation)
                if gains == now:
                    bound = others
                else:  # the other state than that in which the rule is evaluated
                    state = after if gains else before
                    bound = [replace(atom, relation=state(atom.relation)) for atom in others]
                yield changed_tuples, replace(self.rule, body=(replace(changed_atom, relation=changed_tuples), *bound, *body))


def flips(rule: Rule) -> Iterator[Flip]:
    """Yield a `Flip` for each atom that a rule negates, or that is in an aggregate.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> for flip in flips(Rule(Atom("p", (x,)), (Atom("e", (x,)), Not(Atom("n", (x, Wild())))))): print(flip.rule)
    p(x) :- n!(x, _), e(x), !n(x, _).
    >>> inner = Atom("e", (x,)), Atom("m", (x, y, Const(1, Kind.NUMBER)))
    >>> for flip in flips(Rule(Atom("p", (x,)), (Atom("a", (x,)), Aggregate(z, "count", None, inner)))): print(flip.rule)
    p(x) :- e{}(x), a(x), z = count : { e(x), m(x, y, 1) }.
    p(x) :- m{}(x, _, 1), a(x), z = count : { e(x), m(x, y, 1) }.
    """
    for place, literal in enumerate(rule.body):
        how = AGGREGATED if isinstance(literal, Aggregate) else NEGATED
        outside = names_of_variables(rule.head).union(*map(names_of_variables, rule.body[:place] + rule.body[place + 1 :]))
        for atom in _atoms_that_flip([literal]):
            shared = names_of_variables(atom) & outside
            # a wildcard matches more: then more heads are tried, and each is tested by the whole rule
            args = (t if isinstance(t, Const) or isinstance(t, Var) and t.name in shared else Wild() for t in atom.args)
            first = Atom(f"{atom.relation}{how}", tuple(args))
            within, negative = _within(literal, atom, outside), isinstance(literal, Aggregate) and Not(atom) in literal.body
            yield Flip(atom.relation, how, replace(rule, body=(first, *rule.body), plan=None), rule, within, negative)


def _within(literal: Literal, changed: Atom, outside: set[str]) -> tuple[Atom, ...]:
    """Return the atoms that bind the groups of an aggregate: the changed atom, and the atoms of the aggregate's body that
    variables connect with it. Their variables that are not in `outside`, the variables of the rest of the rule, are renamed.
    Return () if the changed atom binds every variable that the groups share with the rest of the rule."""
    if not isinstance(literal, Aggregate) or not {changed, Not(changed)} & {*literal.body}:
        return ()
    others = [other for other in literal.body if isinstance(other, Atom) and other is not changed]
    connected = [changed, *connected_with(changed, others)]
    if names_of_variables(connected) & outside <= names_of_variables(changed):
        return ()
    return tuple(replace(other, args=tuple(_renamed_apart(term, outside) for term in other.args)) for other in connected)


def _renamed_apart(term: Term, outside: set[str]) -> Term:
    """Return a term with a new name if it is a variable that is not in `outside`; a wildcard for a computed term, which matches
    more: then groups are computed again that have not changed, and nothing is missed."""
    if isinstance(term, Var) and term.name not in outside:
        return replace(term, name=f":{term.name}")
    return term if isinstance(term, Const | Var) else Wild()


def is_exact(rule: Rule) -> bool:
    """True if the rule's aggregates do not depend on the order of tuples. Sums of floats do, and lattices of users may."""
    return not any(map(_depends_on_order, rule.body))


def _depends_on_order(literal: Literal) -> bool:
    """True for an aggregate whose result depends on the order of its values: a sum of floats, a mean, or a user-defined one."""
    if not isinstance(literal, Aggregate):
        return False
    adds_floats = literal.op == "sum" and getattr(literal.target, "kind", None) == Kind.FLOAT
    return literal.op == "mean" or literal.init is not None or adds_floats or any(map(_depends_on_order, literal.body))


def _atoms_that_flip(body, inside: bool = False) -> Iterator[Atom]:
    """Yield the atoms of a body in which more tuples may make fewer bindings: negated, or in an aggregate, at any depth."""
    for literal in body:
        if isinstance(literal, Not):
            yield literal.atom
        elif isinstance(literal, Atom) and inside:
            yield literal
        elif isinstance(literal, Aggregate):
            yield from _atoms_that_flip(literal.body, inside=True)
