"""Fingerprints of relations: a saved relation is used again only if the program would compute the same tuples."""

import hashlib
from typing import Any

import semi_naive
from semi_naive.io.values.bits import BUILT_IN
from semi_naive.ra.ir import Kind, Relation

VERSION = "session 2"  # the version of the directory's format


def fingerprints(upkeep: Any) -> dict[str, str]:
    """Return for each relation a hash of everything that its tuples depend on, except for explicit facts: the versions, the
    types, the rules, the names of its inputs, and the hashes of the relations that the rules read."""
    relations = upkeep.program.relations
    hashes: dict[str, str] = {}
    for stratum in upkeep.run.compiled.strata:  # each follows those that it reads
        tuple_types = {name: tuple_type(relations[name], upkeep.program.types) for name in sorted(stratum.relations)}
        below = {name: hashes[name] for name in sorted(stratum.reads - set(stratum.relations))}
        changeable = sorted(upkeep.relations.facts.given.keys() & tuple_types.keys())
        parts = semi_naive.__version__, VERSION, tuple_types, changeable, sorted(map(str, stratum.rules)), below
        hashes |= dict.fromkeys(stratum.relations, hashlib.sha256(repr(parts).encode()).hexdigest())
    return hashes


def tuple_type(relation: Relation, types: dict) -> str:
    """Return the type of a relation's tuples as text: the kinds of attributes, the reduction of the relation, and the fields of
    records and branches at any depth."""
    fields: dict[str, str] = {}
    types, unvisited = BUILT_IN | types, [type_ for _, type_ in relation.attributes]
    while unvisited:
        type_ = unvisited.pop()
        if type_.kind == Kind.RECORD and type_.name not in fields:
            fields[type_.name] = f"[{_field_types(type_.fields, types)}]"
            if type_.branches:
                branches = (f"{branch.name} {{{_field_types(branch.fields, types)}}}" for branch in type_.branches)
                fields[type_.name] = " | ".join(branches)
            unvisited += [types[name] for name in type_.field_types]
    attributes = ", ".join(_type_name(type_) for _, type_ in relation.attributes)
    reduction = f" {relation.lattice or ''}{' eqrel' * relation.eqrel}".rstrip()
    reduction += f"{relation.choice or ''}{' subsumed' * relation.dominated}"
    reduction += "".join(f" @{join.name}" for join in relation.joins)
    return f"({attributes}){reduction}" + "".join(f", {name} = {inner}" for name, inner in sorted(fields.items()))


def _field_types(fields: tuple, types: dict) -> str:
    """Return the types of fields as text. fields: (name, type) of each; types: by name."""
    return ", ".join(_type_name(types[type_name]) for _, type_name in fields)


def _type_name(type_) -> str:
    return type_.name if type_.kind == Kind.RECORD else type_.kind.value


def unusable_reason(name: str, saved_type: str, upkeep: Any, changeable: set[str]) -> str:
    """Return the reason why a program cannot have the saved facts of a relation, as the end of a sentence; "" if it can.
    saved_type: see `tuple_type`."""
    relation = upkeep.program.relations.get(name)
    if relation is None or name not in changeable:
        return f"and {name} is no input of {upkeep.run.asked.name}"
    declared = tuple_type(relation, upkeep.program.types)
    return "" if declared == saved_type else f"and {upkeep.run.asked.name} declares {declared}"
