"""Random programs, as rules of `ra.ir` with facts and transactions: stratified, grounded, and sure to terminate.

    case = random_case(random.Random(17), without={"wide"}); print(case)

Recursion makes only numbers that a guard keeps small, short strings, and records of bounded depth. Sums of floats are exact,
and no divisor is zero. Each of `FEATURES` can be switched off.
"""

import math
from dataclasses import replace

from bench.fuzz.cases import Case, Relations
from bench.fuzz.oracle import Summed
from semi_naive import Branch
from semi_naive.ra import ir
from semi_naive.ra.ir import (
    Aggregate,
    Atom,
    Call,
    Compare,
    Const,
    Constructor,
    Kind,
    Not,
    Pack,
    Range,
    Relation,
    Rule,
    Type,
    Var,
    Wild,
)  # fmt: skip

NUMBER, UNSIGNED, FLOAT, SYMBOL, RECORD = Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT, Kind.SYMBOL, Kind.RECORD
FEATURES = {  # and in which part of the programs each is
    "aggregates": 1, "choices": 1, "eqrel": 1, "floats": 1, "injected": 1, "lattices": 1, "negation": 1, "nested": 1,
    "ranges": 1, "records": 1, "strings": 1, "subsumption": 1, "unsigned": 1, "letters": 0.8, "middle": 0.8,
    "anonymous sums": 0.5, "sums": 0.4, "branches": 0.3, "heads": 0.3, "self-subsumption": 0.3, "wide": 0.3, "lists": 0.2,
    "polymorphic": 0.2, "powers": 0.2, "tags": 0.4, "text": 0.2, "zeros": 0.2,
}  # fmt: skip
SHAPE = (
    Constructor("Box", (("n", "number"), ("p", "Pair"))),
    Constructor("Dot"),
    Constructor("Two", (("l", "Shape"), ("r", "Shape"))),
)
TYPES = {kind.value: Type(kind.value, kind) for kind in (NUMBER, UNSIGNED, FLOAT, SYMBOL)} | {
    "Pair": Type("Pair", RECORD, (("a", "number"), ("b", "number"))),
    "Tag": Type("Tag", RECORD, (("f", "float"), ("s", "symbol"), ("u", "unsigned"))),
    "List": Type("List", RECORD, (("head", "number"), ("tail", "List"))),
    "Shape": Type("Shape", RECORD, branches=SHAPE),
}
DOT = Branch("Dot")
VALUES = {
    "number": (0, 1, 2, 3, -1),
    "unsigned": (0, 1, 2**64 - 1),
    "float": (-1.5, 0.5, 2.0),
    "symbol": ("", "a", "ab", "b"),
    "Pair": (None, (0, 1), (1, 1), (1, 2)),
    "Tag": (None, (0.5, "a", 1), (0.5, "ab", 0), (2.0, "b", 2**64 - 1)),
    "List": (None, (1, None), (0, (1, None)), (1, (1, None))),
    "Shape": (DOT, Branch("Box", 1, (0, 1)), Branch("Box", 0, None), Branch("Two", DOT, Branch("Box", 1, (0, 1)))),
}
MORE = {
    "letters": {"symbol": ("é",), "Tag": ((0.5, "é", 1),)},
    "middle": {"unsigned": (2**63,)},
    "powers": {"number": (-(2**62), 2**61)},  # of which sums are -2**63
    "wide": {"number": (2**40 + 1, -(2**62) + 1, 2**61 + 1)},
    "zeros": {"float": (0.0, -0.0, math.nan), "Tag": ((0.0, "a", 1), (-0.0, "a", 1), (math.nan, "b", 1))},
}
NAMES = {
    "number": "xyz",
    "unsigned": "uv",
    "float": "fg",
    "symbol": "st",
    "Pair": "pq",
    "Tag": "mn",
    "List": "kl",
    "Shape": "hj",
}
OFTEN = ["number", "number", "number", "symbol", "symbol", "Pair", "unsigned", "float", *["List", "Shape", "Tag"] * 3]
FEATURE_OF = {"unsigned": "unsigned", "float": "floats", "Pair": "records", "Tag": "tags", "List": "lists", "Shape": "branches"}
SIMPLE = ("number", "number", "symbol", "float", "unsigned")
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


def random_case(random, without=frozenset(), features=frozenset(), carrying: bool = False) -> Case:
    """Make two to four relations of facts, and one to three strata of one to three relations with rules. without, features:
    those that are left out, and that every program has. carrying: all recursive rules carry the first column."""
    return _Maker(random, without, features, carrying).case()


def cyclic_case(random, types=SIMPLE, counted: bool = False) -> Case:
    """Make rules of one type, with cyclic bodies. counted: another rule counts the bindings of a body, or sums a variable."""
    return _Maker(random, {*FEATURES}).cyclic(random.choice(types), counted)


def types_of(relation: Relation) -> list[str]:
    return [type_.name for _, type_ in relation.attributes]


def declared(name: str, types: list[str], **more) -> Relation:
    return Relation(name, tuple((f"a{at}", TYPES[of]) for at, of in enumerate(types)), **more)


def constant(value, of: str):
    """The term for a value of a type."""
    if value is None or TYPES[of].kind != RECORD:
        return Const(value, TYPES[of].kind)
    if not TYPES[of].branches:
        return Pack(tuple(constant(part, inner) for part, (_, inner) in zip(value, TYPES[of].fields, strict=True)), of)
    (tag,) = [tag for tag, each in enumerate(SHAPE) if each.name == value[0]]
    parts = zip(value[1:], SHAPE[tag].fields, strict=True)
    return Pack(tuple(constant(part, inner) for part, (_, inner) in parts), of, value[0], tag)


class _Maker:
    """One program in the making."""

    def __init__(self, random, without=frozenset(), features=frozenset(), carrying: bool = False):
        self.random, self.carrying = random, carrying
        drawn = {name for name, part in FEATURES.items() if random.random() < part}
        self.features = frozenset((drawn | {*features}) - {*without})
        self.values = dict(VALUES)
        for of, values in (each for feature in MORE if feature in self.features for each in MORE[feature].items()):
            self.values[of] += values
        possible = [name for name in OFTEN if FEATURE_OF.get(name) in {None, *self.features}]
        self.types = [*random.choices(possible, k=random.randint(1, 2)), "number"]  # few, so that relations join
        self.lower: Relations = {}  # complete before the stratum in the making
        self.sums: dict[str, dict[int, tuple]] = {}  # by relation and column: how heads aggregate, and the types of what

    def chance(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    def has(self, feature: str, of: int = 1) -> bool:
        return feature in self.features and self.chance(of)

    def case(self) -> Case:
        random = self.random
        self.lower = {f"e{i}": self.relation(f"e{i}") for i in range(random.randint(2, 4))}
        sizes = {name: min(6, 3**each.arity) for name, each in self.lower.items()}
        facts = {name: self.rows(each, sizes[name], 2 * sizes[name]) for name, each in self.lower.items()}
        rules, unread = [], {}
        for stratum in range(random.randint(1, 3)):
            letters = "abc"[: random.choice([1, 1, 1, 2, 2, 2, 3])]
            peers = {f"r{stratum}{letter}": self.derived(f"r{stratum}{letter}") for letter in letters}
            inexact = {name: peers.pop(name) for name in [*peers] if self.is_inexact(name)}
            for relation in (*inexact.values(), *peers.values()):
                rules += self.rules_of(relation, peers)
            for relation in (each for each in peers.values() if each.dominated):
                rules.append(self.removal(relation, peers))  # one, so that nothing goes and comes back for ever
                beside = relation.removal, relation.worse, relation.better
                unread |= {name: Relation(name, relation.attributes) for name in beside}
            unread |= inexact
            self.lower |= peers
        return self.made(rules, self.lower | unread, facts)

    def made(self, rules: list[Rule], relations: dict, facts: Relations) -> Case:
        outputs = [name for name in relations if name not in facts and "@" not in name]
        directives = [ir.FileDirective("input", name) for name in facts] + [
            ir.FileDirective("output", name) for name in outputs
        ]
        program = ir.Program(TYPES, relations, rules, directives)
        return Case(program, facts, self.steps(program, facts), self.features)

    def row(self, relation: Relation) -> tuple:
        return tuple(self.random.choice(self.values[of]) for of in types_of(relation))

    def rows(self, relation: Relation, least: int, most: int) -> set[tuple]:
        return {self.row(relation) for _ in range(self.random.randint(least, most))}

    def steps(self, program: ir.Program, facts: Relations) -> list:
        """Some transactions, on relations of facts and on some that rules make."""
        random, operations = self.random, ["insert", "insert", "insert", "delete", "delete", "upsert", "clear"]
        derived = [name for name in program.relations if name not in facts and "@" not in name and name not in self.sums]
        names = [*facts, *random.sample(derived, min(len(derived), random.randrange(3)))]

        def operation() -> tuple:
            name = random.choice(names)
            return random.choice(operations), name, [self.row(program.relations[name]) for _ in range(random.randint(1, 3))]

        return [[operation() for _ in range(random.randint(1, 3))] for _ in range(random.randint(1, 5))]

    # -- relations

    def relation(self, name: str) -> Relation:
        arity = self.random.choice([3, 4, 5] if self.has("wide", 3) else [0, 1, 1, 2, 2, 2, 2, 3, 3])
        return declared(name, self.random.choices(self.types, k=arity))

    def derived(self, name: str) -> Relation:
        """Make, now and then, an equivalence, a lattice over a number, a relation with a choice, with tuples that subsume
        others, or with heads that aggregate."""
        random, special, types = self.random, self.random.randrange(14), types_of(self.relation(name))
        if self.carrying:
            lattice = random.choice(["min", "max"]) if special < 3 else None
            return declared(name, ["number", *types[:2], *["number"] * bool(lattice)], lattice=lattice)
        if special == 0 and self.has("eqrel"):
            return declared(name, [random.choice(self.types)] * 2, qualifiers=frozenset(["eqrel"]))
        if special == 1 and self.has("lattices"):
            return declared(name, [*types[:2], "number"], lattice=random.choice(["min", "max"]))
        if special < 4 and types and self.has("choices"):
            key = lambda: tuple(sorted(random.sample(range(len(types)), random.randint(1, len(types)))))  # noqa: E731
            return declared(name, types, choice=tuple(dict.fromkeys(key() for _ in range(random.randint(1, 2)))))
        if special > 10 and self.has("sums"):
            return self.summed(name, types[:2])
        return declared(name, types, dominated=special in (4, 5) and self.has("subsumption") and bool(self.ordered(types)))

    def ordered(self, types: list[str]) -> list[int]:
        """The places of the types whose values are compared by <: no records, and no floats where NaN is one."""
        zeros = "zeros" in self.features
        return [at for at, of in enumerate(types) if TYPES[of].kind != RECORD and not (zeros and of == "float")]

    def summed(self, name: str, keys: list[str]) -> Relation:
        """A relation whose heads aggregate, in one or two columns."""
        random = self.random
        columns: list[tuple] = [(of, None) for of in keys]
        for _ in range(random.choice([1, 1, 2])):
            of, op = random.choice([of for of in self.types if of in ("number", "unsigned", "float")]), "sum"
            if self.ordered([of]):
                op = random.choice(["sum", "sum", "min", "max", "mean"] if of == "float" else ["sum", "min", "max"])
            if self.chance(3):
                of, how = "number", ("count", random.choices(self.types, k=random.randint(1, 2)))
            else:
                how = op, [of]
            columns.append((of, how))
        random.shuffle(columns)
        if [how and how[0] for _, how in columns] in [[None] * len(keys) + [op] for op in ("min", "max")]:
            columns.reverse()  # in the last column alone it is a lattice
        self.sums[name] = {at: how for at, (_, how) in enumerate(columns) if how}
        return declared(name, [of for of, _ in columns])

    def is_inexact(self, name: str) -> bool:
        """True if it has means, whose sums depend on their order: no rule reads them."""
        return any(op == "mean" for op, _ in self.sums.get(name, {}).values())

    # -- rules

    def rules_of(self, relation: Relation, peers: dict[str, Relation]) -> list[Rule]:
        rules = _Rule(self, relation, {}, peers).made()  # something to start from
        for _ in range(self.random.randint(int(self.carrying), 3)):
            rules += _Rule(self, relation, {} if relation.name in self.sums else peers, peers).made()
        return rules

    def removal(self, relation: Relation, peers: dict[str, Relation]) -> Rule:
        """A subsumptive rule: two tuples agree in some attributes and are compared by others, perhaps on conditions, which read
        the strata below, or relations of the same stratum."""
        random, types, worse, better = self.random, types_of(relation), *(
            [Var(f"{letter}{at}", kind) for at, kind in enumerate(relation.kinds)] for letter in "wb"
        )  # fmt: skip
        by = random.choice(self.ordered(types))
        tests: list = [Compare(random.choice("<>"), better[by], worse[by], worse[by].kind)]
        for at, variable in enumerate(worse):
            how = random.randrange(4)
            if at != by and how < 2:
                better[at] = variable
            elif at != by and how == 2 and at in self.ordered(types):
                tests.append(Compare(random.choice(["<=", ">="]), better[at], variable, variable.kind))
        beside = [each for each in peers.values() if each.plain and self.has("self-subsumption", 2)]
        for other in (*self.lower.values(), *beside):
            if (other in beside or self.chance(8)) and types[0] in types_of(other):
                place = types_of(other).index(types[0])
                atom = Atom(other.name, tuple(worse[0] if at == place else Wild() for at in range(other.arity)))
                tests.append(atom if other in beside or self.chance(2) else Not(atom))
        body = [Atom(relation.worse, tuple(worse)), Atom(relation.better, tuple(better)), *tests]
        rule = Rule(Atom(relation.removal, tuple(worse)), tuple(random.sample(body, len(body))))
        return replace(rule, text=str(rule))

    # -- cyclic bodies

    def cyclic(self, of: str, counted: bool) -> Case:
        """A relation by rules with cyclic bodies, some of them its own."""
        self.types, least = [of], {"u": 1, "e": 5, "f": 5, "w": 5}
        arities = {"u": 1, "e": 2, "f": 2, "w": 3}
        self.lower = {name: declared(name, [of] * arity) for name, arity in arities.items()}
        facts = {name: self.rows(each, least[name], 15) for name, each in self.lower.items()}
        own = declared("r", [of, of])
        x, y = (Var(name, TYPES[of].kind) for name in "xy")
        rules = [Rule(Atom("r", (x, y)), (Atom("e", (x, y)),))]
        for _ in range(self.random.randint(1, 2)):
            rules += _CyclicRule(self, own, {"r": own}, {}).made()
        relations = self.lower | {"r": own}
        if counted:
            rules.append(_counting(self.random, TYPES[of].kind, self.random.choice(rules[1:]).body))
            key = [of] * (len(rules[-1].head.args) - 1)
            relations["counts"] = declared("counts", [*key, rules[-1].head.args[-1].kind.value])
        return self.made([replace(rule, text=str(rule)) for rule in rules], relations, facts)


class _Rule:
    """One rule in the making. `known`: the names that are bound so far, by type."""

    def __init__(self, maker: _Maker, relation: Relation, peers: dict, beside: dict):
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
    (_Rule.compare, None), (_Rule.assign, None), (_Rule.string, "strings"), (_Rule.test, "strings"),
    (_Rule.unpack, "records"), (_Rule.negate, "negation"), (_Rule.negate, "negation"), (_Rule.span, "ranges"),
    (_Rule.aggregate, "aggregates"), (_Rule.aggregate, "aggregates"), (_Rule.polymorphic, "polymorphic"),
]  # fmt: skip


class _CyclicRule(_Rule):
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


def _counting(random, kind: Kind, body: tuple) -> Rule:
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
