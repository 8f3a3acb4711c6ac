"""Guard rules: they prove that a suspect still has a derivation from older tuples, so that it is not deleted."""

from dataclasses import dataclass, replace

from semi_naive.planning.maintaining.names import Kinds, column_variables
from semi_naive.planning.rewrite import substitute, variables_of
from semi_naive.ra.ir import Atom, Compare, Kind, Rule, Term, Var, Wild


@dataclass(frozen=True, eq=False)
class DerivationRule:
    """A rule (`rule`) that finds the derivations of a given tuple by another rule (`of`). The columns of the tuple are bound to
    @0, @1, …; the head has the terms of all atoms of the stratum."""

    of: Rule
    rule: Rule


def proof(rule: Rule, own: Kinds) -> DerivationRule:
    """Return the `DerivationRule` of a rule. Its own variables get names with a colon, and so do wildcards in atoms of the
    stratum. own: the kinds of the columns of the stratum's relations.

    >>> x, y, z = (Var(name, Kind.NUMBER) for name in "xyz")
    >>> step = Rule(Atom("p", (x, z)), (Atom("p", (x, y)), Atom("e", (y, z))))
    >>> print(proof(step, {"p": (Kind.NUMBER,) * 2}).rule)
    p(@0, :y) :- p(@0, :y), e(:y, @1).
    >>> print(proof(replace(step, head=Atom("p", (x, x))), {"p": (Kind.NUMBER,) * 2}).rule)
    p(@0, :y) :- p(@0, :y), e(:y, :z), @0 = @1.
    """
    equations: list[tuple[Term, Var]] = []
    substitution: dict[str, Term] = {}
    for column, term in zip(column_variables(own[rule.head.relation]), rule.head.args, strict=True):
        if isinstance(term, Var) and term.name not in substitution:
            substitution[term.name] = replace(column, kind=term.kind)
        else:
            equations.append((term, column))
    substitution = {name: replace(var, name=f":{name}") for name, var in variables_of(rule).items()} | substitution
    body: list = []
    terms: list[Term] = []
    for place, literal in enumerate(rule.body):
        literal = substitute(literal, substitution)
        if isinstance(literal, Atom) and literal.relation in own:
            columns = enumerate(zip(literal.args, own[literal.relation], strict=True))
            args = (Var(f":{place}_{i}", kind) if isinstance(term, Wild) else term for i, (term, kind) in columns)
            literal = replace(literal, args=tuple(args))
            terms += literal.args
        body.append(literal)
    body += [Compare("=", substitute(term, substitution), column, Kind.NUMBER) for term, column in equations]  # bits
    head = Atom(rule.head.relation, tuple(terms))
    # atom by atom, as the guard tests how old each tuple is as soon as it is joined
    return DerivationRule(rule, replace(rule, head=head, body=tuple(body), plan=None, join="binary"))
