"""Types of facts, and what is read as values of Python's own."""

import struct

import numpy as np

from semi_naive.ra.ir import Kind, Relation, Type

NUMBER, UNSIGNED, FLOAT, SYMBOL = (Type(k.value, k) for k in (Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL))
LIST = Type("List", Kind.RECORD, (("head", "number"), ("tail", "List")))
NAMED = Type("Named", Kind.RECORD, (("name", "symbol"), ("weight", "float")))
TREE = Type("Tree", Kind.RECORD, (("left", "Tree"), ("value", "Named"), ("right", "Tree")))
TYPES = {type_.name: type_ for type_ in (LIST, NAMED, TREE)}
BITS = {Kind.FLOAT: "<d", Kind.UNSIGNED: "<Q", Kind.NUMBER: "<q"}


def relation(*kinds, name="r"):
    """A relation with attributes a, b, c … of these types."""
    return Relation(name, tuple(zip("abcdefgh", kinds, strict=False)))


def rows(columns, rel, values):
    """Columns as Python tuples, one bit pattern at a time: slow, and nothing like the code under test."""
    kinds = [type_ for _, type_ in rel.attributes]
    return [tuple(python(bits, kind, values) for bits, kind in zip(row, kinds, strict=True)) for row in columns.T.tolist()]


def python(bits, type_, values):
    if type_.kind == Kind.SYMBOL:
        return values.strings(np.array([bits]))[0]
    if type_.kind != Kind.RECORD:
        return struct.unpack(BITS[type_.kind], struct.pack("<q", bits))[0]
    if not bits:
        return None
    fields = values.fields(np.array([bits]), len(type_.fields))[:, 0].tolist()
    named = TYPES | {each.name: each for each in (NUMBER, UNSIGNED, FLOAT, SYMBOL)}
    return tuple(python(field, named[name], values) for field, (_, name) in zip(fields, type_.fields, strict=True))
