"""Random rules: one at a time, of the relations that a program in the making (`random_programs`) has."""

from dataclasses import replace

from bench.fuzz.oracle import Summed
from bench.fuzz.random_types import FLOAT, NAMES, NUMBER, OFTEN, RECORD, SHAPE, SYMBOL, TYPES, UNSIGNED, constant, types_of
from semi_naive.ra import ir
from semi_naive.ra.ir import Aggregate, Atom, Call, Compare, Const, Kind, Not, Pack, Range, Relation, Rule, Var, Wild

ORDERED = ["<", "<=", ">", ">=", "!=", "="]
CYCLES = {
    "triangle": ["xy", "yz", "xz"],
    "square": ["xy", "yz", "zt", "xt"],
    "diamond": ["xy", "yz", "xz", "yt", "zt"],
    "wide": ["xyz", "zt", "xt"],
    "with ears": ["xy", "yz", "xz", "zt", "x", "ts"],
    "4-clique": ["xy", "xz", "xt", "yz", "yt", "zt"],
    "wide pair": ["xyz", "yzt", "xt", "xz"],
}


class RandomRule:
    """One rule in the making. `known`: the names that are bound so far, by type."""

    def __init__(self, maker, relation: Relation, peers: dict, beside: dict):
        self.maker, self.random, self.chance, self.has = maker, maker.random, maker.chance, maker.has
        self.lower, self.relation, self.peers, self.beside = [*maker.lower.values()], relation, peers, beside
        self.body, self.known, self.fresh = [], {of: [] for of in NAMES}, 0
        self.recursive, self.lattice_value, self.sums = False, None, maker.sums.get(relation.name, {})

    def made(self) -> list[Rule]:
        """The rule; one for each of its heads."""
        self.atoms()
        if self.body:
            self.extras()
        if self.chance(5) or not all(self.known[of] for _, types in self.sums.values() for of in types):
            self.sums = {}
        heads = [self.relation]
        if self.has("heads", 3):
            others = [each for each in self.beside.values() if not each.lattice and each.name not in self.maker.sums]
            heads += [each for each in others if each.name != self.relation.name]
        body = tuple(self.random.sample(self.body, len(self.body)))
        rules = [Rule(Atom(each.name, self.head(each)), body) for each in heads]
        return [replace(rule, text=str(rule)) for rule in rules]

    def extras(self) -> None:
        for extra, feature in self.random.choices(EXTRAS, k=self.random.randrange(3)):
            if feature in {None, *self.maker.features}:
                extra(self)

    # -- choices

    def const(self, of: str):
        return constant(self.random.choice([value for value in self.maker.values[of] if "nan" not in repr(value)]), of)

    def bound(self, of: str):
        """A variable that is bound, or a constant where there is none."""
        return Var(self.random.choice(self.known[of]), TYPES[of].kind) if self.known[of] else self.const(of)

    def bind(self, name: str, of: str) -> Var:
        if name not in self.known[of]:
            self.known[of].append(name)
        return Var(name, TYPES[of].kind)

    def new(self, of: str) -> Var:
        self.fresh += 1
        return Var(f"{NAMES[of][0]}{self.fresh}", TYPES[of].kind)

    def new_bound(self, of: str) -> Var:
        return self.bind(self.new(of).name, of)

    def pack(self, of: str, part) -> Pack:
        """A record, or a branch, of parts by type."""
        if not TYPES[of].branches:
            return Pack(tuple(part(inner) for _, inner in TYPES[of].fields), of)
        tag = self.random.randrange(len(SHAPE))
        return Pack(tuple(part(inner) for _, inner in SHAPE[tag].fields), of, SHAPE[tag].name, tag)

    # -- atoms

    def atoms(self) -> None:
        for _ in range(self.random.choice([0, 1, 1, 2, 2, 2, 3])):
            relation = self.random.choice(self.lower)
            # a lattice value may go nowhere but into the value of a lattice of its own kind: `recursive_lattice`
            peers = [each for each in self.peers.values() if not each.lattice and not self.relation.lattice]
            own = bool(peers) and self.chance(2)
            if own:
                relation, self.recursive = self.random.choice(peers), True
            self.body.append(Atom(relation.name, self.patterns(types_of(relation), own)))
        if self.relation.lattice and self.peers and self.chance(2):
            self.recursive_lattice()

    def patterns(self, types: list[str], own: bool) -> tuple:
        """The arguments of a positive atom, perhaps of the stratum's own."""
        carried = (self.bind("c", "number"),) if own and self.maker.carrying else ()
        return (*carried, *map(self.pattern, types[len(carried) :]))

    def pattern(self, of: str):
        """An argument of a positive atom."""
        choice = self.random.randrange(24)
        if choice < 2:
            return Wild() if not self.sums or self.has("anonymous sums") else self.new_bound(of)
        if choice == 2:
            return self.const(of)
        if choice == 3 and of == "number" and self.known[of]:
            return Call("+", (self.bound(of), self.const(of)), NUMBER)
        if choice < 14 and TYPES[of].kind == RECORD:
            return self.pack(of, self.pattern)
        return self.bind(self.random.choice(NAMES[of]), of)

    def recursive_lattice(self) -> None:
        """p(…, min(d + 1)) :- p(…, d), …: only what is monotone, and never goes on for ever."""
        value = Var("d", NUMBER)
        self.body.append(Atom(self.relation.name, (*self.patterns(types_of(self.relation)[:-1], True), value)))
        self.recursive = True
        steps = [value, Call("max", (value, Const(1, NUMBER)), NUMBER), Call("min", (value, Const(4, NUMBER)), NUMBER)]
        if self.relation.lattice == "min":
            steps.append(Call("+", (value, Const(self.random.randint(0, 3), NUMBER)), NUMBER))
        self.lattice_value = self.random.choice(steps)

    # -- heads

    def head(self, relation: Relation) -> tuple:
        return tuple(self.made_for(relation, at, of) for at, of in enumerate(types_of(relation)))

    def made_for(self, relation: Relation, position: int, of: str):
        """An argument of a head."""
        if relation is self.relation and position in self.sums:
            op, types = self.sums[position]
            return Summed(op, tuple(map(self.bound, types)))
        if self.maker.carrying and self.recursive and position == 0:
            return Var("c", NUMBER)
        if relation.lattice and position == relation.arity - 1 and self.lattice_value:
            return self.lattice_value
        if of == "number" and not self.recursive and self.chance(4):
            return self.expression()
        if of == "symbol" and self.has("polymorphic", 3):
            return Call("to_string", (self.bound("number"),), SYMBOL)
        return self.pack(of, self.inner) if TYPES[of].kind == RECORD and self.chance(2) else self.bound(of)

    def inner(self, of: str):
        """A part of a record that a head makes: in recursion none that could be made of itself again and again."""
        return self.const(of) if self.recursive and of in ("List", "Shape") else self.bound(of)

    def expression(self):
        op = self.random.choice(["+", "-", "*", "min", "max", "band", "bor", "bxor", "/", "%", "neg", "lnot", "bshr"])
        if op in ("neg", "lnot"):
            return Call(op, (self.bound("number"),), NUMBER)
        right = Const(self.random.choice([-3, 2, 7]), NUMBER) if op in ("/", "%") else self.bound("number")
        return Call(op, (self.bound("number"), right), NUMBER)

    # -- what a body may have besides

    def equal(self, variable: Var, term) -> None:
        self.body.append(Compare("=", *((variable, term) if self.chance(2) else (term, variable)), variable.kind))

    def compare(self) -> None:
        of = self.random.choice([of for of in OFTEN if self.known[of]] or ["number"])
        op = self.random.choice(ORDERED if self.maker.ordered([of]) else ["=", "!="])
        right = self.const(of) if self.chance(2) else self.bound(of)
        self.body.append(Compare(op, self.bound(of), right, TYPES[of].kind))

    def assign(self) -> None:
        if not self.recursive:
            term = self.expression()
        else:
            old = self.bound("number")
            term = Call("+", (old, Const(self.random.randint(1, 3), NUMBER)), NUMBER)
            self.body += [Compare("<", old, Const(12, NUMBER), NUMBER), Compare("<", Const(-9, NUMBER), old, NUMBER)]
        self.equal(self.new_bound("number"), term)

    def string(self) -> None:
        old, number = self.bound("symbol"), Call("band", (self.bound("number"), Const(3, NUMBER)), NUMBER)
        self.body.append(Compare("<", Call("strlen", (old,), NUMBER), Const(3, NUMBER), NUMBER))
        terms = [
            Call("cat", (old, Const("b", SYMBOL)), SYMBOL),
            Call("substr", (old, Const(0, NUMBER), Const(1, NUMBER)), SYMBOL),
            Call("max", (old, Const("ab", SYMBOL)), SYMBOL),
            Call("to_string", (number,), SYMBOL),
        ]
        self.body.append(Compare("=", self.new_bound("symbol"), self.random.choice(terms), SYMBOL))

    def polymorphic(self) -> None:
        """A string of a term that is a number only as nothing else is said."""
        number, two = self.new("number"), Const(2, NUMBER)
        calls = [Call("bnot", (two,), NUMBER), Call("min", (two, Const(1, NUMBER)), NUMBER), Call("+", (two, two), NUMBER)]
        form = self.random.randrange(4)
        if form == 0:
            self.body.append(Range(number, Const(0, NUMBER), Const(self.random.randint(1, 4), NUMBER)))
        elif form < 3:
            self.equal(number, calls[form - 1])
        self.equal(
            self.new_bound("symbol"), Call("to_string", (number if form < 3 else Call("as", (calls[2],), NUMBER),), SYMBOL)
        )

    def test(self) -> None:
        op, pattern = self.random.choice([("match", "a.*"), ("match", "[ab]*"), ("contains", "b"), ("contains", "")])
        self.body.append(ir.Test(op, (Const(pattern, SYMBOL), self.bound("symbol")), self.chance(2)))

    def unpack(self) -> None:
        if known := [of for of in NAMES if TYPES[of].kind == RECORD and self.known[of]]:
            of = self.random.choice(known)
            self.body.append(Compare("=", self.bound(of), self.pack(of, self.new_bound), RECORD))

    def negate(self) -> None:
        relation = self.random.choice(self.lower)
        self.body.append(Not(Atom(relation.name, tuple(map(self.checked, types_of(relation))))))

    def checked(self, of: str):
        """An argument of a negated atom."""
        if self.chance(4):
            return Wild()
        return self.pack(of, self.bound) if TYPES[of].kind == RECORD and self.chance(3) else self.bound(of)

    def span(self) -> None:
        start, stop = Const(self.random.randint(-2, 4), NUMBER), Call("band", (self.bound("number"), Const(7, NUMBER)), NUMBER)
        step = Const(self.random.choice([1, 2, -1, 0]), NUMBER) if self.chance(2) else None
        self.body.append(Range(self.new_bound("number"), start, stop, step))

    # -- aggregates

    def aggregate(self) -> None:
        if {"text", "sums"} & self.maker.features and any(isinstance(each, Aggregate) for each in self.body):
            return  # each could bind what the other takes from outside, which the language refuses
        literal, of = self.aggregated()
        self.body.append(literal)
        if literal.op == "mean":  # not to be added up: sums of thirds depend on their order
            self.body.append(Compare(self.random.choice(ORDERED), literal.result, self.const("float"), FLOAT))
        else:
            self.bind(literal.result.name, of)

    def aggregated(self, around: dict | None = None) -> tuple[Aggregate, str]:
        """An aggregate and the type of its result. `around`: the own variables of the aggregate that this one is in."""
        own, body = {of: [] for of in NAMES}, []
        inside = self.inside if self.maker.has("injected") else self.random.choice([self.closed, self.plain])
        for _ in range(1 if inside == self.plain else self.random.randint(1, 2)):
            relation = self.random.choice(self.lower)
            body.append(Atom(relation.name, tuple(inside(of, own, around) for of in types_of(relation))))
        if around is None and self.maker.has("nested", 4):
            nested, of = self.aggregated(own)
            body.append(nested)
            own[of].append(nested.result)
        if own["number"] and self.chance(2):
            left = self.random.choice(own["number"])
            right = self.bound("number") if inside == self.inside else self.const("number")
            body.append(Compare(self.random.choice(ORDERED), left, right, NUMBER))
        targets = [(of, each) for of in ("number", "unsigned", "float") for each in own[of]]
        if not targets or self.chance(2):
            return Aggregate(self.new("number"), "count", None, tuple(body)), "number"
        of, target = self.random.choice(targets)
        op = self.random.choice(["sum", "min", "max", "mean"] if self.maker.ordered([of]) else ["sum"])
        if op == "mean" and (of == "unsigned" or around or {"powers", "wide"} & self.maker.features):
            op = "max"  # large integers are not exact as floats
        if of == "number" and op == "mean":
            of, target = "float", Call("to_float", (target,), FLOAT)
        elif of == "number" and self.chance(3):
            target = Call("*", (target, Const(2, NUMBER)), NUMBER)
        return Aggregate(self.new(of), op, target, tuple(body)), of

    def inside(self, of: str, own: dict, around: dict | None):
        """An argument of an atom in an aggregate: mostly a variable of its own, or one it shares with what is around."""
        choice = self.random.randrange(8)
        if around and around[of] and choice > 5:
            return self.random.choice(around[of])
        if choice == 0:
            return Wild()
        if choice < 3:
            return self.bound(of)
        if own[of] and choice == 3:
            return self.random.choice(own[of])
        if TYPES[of].kind == RECORD and choice == 4:
            return self.pack(of, lambda inner: self.inside(inner, own, around))
        return self.own(of, own)

    def closed(self, of: str, own: dict, _):
        """An argument of an atom in an aggregate that takes nothing from outside."""
        if self.chance(6):
            return self.const(of)
        return self.random.choice(own[of]) if own[of] and self.chance(5) else self.own(of, own)

    def plain(self, of: str, own: dict, _):
        """An argument of the only atom of an aggregate: a variable that is shared with what is around, or once in the atom."""
        return self.bound(of) if self.chance(3) else self.own(of, own)

    def own(self, of: str, own: dict) -> Var:
        own[of].append(self.new(of))
        return own[of][-1]


EXTRAS = [
    (RandomRule.compare, None), (RandomRule.assign, None), (RandomRule.string, "strings"), (RandomRule.test, "strings"),
    (RandomRule.unpack, "records"), (RandomRule.negate, "negation"), (RandomRule.negate, "negation"),
    (RandomRule.span, "ranges"), (RandomRule.aggregate, "aggregates"), (RandomRule.aggregate, "aggregates"),
    (RandomRule.polymorphic, "polymorphic"),
]  # fmt: skip


class CyclicRule(RandomRule):
    """A rule whose body is a cycle of variables of one type, with constants, wildcards, repeated variables, comparisons, and
    negation."""

    def atoms(self) -> None:
        (of,) = self.maker.types
        for names in self.random.choice([*CYCLES.values()]):
            args, change = [self.bind(name, of) for name in names], self.random.randrange(25)
            if change < 3 and len(args) > 1:
                args[self.random.randrange(len(args))] = (self.const(of), Wild(), args[0])[change]
            relation = self.random.choice({1: "u", 2: "eeeffr", 3: "w"}[len(names)])
            self.body.append(Atom(relation, tuple(self.random.sample(args, len(args)))))
        bound = {term.name for atom in self.body for term in atom.args if isinstance(term, Var)}
        self.known[of] = [name for name in self.known[of] if name in bound]
        self.recursive = True  # what it makes are variables

    def extras(self) -> None:
        (of,), kind = self.maker.types, TYPES[self.maker.types[0]].kind
        for _ in range(self.random.choice([0, 0, 1, 2])):
            right = self.const(of) if self.chance(2) else self.bound(of)
            self.body.append(Compare(self.random.choice(["<", "!=", ">=", "="]), self.bound(of), right, kind))
        if self.chance(2):
            self.body.append(Not(Atom("f", (self.bound(of), self.bound(of) if self.chance(2) else Wild()))))


def counting(random, kind: Kind, body: tuple) -> Rule:
    """A rule for the bindings of a body, counted, or with a variable summed: of all, or of those with each value of a variable.
    Some literals may have lost what binds them."""
    if random.randrange(4) == 0:
        some = [each for each in body[: random.randint(1, len(body))] if isinstance(each, Atom)]
        body = some or [Atom("e", (Var("x", kind), Wild()))]
    atoms = [each for each in body if isinstance(each, Atom)]
    bound = sorted({term for each in atoms for term in each.args if isinstance(term, Var)}, key=str)
    target = random.choice([None, *bound]) if kind in (NUMBER, UNSIGNED) else None
    result, group = Var("n", kind if target else NUMBER), random.choice([None, *bound])
    literals = [Atom("u", (group,))] * bool(group) + [Aggregate(result, "sum" if target else "count", target, tuple(body))]
    literals += [Atom("e", (Wild(), result))] * (result.kind == kind and random.randrange(3) == 0)
    return Rule(Atom("counts", (group, result) if group else (result,)), tuple(literals))
