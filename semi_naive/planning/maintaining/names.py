"""Names of the temporary relations that accompany a relation while its stratum is maintained, and renaming of rules to read
them.

No relation of a program has such a name.
"""

from collections.abc import Mapping
from dataclasses import replace

from semi_naive.ra.ir import Atom, Kind, Literal, Rule, Var

Kinds = dict[str, tuple[Kind, ...]]  # of the columns of relations


def suspects(name: str) -> str:
    """Name the suspects of a relation: tuples that may have no derivation any more."""
    return f"{name}:"


def asked(name: str) -> str:
    """Name the tuples that the guard tests before they are suspects."""
    return f"{name}:."


def origin(name: str) -> str:
    """Return the relation whose suspects, or changed tuples, a relation has; otherwise the relation itself.

    >>> origin(suspects("edge")), origin(asked("edge")), origin(lost("edge")), origin("edge")
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
    """Variables for the columns of a tuple."""
    return tuple(Var(f"@{place}", kind) for place, kind in enumerate(kinds))


def renamed(rule: Rule, names: Mapping[str, str]) -> Rule:
    """Have the positive atoms of a body read the relations that `names` maps theirs to.

    >>> from semi_naive.ra.ir import Kind, Var
    >>> x, y = (Var(name, Kind.NUMBER) for name in "xy")
    >>> print(renamed(Rule(Atom("p", (y,)), (Atom("p", (x,)), Atom("e", (x, y)))), {"p": "q"}))
    p(y) :- q(x), e(x, y).
    """

    def read(literal: Literal) -> Literal:
        if isinstance(literal, Atom) and literal.relation in names:
            return replace(literal, relation=names[literal.relation])
        return literal

    return replace(rule, body=tuple(map(read, rule.body)), plan=None)
