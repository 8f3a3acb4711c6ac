"""What a program means, worked out in the plainest way: sets of tuples of Python values, nested loops, everything derived
again and again until nothing new comes. Slow, and independent of the engine that it judges.

Values are ints, floats, strs, tuples for records and None for nil. autoinc, ord, and `as` to or from symbols and records are
left out: they speak of ids, and an oracle has none.
"""

from itertools import count

from datalog_operators import COMPARISONS, OPERATORS, aggregate, by_size, convert, fitted, match, one_form, ranged, recast

from semi_naive.ra.rules import ir


def solve(program: ir.Program, facts: dict[str, set[tuple]], iterations: int | None = None) -> dict[str, set[tuple]]:
    """Every relation of the program, computed from the facts of some. iterations: of each stratum, no more; the first makes
    what needs no tuple of the stratum, each further one applies all rules to what the one before has left."""
    tuples = {name: {tuple(map(one_form, row)) for row in facts.get(name, ())} for name in program.relations}
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
    for rule, body in rules:
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
        return {(x, y) for c in classes for x in c for y in c}
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
    if isinstance(node, (ir.Atom, ir.Call, ir.Pack, ir.Test)):
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
        values = [literal.target and value(literal.target, way) for way in satisfied(inner, binding, tuples)]
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
            if known is None:
                return None
            pairs += zip(term.args, known, strict=True)
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
        return tuple(value(arg, binding) for arg in term.args)
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
