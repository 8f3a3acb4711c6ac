"""Names of the temporary relations of a relation while its stratum is maintained, and renaming of rules to read them.

No relation of a program has such a name."""

from collections.abc import Mapping
from dataclasses import replace

from semi_naive.ra.ir import Atom, Kind, Rule, Var

Kinds = dict[str, tuple[Kind, ...]]  # of the columns of relations


def suspects(name: str) -> str:
    """Name the suspects of a relation: tuples that may have no derivation any more."""
    return f"{name}:"


def candidates(name: str) -> str:
    """Name the tuples that the guard tests before they are suspects."""
    return f"{name}:."


def origin(name: str) -> str:
    """Return the relation of which a relation holds the suspects or the changed tuples; the relation itself for other names.

    >>> origin(suspects("edge")), origin(candidates("edge")), origin(lost("edge")), origin("edge")
    ('edge', 'edge', 'edge', 'edge')
    """
    return name.partition(":")[0].rstrip("+-")


def lost(name: str) -> str:
    """Name the tuples that a relation has lost in this transaction."""
    return f"{name}-"


def explicit(name: str) -> str:
    """Name the explicit facts of a relation."""
    return f"{name}="


def gained(name: str) -> str:
    """Name the tuples that a relation has gained in this transaction."""
    return f"{name}+"


def before(name: str) -> str:
    """Return the name of a relation's contents before this transaction, for rules that otherwise read its current contents."""
    return f"{name}~"


def after(name: str) -> str:
    """Return the name of a relation's current contents, for rules that otherwise read its contents before this transaction."""
    return f"{name}'"


def remaining(name: str) -> str:
    """Name the tuples of a relation that remain when its suspects are removed."""
    return f"{name}\\"


def column_variables(kinds: tuple[Kind, ...]) -> tuple[Var, ...]:
    """Return the variables @0, @1, … for the columns of a tuple."""
    return tuple(Var(f"@{place}", kind) for place, kind in enumerate(kinds))


def renamed(rule: Rule, names: Mapping[str, str]) -> Rule:
    """Replace the relations of the positive atoms of a body, as `names` maps them.

    >>> from semi_naive.ra.ir import Kind, Var
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> print(renamed(Rule(Atom("p", (y,)), (Atom("p", (x,)), Atom("e", (x, y)))), {"p": "q"}))
    p(y) :- q(x), e(x, y).
    """

    body = (
        replace(literal, relation=names.get(literal.relation, literal.relation)) if isinstance(literal, Atom) else literal
        for literal in rule.body
    )
    return replace(rule, body=tuple(body), plan=None)
