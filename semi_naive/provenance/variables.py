"""The types of a rule's variables, which determine how their 64 bits are printed."""

from collections.abc import Iterator, Mapping

from semi_naive.planning import rewrite
from semi_naive.ra.ir import Atom, Compare, Kind, Pack, Relation, Rule, Type, Var


def types_of_variables(rules: tuple[Rule, ...], relations: Mapping[str, Relation], types: dict[str, Type]) -> dict[str, Type]:
    """Return the types of variables by name. A variable of a record has the type of an attribute, a field or an equality; one
    whose type none of these determines is left out. Scalars have the type of their kind.

    >>> number, pair = Type("number", Kind.NUMBER), Type("Pair", Kind.RECORD, (("a", "number"), ("b", "Pair")))
    >>> x, y, z = Var("x", Kind.RECORD), Var("y", Kind.NUMBER), Var("z", Kind.RECORD)
    >>> rule = Rule(Atom("p", (y,)), (Atom("e", (x,)), Compare("=", x, Pack((y, z), "Pair"), Kind.RECORD)))
    >>> relations = {"p": Relation("p", (("y", number),)), "e": Relation("e", (("x", pair),))}
    >>> {name: of.name for name, of in types_of_variables((rule,), relations, {"number": number, "Pair": pair}).items()}
    {'x': 'Pair', 'z': 'Pair', 'y': 'number'}
    """
    nodes = list(rewrite.walk(rules))
    found = {node.name: types[node.kind.value] for node in nodes if isinstance(node, Var) and node.kind != Kind.RECORD}
    typed_terms = [pair for node in nodes for pair in _attributes(node, relations, types)]
    equal = [node for node in nodes if isinstance(node, Compare) and node.op == "=" and node.kind == Kind.RECORD]
    while typed_terms:
        found = {term.name: type_ for term, type_ in typed_terms if isinstance(term, Var) and term.kind == Kind.RECORD} | found
        sides = [pair for node in equal for pair in ((node.left, node.right), (node.right, node.left))]
        typed_terms = [
            (term, type_) for term, other in sides if isinstance(term, Var) and (type_ := _type(other, found, types))
        ]
        typed_terms = [(term, type_) for term, type_ in typed_terms if term.name not in found]
    return found


def _attributes(node, relations: Mapping[str, Relation], types: dict[str, Type]) -> Iterator[tuple]:
    """The terms inside an atom or a record, each with its type."""
    if isinstance(node, Atom):
        yield from zip(node.args, (of for _, of in relations[node.relation].attributes), strict=True)
    elif isinstance(node, Pack) and (node.branch or not types[node.type].branches):
        of = types[node.type]
        fields = of.branches[node.tag].fields if node.branch else of.fields
        yield from zip(node.args, (types[name] for _, name in fields), strict=True)


def _type(term, found: dict[str, Type], types: dict[str, Type]) -> Type | None:
    """The type of a record, if it is known."""
    if isinstance(term, Var):
        return found.get(term.name)
    return types[term.type] if isinstance(term, Pack) else getattr(getattr(term, "function", None), "result", None)
