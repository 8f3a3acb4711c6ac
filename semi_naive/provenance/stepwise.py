"""Rewrite the rules of components in steps for provenance: over the declared relations, which hold all steps.

    rank@this(v, r) :- share@last(v, s), rank@step(step), …        rank(n, v, r) :- share(n - 1, v, s), n = step, …

The rules on the left, for one step, are evaluated (`language.stepping.rules`).
"""

from dataclasses import replace

from semi_naive.language.stepping.rules import STEP
from semi_naive.planning import rewrite
from semi_naive.ra import ir
from semi_naive.ra.loops import Steps

NUMBER = "step@n"  # the step of the head


def with_whole_steps(program: ir.Program) -> ir.Program:
    """Return the program with rules over relations that hold all steps, in place of the rules over relations of one step."""
    for loop in program.loops:
        if loop.steps:
            program = _WholeSteps(program, loop.steps).rewritten()
    return program


class _WholeSteps:
    """The rewriting of one component's rules.

    columns: the column with the number of the step, by declared relation.
    of_one_step: relations that hold one step, as (declared relation, age: the number of steps before the head's).
    of_facts: relations of given facts, with their declared relation.
    """

    def __init__(self, program: ir.Program, steps: Steps):
        self.program, self.steps, self.columns = program, steps, dict(steps.columns)
        self.kind = program.relations[steps.step].kinds[0]
        ages = {"@this": 0, "@last": 1} | {f"@older{age}": age for age in range(2, steps.lookback + 1)}
        self.of_one_step = {name + suffix: (name, age) for name in self.columns for suffix, age in ages.items()}
        self.of_facts = {f"{name}@given": name for name in self.columns if f"{name}@this" not in program.sums}

    def rewritten(self) -> ir.Program:
        """Return the program with the component's rules over declared relations, and without its loop. The columns of an
        aggregated relation from that of the step on move by one."""
        generated = {self.steps.entries, *self.columns}
        rules = [rule for rule in self.program.rules if rule.head.relation not in generated and not self._reads_facts(rule)]
        sums = {}
        for name, (ops, heads) in self.program.sums.items():
            if name in self.of_one_step:
                name, _ = self.of_one_step[name]
                column = self.columns[name]
                ops = {place + (place >= column): op for place, op in ops.items()}
                key_place = column - sum(place < column for place in ops)
                heads = tuple(self._head(head, key_place, column) for head in heads if not self._reads_facts(head.rule))
            sums[name] = ops, heads
        loops = tuple(loop for loop in self.program.loops if loop.steps != self.steps)
        return replace(self.program, rules=[self._with_steps(rule) for rule in rules], sums=sums, loops=loops)

    def _reads_facts(self, rule: ir.Rule) -> bool:
        """True for a generated rule that copies given facts."""
        return any(atom.relation in self.of_facts for atom in rewrite.positive_atoms(rule.body))

    def _head(self, head, key_place: int, column: int):
        """Return an aggregated head with the step's number at a place of its key, which is a column of its relation."""
        key = (*head.key[:key_place], self._step(0), *head.key[key_place:])
        arguments = {place + (place >= column): terms for place, terms in head.arguments.items()}
        return replace(head, rule=self._with_steps(head.rule), key=key, arguments=arguments)

    def _step(self, age: int) -> ir.Var:
        """Return the variable of the step that is `age` steps before the head's."""
        return ir.Var(NUMBER + str(age or ""), self.kind)

    def _with_steps(self, rule: ir.Rule) -> ir.Rule:
        """Return a rule with the step's number in each atom: a variable of the rule that is equal to it, or a new one."""
        atoms = [node for node in rewrite.walk(rule.body) if isinstance(node, ir.Atom)]
        read = sorted({self.of_one_step[atom.relation][1] for atom in atoms if atom.relation in self.of_one_step} - {0})
        equated = {age: variable for literal in rule.body for age, variable in self._step_equation(literal)}
        terms = {age: equated.get(age, self._step(age)) for age in read} | {0: self._step(0)}
        equations = [
            ir.Compare("=", self._step(age), ir.Call("-", (self._step(0), ir.Const(age, self.kind)), self.kind), self.kind)
            for age in read
            if age not in equated
        ]
        changed = rewrite.transform(rule, lambda node: self._change(node, terms))
        return replace(changed, body=(*changed.body, *equations), plan=None)

    def _step_equation(self, literal):
        """Yield (age, k) for an equation k = step - age that `language.stepping.rules` has made; nothing for other literals."""
        if isinstance(literal, ir.Compare) and isinstance(literal.left, ir.Var) and isinstance(literal.right, ir.Call):
            op, args = literal.right.op, literal.right.args
            if op == "-" and isinstance(args[0], ir.Var) and args[0].name == STEP and isinstance(args[1], ir.Const):
                yield args[1].value, literal.left

    def _change(self, node, terms: dict[int, ir.Var]):
        """Return a node over declared relations. terms: the variable of the step of each age."""
        if not isinstance(node, ir.Atom):
            return node
        if node.relation == self.steps.step:
            return ir.Compare("=", node.args[0], terms[0], self.kind)
        if node.relation in self.of_facts:
            return replace(node, relation=self.of_facts[node.relation])
        if node.relation not in self.of_one_step:
            return node
        name, age = self.of_one_step[node.relation]
        column = self.columns[name]
        return ir.Atom(name, (*node.args[:column], terms[age], *node.args[column:]))
