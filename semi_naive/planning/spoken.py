"""Rules and names as shown to the user: relations and variables that the compiler has made (their names contain an @) are
described in terms of the program's own names."""

import re
from collections.abc import Mapping
from dataclasses import replace

from semi_naive.planning import rewrite
from semi_naive.ra import ir

WORDS = {
    "parts": "partial", "values": "counted", "given": "plain", "key": "keys of", "now": "due keys of",
    "needs": "keys needed by", "known": "known", "possible": "possible", "worse": "worse", "better": "better",
    "dominated": "dominated", "iteration": "iteration of", "this": "this step's", "last": "last step's",
    "older": "older step's", "step": "step of", "begin": "first steps of", "final": "final", "end": "end of",
    "class": "class of", "only": "distinct",
}  # fmt: skip
ITERATION_NUMBER = "recursive_iteration_cnt"
GENERATED = re.compile(rf"(.+)@({'|'.join(WORDS)})(?:\d+(?:_\d+)*)?")


def spoken_name(name: str) -> str:
    """Return the name under which a relation is shown. Relations computed on demand keep their names, which `explain` tells.

    >>> [spoken_name(name) for name in ("edge", "edge@only0_2", "degree@parts", "cost@needs1_0", "way@worse", "path@bf")]
    ['edge', 'distinct edge', 'partial degree', 'keys needed by cost', 'worse way', 'path@bf']
    """
    if match := GENERATED.fullmatch(name):
        base, word = match.groups()
        return f"{WORDS[word]} {spoken_name(base)}"
    return name


def spoken(node):
    """Return a term, a literal or a rule as shown to the user, with its variables as they were written.

    >>> x = ir.Var("x@h1", ir.Kind.NUMBER)
    >>> print(spoken(ir.Compare("<", x, ir.Var("y@2", ir.Kind.NUMBER), ir.Kind.NUMBER)), spoken(ir.Atom("p@worse", (x,))))
    x < y worse p(x)
    """

    def change(inner):
        if isinstance(inner, ir.Var):
            return replace(inner, name=spoken_variable(inner.name))
        return replace(inner, relation=spoken_name(inner.relation)) if isinstance(inner, ir.Atom) else inner

    return rewrite.transform(node, change)


def as_written(node, relations: Mapping[str, ir.Relation]):
    """Undo projections and the atoms of iteration numbers in a rule, for messages.

    >>> relations = {"edge": ir.Relation("edge", (("x", None), ("y", None)))}
    >>> print(as_written(ir.Atom("edge@only1", (ir.Var("y@1", ir.Kind.NUMBER),)), relations))
    edge(_, y)
    """

    def change(inner):
        if not isinstance(inner, ir.Atom):
            return inner
        if inner.relation.endswith("@iteration"):
            return ir.Compare("=", ir.Call(ITERATION_NUMBER, (), ir.Kind.UNSIGNED), inner.args[0], ir.Kind.UNSIGNED)
        name, only, kept = inner.relation.rpartition("@only")
        if not only:
            return inner
        args: list[ir.Term] = [ir.Wild()] * relations[name].arity
        for place, term in zip(filter(None, kept.split("_")), inner.args, strict=True):
            args[int(place)] = term
        return ir.Atom(name, tuple(args))

    return spoken(rewrite.transform(node, change))


def spoken_variable(name: str) -> str:
    """Return a variable as it was written. One that stands for `_`, or a computed term of a head, keeps its generated name."""
    return name.partition("@")[0].rstrip(".") or name
