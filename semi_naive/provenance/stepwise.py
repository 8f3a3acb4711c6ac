"""Components in steps, in terms of their declared relations: the rules as they hold once all steps are complete.

    rank@this(v, r) :- share@last(v, s), rank@step(step), …        rank(n, v, r) :- share(n - 1, v, s), n = step, …

The evaluated rules are those of `language.stepping.rules`.
"""

from dataclasses import replace

from semi_naive.language.stepping.rules import STEP
from semi_naive.planning import rewrite
from semi_naive.ra import ir

NUMBER = "step@n"  # the step of the head


def with_whole_steps(program: ir.Program) -> ir.Program:
    """The program with rules over relations that hold all steps, in place of the rules over those that hold one."""
    for loop in program.loops:
        if loop.steps:
            program = _Whole(program, loop.steps).program()
    return program


class _Whole:
    """The relations of one component: `held` has the declared relation of each that holds one step, and how many steps before
    that is."""

    def __init__(self, before: ir.Program, steps: ir.Steps):
        self.before, self.steps, self.columns = before, steps, dict(steps.columns)
        self.kind = before.relations[steps.step].kinds[0]
        ages = {"@this": 0, "@last": 1} | {f"@older{age}": age for age in range(2, steps.lookback + 1)}
        self.held = {name + suffix: (name, age) for name in self.columns for suffix, age in ages.items()}
        self.given = {f"{name}@given": name for name in self.columns if f"{name}@this" not in before.sums}

    def program(self) -> ir.Program:
        rules = [made for rule in self.before.rules for made in self._rules(rule)]
        sums = {}
        for name, (ops, heads) in self.before.sums.items():
            if name in self.held:
                name, _ = self.held[name]
                at = self.columns[name]
                ops = {place + (place >= at): op for place, op in ops.items()}
                heads = tuple(
                    self._head(head, at - sum(place < at for place in ops), at)
                    for head in heads
                    if not self._reads_facts(head.rule)
                )
            sums[name] = ops, heads
        loops = tuple(loop for loop in self.before.loops if loop.steps != self.steps)
        return replace(self.before, rules=rules, sums=sums, loops=loops)

    def _rules(self, rule: ir.Rule):
        name = rule.head.relation
        if name == self.steps.entries or name in self.columns or self._reads_facts(rule):
            return
        yield self._whole(rule)

    def _reads_facts(self, rule: ir.Rule) -> bool:
        return any(atom.relation in self.given for atom in rewrite.positive_atoms(rule.body))

    def _head(self, head, key_place: int, at: int):
        """A head that aggregates, with the step in its key and in the values by column."""
        key = (*head.key[:key_place], self._step(0), *head.key[key_place:])
        arguments = {place + (place >= at): terms for place, terms in head.arguments.items()}
        return replace(head, rule=self._whole(head.rule), key=key, arguments=arguments)

    def _step(self, before: int) -> ir.Var:
        return ir.Var(NUMBER + str(before or ""), self.kind)

    def _whole(self, rule: ir.Rule) -> ir.Rule:
        """A rule with the step in each atom: that of the head, the rule's own variable for one before, or one more variable."""
        atoms = [node for node in rewrite.walk(rule.body) if isinstance(node, ir.Atom)]
        read = sorted({self.held[atom.relation][1] for atom in atoms if atom.relation in self.held} - {0})
        own = {before: name for literal in rule.body for before, name in self._told(literal)}
        terms = {before: own.get(before, self._step(before)) for before in read} | {0: self._step(0)}
        more = [self._equation(before) for before in read if before not in own]
        made = rewrite.transform(rule, lambda node: self._change(node, terms))
        return replace(made, body=(*made.body, *more), plan=None)

    def _equation(self, before: int) -> ir.Compare:
        less = ir.Call("-", (self._step(0), ir.Const(before, self.kind)), self.kind)
        return ir.Compare("=", self._step(before), less, self.kind)

    def _told(self, literal):
        """Yield the number of steps, and the variable, of an equation that `language.stepping.rules` has made: k = step - 1."""
        if isinstance(literal, ir.Compare) and isinstance(literal.left, ir.Var) and isinstance(literal.right, ir.Call):
            op, args = literal.right.op, literal.right.args
            if op == "-" and isinstance(args[0], ir.Var) and args[0].name == STEP and isinstance(args[1], ir.Const):
                yield args[1].value, literal.left

    def _change(self, node, terms: dict[int, ir.Var]):
        if not isinstance(node, ir.Atom):
            return node
        if node.relation == self.steps.step:
            return ir.Compare("=", node.args[0], terms[0], self.kind)
        if node.relation in self.given:
            return replace(node, relation=self.given[node.relation])
        if node.relation not in self.held:
            return node
        name, before = self.held[node.relation]
        at = self.columns[name]
        return ir.Atom(name, (*node.args[:at], terms[before], *node.args[at:]))
