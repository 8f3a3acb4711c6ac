"""Random programs, as rules of `ra.rules.ir` with their facts: stratified, grounded, and sure to come to an end.

What is recursive can only make numbers that a guard keeps small, short strings, and records of numbers. All values are such
that sums of floats are exact, and nothing is ever divided by zero.
"""

import math
from dataclasses import replace

from hypothesis import strategies as st

from semi_naive.ra.rules import ir
from semi_naive.ra.rules.ir import (
    Aggregate,
    Atom,
    Call,
    Compare,
    Const,
    Kind,
    Not,
    Pack,
    Range,
    Relation,
    Rule,
    Type,
    Var,
    Wild,
)

NUMBER, UNSIGNED, FLOAT, SYMBOL, RECORD = Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL, Kind.RECORD
TYPES = {kind.value: Type(kind.value, kind) for kind in (NUMBER, UNSIGNED, FLOAT, SYMBOL)}
TYPES["Pair"] = Type("Pair", RECORD, (("a", "number"), ("b", "number")))
VALUES = {
    NUMBER: (0, 1, 2, 3, -1),
    UNSIGNED: (0, 1, 2**63, 2**64 - 1),
    FLOAT: (-1.5, 0.5, 2.0, 0.0, -0.0, math.nan),
    SYMBOL: ("", "a", "ab", "b", "é"),
    RECORD: (None, (0, 1), (1, 1), (1, 2)),
}
NAMES = {NUMBER: "xyz", UNSIGNED: "uv", FLOAT: "fg", SYMBOL: "st", RECORD: "pq"}
OFTEN = [NUMBER, NUMBER, NUMBER, SYMBOL, SYMBOL, RECORD, UNSIGNED, FLOAT]
ORDERED = ["<", "<=", ">", ">=", "!=", "="]


@st.composite
def programs(draw, carrying: bool = False):
    """(program, facts): two to four relations of facts, and one to three strata of one or two relations with rules. carrying:
    all recursive rules carry the first column."""
    kinds = draw(st.lists(st.sampled_from(OFTEN), min_size=1, max_size=2)) + [NUMBER]  # few, so that relations join
    relations = {f"e{i}": draw(_relation(f"e{i}", kinds)) for i in range(draw(st.integers(2, 4)))}
    facts = {name: draw(_facts(relation)) for name, relation in relations.items()}
    directives = [ir.Directive("input", name) for name in relations]
    rules, compared = [], {}
    for stratum in range(draw(st.integers(1, 3))):
        names = [f"r{stratum}{letter}" for letter in "ab"[: draw(st.integers(1, 2))]]
        peers = {name: draw(_carrier(name, kinds) if carrying else _derived(name, kinds)) for name in names}
        for relation in peers.values():
            rules.append(_Rule(draw, relations, {}, relation).made())  # something to start from
            for _ in range(draw(st.integers(int(carrying), 3))):
                rules.append(_Rule(draw, relations, peers, relation, carrying).made())
        for relation in peers.values():
            if relation.dominated:
                growing = {name: peer for name, peer in peers.items() if not peer.dominated}
                rules.append(draw(_removal(relation, relations, growing)))  # one, so that nothing goes and comes back for ever
                beside = relation.removal, relation.worse, relation.better
                compared |= {name: Relation(name, relation.attributes) for name in beside}
        relations |= peers
        directives += [ir.Directive("output", name) for name in names]
    return ir.Program(TYPES, relations | compared, rules, directives), facts


def listing(program: ir.Program, facts: dict) -> str:
    """The case to read, when it went wrong.

    >>> print(listing(ir.Program({}, {}, [Rule(Atom("a", ()))]), {"e": {(2,), (1,)}}))
    e(1).
    e(2).
    a().
    """
    rows = [f"{name}({', '.join(map(repr, row))})." for name in facts for row in sorted(facts[name], key=repr)]
    return "\n".join(rows + [str(rule) for rule in program.rules])


@st.composite
def _relation(draw, name, among):
    arity = draw(st.sampled_from([0, 1, 1, 2, 2, 2, 2, 3, 3]))
    kinds = draw(st.lists(st.sampled_from(among), min_size=arity, max_size=arity))
    return Relation(name, tuple((f"a{i}", _type(kind)) for i, kind in enumerate(kinds)))


@st.composite
def _derived(draw, name, among):
    """Now and then an equivalence, a lattice over a number, a relation with a choice, or one whose tuples subsume others."""
    relation = draw(_relation(name, among))
    special = draw(st.integers(0, 11))
    if special == 0:
        type_ = _type(draw(st.sampled_from([NUMBER, SYMBOL])))
        return Relation(name, (("a0", type_), ("a1", type_)), frozenset(["eqrel"]))
    if special == 1:
        return Relation(
            name, (*relation.attributes[:2], ("value", _type(NUMBER))), lattice=draw(st.sampled_from(["min", "max"]))
        )
    if special < 4 and relation.arity:
        key = st.sets(st.integers(0, relation.arity - 1), min_size=1).map(sorted).map(tuple)
        return replace(relation, choice=tuple(draw(st.lists(key, min_size=1, max_size=2, unique=True))))
    return replace(relation, dominated=special < 6 and any(kind != RECORD for kind in relation.kinds))


@st.composite
def _removal(draw, relation: Relation, below: dict, peers: dict):
    """A subsumptive rule: two tuples agree in some attributes and are compared by others, perhaps on conditions, which read the
    strata below, or relations of the same stratum."""
    worse = [Var(f"w{at}", kind) for at, kind in enumerate(relation.kinds)]
    better = [Var(f"b{at}", kind) for at, kind in enumerate(relation.kinds)]
    by = draw(st.sampled_from([at for at, kind in enumerate(relation.kinds) if kind != RECORD]))
    tests: list = [Compare(draw(st.sampled_from(["<", ">"])), better[by], worse[by], worse[by].kind)]
    for at, variable in enumerate(worse):
        how = draw(st.integers(0, 3))
        if at != by and how < 2:
            better[at] = variable
        elif at != by and how == 2 and variable.kind != RECORD:
            tests.append(Compare(draw(st.sampled_from(["<=", ">="])), better[at], variable, variable.kind))
    for name, other in (below | peers).items():
        if draw(st.integers(0, 1 if name in peers else 7)) == 0 and worse[0].kind in other.kinds:
            atom = Atom(
                name, tuple(worse[0] if at == other.kinds.index(worse[0].kind) else Wild() for at in range(other.arity))
            )
            tests.append(atom if name in peers else draw(st.sampled_from([atom, Not(atom)])))
    body = draw(st.permutations([Atom(relation.worse, tuple(worse)), Atom(relation.better, tuple(better)), *tests]))
    rule = Rule(Atom(relation.removal, tuple(worse)), tuple(body))
    return replace(rule, text=str(rule))


@st.composite
def _carrier(draw, name, among):
    """With a number in front; now and then a lattice."""
    relation = draw(_relation(name, among))
    attributes = (("group", _type(NUMBER)), *relation.attributes[:2])
    if draw(st.integers(0, 4)) == 0:
        return Relation(name, (*attributes, ("value", _type(NUMBER))), lattice=draw(st.sampled_from(["min", "max"])))
    return Relation(name, attributes)


def _type(kind: Kind) -> Type:
    return TYPES["Pair" if kind == RECORD else kind.value]


def _facts(relation: Relation):
    some = min(6, 3**relation.arity)
    return st.sets(st.tuples(*(st.sampled_from(VALUES[kind]) for kind in relation.kinds)), min_size=some, max_size=2 * some)


class _Rule:
    """One rule in the making. `known`: the names that are bound so far, by kind."""

    def __init__(self, draw, lower: dict, peers: dict, relation: Relation, carrying: bool = False):
        self.draw, self.lower, self.peers, self.relation, self.carrying = draw, lower, peers, relation, carrying
        self.body, self.known, self.fresh = [], {kind: [] for kind in NAMES}, 0
        self.recursive = False

    def made(self) -> Rule:
        self._atoms()
        if self.body:
            for extra in self.draw(st.lists(st.sampled_from(EXTRAS), max_size=2)):
                extra(self)
        head = Atom(self.relation.name, tuple(map(self._made_for, range(self.relation.arity))))
        rule = Rule(head, tuple(self.draw(st.permutations(self.body))))
        return Rule(rule.head, rule.body, text=str(rule))

    # -- choices

    def chance(self, of: int) -> bool:
        return self.draw(st.integers(1, of)) == of

    def const(self, kind: Kind):
        value = self.draw(st.sampled_from(VALUES[kind]))
        if kind == RECORD and value is not None:
            return Pack(tuple(Const(part, NUMBER) for part in value), "Pair")
        return Const(value, kind)

    def bound(self, kind: Kind):
        """A variable that is bound, or a constant where there is none."""
        names = self.known[kind]
        return Var(self.draw(st.sampled_from(names)), kind) if names else self.const(kind)

    def new(self, kind: Kind) -> Var:
        self.fresh += 1
        return Var(f"{NAMES[kind][0]}{self.fresh}", kind)

    def bind(self, variable: Var) -> Var:
        if variable.name not in self.known[variable.kind]:
            self.known[variable.kind].append(variable.name)
        return variable

    # -- atoms

    def _atoms(self) -> None:
        for _ in range(self.draw(st.sampled_from([0, 1, 1, 2, 2, 2, 3]))):
            relation = self.draw(st.sampled_from(list(self.lower.values())))
            # a lattice value may go nowhere but into the value of a lattice of its own kind: `_recursive_lattice`
            peers = [peer for peer in self.peers.values() if not peer.lattice and not self.relation.lattice]
            own = bool(peers) and self.chance(2)
            if own:
                relation = self.draw(st.sampled_from(peers))
                self.recursive = True
            self.body.append(Atom(relation.name, self._patterns(relation.kinds, own)))
        if self.relation.lattice and self.chance(2):
            self._recursive_lattice()

    def _patterns(self, kinds, own: bool) -> tuple:
        """The arguments of a positive atom, perhaps of the stratum's own."""
        carried = (self.bind(Var("g", NUMBER)),) if own and self.carrying else ()
        return (*carried, *map(self._pattern, kinds[len(carried) :]))

    def _pattern(self, kind: Kind):
        """An argument of a positive atom."""
        choice = self.draw(st.integers(0, 23))
        if choice < 2:
            return Wild()
        if choice == 2:
            return self.const(kind)
        if choice == 3 and kind == NUMBER and self.known[kind]:
            return Call("+", (self.bound(kind), self.const(kind)), kind)
        if choice < 14 and kind == RECORD:
            return Pack((self._pattern(NUMBER), self._pattern(NUMBER)), "Pair")
        return self.bind(Var(self.draw(st.sampled_from(NAMES[kind])), kind))

    def _recursive_lattice(self) -> None:
        """p(…, min(d + 1)) :- p(…, d), …: only what is monotone, and never goes on for ever."""
        value = Var("d", NUMBER)
        self.body.append(Atom(self.relation.name, (*self._patterns(self.relation.kinds[:-1], True), value)))
        self.recursive = True
        steps = [value, Call("max", (value, Const(1, NUMBER)), NUMBER), Call("min", (value, Const(4, NUMBER)), NUMBER)]
        if self.relation.lattice == "min":
            steps.append(Call("+", (value, Const(self.draw(st.integers(0, 3)), NUMBER)), NUMBER))
        self.lattice_value = self.draw(st.sampled_from(steps))

    def _checked(self, kind: Kind):
        """An argument of a negated atom."""
        if self.chance(4):
            return Wild()
        return self.bound(kind)

    def _made_for(self, position: int):
        """An argument of the head."""
        kind = self.relation.kinds[position]
        if self.carrying and self.recursive and position == 0:
            return Var("g", NUMBER)
        if self.relation.lattice and position == self.relation.arity - 1 and hasattr(self, "lattice_value"):
            return self.lattice_value
        if kind == NUMBER and not self.recursive and self.chance(4):
            return self._expression(self.bound)
        if kind == RECORD and self.chance(2):
            return Pack((self.bound(NUMBER), self.bound(NUMBER)), "Pair")
        return self.bound(kind)

    def _expression(self, leaf):
        op = self.draw(st.sampled_from(["+", "-", "*", "min", "max", "band", "bor", "bxor", "/", "%", "neg", "lnot", "bshr"]))
        if op in ("neg", "lnot"):
            return Call(op, (leaf(NUMBER),), NUMBER)
        right = Const(self.draw(st.sampled_from([-3, 2, 7])), NUMBER) if op in ("/", "%") else leaf(NUMBER)
        return Call(op, (leaf(NUMBER), right), NUMBER)

    # -- what a body may have besides

    def compare(self) -> None:
        kind = self.draw(st.sampled_from([k for k in OFTEN if self.known[k]] or [NUMBER]))
        op = self.draw(st.sampled_from(ORDERED if kind != RECORD else ["=", "!="]))
        right = self.const(kind) if self.chance(2) else self.bound(kind)
        self.body.append(Compare(op, self.bound(kind), right, kind))

    def assign(self) -> None:
        variable = self.new(NUMBER)
        if not self.recursive:
            term = self._expression(self.bound)
        else:
            old = self.bound(NUMBER)
            term = Call("+", (old, Const(self.draw(st.integers(1, 3)), NUMBER)), NUMBER)
            self.body.append(Compare("<", old, Const(12, NUMBER), NUMBER))
        sides = (variable, term) if self.chance(2) else (term, variable)
        self.body.append(Compare("=", *sides, NUMBER))
        self.bind(variable)

    def string(self) -> None:
        old, variable = self.bound(SYMBOL), self.new(SYMBOL)
        length = Call("strlen", (old,), NUMBER)
        self.body.append(Compare("<", length, Const(3, NUMBER), NUMBER))
        terms = [
            Call("cat", (old, Const("b", SYMBOL)), SYMBOL),
            Call("substr", (old, Const(0, NUMBER), Const(1, NUMBER)), SYMBOL),
            Call("max", (old, Const("ab", SYMBOL)), SYMBOL),
            Call("to_string", (Call("band", (self.bound(NUMBER), Const(3, NUMBER)), NUMBER),), SYMBOL),
        ]
        self.body.append(Compare("=", variable, self.draw(st.sampled_from(terms)), SYMBOL))
        self.bind(variable)

    def test(self) -> None:
        op, pattern = self.draw(st.sampled_from([("match", "a.*"), ("match", "[ab]*"), ("contains", "b"), ("contains", "")]))
        self.body.append(ir.Test(op, (Const(pattern, SYMBOL), self.bound(SYMBOL)), self.chance(2)))

    def unpack(self) -> None:
        parts = tuple(self.bind(self.new(NUMBER)) for _ in "ab")
        record = self.bound(RECORD)
        self.body.append(Compare("=", record, Pack(parts, "Pair"), RECORD))

    def negate(self) -> None:
        relation = self.draw(st.sampled_from(list(self.lower.values())))
        self.body.append(Not(Atom(relation.name, tuple(map(self._checked, relation.kinds)))))

    def span(self) -> None:
        variable = self.new(NUMBER)
        start = Const(self.draw(st.integers(-2, 4)), NUMBER)
        stop = Call("band", (self.bound(NUMBER), Const(7, NUMBER)), NUMBER)
        step = Const(self.draw(st.sampled_from([1, 2, -1, 0])), NUMBER) if self.chance(2) else None
        self.body.append(Range(variable, start, stop, step))
        self.bind(variable)

    def aggregate(self) -> None:
        literal = self._aggregate()
        self.body.append(literal)
        if literal.op == "mean":  # not to be added up: sums of thirds depend on their order
            self.body.append(Compare(self.draw(st.sampled_from(ORDERED)), literal.result, self.const(FLOAT), FLOAT))
        else:
            self.bind(literal.result)

    def _aggregate(self, around: dict | None = None) -> Aggregate:
        """`around`: the own variables of the aggregate that this one is in."""
        own, body = {kind: [] for kind in NAMES}, []
        for _ in range(self.draw(st.integers(1, 2))):
            relation = self.draw(st.sampled_from(list(self.lower.values())))
            body.append(Atom(relation.name, tuple(self._inside(kind, own, around) for kind in relation.kinds)))
        if around is None and self.chance(4):
            nested = self._aggregate(own)
            body.append(nested)
            own[nested.result.kind].append(nested.result)
        if own[NUMBER] and self.chance(2):
            left = self.draw(st.sampled_from(own[NUMBER]))
            body.append(Compare(self.draw(st.sampled_from(ORDERED)), left, self.bound(NUMBER), NUMBER))
        targets = [variable for kind in (NUMBER, UNSIGNED, FLOAT) for variable in own[kind]]
        target = self.draw(st.sampled_from(targets)) if targets and self.chance(2) else None
        op = self.draw(st.sampled_from(["sum", "min", "max", "mean"])) if target else "count"
        if op == "mean" and (target.kind == UNSIGNED or around):
            op = "max"  # large unsigneds are not exact as floats
        if target and target.kind == NUMBER and op != "mean" and self.chance(3):
            target = Call("*", (target, Const(2, NUMBER)), NUMBER)
        result = self.new(FLOAT if op == "mean" else target.kind if target else NUMBER)
        return Aggregate(result, op, target, tuple(body))

    def _inside(self, kind: Kind, own: dict, around: dict | None):
        """An argument of an atom in an aggregate: mostly a variable of its own, or one it shares with what is around."""
        choice = self.draw(st.integers(0, 7))
        if around and around[kind] and choice > 5:
            return self.draw(st.sampled_from(around[kind]))
        if choice == 0:
            return Wild()
        if choice < 3:
            return self.bound(kind)
        if own[kind] and choice == 3:
            return self.draw(st.sampled_from(own[kind]))
        own[kind].append(self.new(kind))
        return own[kind][-1]


EXTRAS = [
    _Rule.compare, _Rule.assign, _Rule.string, _Rule.test, _Rule.unpack, _Rule.negate, _Rule.span, _Rule.aggregate,
    _Rule.negate, _Rule.aggregate,
]  # fmt: skip
