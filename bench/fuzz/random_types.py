"""The types of random programs, their values, and the names of their variables."""

import math

from semi_naive import Branch
from semi_naive.ra.ir import Const, Constructor, Kind, Pack, Relation, Type

NUMBER, UNSIGNED, FLOAT, SYMBOL, RECORD = Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL, Kind.RECORD
SHAPE = (
    Constructor("Box", (("n", "number"), ("p", "Pair"))),
    Constructor("Dot"),
    Constructor("Two", (("l", "Shape"), ("r", "Shape"))),
)
TYPES = {kind.value: Type(kind.value, kind) for kind in (NUMBER, UNSIGNED, FLOAT, SYMBOL)} | {
    "Pair": Type("Pair", RECORD, (("a", "number"), ("b", "number"))),
    "Tag": Type("Tag", RECORD, (("f", "float"), ("s", "symbol"), ("u", "unsigned"))),
    "List": Type("List", RECORD, (("head", "number"), ("tail", "List"))),
    "Shape": Type("Shape", RECORD, branches=SHAPE),
}
DOT = Branch("Dot")
VALUES = {
    "number": (0, 1, 2, 3, -1),
    "unsigned": (0, 1, 2**64 - 1),
    "float": (-1.5, 0.5, 2.0),
    "symbol": ("", "a", "ab", "b"),
    "Pair": (None, (0, 1), (1, 1), (1, 2)),
    "Tag": (None, (0.5, "a", 1), (0.5, "ab", 0), (2.0, "b", 2**64 - 1)),
    "List": (None, (1, None), (0, (1, None)), (1, (1, None))),
    "Shape": (DOT, Branch("Box", 1, (0, 1)), Branch("Box", 0, None), Branch("Two", DOT, Branch("Box", 1, (0, 1)))),
}
MORE = {
    "letters": {"symbol": ("é",), "Tag": ((0.5, "é", 1),)},
    "middle": {"unsigned": (2**63,)},
    "powers": {"number": (-(2**62), 2**61)},  # of which sums are -2**63
    "wide": {"number": (2**40 + 1, -(2**62) + 1, 2**61 + 1)},
    "zeros": {"float": (0.0, -0.0, math.nan), "Tag": ((0.0, "a", 1), (-0.0, "a", 1), (math.nan, "b", 1))},
}
NAMES = {
    "number": "xyz",
    "unsigned": "uv",
    "float": "fg",
    "symbol": "st",
    "Pair": "pq",
    "Tag": "mn",
    "List": "kl",
    "Shape": "hj",
}
OFTEN = ["number", "number", "number", "symbol", "symbol", "Pair", "unsigned", "float", *["List", "Shape", "Tag"] * 3]
FEATURE_OF = {"unsigned": "unsigned", "float": "floats", "Pair": "records", "Tag": "tags", "List": "lists", "Shape": "branches"}


def types_of(relation: Relation) -> list[str]:
    return [type_.name for _, type_ in relation.attributes]


def declared(name: str, types: list[str], **more) -> Relation:
    return Relation(name, tuple((f"a{at}", TYPES[of]) for at, of in enumerate(types)), **more)


def constant(value, of: str):
    """The term for a value of a type."""
    if value is None or TYPES[of].kind != RECORD:
        return Const(value, TYPES[of].kind)
    if not TYPES[of].branches:
        return Pack(tuple(constant(part, inner) for part, (_, inner) in zip(value, TYPES[of].fields, strict=True)), of)
    (tag,) = [tag for tag, each in enumerate(SHAPE) if each.name == value[0]]
    parts = zip(value[1:], SHAPE[tag].fields, strict=True)
    return Pack(tuple(constant(part, inner) for part, (_, inner) in parts), of, value[0], tag)
