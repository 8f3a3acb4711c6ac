"""Programs of rules, and their facts, as the text of a program."""

from itertools import groupby

from bench.fuzz.oracle import Summed
from semi_naive.ra import ir


def needs_text(program: ir.Program) -> bool:
    """True if rules say what only the language can: heads that aggregate."""
    return any(isinstance(arg, Summed) for rule in program.rules for arg in rule.head.args)


def datalog(program: ir.Program, facts: dict | None = None) -> str:
    """The program; with its facts if they are given, and otherwise with the directives that read them.

    >>> number = ir.Type("number", ir.Kind.NUMBER)
    >>> body = (ir.Atom("b", (ir.Var("x", number.kind),)),)
    >>> rules = [ir.Rule(ir.Atom(name, body[0].args), body) for name in "ac"]
    >>> print(datalog(ir.Program({}, {"a": ir.Relation("a", (("x", number),))}, rules), {"b": {(2,), (1,)}}))
    .decl a(x: number)
    b(1).
    b(2).
    a(x), c(x) :- b(x).
    """
    used = {
        name for each in program.relations.values() for _, type_ in each.attributes for name in (type_.name, *type_.field_types)
    }
    lines = [_type(each) for each in program.types.values() if each.field_types and each.name in used]
    lines += [_declaration(each) for each in program.relations.values() if "@" not in each.name]
    lines += [f".{each.kind} {each.relation}" for each in program.directives if facts is None or each.kind != "input"]
    lines += sorted(f"{name}({', '.join(map(_value, row))})." for name, rows in (facts or {}).items() for row in rows)
    together = groupby(program.rules, lambda rule: id(rule.body) if rule.body else id(rule))
    return "\n".join([*lines, *(_rule(program, [*rules]) for _, rules in together)])


def _type(type_: ir.Type) -> str:
    fields = lambda of: ", ".join(f"{name}: {inner}" for name, inner in of)  # noqa: E731
    branches = " | ".join(f"{each.name} {{{fields(each.fields)}}}" for each in type_.branches)
    return f".type {type_.name} = {branches or f'[{fields(type_.fields)}]'}"


def _declaration(relation: ir.Relation) -> str:
    names = [name for name, _ in relation.attributes]
    keys = ", ".join(f"({', '.join(names[at] for at in key)})" if len(key) > 1 else names[key[0]] for key in relation.choice)
    attributes = ", ".join(f"{name}: {type_.name}" for name, type_ in relation.attributes)
    return f".decl {relation.name}({attributes}){' eqrel' * relation.eqrel}{f' choice-domain {keys}' * bool(keys)}"


def _rule(program: ir.Program, rules: list[ir.Rule]) -> str:
    """Rules of one body, as one of several heads."""
    body, name = list(rules[0].body), rules[0].head.relation.removesuffix("@dominated")
    if name != rules[0].head.relation:
        beside = {program.relations[name].worse: name, program.relations[name].better: name}
        worse, better = (each for end in beside for each in body if isinstance(each, ir.Atom) and each.relation == end)
        body = [each for each in body if each is not worse and each is not better]
        heads = f"{_atom(name, worse.args)} <= {_atom(name, better.args)}"
    else:
        heads = ", ".join(_head(program.relations.get(each.head.relation), each.head) for each in rules)
    return f"{heads}{' :- ' * bool(body)}{', '.join(map(_literal, body))}."


def _head(relation: ir.Relation | None, head: ir.Atom) -> str:
    if relation is not None and relation.lattice:
        return _atom(head.relation, (*head.args[:-1], Summed(relation.lattice, head.args[-1:])))
    return _atom(head.relation, head.args)


def _atom(name: str, args) -> str:
    return f"{name}({', '.join(map(_term, args))})"


def _literal(literal) -> str:
    if isinstance(literal, ir.Compare):
        return f"{_term(literal.left)} {literal.op} {_term(literal.right)}"
    if isinstance(literal, ir.Aggregate):
        target = f" {_term(literal.target)}" if literal.target is not None else ""
        return f"{literal.result} = {literal.op}{target} : {{ {', '.join(map(_literal, literal.body))} }}"
    return str(literal)


def _term(term) -> str:
    if isinstance(term, Summed):
        return _atom(term.op, term.args)
    if isinstance(term, ir.Call) and term.op == "as":
        return f"as({_term(term.args[0])}, {term.kind})"
    return _atom(term.op, term.args) if isinstance(term, ir.Call) and term.op.startswith("to_") else str(term)


def _value(value) -> str:
    """A value as the term of a fact."""
    if isinstance(value, tuple):
        branch = isinstance(value[0], str)
        return f"${value[0]}({', '.join(map(_value, value[1:]))})" if branch else f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        return 'to_float("nan")' if value != value else repr(value)
    return "nil" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


# -- files of facts


def lines(rows) -> list[str]:
    """The rows as lines of a file, sorted."""
    return sorted("\t".join(map(_field, row)) if row else "()" for row in rows)


def _field(value) -> str:
    if isinstance(value, tuple):
        branch = isinstance(value[0], str)
        parts = ", ".join(map(_field, value[1:] if branch else value))
        return f"${value[0]}({parts})".removesuffix("()") if branch else f"[{parts}]"
    if isinstance(value, float):
        return f"{value:g}"
    return "nil" if value is None else str(value)
