"""The rules registered while a session runs, each for one relation, which is maintained while it has users."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from semi_naive.language import syntax
from semi_naive.planning import rewrite
from semi_naive.planning.maintaining import Maintained
from semi_naive.planning.maintaining.names import changes_only
from semi_naive.planning.rewriting.passes import Compiled, apply_passes
from semi_naive.planning.strata import strata
from semi_naive.ra import ir
from semi_naive.session.registered.canonical import canonical


@dataclass(frozen=True, eq=False)
class Inlined:
    """A relation of the session's program that is inlined: its declaration and clauses, which replace it in its readers."""

    statements: list


@dataclass(frozen=True)
class Synthesis:
    """The form in which rules are evaluated.
    compiled: the rules after all passes.
    alone: the relations of which these rules evaluate the tuples that their other atoms ask for, for themselves only.
    twin: the evaluated rules with the same canonical form that these are a copy of, by the name of their relation; "" if none.
    uses: the relations that they read, each with the values of its parameters: constants, or places among the reader's own."""

    compiled: Compiled
    uses: tuple[tuple[str, tuple[ir.Const | int, ...]], ...]
    alone: tuple[str, ...] = ()
    twin: str = ""


@dataclass(eq=False)
class Registered:
    """A relation defined by registered rules.
    text: the rules as registered; empty for a system relation, which has none.
    parameters: the names of the first attributes.
    reads: the relations of the session that the rules read, without inlined ones; inlines: the inlined ones.
    check: parses and checks the text when that is first needed; types: the types that it declares.
    inline_statements: set for a relation qualified `inline`; returns the statements that replace it in the rules of the reader
    of the given name. The relation itself is evaluated only for its own subscriptions and queries.
    users: the number of subscriptions, queries and evaluated rules that use the relation.
    strata: the numbers of its strata while it has users.
    share: True if readers read the whole relation, False if they read the parts that they ask for; None lets `Demand` choose.
    synthesis: the form in which they are evaluated, chosen when the relation gets its first user."""

    name: str
    text: str
    parameters: tuple[str, ...]
    reads: frozenset[str]
    inlines: frozenset[str]
    check: Callable[[], ir.Program]
    types: Mapping[str, ir.Type] = field(default_factory=dict)
    inline_statements: Callable[[str], list] | None = None
    users: int = 0
    strata: list[int] = field(default_factory=list)
    share: bool | None = None
    synthesis: Synthesis | None = None

    @cached_property
    def checked(self) -> ir.Program:
        """The checked rules, before any pass."""
        return self.check()

    @cached_property
    def canonical(self) -> str:
        """The canonical form of the rules, which is the same for rules that differ in names and order only."""
        return canonical(self.name, self.checked, self.reads)

    @property
    def relation(self) -> ir.Relation:
        """The relation, with the parameters as its first attributes."""
        return self.checked.relations[self.name]

    @property
    def parameter_relation(self) -> str:
        """The name of the relation of the parameter values that are in use."""
        return f"{self.name}.parameters"

    @property
    def form(self) -> Synthesis:
        """The form in which the rules are evaluated now."""
        assert self.synthesis is not None
        return self.synthesis

    @property
    def inputs(self) -> list[str]:
        """The relations whose facts the session changes: the relation of the parameters, or a system relation itself."""
        if self.parameters:
            return [self.parameter_relation]
        return [] if self.text else [self.name]

    def compiled(self) -> Compiled:
        """Return the rules after all passes. Relations that the passes add get unique names, with the relation's as prefix."""
        inputs = {*self.reads, *self.inputs} & self.checked.relations.keys()
        program = apply_passes(self.checked, {self.name}, inputs).program
        unique = f"{self.name}.", f"{self.name}@"
        names = {name: f"{self.name}.{name}" for name in program.relations
                 if name not in inputs and name != self.name and not name.startswith(unique)}  # fmt: skip

        def rename(node):
            return replace(node, relation=names[node.relation]) if getattr(node, "relation", None) in names else node

        relations = {}
        for name, relation in program.relations.items():
            new_name = names.get(name, name)
            relations[new_name] = replace(relation, name=new_name)
        program = replace(program, relations=relations, rules=[rewrite.transform(rule, rename) for rule in program.rules])
        return Compiled(program, strata(program))


def rules_of_changes(rules: Registered) -> Registered:
    """Return rules under another name, for subscribers to changes alone: the tuples of their relation are not kept. Raises
    ValueError if the changes depend on the tuples."""
    name = changes_only(rules.name)

    def renamed(node):
        own = getattr(node, "relation", None) or ""
        is_own = own == rules.name or own.startswith(f"{rules.name}.")
        return replace(node, relation=name + own[len(rules.name) :]) if is_own else node

    program, relations = rules.checked, {}
    for each in program.relations.values():
        relation = replace(each, name=renamed(ir.Atom(each.name, ())).relation)
        relations[relation.name] = relation
    changed = replace(program, relations=relations, rules=[rewrite.transform(rule, renamed) for rule in program.rules])
    stratum = next(each for each in strata(changed) if name in each.relations)
    if len(stratum.relations) > 1 or not relations[name].plain or name not in Maintained(stratum, set()).single_derivation:
        advice = "one rule without recursion and aggregates, whose head has all variables of the body, where no `_` stands"
        raise ValueError(f"the changes of {rules.name} cannot be told without its tuples: keep=False takes {advice}")
    return replace(rules, name=name, check=lambda: changed, users=0, strata=[], synthesis=None, inline_statements=None)


def system_rules(relation: ir.Relation) -> Registered:
    """Return a system relation as a registered relation without rules, so that it is maintained while it has users."""
    program = ir.Program({}, {relation.name: relation}, [])
    return Registered(relation.name, "", (), frozenset(), frozenset(), lambda: program)


Readable = ir.Relation | Registered | Inlined  # relations that registered rules may read
ReadableByName = Mapping[str, Readable]


def is_inlined(relation: Readable) -> bool:
    """True if the statements of a relation replace it in the rules that read it."""
    return isinstance(relation, Inlined) or isinstance(relation, Registered) and relation.inline_statements is not None


def defining_statements(relation: Readable, reader: str) -> list:
    """Return the statements that define a relation for rules of another, `reader`: its declaration, and clauses if inlined."""
    if isinstance(relation, Inlined):
        return relation.statements
    if isinstance(relation, Registered) and relation.inline_statements is not None:
        return relation.inline_statements(reader)
    return [_declaration(relation.relation if isinstance(relation, Registered) else relation)]


def declarations_of(relation: Readable, reader: str) -> list[syntax.RelationDecl]:
    """Return the declarations among the statements that define a relation for a reader's rules: see `defining_statements`."""
    return [node for node in defining_statements(relation, reader) if isinstance(node, syntax.RelationDecl)]


def declarations_read(nodes: Iterable, readable: ReadableByName, reader: str) -> list[syntax.RelationDecl]:
    """Return the declarations of the readable relations that the atoms among `nodes`, nodes of the reader's rules, read."""
    read = {node.relation for node in nodes if isinstance(node, syntax.Atom)} & readable.keys()
    return [declaration for name in sorted(read) for declaration in declarations_of(readable[name], reader)]


def _declaration(relation: ir.Relation) -> syntax.RelationDecl:
    """Return the syntax node that declares a relation."""
    attributes = tuple((name, type_.name) for name, type_ in relation.attributes)
    lattices = tuple(range(relation.arity - len(relation.joins), relation.arity))  # attributes of lattices come last
    return syntax.RelationDecl(relation.name, attributes, lattices=lattices)
