"""The oracle: a naive evaluator over sets of tuples of Python values, by nested loops. It is slow, and independent of the
engine that it judges.

Values are ints, floats, strs, tuples for records, None for nil, and tuples that begin with a name for branches. autoinc, ord,
and `as` to or from symbols and records are left out, as they depend on ids.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import count

from bench.fuzz.operators import (
    COMPARISONS,
    OPERATORS,
    aggregate,
    by_size,
    canonical,
    convert,
    fitted,
    match,
    one_form,
    ranged,
    recast,
)
from semi_naive.planning.rewrite import walk
from semi_naive.ra import ir
from semi_naive.ra.multiway import query as multiway
from semi_naive.ra.nodes import node


@dataclass(frozen=True)
class Summed:
    """An argument of a head that aggregates: of each key (the arguments that do not) there is one tuple."""

    op: str
    args: tuple

    def __str__(self):
        return f"{self.op}({', '.join(map(str, self.args))})"


@node
class Distinct(ir.Aggregate):
    """An aggregate of the distinct bindings of its variables: tuples that differ in `_` only are one."""


def as_written(program: ir.Program) -> ir.Program:
    """The program as its text means it, where most aggregates are of distinct bindings: those of several atoms, with an
    aggregate inside, or with a variable twice in their atom."""

    def meant(literal):
        if not isinstance(literal, ir.Aggregate):
            return literal
        body = tuple(map(meant, literal.body))
        atoms = [each for each in body if isinstance(each, ir.Atom)]
        names = [node.name for node in walk(atoms) if isinstance(node, ir.Var)]
        distinct = len(atoms) > 1 or len(names) > len(set(names)) or any(isinstance(each, ir.Aggregate) for each in body)
        return (Distinct if distinct else ir.Aggregate)(literal.result, literal.op, literal.target, body)

    return replace(program, rules=[replace(rule, body=tuple(map(meant, rule.body))) for rule in program.rules])


def solve(program: ir.Program, facts: dict[str, set[tuple]], iterations: int | None = None) -> dict[str, set[tuple]]:
    """Every relation of the program, computed from the facts of some. iterations: of each stratum, no more; the first makes
    what needs no tuple of the stratum, each further one applies all rules to what the one before has left."""
    tuples = {name: canonical(facts.get(name, ())) for name in program.relations}
    for stratum in strata(program):
        rules = [(rule, ordered(rule)) for rule in program.rules if rule.head.relation in stratum]
        rules.sort(key=lambda one: bool(one[0].body))  # the facts of the text first
        once = [one for one in rules if not any(relations_in(literal) & stratum for literal in one[0].body)]
        born = round_(program, stratum, once, tuples, {name: set() for name in stratum}, None)
        for _ in range(1, iterations) if iterations else count():
            if not any(born.values()):
                break
            removes = any(program.relations[name].dominated for name in stratum)
            known = {name: tuples[name] for name in stratum}
            born = round_(program, stratum, rules, tuples, known, born if removes else None)
    return tuples


def round_(program: ir.Program, stratum: set[str], rules, tuples, known, last) -> dict[str, set[tuple]]:
    """Apply rules to the tuples as they are; what is new. known: what was there before. last: what the last round has made, one
    of which an instance has to have; None if all instances are wanted: where nothing is ever removed, they make the same."""
    made = {name: set(tuples[name]) for name in stratum}
    sums = {rule.head.relation for rule, _ in rules if any(isinstance(arg, Summed) for arg in rule.head.args)}
    for name in sums:
        made[name] |= summed([one for one in rules if one[0].head.relation == name], tuples)
    for rule, body in (one for one in rules if one[0].head.relation not in sums):
        bindings = satisfied(body, {}, tuples) if last is None else satisfied_anew(body, tuples, last)
        heads = {tuple(value(arg, binding) for arg in rule.head.args) for binding in bindings}
        made[rule.head.relation] |= chosen(program.relations[rule.head.relation], heads, made[rule.head.relation])
    made = {name: closed(program.relations[name], made[name]) for name in stratum}
    compared = [program.relations[name] for name in stratum if program.relations[name].dominated]
    for relation in compared:
        new, old = made[relation.name] - known[relation.name], known[relation.name]
        new = new - dominated(program, relation, new, new | old, tuples | known)
        made[relation.name] = new | old - dominated(program, relation, old, new, tuples | known)
    tuples.update(made)
    again = {relation.name: dominated(program, relation, *[made[relation.name]] * 2, tuples) for relation in compared}
    tuples.update({name: made[name] - gone for name, gone in again.items()})
    return {name: tuples[name] - known[name] for name in stratum}


def summed(rules, tuples) -> set[tuple]:
    """The tuples of a relation whose heads aggregate. Each way to satisfy a body adds to a sum, a mean, a minimum and a
    maximum; a count has the distinct values. Tuples of rules without aggregates are added
    once, as they are."""
    ops = {at: arg for rule, _ in rules for at, arg in enumerate(rule.head.args) if isinstance(arg, Summed)}
    groups, given = defaultdict(lambda: {at: ([], set()) for at in ops}), set()
    for rule, body in rules:
        plain = not any(isinstance(arg, Summed) for arg in rule.head.args)
        for binding in satisfied(body, {}, tuples):
            parts = (arg.args if isinstance(arg, Summed) else [arg] for arg in rule.head.args)
            made = [tuple(value(each, binding) for each in part) for part in parts]
            if plain and tuple(made) in given:
                continue
            given |= {tuple(made)} if plain else set()
            found = groups[tuple(None if at in ops else part for at, (part, *_) in enumerate(made))]
            for at, (values, counted) in found.items():
                if ops[at].op == "count" and not plain:
                    counted.add(made[at])
                else:
                    values.append(made[at][0])
    totals = {key: {at: _total(ops[at], *found[at]) for at in ops} for key, found in groups.items()}
    return {tuple(total.get(at, part) for at, part in enumerate(key)) for key, total in totals.items()}


def _total(arg: Summed, values: list, counted: set):
    if arg.op == "count":
        return fitted(sum(values) + len(counted), ir.Kind.NUMBER)
    return aggregate(arg.op, arg.args[0].kind, values)


def satisfied_anew(body: list, tuples, last):
    """The ways to satisfy a body with at least one tuple of the last round."""
    for place, (literal, _) in enumerate(body):
        if isinstance(literal, ir.Atom) and literal.relation in last:
            new = ir.Atom("last", literal.args)
            yield from satisfied(
                [*body[:place], (new, None), *body[place + 1 :]], {}, tuples | {"last": last[literal.relation]}
            )


def dominated(program, relation: ir.Relation, worse: set[tuple], better: set[tuple], tuples) -> set[tuple]:
    """The tuples that others dominate; conditions are looked up in `tuples`."""
    rules = [(rule, ordered(rule)) for rule in program.rules if rule.head.relation == relation.removal]
    seen = tuples | {relation.worse: worse, relation.better: better}
    found = ((rule, binding) for rule, body in rules for binding in satisfied(body, {}, seen))
    return {tuple(value(arg, binding) for arg in rule.head.args) for rule, binding in found}


def chosen(relation: ir.Relation, heads: set[tuple], known: set[tuple]) -> set[tuple]:
    """Those of some heads, the least first, that agree in no key of a choice-domain with what is known or chosen before."""
    if not relation.choice:
        return heads
    found = []
    taken = {(key, tuple(row[at] for at in key)) for row in known for key in relation.choice}
    for row in sorted(heads, key=lambda row: tuple(map(sorted_as, row))):
        own = {(key, tuple(row[at] for at in key)) for key in relation.choice}
        if not own & taken:
            found.append(row)
            taken |= own
    return set(found)


def sorted_as(part):
    """A key in the order of values: records go by their text."""
    return written(part) if part is None or isinstance(part, tuple) else by_size(part)


def written(part) -> str:
    """A value as text."""
    if part is None:
        return "nil"
    return f"[{', '.join(map(written, part))}]" if isinstance(part, tuple) else str(part)


def closed(relation: ir.Relation, tuples: set[tuple]) -> set[tuple]:
    """With the pairs that an equivalence has besides; with the best tuple of each key where there is a lattice."""
    if relation.eqrel:
        classes = []
        for pair in tuples:
            touched = [c for c in classes if c & set(pair)]
            classes = [c for c in classes if not c & set(pair)] + [set(pair).union(*touched)]
        return {(x, y) for c in classes for x in c for y in ([min(c, key=sorted_as)] if relation.by_class else c)}
    if relation.lattice:
        best = min if relation.lattice == "min" else max
        keys = {row[:-1] for row in tuples}
        return {(*key, best((row[-1] for row in tuples if row[:-1] == key), key=by_size)) for key in keys}
    return tuples


# -- strata


def strata(program: ir.Program) -> list[set[str]]:
    """Relations that need each other together, what is needed first. ValueError where one needs its own absence."""
    needs = {name: set() for name in program.relations}
    strictly = {name: set() for name in program.relations}
    for rule in program.rules:
        for literal in rule.body:
            name = rule.head.relation.removesuffix("@dominated")  # it is said with the relation itself
            needs[name] |= relations_in(literal)
            if not isinstance(literal, ir.Atom):
                strictly[name] |= relations_in(literal)
    reached = {name: _reachable(name, needs) for name in needs}
    components = {frozenset([name]) | {other for other in reached[name] if name in reached[other]} for name in needs}
    for component in components:
        if any(strictly[name] & component for name in component):
            raise ValueError(f"{sorted(component)} cannot be stratified")
    below = {c: set().union(*(reached[name] for name in c)) for c in components}
    return sorted(map(set, components), key=lambda c: len(below[frozenset(c)] | c))  # a lower stratum reaches strictly less


def _reachable(name, needs):
    reached, ahead = set(), [name]
    while ahead:
        for other in needs[ahead.pop()] - reached:
            reached.add(other)
            ahead.append(other)
    return reached


def relations_in(literal) -> set[str]:
    if isinstance(literal, ir.Atom):
        return {literal.relation}
    if isinstance(literal, ir.Not):
        return {literal.atom.relation}
    if isinstance(literal, ir.Aggregate):
        return set().union(*map(relations_in, literal.body))
    return set()


# -- the order of a body


def variables(node) -> set[str]:
    """The names in a term or a literal."""
    if isinstance(node, ir.Var):
        return {node.name}
    if isinstance(node, (ir.Atom, ir.Call, ir.Pack, ir.Test, Summed)):
        return set().union(*map(variables, node.args))
    if isinstance(node, ir.Not):
        return variables(node.atom)
    if isinstance(node, ir.Compare):
        return variables(node.left) | variables(node.right)
    if isinstance(node, ir.Range):
        return set().union(*(variables(part) for part in (node.result, node.start, node.stop, node.step) if part))
    if isinstance(node, ir.Aggregate):
        return variables(node.result) | inner_variables(node)
    return set()


def inner_variables(node: ir.Aggregate) -> set[str]:
    return set().union(variables(node.target) if node.target else set(), *map(variables, node.body))


def ordered(rule: ir.Rule) -> list:
    """The body in an order where every literal finds what it needs."""
    return _ordered(rule.body, set(), variables(rule.head))


def _ordered(body, bound: set[str], outside: set[str]) -> list:
    """Filters and assignments as soon as they can be worked out, atoms as they are written."""
    left, order = list(body), []
    bound = set(bound)
    while left:
        ready = [literal for literal in left if _needs(literal, [o for o in body if o is not literal], outside, bound) <= bound]
        if not ready:
            raise ValueError(f"not grounded: {', '.join(map(str, left))}, given {sorted(bound)}")
        literal = next((candidate for candidate in ready if not isinstance(candidate, ir.Atom)), ready[0])
        left.remove(literal)
        if isinstance(literal, ir.Aggregate):
            others = outside.union(*(variables(o) for o in body if o is not literal))
            order.append((literal, _ordered(literal.body, bound & others, others)))
            bound |= variables(literal.result)
        else:
            order.append((literal, None))
            bound |= variables(literal)
    return order


def _needs(literal, others, outside, bound) -> set[str]:
    """The names that must be bound before a literal's turn comes."""
    if isinstance(literal, ir.Atom):
        return _computed(literal) - _matched(literal)
    if isinstance(literal, ir.Compare) and literal.op == "=":
        ways = [(literal.left, literal.right), (literal.right, literal.left)]
        needed = [variables(known) | (_computed(new) - _matched(new)) for known, new in ways]
        return min(needed, key=lambda names: len(names - bound))
    if isinstance(literal, ir.Range):
        return set().union(*(variables(part) for part in (literal.start, literal.stop, literal.step) if part))
    if isinstance(literal, ir.Aggregate):
        return inner_variables(literal) & outside.union(*map(variables, others))
    return variables(literal)


def _matched(node) -> set[str]:
    """The names that matching a term or an atom binds."""
    if isinstance(node, ir.Var):
        return {node.name}
    return set().union(*map(_matched, node.args)) if isinstance(node, (ir.Atom, ir.Pack)) else set()


def _computed(node) -> set[str]:
    """The names in calls, which matching cannot bind."""
    if isinstance(node, ir.Call):
        return variables(node)
    return set().union(*map(_computed, node.args)) if isinstance(node, (ir.Atom, ir.Pack)) else set()


# -- bodies and terms


def satisfied(order: list, binding: dict, tuples: dict[str, set[tuple]]):
    """All ways to satisfy an ordered body, as bindings."""
    if not order:
        yield binding
        return
    (literal, inner), *rest = order
    for extended in _ways(literal, inner, binding, tuples):
        yield from satisfied(rest, extended, tuples)


def _ways(literal, inner, binding, tuples):
    """The bindings, extended, with which one literal holds."""
    if isinstance(literal, ir.Atom):
        for row in list(tuples[literal.relation]):
            extended = matched(list(zip(literal.args, row, strict=True)), binding)
            if extended is not None:
                yield extended
    elif isinstance(literal, ir.Not):
        rows = tuples[literal.atom.relation]
        if not any(matched(list(zip(literal.atom.args, row, strict=True)), binding) is not None for row in rows):
            yield binding
    elif isinstance(literal, ir.Range):
        bounds = [value(part, binding) for part in (literal.start, literal.stop, literal.step) if part]
        for element in ranged(literal.result.kind, *bounds):
            yield from _equal(literal.result, element, binding)
    elif isinstance(literal, ir.Aggregate):
        ways = satisfied(inner, binding, tuples)
        if isinstance(literal, Distinct):
            ways = {frozenset(way.items()): way for way in ways}.values()
        values = [literal.target and value(literal.target, way) for way in ways]
        result = aggregate(literal.op, literal.target and literal.target.kind, values)
        if result is not None:
            yield from _equal(literal.result, result, binding)
    elif isinstance(literal, ir.Compare) and literal.op == "=":
        known, new = literal.left, literal.right
        if not variables(known) <= binding.keys():
            known, new = new, known
        yield from _equal(new, value(known, binding), binding)
    elif _holds(literal, binding):
        yield binding


def _equal(term, known, binding):
    extended = matched([(term, known)], binding)
    if extended is not None:
        yield extended


def _holds(literal, binding) -> bool:
    if isinstance(literal, ir.Truth):
        return literal.value
    if isinstance(literal, ir.Test):
        pattern, string = (value(arg, binding) for arg in literal.args)
        return (match(pattern, string) if literal.op == "match" else pattern in string) != literal.negated
    return COMPARISONS[literal.op](value(literal.left, binding), value(literal.right, binding))


def matched(pairs: list, binding: dict) -> dict | None:
    """The binding with which each term has the value paired with it, or None. Calls come last: they need the others."""
    binding, calls = dict(binding), []
    while pairs:
        term, known = pairs.pop()
        if isinstance(term, ir.Var):
            if not same(binding.setdefault(term.name, known), known):
                return None
        elif isinstance(term, ir.Pack):
            if known is None or term.branch and known[0] != term.branch:
                return None
            pairs += zip(term.args, known[1:] if term.branch else known, strict=True)
        elif isinstance(term, ir.Call):
            calls.append((term, known))
        elif not isinstance(term, ir.Wild) and not same(value(term, binding), known):
            return None
    return binding if all(same(value(call, binding), known) for call, known in calls) else None


def same(left, right) -> bool:
    """True if values are equal, as elements of tuples are: a NaN is equal to itself."""
    return (left,) == (right,)


def value(term, binding: dict):
    """The value of a term whose variables are bound."""
    if isinstance(term, ir.Var):
        return binding[term.name]
    if isinstance(term, ir.Const):
        return one_form(float(term.value)) if term.kind == ir.Kind.FLOAT else term.value
    if isinstance(term, ir.Pack):
        return (term.branch,) * bool(term.branch) + tuple(value(arg, binding) for arg in term.args)
    if not isinstance(term, ir.Call):
        raise NotImplementedError(f"the oracle cannot work out {term}")
    args = [value(arg, binding) for arg in term.args]
    if term.op == "as":
        return recast(term.kind, term.args[0].kind, *args)
    if term.op.startswith("to_"):
        return one_form(convert(term.kind, term.args[0].kind, *args))
    if term.op not in OPERATORS:
        raise NotImplementedError(f"the oracle cannot work out {term}")
    return fitted(OPERATORS[term.op](term.kind, *args), term.kind)


# -- closures and conjunctive queries


def closure(edges, length: int | None = None, begin=None) -> set[tuple]:
    """All pairs joined by a path of 1 to `length` edges. begin: what paths begin with in place of an edge."""
    follow = defaultdict(set)
    for x, y in edges:
        follow[x].add(y)
    delta = full = set(map(tuple, edges if begin is None else begin))
    steps = 1
    while delta and (length is None or steps < length):
        delta = {(x, z) for x, y in delta for z in follow[y]} - full
        full = full | delta
        steps += 1
    return full


def answer(query: multiway.ConjunctiveQuery, relations: dict) -> set[tuple]:
    """The bindings of a full conjunctive query, as tuples in the order of `query.variables`."""
    number = ir.Kind.NUMBER

    def term(of):
        return ir.Const(of.value, number) if isinstance(of, multiway.Constant) else ir.Var(of, number)

    atoms = [ir.Atom(each.relation, tuple(map(term, each.terms))) for each in query.atoms]
    body = [ir.Not(atom) if each.negated else atom for each, atom in zip(query.atoms, atoms, strict=True)]
    body += [ir.Compare(each.op, term(each.left), term(each.right), number) for each in query.comparisons]
    rule = ir.Rule(ir.Atom("", tuple(map(term, query.variables))), tuple(body))
    tuples = {name: {tuple(map(int, row)) for row in rows} for name, rows in relations.items()}
    return {tuple(value(arg, binding) for arg in rule.head.args) for binding in satisfied(ordered(rule), {}, tuples)}
