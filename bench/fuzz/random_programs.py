"""Random programs, as rules of `ra.ir` with facts and transactions: stratified, grounded, and sure to terminate.

    case = random_case(random.Random(17), without={"wide"}); print(case)

Recursion makes only numbers that a guard keeps small, short strings, and records of bounded depth. Sums of floats are exact,
and no divisor is zero. Each of `FEATURES` can be switched off.
"""

from dataclasses import replace

from bench.fuzz.cases import Case, Relations
from bench.fuzz.random_rules import CyclicRule, RandomRule, counting
from bench.fuzz.random_types import FEATURE_OF, MORE, OFTEN, RECORD, TYPES, VALUES, declared, types_of
from semi_naive.ra import ir
from semi_naive.ra.ir import Atom, Compare, Not, Relation, Rule, Var, Wild

FEATURES = {  # and in which part of the programs each is
    "aggregates": 1, "choices": 1, "eqrel": 1, "floats": 1, "injected": 1, "lattices": 1, "negation": 1, "nested": 1,
    "ranges": 1, "records": 1, "strings": 1, "subsumption": 1, "unsigned": 1, "letters": 0.8, "middle": 0.8,
    "anonymous sums": 0.5, "sums": 0.4, "branches": 0.3, "heads": 0.3, "self-subsumption": 0.3, "wide": 0.3, "lists": 0.2,
    "polymorphic": 0.2, "powers": 0.2, "tags": 0.4, "text": 0.2, "zeros": 0.2,
}  # fmt: skip
SIMPLE = ("number", "number", "symbol", "float", "unsigned")


def random_case(random, without=frozenset(), features=frozenset(), carrying: bool = False) -> Case:
    """Make two to four relations of facts, and one to three strata of one to three relations with rules. without, features:
    those that are left out, and that every program has. carrying: all recursive rules carry the first column."""
    return _Maker(random, without, features, carrying).case()


def cyclic_case(random, types=SIMPLE, counted: bool = False) -> Case:
    """Make rules of one type, with cyclic bodies. counted: another rule counts the bindings of a body, or sums a variable."""
    return _Maker(random, {*FEATURES}).cyclic(random.choice(types), counted)


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
        rules = RandomRule(self, relation, {}, peers).made()  # something to start from
        for _ in range(self.random.randint(int(self.carrying), 3)):
            rules += RandomRule(self, relation, {} if relation.name in self.sums else peers, peers).made()
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
            rules += CyclicRule(self, own, {"r": own}, {}).made()
        relations = self.lower | {"r": own}
        if counted:
            rules.append(counting(self.random, TYPES[of].kind, self.random.choice(rules[1:]).body))
            key = [of] * (len(rules[-1].head.args) - 1)
            relations["counts"] = declared("counts", [*key, rules[-1].head.args[-1].kind.value])
        return self.made([replace(rule, text=str(rule)) for rule in rules], relations, facts)
