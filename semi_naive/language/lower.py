"""Lower typed clauses to rules of `ra.ir`: constants get their kind, aggregates and ranges become literals.

    A(x, count : { B(x, _) }) :- C(x).

becomes

    A(x, count@1) :- C(x), count@1 = count : { B(x, _) }.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

from semi_naive.language import syntax
from semi_naive.language.errors import ProgramError
from semi_naive.language.iterations import NUMBER, followed, iteration_relation
from semi_naive.language.reductions.heads import AggregatedRelation, Head, Ops, is_aggregate, is_rounded
from semi_naive.language.reductions.recursive_sums import RecursiveSums
from semi_naive.language.single import Single
from semi_naive.language.trees import variable_occurrences, walk
from semi_naive.language.types.inference import Typing, encoded_cast
from semi_naive.language.types.types import PREDEFINED, TypeEnvironment
from semi_naive.language.types.units import OF_DATES, chosen_functor
from semi_naive.planning.spoken import spoken
from semi_naive.ra import ir
from semi_naive.ra.values.encoded import bits_of_encoded_text

if TYPE_CHECKING:
    from semi_naive.functors import UserFunctor

_IDENTITY = ("min", "max", "cat")  # functors that return their argument if they have only one


def lowered(
    source: syntax.SourceProgram,
    env: TypeEnvironment,
    relations: syntax.Relations,
    typings: list[Typing],
    lattices: dict[str, str],
    summed: dict[str, Ops],
    group: Callable[[str], frozenset[str]],
    functors: Mapping | None,
) -> ir.Program:
    """Lower a program without errors. relations: the declaration of each relation; typings: the typed clauses; lattices: "min"
    or "max" of each relation with best values (see `best_values`); summed: how the heads of other relations aggregate (see
    `heads`); group: returns the strongly connected component of a relation; functors: see `checking.check_source`. Raises
    ProgramError for keys of a sum in recursion that depend on values."""
    lines = {file: text.split("\n") for file, text in source.texts.items()}
    types = {name: env.resolved(name) for name in [*PREDEFINED, *sorted(env.encoded_types), *env.declared]}
    calls = _functions(env, types, functors)
    joins = {node.name: calls.get(dict(node.bounds)["Lub"].name) for node in source.of(syntax.Lattice)}
    declared = {name: _relation(node, types, lattices.get(name), joins) for name, node in relations.items()}
    for node in source.inputs:
        if "null" in node.parameters:
            declared[node.relation] = replace(declared[node.relation], null=node.parameters["null"])
    projections = Projections(declared)
    plain = [typing for typing in typings if typing.single.head.relation not in summed]
    rules = []
    for typing in plain:
        name = typing.single.head.relation
        rules.append(_lowered_rule(typing, lattices.get(name), lines, projections, calls, iteration_relation(group(name))))
    # A relation with subsumptive clauses gets relations of the tuples to remove, and of those to compare.
    for name in dict.fromkeys(typing.single.head.relation for typing in plain if typing.single.dominates):
        dominated = declared[name] = replace(declared[name], dominated=True)
        companions = (dominated.removal, dominated.worse, dominated.better)
        declared |= {companion: ir.Relation(companion, dominated.attributes, span=dominated.span) for companion in companions}
    heads: dict[str, list[Head]] = {name: [] for name in summed}
    for typing in typings:
        if (name := typing.single.head.relation) in summed:
            heads[name].append(_lowered_head(typing, summed[name], lines, projections, calls))
    declared |= followed(declared, rules, {name: node.born_of for name, node in relations.items() if node.born_of}, group)
    sums = {name: (ops, tuple(heads[name])) for name, ops in summed.items()}
    groups = sorted({tuple(sorted(group(name))) for name in summed if group(name)})
    orders = [RecursiveSums(names, summed, declared, heads) for names in groups]
    if problems := [problem for order in orders for problem in order.problems]:
        raise ProgramError(problems, source.texts)
    for order in orders:
        declared, heads, rules = declared | order.relations, heads | order.heads, rules + order.rules
    for name, ops in summed.items():
        aggregated_relation = AggregatedRelation(declared[name], ops, heads[name])
        declared[name] = replace(declared[name], summed=True, rounded=is_rounded(ops, declared[name]))
        rules += aggregated_relation.rules()
        declared |= aggregated_relation.extra
    return ir.Program(
        types=types,
        relations=declared | projections.relations,
        rules=rules + projections.rules,
        directives=[
            ir.FileDirective(node.kind, node.relation, dict(node.parameters), node.span) for node in source.of(syntax.Directive)
        ],
        pragmas={node.key: node.value for node in source.of(syntax.Pragma)},
        texts=source.texts,
        typed=source.of(*syntax.TYPES, syntax.FunctorDecl, syntax.Lattice),
        functors=functors,
        loops=tuple(order.loop() for order in orders),
        sums=sums,
        inlined=_inline_relations(source, relations),
    )


def _inline_relations(source: syntax.SourceProgram, relations: syntax.Relations) -> dict[str, list[syntax.Node]]:
    """Return the declaration and the clauses of each relation qualified `inline`; the clauses have only its heads."""
    statements: dict[str, list[syntax.Node]] = {name: [node] for name, node in relations.items() if "inline" in node.qualifiers}
    for node in source.of(syntax.Clause) if statements else ():
        for name in dict.fromkeys(head.relation for head in node.heads if head.relation in statements):
            statements[name].append(replace(node, heads=tuple(head for head in node.heads if head.relation == name)))
    return statements


def _relation(
    node: syntax.RelationDecl, types: dict[str, ir.Type], lattice: str | None, joins: Mapping[str, "UserFunctor | None"]
) -> ir.Relation:
    """Return a declared relation in the form of `ra.ir`. types: by name; lattice: min or max, if it keeps the best value of
    each key; joins: the least upper bound of each user-defined lattice, by type."""
    attributes = tuple((name, types[type_name]) for name, type_name in node.attributes)
    places = {name: place for place, (name, _) in enumerate(attributes)}
    choice = dict.fromkeys(tuple(sorted({places[name] for name in key})) for key in node.choice.keys)
    lattice_types = [type_name for place, (_, type_name) in enumerate(node.attributes) if place in node.lattices]
    upper_bounds = tuple(joins[type_name] for type_name in lattice_types)
    return ir.Relation(node.name, attributes, node.qualifiers, lattice, tuple(choice), node.span, joins=upper_bounds)


def _functions(env: TypeEnvironment, types: dict[str, ir.Type], functors: Mapping | None) -> dict[str, "UserFunctor"]:
    """Return the column function of each declared functor that is in `functors`, by its name with @."""
    if not env.functors or functors is None:
        return {}
    from semi_naive.functors import UserFunctor

    def user_functor(node):
        params = tuple(types[type_] for _, type_ in node.parameters)
        result, function = types[node.result], functors[node.name]
        function = function.typed(params, result) if hasattr(function, "typed") else function  # a function of C
        return UserFunctor(node.name, function, params, result, types)

    return {f"@{name}": user_functor(node) for name, node in env.functors.items() if name in functors}


def _lowered_rule(
    typing: Typing, lattice: str | None, lines: dict[str, list[str]], projections: "Projections", calls: dict, iteration: str
) -> ir.Rule:
    """Lower one clause to a rule. lattice: min or max if the head's last column is aggregated in recursion; lines: the lines of
    the source files, by name; projections: collects the projections that the rule needs; calls: user-defined functors;
    iteration: the relation that holds the iteration number."""
    single, lowering = typing.single, Lowering(typing, projections, calls, iteration)
    single = _lower_subsumption(single) if single.dominates else single
    head = single.head
    if lattice and head.args and is_aggregate(head.args[-1]):
        *keys, aggregate = head.args
        head = replace(head, args=(*keys, aggregate.args[0]))
    body = [lowered for literal in single.body for lowered in lowering.literal(literal)]
    lowered_head, head_literals = lowering.atom(head)
    plan = {version: tuple(place - 1 for place in order) for version, order in (single.clause.plan or {}).items()}
    atoms = sum(isinstance(literal, syntax.Atom) for literal in single.body)
    plan = {version: order for version, order in plan.items() if sorted(order) == list(range(atoms))}  # others are errors
    if lowering.iteration:  # the last atom, as a .plan numbers the others
        head_literals = [*head_literals, ir.Atom(iteration, (lowering.iteration,))]
        plan = {version: (*order, atoms) for version, order in plan.items()}
    span = single.clause.span
    text = span.text(lines.get(span.file, ()))
    return ir.Rule(lowered_head, (*body, *head_literals), plan or None, span, text, single.clause.join)


def _lower_subsumption(single: Single) -> Single:
    """Lower a subsumptive clause: its head collects the dominated tuples, and its first two atoms read the compared ones."""
    worse, better, *rest = single.body
    assert isinstance(worse, syntax.Atom) and isinstance(better, syntax.Atom)
    head = replace(single.head, relation=f"{single.head.relation}@dominated")
    worse, better = (replace(atom, relation=f"{atom.relation}@{side}") for atom, side in ((worse, "worse"), (better, "better")))
    return replace(single, head=head, body=(worse, better, *rest))


def _lowered_head(typing: Typing, ops: Ops, lines: dict[str, list[str]], projections: "Projections", calls: dict) -> Head:
    """Lower a clause of a relation whose heads aggregate. ops: the aggregates by column."""
    single, lowering = typing.single, Lowering(typing, projections, calls)
    body = [lowered for literal in single.body for lowered in lowering.literal(literal)]
    arguments: dict[int, tuple] = {}
    key = []
    for column, arg in enumerate(single.head.args):  # `term` appends the literals that compute a value to the body
        if column in ops:
            arguments[column] = tuple(lowering.term(value, body) for value in (arg.args if is_aggregate(arg) else (arg,)))
        else:
            key.append(lowering.term(arg, body))
    span = single.clause.span
    text = span.text(lines.get(span.file, ()))
    rule = ir.Rule(ir.Atom(single.head.relation, ()), tuple(body), None, span, text, single.clause.join)
    return Head(rule, tuple(key), arguments, aggregates=any(map(is_aggregate, single.head.args)))


class Lowering:
    """The lowering of one clause. A method that lowers a part returns also the literals that must be added to the body, or
    appends them to its argument `before`."""

    def __init__(self, typing: Typing, projections: "Projections", calls: dict, number: str = ""):
        """calls: user-defined functors, by name with @; number: the relation with the iteration's number, or ""."""
        self.typing, self.projections, self.calls, self.number = typing, projections, calls, number
        self.iteration: ir.Var | None = None  # the number of the iteration, if the clause uses it

    @cached_property
    def _numbers(self) -> Iterator[int]:
        """The numbers that renamed variables of the clause do not have yet."""
        names = [node.name for node in self.typing.single.of(syntax.Variable)]
        return count(1 + max((int(name.split("@")[1]) for name in names if "@" in name), default=0))

    def fresh(self, name: str, kind: ir.Kind) -> ir.Var:
        """Return a new variable whose name begins with `name`."""
        return ir.Var(f"{name}@{next(self._numbers)}", kind)

    def kind(self, node: syntax.Node) -> ir.Kind:
        """Return the inferred kind of an expression; number if it is undetermined."""
        return self.typing.kind(node) or ir.Kind.NUMBER

    # -- literals

    def literal(self, node: syntax.Node) -> list:
        """Return a lowered literal, after the literals that compute its arguments."""
        if isinstance(node, syntax.Atom):
            atom, before = self.atom(node, positive=True)
            return [*before, atom]
        if isinstance(node, syntax.Constraint):
            return self._constraint(node)
        assert isinstance(node, syntax.Negation)
        if isinstance(node.body, syntax.Constraint):
            *before, test = self._constraint(node.body)
            return [*before, replace(test, negated=True)]
        assert isinstance(node.body, syntax.Atom)
        atom, before = self.atom(node.body)
        return [*before, ir.Not(atom)]

    def atom(self, node: syntax.Atom, positive=False) -> tuple[ir.Atom, list]:
        """Return (atom, literals to be added before it). positive: `_` in a record may become a variable."""
        before: list = []
        args = [
            ir.Wild() if isinstance(arg, syntax.Underscore) else self.term(arg, before, named=positive) for arg in node.args
        ]
        return ir.Atom(node.relation, tuple(args)), before

    def _constraint(self, node: syntax.Constraint) -> list:
        """Return the literals of a constraint."""
        if not node.args:
            return [ir.Truth(node.op == "true")]
        before: list = []
        left, right = (self.term(side, before) for side in node.args)
        if node.op in ("match", "contains"):
            return [*before, ir.Test(node.op, (left, right))]
        kind = self.typing.kind(node.args[0]) or self.kind(node.args[1])
        return [*before, ir.Compare(node.op, left, right, kind)]

    # -- terms: `before` takes the literals that make their values

    def term(self, node: syntax.Node, before: list, named=True) -> ir.Term:
        """Return a lowered term. named: `_` in a record becomes a variable, which is allowed if it is bound there."""
        if isinstance(node, syntax.Variable):
            return ir.Var(node.name, self.kind(node))
        if isinstance(node, syntax.Underscore):
            return self.fresh("_", self.kind(node)) if named else ir.Wild()
        if isinstance(node, syntax.Number):
            kind = self.kind(node)
            return ir.Const(float(node.value) + 0.0 if kind == ir.Kind.FLOAT else int(node.value), kind)  # 0.0 for -0.0
        if isinstance(node, syntax.String):
            return self._string(node)
        if isinstance(node, syntax.Nil):
            return ir.Const(None, ir.Kind.RECORD)
        if isinstance(node, syntax.RecordInit):
            (name,) = self.typing.types(node) or frozenset()  # a record of several types would be an error
            return ir.Pack(tuple(self.term(arg, before, named) for arg in node.args), self.typing.env.base(name))
        if isinstance(node, syntax.BranchInit):
            declared = self.typing.env.branch(node.name)
            assert declared is not None
            args = tuple(self.term(arg, before, named) for arg in node.args)
            return ir.Pack(args, declared[0], node.name, self.typing.env.tag(node.name))
        if isinstance(node, syntax.As):
            return self._cast(node, before)
        if isinstance(node, syntax.Aggregate):
            return self._aggregate(node, before)
        assert isinstance(node, syntax.Functor)
        return self._functor(node, before)

    def _string(self, node: syntax.String) -> ir.Const:
        """Return a string as a symbol, or as the number that it denotes where a date, say, is required."""
        types = self.typing.types(node) or frozenset()
        encoded = self.typing.env.encoded_as(*types) if len(types) == 1 else None
        if encoded is None:
            return ir.Const(node.value, ir.Kind.SYMBOL)
        return _encoded_constant(node.value, encoded)

    def _cast(self, node: syntax.As, before: list) -> ir.Term:
        """Return a cast as a term. A value of an enumeration is a record: (number of its branch, 0)."""
        if encoded := encoded_cast(node, self.typing.env):
            text, kind = encoded
            return _encoded_constant(text.value, kind)
        value, kind = self.term(node.value, before), self.typing.env.kind(node.type)
        assert not isinstance(value, ir.Wild)  # `_` becomes a variable
        if value.kind == kind:
            return value
        if self._is_enumeration([node.type]):
            return ir.Pack((value, ir.Const(0, ir.Kind.NUMBER)), self.typing.env.base(node.type))
        value = self._branch_number(value, node.value, before) or value
        return value if value.kind == kind else ir.Call("as", (value,), kind)

    def _branch_number(self, value: ir.Term, node: syntax.Node, before: list) -> ir.Var | None:
        """Return the number of the branch that an expression (`node`, lowered to `value`) is, if its type is an enumeration.
        Otherwise return None."""
        if not self._is_enumeration(types := self.typing.types(node) or frozenset()):
            return None
        number = self.fresh("branch", ir.Kind.NUMBER)
        (name,) = types
        record = ir.Pack((number, ir.Wild()), self.typing.env.base(name))
        before.append(ir.Compare("=", value, record, ir.Kind.RECORD))
        return number

    def _is_enumeration(self, types: Collection[str]) -> bool:
        """True for one algebraic data type of which no branch has fields."""
        branches = [branch for name in types for branch in self.typing.env.branches(name)]
        return len(types) == 1 and bool(branches) and not any(branch.fields for branch in branches)

    def _functor(self, node: syntax.Functor, before: list) -> ir.Term:
        """Return a functor as a term."""
        if node.name == "autoinc":
            return ir.Autoinc()
        if node.name == NUMBER:
            return self._iteration()
        args = tuple(self.term(arg, before) for arg in node.args)
        if node.name in _IDENTITY and len(args) == 1:
            return args[0]
        if node.name == "+" and self.kind(node) == ir.Kind.SYMBOL:
            return ir.Call("cat", args, ir.Kind.SYMBOL)
        if node.name == "ord":
            args = (self._branch_number(args[0], node.args[0], before) or args[0],)
        if node.name in OF_DATES:
            name, cut = chosen_functor(self.typing, node)
            args = (ir.Call("date", args, ir.Kind.NUMBER),) if cut else args
            return args[0] if name == "as" else ir.Call(name, args, self.kind(node))
        if node.name != "range":
            return ir.Call(node.name, args, self.kind(node), self.calls.get(node.name))
        result = self.fresh("range", self.kind(node))
        before.append(ir.Range(result, *args))
        return result

    def _iteration(self) -> ir.Term:
        """Return the variable of the clause's iteration number, bound outside of aggregates."""
        if not self.number:
            return ir.Const(0, ir.Kind.UNSIGNED)
        self.iteration = self.iteration or self.fresh("iteration", ir.Kind.UNSIGNED)
        return self.iteration

    def _aggregate(self, node: syntax.Aggregate, before: list) -> ir.Var:
        """Return the variable of an aggregate's result, and add the aggregate to `before`."""
        body = [lowered for literal in node.literals for lowered in self.literal(literal)]
        if _aggregates_set(node):
            body = [self.projections.of(lowered) if isinstance(lowered, ir.Atom) else lowered for lowered in body]
        target = self.term(node.target, body) if node.target is not None else None
        result = self.fresh(node.op, self.kind(node))
        init = self.term(node.init, before) if node.init is not None else None
        before.append(ir.Aggregate(result, node.op, target, tuple(body), init, self.calls.get(node.op[1:])))
        return result


def _aggregates_set(aggregate: syntax.Aggregate) -> bool:
    """True if the aggregate counts tuples that differ only in `_` as one.

    Soufflé does so if the body becomes a relation of its named variables: with several atoms, a nested aggregate, or a repeated
    variable in its atom. Otherwise every tuple counts by itself, with or without constraints."""
    if aggregate.op in ("min", "max") or isinstance(aggregate.target, syntax.Number):
        return False
    atoms = [literal for literal in aggregate.literals if isinstance(literal, syntax.Atom)]
    names = [variable.name for atom in atoms for variable in variable_occurrences(atom)]
    nodes = (node for part in (*aggregate.literals, aggregate.target) if part is not None for node in walk(part))
    return len(atoms) > 1 or len(names) > len(set(names)) or any(isinstance(node, syntax.Aggregate) for node in nodes)


class Projections:
    """The projections of relations that a program needs: b@0 has the distinct values of the first attribute of b."""

    def __init__(self, declared: dict[str, ir.Relation]):
        self.declared = declared
        self.relations: dict[str, ir.Relation] = {}  # the projections, by name
        self.rules: list[ir.Rule] = []  # one for each of them

    def of(self, atom: ir.Atom) -> ir.Atom:
        """Return the atom over the projection without its arguments `_`."""
        columns = [column for column, arg in enumerate(atom.args) if not isinstance(arg, ir.Wild)]
        if len(columns) == len(atom.args):
            return atom
        name = f"{atom.relation}@only{'_'.join(map(str, columns))}"
        if name not in self.relations:
            self._add(name, self.declared[atom.relation], columns)
        return ir.Atom(name, tuple(atom.args[column] for column in columns))

    def _add(self, name: str, relation: ir.Relation, columns: list[int]):
        """Add the projection of a relation to some columns, and its rule."""
        attributes = tuple(relation.attributes[column] for column in columns)
        terms = [ir.Var(attribute, type_.kind) for attribute, type_ in relation.attributes]
        body = ir.Atom(relation.name, tuple(term if column in columns else ir.Wild() for column, term in enumerate(terms)))
        rule = ir.Rule(ir.Atom(name, tuple(terms[column] for column in columns)), (body,), span=relation.span)
        self.relations[name] = ir.Relation(name, attributes, span=relation.span)
        self.rules.append(replace(rule, text=str(spoken(rule))))


def _encoded_constant(text: str, kind: ir.Kind) -> ir.Const:
    """Return the number that a text denotes, such as the day of a date."""
    return ir.Const(bits_of_encoded_text(text, kind), ir.Kind.NUMBER, text)
