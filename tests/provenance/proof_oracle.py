"""The oracle of proofs: all instances of the rules, and the least heights of proofs by them."""

from bench.fuzz.oracle import matched, ordered, satisfied, value
from semi_naive.ra import ir

EDGES = {"edge": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("c", "a")]}


def instances(rule: ir.Rule, tuples):
    """(the tuple that it makes, of each positive atom the tuples that it may have met), for all that satisfies the body."""
    atoms = [literal for literal in rule.body if isinstance(literal, ir.Atom)]
    for binding in satisfied(ordered(rule), {}, tuples):
        met = [(atom.relation, {row for row in tuples[atom.relation] if fits(atom, row, binding)}) for atom in atoms]
        yield tuple(value(arg, binding) for arg in rule.head.args), met


def fits(atom: ir.Atom, row: tuple, binding: dict) -> bool:
    return matched(list(zip(atom.args, row, strict=True)), binding) is not None


def written(program: ir.Program) -> set:
    """The facts in a program's text."""
    return {(rule.head.relation, tuple(value(arg, {}) for arg in rule.head.args)) for rule in program.rules if not rule.body}


def least_heights(program: ir.Program, facts, tuples) -> dict:
    heights = {(name, row): 0 for name, rows in facts.items() for row in rows}
    heights |= dict.fromkeys(written(program), 0)
    made = [(rule.head.relation, *one) for rule in program.rules if rule.body for one in instances(rule, tuples)]
    changed = True
    while changed:
        changed = False
        for name, head, met in made:
            known = [min((heights[other, row] for row in rows if (other, row) in heights), default=None) for other, rows in met]
            if head in tuples[name] and None not in known:
                height = 1 + max(known, default=0)
                if height < heights.get((name, head), height + 1):
                    heights[name, head], changed = height, True
    return heights


def check(proof, program: ir.Program, facts, tuples) -> None:
    """Each step is an instance of a rule, and each leaf a fact."""
    rules = {rule.text or str(rule): rule for rule in program.rules}
    waiting, seen = [proof], set()
    while waiting:
        if id(each := waiting.pop()) in seen:
            continue
        seen.add(id(each))
        if each.rule is None:
            assert (each.relation, each.tuple) in written(program) or each.tuple in facts.get(each.relation, ())
            continue
        rule = rules[each.rule]
        premises = [(one.relation, one.tuple) for one in each.premises]
        assert any(
            head == each.tuple
            and [name for name, _ in met] == [name for name, _ in premises]
            and all(row in rows for (_, rows), (_, row) in zip(met, premises, strict=True))
            for head, met in instances(rule, tuples)
        ), f"{each.atom} is not made by {rule} from {premises}"
        waiting += each.premises
