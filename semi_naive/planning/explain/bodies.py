"""Describe a compiled body in words, one line a step: the part of `explain` about rules."""

from collections.abc import Iterable, Iterator

from semi_naive.host.numbers import quantity
from semi_naive.planning.joins.body import ChosenAtom, PlannedBody
from semi_naive.planning.rewrite import substitute
from semi_naive.planning.spoken import spoken, spoken_name, spoken_variable
from semi_naive.ra import ir
from semi_naive.ra.by_variable.bigjoin import Count, Intersect, Propose, Visit
from semi_naive.ra.by_variable.multiway import Multiway
from semi_naive.ra.ir import Atom, Program, Var, Wild
from semi_naive.ra.rules import steps
from semi_naive.ra.rules.aggregated import Aggregated
from semi_naive.ra.rules.exists import Without
from semi_naive.ra.rules.folding import Folded, Streamed
from semi_naive.ra.rules.gathering import Gather, Hold
from semi_naive.ra.rules.weighing import Extreme, Weigh

PARTS = {"delta": "the delta", "full": "what is older", "all": "all", "share": "all, a share on each partition"}
INDENT = "  "
TAB = "\t"  # separates an atom from the description of its join


def describe_body(body: PlannedBody, program: Program) -> list[str]:
    """Return the description of a body's steps, in their order.

    The line of an atom says how it is joined: which part of the relation, by which attributes, by which index; the expected
    number of bindings; and why the atom has this place in the order."""
    lines = [line.partition(TAB) for line in _StepDescriber(program).lines(body.derivation.steps, iter(body.atoms))]
    width = max([len(atom) for atom, tab, _ in lines if tab], default=0)
    padded = [f"{atom:{width}}  {how}" if tab else atom for atom, tab, how in lines]
    notes = [body.note] if body.note else []
    return notes + padded or ["it reads nothing"]


def estimated(number: float, noun: str) -> str:
    """Return an estimated number with a noun as text.

    >>> estimated(1234.4, "rule"), estimated(0.3, "rule"), estimated(1.0, "rule")
    ('1,234 rules', 'less than 1 rule', '1 rule')
    """
    return f"less than 1 {noun}" if 0 < number < 1 else quantity(number, noun)


def enumerated(names: Iterable[str], word: str = "and") -> str:
    """Join names by commas, and the last one by a word.

    >>> enumerated("x"), enumerated("xy"), enumerated("xyz")
    ('x', 'x and y', 'x, y and z')
    """
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


class _StepDescriber:
    """Describes steps as lines of text. number: the number of atoms described so far; alias: the names under which variables
    made by the compiler are shown."""

    def __init__(self, program: Program):
        self.program, self.number = program, 0
        self.alias: dict[str, str] = {}

    def lines(self, steps_: Iterable, chosen: Iterator[ChosenAtom], depth: int = 0) -> Iterator[str]:
        """Yield the lines of some steps and of the steps inside them. chosen: the join order, which gives each join of an atom
        its estimate; there is none for steps in an aggregate; depth: indentation."""
        outer: list[Iterator[ChosenAtom]] = []  # the join orders to continue after a `Gather`
        for step in steps_:
            if isinstance(step, Gather):
                chosen, depth = outer.pop(), depth - 2
            yield from (INDENT * depth + line for line in self._step(step, chosen))
            # their line describes these
            if (inner := getattr(step, "steps", None)) and not isinstance(step, Propose | Intersect | Streamed):
                yield from self.lines(inner, iter(()), depth + 2)
            if isinstance(step, Hold):
                outer.append(chosen)
                chosen, depth = iter(()), depth + 2

    def _step(self, step, chosen: Iterator[ChosenAtom]) -> Iterator[str]:
        """Yield the lines of one step, without the steps inside it."""
        match step:
            case steps.Join():
                yield from self._join(step, next(chosen, None))
            case Multiway():
                yield from self._multiway(step, next(chosen, None))
            case steps.Exchange():
                every = f"every partition, for {spoken_name(step.relation)}"
                yield f"   exchange: to {f'the partition of {self._bucket(step)}' if step.keys else every}"
            case Count():
                yield f"   count {self._atom(step, ())}{self._search_of(step)}, and remember which atom has the fewest tuples"
            case Visit():
                to = enumerated(dict.fromkeys(map(self._bucket, filter(None, step.exchanges))), "or")
                condition = f"{step.turn} after the one with the fewest" if step.turn else "with the fewest tuples"
                yield f"   exchange: to the partition of the atom {condition}, of {to}"
            case Propose():
                yield self._propose(step, next(chosen, None))
            case Intersect():
                atoms = enumerated((str(self._atom(test, ())) for test in step.steps), "or")
                yield f"   if there is {atoms}, of the atom that a binding is at"
            case steps.EarlyProjection():
                yield f"   keep {enumerated(map(self._name, step.keep))}, once each" if step.keep else "   keep one"
            case steps.Filter():
                yield f"   if {self._shown(step.literal)}"
            case steps.Bind():
                yield f"   let {self._name(step.name)} = {self._shown(step.term)}"
            case steps.Unpack():
                into = f"{f'${step.branch} of ' * bool(step.branch)}{enumerated(map(self._name, step.names)) or 'nothing'}"
                yield f"   take {self._shown(step.record)} apart into {into}"
            case steps.AntiJoin():
                yield f"   unless {self._atom(step, ())}{self._search_of(step)}"
            case steps.Generate():
                yield f"   for each {self._shown(step.literal)}"
            case Aggregated(literal=ir.Aggregate() as literal) | Gather(literal=ir.Aggregate() as literal):
                yield self._aggregate(literal, step.outer, step.bound)
            case Folded():
                yield from (self._aggregate(literal, step.keys, bound=False) for literal in step.literals)
            case Streamed():
                yield f"   each {spoken_name(step.relation)}, as it is made"
            case Extreme():
                condition = "greatest" if step.greatest else "least"
                yield f"   the {condition} of {self._atom(step.join, step.join.binds)}{self._search_of(step.join)}"
            case Weigh():
                yield f"   count {self._atom(step.join, ())}{self._search_of(step.join)}"
            case Without() | Gather():  # a `Gather` of a negation, which has no aggregate
                yield "   unless there is"
            case Hold():
                sent = f"exchange: to the partition of {enumerated(map(self._name, step.outer))}, and " if step.outer else ""
                yield f"   {sent}wait for what all partitions have"

    def _join(self, step: steps.Join, chosen: ChosenAtom | None) -> Iterator[str]:
        """Yield the line of a join, and a second one if it is fused with the projection after it."""
        attributes = attribute_names(self.program, step.relation, step.order)
        for place, name in step.binds:
            if name[0].isdigit():  # a variable that the compiler has made: `Compiler._fresh_name`
                self.alias[name] = f"{spoken_name(step.relation)}.{attributes[place]}"
        if chosen is None:
            yield f"   each {self._atom(step, step.binds)}{self._search_of(step)}"
            return
        self.number += 1
        enough = "" if step.binds or step.every else "one is enough of "
        how = f"{enough}{PARTS[step.part]}{self._search_of(step)}"
        yield f"{self.number}. {spoken(chosen.atom)}{TAB}{how} → {estimated(chosen.expected, 'binding')}; {chosen.reason}"
        if step.composed:
            key, carried, new = map(self._name, step.composed)
            yield f"   fused: {key} is not needed any more, so {carried} and {new} come out once each"

    def _multiway(self, step: Multiway, chosen: ChosenAtom | None) -> Iterator[str]:
        """Yield the lines of a multiway join."""
        atoms = ", ".join(map(str, map(spoken, step.atoms)))
        if chosen is None:
            yield f"   each {atoms}, variable by variable"
        else:
            self.number += 1
            older = ", what is older of what grows" * ("full" in step.parts)
            boxed = ", box by box, with the tries in files" * step.boxed
            how = f"variable by variable{boxed}{older}{', a share on each partition' * step.share}"
            yield f"{self.number}. {atoms}{TAB}{how} → {estimated(chosen.expected, 'binding')}; {chosen.reason}"
        for literal in (*step.comparisons, *map(ir.Not, step.denied)):
            yield f"   within: {self._shown(literal)}"
        if step.steps:
            yield f"   by binary joins as long as they are expected to make few bindings, {step.each:,.0f} of each"

    def _propose(self, step: Propose, chosen: ChosenAtom | None) -> str:
        """Return the line of a step in which the atom with the fewest tuples proposes values."""
        self.number += 1
        atoms = enumerated((str(self._atom(proposal, proposal.binds)) for proposal in step.steps), "or")
        rows = f" → {estimated(chosen.expected, 'binding')}; {chosen.reason}" if chosen else ""
        proposed = self._name(step.steps[0].binds[0][1])  # each alternative binds only this variable
        return f"{self.number}. {atoms}{TAB}whichever has the fewest tuples proposes {proposed}{rows}"

    def _bucket(self, step: steps.Exchange) -> str:
        """Return as text to which bucket bindings are sent."""
        if not step.keys:
            return f"every bucket of {spoken_name(step.relation)}"
        columns = attribute_names(self.program, step.relation, step.order[: len(step.keys)])
        return f"{spoken_name(step.relation)}'s bucket by {enumerated(columns)}"

    def _aggregate(self, literal: ir.Aggregate, outer: tuple[str, ...], bound: bool) -> str:
        """Return the line of an aggregate. bound: the result is compared with a bound variable."""
        target = f" {self._shown(literal.target)}" if literal.target is not None else ""
        groups = f", for each {enumerated(map(self._name, outer))}" if outer else ""
        return f"   {'if' if bound else 'let'} {self._name(literal.result.name)} = {literal.op}{target} of{groups}"

    # -- parts of lines

    def _search_of(self, step) -> str:
        """Return as text by which attributes and in which index a step searches; "" if it reads all."""
        if not step.keys:
            return ""
        names = attribute_names(self.program, step.relation, step.order)
        return f", by {enumerated(names[: len(step.keys)])} in index ({', '.join(names)})"

    def _atom(self, step, binds: Iterable[tuple[int, str]]) -> Atom:
        """Return the atom from which a join was made, with the shown names. binds: (place in the order, variable) of the
        columns whose variables are shown."""
        args: list[ir.Term] = [Wild()] * len(step.order)
        for place, term in enumerate(step.keys):
            args[step.order[place]] = self._renamed(term)
        for place, name in binds:
            args[step.order[place]] = Var(self._name(name), ir.Kind.NUMBER)
        return spoken(Atom(step.relation, tuple(args)))

    def _renamed(self, node):
        """Return a term or literal with the shown names of its variables."""
        return substitute(node, {name: Var(alias, ir.Kind.NUMBER) for name, alias in self.alias.items()})

    def _shown(self, node) -> str:
        """Return a term or literal as text, with the shown names of its variables."""
        return str(spoken(self._renamed(node)))

    def _name(self, name: str) -> str:
        return self.alias.get(name) or spoken_variable(name)


def attribute_names(program: Program, relation: str, columns: Iterable[int]) -> list[str]:
    """Return the names of some columns of a relation."""
    names = [name for name, _ in program.relations[relation].attributes]
    return [names[column] for column in columns]
