"""Build the syntax tree from the parser's reductions: one method for each rule of the grammar, innermost rules first.

Constructs that the grammar accepts but the engine does not support, and errors that a grammar cannot express, are recorded as
problems at their place. The tree gets a harmless substitute, so that the rest is checked, too."""

from dataclasses import replace

from semi_naive.language import syntax
from semi_naive.language.errors import Span
from semi_naive.language.parsing.build_terms import aggregate_form, integer_literal
from semi_naive.language.parsing.reduce import Reduce, node, of_fields, significant, worded
from semi_naive.language.parsing.tokens import Token
from semi_naive.language.syntax import Node

REPRESENTATIONS = ("btree", "brie", "eqrel", "ordered", "btree_delete")
JOINS = ("multiway", "boxed", "binary")
SEMANTICS = ("stratified", "wellfounded")  # semantics of negation in recursion: an error, or three-valued
IO_QUALIFIERS = ("input", "output", "printsize")  # obsolete qualifiers that are directives now


class StatementBuilder(Reduce):
    """One method for each rule of the grammar from a clause upwards.

    Its arguments are the span and the rule's symbols, as tokens or as the values of other methods: with `node` the names and
    values, with `worded` all symbols. A method without a decorator gets the list of all symbols."""

    def start(self, children):
        return _flat(children)

    # -- types

    subtype = of_fields(syntax.SubtypeDecl)
    sum_type, lattice = of_fields(syntax.SumDecl, own=1), of_fields(syntax.Lattice, own=1)

    @worded
    def old_type(self, span, keyword, name):
        """Build a subtype from an obsolete type declaration."""
        base = "number" if keyword.type == "NUMBER_TYPE" else "symbol"
        self.deprecated("Deprecated type declaration used", span, f"write .type {name} <: {base}", "deprecated-type-decl")
        return syntax.SubtypeDecl(str(name), base, span=span)

    @node
    def union(self, span, name, *members):
        spans = tuple(member.span for member in members)
        return syntax.UnionDecl(str(name), tuple(map(str, members)), spans=spans, span=span)

    @node
    def record_type(self, span, name, fields=()):
        self._check_plain(fields)
        return syntax.RecordDecl(str(name), _pairs(fields), spans=self._type_spans(fields), span=span)

    @node
    def branch(self, span, name, fields=()):
        self._check_plain(fields)
        return syntax.BranchDecl(str(name), _pairs(fields), spans=self._type_spans(fields), span=span)

    def _check_plain(self, fields):
        """Report fields of records and branches that are written as parameters or lattices. fields: (name, type); (name, type,
        span) for a lattice."""
        for name, type_, *lattice_span in fields:
            if name.startswith("$"):
                self.problem(f"A field is no parameter, as {name} is", name.span, f"write {name[1:]}: {type_}")
            if lattice_span:
                hint = f"write {name}: {type_}; a lattice is of an attribute of a relation"
                self.problem(f"Field {name} cannot be of a lattice", lattice_span[0], hint)

    @node
    def lattice_field(self, span, name, type_):
        """Return an attribute of a lattice: (name, type, span)."""
        return (name, type_, span)

    def bound(self, children):
        name, value = significant(children)
        return (str(name), value)

    # -- relations and directives

    def relation_decl(self, children):
        """Build the declarations of one or more relations, and the directives of obsolete qualifiers."""
        _keyword, names, *rest = children  # rest: attributes, qualifiers and a choice-domain, if present
        fields = next((child for child in rest if isinstance(child, list)), ())
        words = [child for child in rest if isinstance(child, Token) and child.type == "WORD"]
        qualifiers, spans = self._qualifiers(words), self._type_spans(fields)
        lattices = tuple(place for place, (_, _, *lattice_span) in enumerate(fields) if lattice_span)  # see `lattice_field`
        choice = next((child for child in rest if isinstance(child, syntax.ChoiceDomain)), syntax.NO_CHOICE)
        for word in words:
            if word in IO_QUALIFIERS:
                message, hint = f"Deprecated {word} qualifier was used", f"write .{word} {names[0]}"
                self.deprecated(message, word.span, hint, "deprecated-qualifier")
        kept = frozenset(qualifiers.difference(IO_QUALIFIERS))
        statements: list[Node] = []
        for name in names:
            span = name.span
            statements.append(syntax.RelationDecl(str(name), _pairs(fields), kept, choice, lattices, spans=spans, span=span))
            statements += [syntax.Directive(kind, str(name), span=span) for kind in IO_QUALIFIERS if kind in qualifiers]
        return statements

    def _qualifiers(self, words) -> set[str]:
        """Return the qualifiers of a relation; report conflicting ones."""
        qualifiers: set[str] = set()
        for word in words:
            rivals = REPRESENTATIONS if word in REPRESENTATIONS else (str(word),)
            if qualifiers.intersection(rivals):
                self.problem(f"{'/'.join(rivals[:4])} qualifier already set", word.span, f"leave out this {word}")
            qualifiers.add(str(word))
        return qualifiers

    def _type_spans(self, fields) -> tuple[Span, ...]:
        return tuple(type_.span for _, type_, *_ in fields)

    @node
    def delta_decl(self, _span, name, of, *words):
        """Build the declaration of a relation that records the births of relation `of`: `.decl name = debug_delta(of)`."""
        kept = frozenset(self._qualifiers(words)).difference(IO_QUALIFIERS)
        return syntax.RelationDecl(str(name), (), kept, born_of=str(of), span=name.span)

    @node
    def choice(self, span, *keys):
        return syntax.ChoiceDomain(tuple(key for key, _ in keys), tuple(place for _, place in keys), span=span)

    @node
    def dependency(self, span, *names):
        """Return a key of a choice-domain: (names of attributes, span)."""
        return tuple(map(str, names)), span

    @worded
    def functor_decl(self, span, _keyword, name, *rest):
        """Build the declaration of a user-defined functor."""
        parameters = [child for child in rest if isinstance(child, list)]
        result = next(child for child in rest if isinstance(child, Token) and child.type == "QNAME")
        stateful = isinstance(rest[-1], Token) and rest[-1] == "stateful"
        pairs = tuple(("", str(words[0])) if len(words) == 1 else (str(words[0]), str(words[1])) for words in parameters)
        spans = (*(self.between(words) for words in parameters), result.span)
        return syntax.FunctorDecl(str(name), pairs, str(result), stateful, spans, span=span)

    @worded
    def directive(self, _span, keyword, *rest):
        """Build a directive for each relation that it names."""
        settings = next((child for child in rest if isinstance(child, dict)), {})
        names = [child for child in rest if isinstance(child, Token) and child.type == "QNAME"]
        return [syntax.Directive(keyword[1:], str(name), dict(settings), span=name.span) for name in names]

    def settings(self, children):
        return dict(significant(children))

    def setting(self, children):
        key, _, value = children
        return (str(key), self._unescaped(value) if value.type == "STRING" else str(value))

    @node
    def pragma(self, span, key, value=None):
        return syntax.Pragma(self._unescaped(key), "" if value is None else self._unescaped(value), span=span)

    @node
    def semantics(self, span, name):
        """Build a pragma from a `.semantics` directive."""
        if name not in SEMANTICS:
            self.problem(f"Unknown semantics {name}", span, f"it is one of {', '.join(SEMANTICS)}")
        return syntax.Pragma("semantics", str(name), span=span)

    # -- components

    @node
    def component(self, span, head, *statements):
        """Build a component; report statements that are not allowed inside."""
        type_, *bases = head
        for declared in _flat(statements):
            if isinstance(declared, syntax.FunctorDecl | syntax.Pragma):
                kind = "directive" if isinstance(declared, syntax.Pragma) else "functor declaration"
                self.problem(f"syntax error, unexpected {kind}", declared.span, "write it outside of components")
        written = tuple((base.component, base.arguments) for base in bases)
        return syntax.Component(type_.component, type_.arguments, written, tuple(_flat(statements)), span=span)

    @node
    def component_type(self, span, name, arguments=()):
        return syntax.Init("", str(name), tuple(map(str, arguments)), span=span)

    @node
    def init(self, span, name, type_):
        """Build an instance, `.init name = Component<Types>`, from the nameless one that `component_type` has built."""
        return replace(type_, name=str(name), span=span)

    override = of_fields(syntax.Override)

    # -- clauses

    @node
    def fact(self, span, atom):
        self._check_aggregates([atom])
        return syntax.Clause((atom,), span=span)

    def rule(self, children):
        """Build a rule with its plans and join hint."""
        heads, _if, body, dot, *hints = children
        self._check_aggregates(heads)
        orders = next((hint for hint in hints if isinstance(hint, list)), [])
        plan = {version: atoms for version, atoms, _ in orders} or None
        spans = {version: place for version, _, place in orders}
        join = next((hint for hint in hints if isinstance(hint, str)), "")
        return syntax.Clause(tuple(heads), body, plan, spans, join, span=self.between([heads, dot]))

    @worded
    def subsumption(self, _span, worse, _less, better, _if, body, dot, *_plan):
        self._check_aggregates(heads=[])  # a compared tuple may not aggregate
        return syntax.Clause((worse,), body, span=self.between([worse, dot]), dominating=better)

    def _check_aggregates(self, heads):
        """Report aggregates in the form of functors, such as min(e), that are not arguments of the heads of a clause."""
        allowed = {id(arg) for head in heads for arg in head.args} if self.state.head_aggregates else ()
        for functor in self.state.head_aggregates:
            if id(functor) not in allowed:
                hint = f"an aggregate has a body, {aggregate_form(functor.name)}"
                hint += ", and the functor has two arguments or more" if functor.name in ("min", "max") else ""
                form = " with one argument" * (len(functor.args) == 1)
                self.problem(f"{functor.name}{form} outside of a head", functor.span, hint)
        self.state.head_aggregates.clear()

    @node
    def join(self, span, how):
        """Return the kind of a join hint."""
        if how not in JOINS:
            self.problem(f"the kind of join {how} is unknown", span, f"expected one of {', '.join(JOINS)}")
        return str(how)

    @node
    def order(self, span, version, *atoms):
        """Return one order of a .plan: (version, numbers of the atoms, span)."""
        return integer_literal(version), tuple(map(integer_literal, atoms)), span


def _flat(statements) -> list:
    """Return statements in one list; a rule of the grammar makes none, one or a list of several."""
    flat = []
    for statement in statements:
        if isinstance(statement, list):
            flat += statement
        elif isinstance(statement, Node):
            flat.append(statement)
    return flat


def _pairs(fields) -> tuple[tuple[str, str], ...]:
    return tuple((str(name), str(type_)) for name, type_, *_ in fields)
