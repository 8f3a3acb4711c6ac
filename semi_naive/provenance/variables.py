"""The types of a rule's variables, which determine how their 64 bits are printed."""

from collections.abc import Iterator, Mapping

from semi_naive.planning import rewrite
from semi_naive.ra.ir import Atom, Compare, Kind, Pack, Relation, Rule, Type, Var


def types_of_variables(rules: tuple[Rule, ...], relations: Mapping[str, Relation], types: dict[str, Type]) -> dict[str, Type]:
    """Return the types of the variables of rules, by name. Numbers and symbols have the type of their kind. A record has the
    type of its attribute, its field, or the other side of an equation; if it has none of these, it is left out.

    >>> number, pair = Type("number", Kind.NUMBER), Type("Pair", Kind.RECORD, (("a", "number"), ("b", "Pair")))
    >>> x, y, z = Var("x", Kind.RECORD), Var("y", Kind.NUMBER), Var("z", Kind.RECORD)
    >>> rule = Rule(Atom("p", (y,)), (Atom("e", (x,)), Compare("=", x, Pack((y, z), "Pair"), Kind.RECORD)))
    >>> relations = {"p": Relation("p", (("y", number),)), "e": Relation("e", (("x", pair),))}
    >>> {name: type_.name for name, type_ in types_of_variables((rule,), relations, {"number": number, "Pair": pair}).items()}
    {'x': 'Pair', 'z': 'Pair', 'y': 'number'}
    """
    nodes = list(rewrite.walk(rules))
    type_of = {node.name: types[node.kind.value] for node in nodes if isinstance(node, Var) and node.kind != Kind.RECORD}
    typed_terms = [pair for node in nodes for pair in _attributes(node, relations, types)]
    equations = [node for node in nodes if isinstance(node, Compare) and node.op == "=" and node.kind == Kind.RECORD]
    sides = [pair for node in equations for pair in ((node.left, node.right), (node.right, node.left))]
    while typed_terms:
        records = [(term, type_) for term, type_ in typed_terms if isinstance(term, Var) and term.kind == Kind.RECORD]
        type_of = {term.name: type_ for term, type_ in records} | type_of
        unknown = [(term, other) for term, other in sides if isinstance(term, Var) and term.name not in type_of]
        typed_terms = [(term, type_) for term, other in unknown if (type_ := _type(other, type_of, types))]
    return type_of


def _attributes(node, relations: Mapping[str, Relation], types: dict[str, Type]) -> Iterator[tuple]:
    """Yield the terms directly inside an atom or a record, each with its type."""
    if isinstance(node, Atom):
        yield from zip(node.args, (type_ for _, type_ in relations[node.relation].attributes), strict=True)
    elif isinstance(node, Pack) and (node.branch or not types[node.type].branches):
        type_ = types[node.type]
        fields = type_.branches[node.tag].fields if node.branch else type_.fields
        yield from zip(node.args, (types[name] for _, name in fields), strict=True)


def _type(term, type_of: dict[str, Type], types: dict[str, Type]) -> Type | None:
    """Return the type of a record, None if it is not known."""
    if isinstance(term, Var):
        return type_of.get(term.name)
    return types[term.type] if isinstance(term, Pack) else getattr(getattr(term, "function", None), "result", None)
