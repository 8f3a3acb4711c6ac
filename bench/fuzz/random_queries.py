"""Random conjunctive queries."""

from dataclasses import replace
from itertools import product

from bench.fuzz.cases import QueryCase, Relations
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, Constant, QueryAtom

ARITIES = {"a": 1, "b": 2, "c": 2, "d": 3}
FACTORS = (1, -(1 << 40), 3_000_000_007)  # values that are their own ids, and values that are not


def random_query(random) -> QueryCase:
    """Make a query of random atoms and comparisons, with an order or without, and relations of a few numbers or multiples."""
    atoms = [_atom(random) for _ in range(random.randint(2, 6))]
    if all(each.negated for each in atoms):
        atoms[0] = atoms[0]._replace(negated=False)
    variables = ConjunctiveQuery(tuple(atoms)).variables
    atoms = [each for each in atoms if not each.negated or set(each.terms) <= set(variables)]
    comparisons = tuple(_comparison(random, variables) for _ in range(random.randrange(3)))
    order = tuple(random.sample(variables, len(variables))) if random.randrange(2) else None
    query = ConjunctiveQuery(tuple(atoms), comparisons, order)
    return QueryCase(*scaled(query, random_relations(random), random.choice(FACTORS)))


def _atom(random) -> QueryAtom:
    name = random.choice([*ARITIES])
    return QueryAtom(name, tuple(random.choice("uvwxy") for _ in range(ARITIES[name])), random.randrange(4) == 0)


def _comparison(random, variables: tuple[str, ...]) -> Comparison:
    sides = [random.choice(variables), random.choice([*variables, Constant(random.randint(-1, 5))])]
    random.shuffle(sides)
    return Comparison(random.choice(["=", "!=", "<", "<=", ">", ">="]), *sides)


def random_relations(random) -> Relations:
    every = {name: [*product(range(5), repeat=arity)] for name, arity in ARITIES.items()}
    sizes = {name: random.randint(2 * ARITIES[name], min(len(rows), 30)) for name, rows in every.items()}
    return {name: set(random.sample(rows, sizes[name])) for name, rows in every.items()}


def scaled(query: ConjunctiveQuery, relations: Relations, factor: int) -> tuple[ConjunctiveQuery, Relations]:
    """The same with every value so many times as large."""

    def wide(side):
        return Constant(side.value * factor) if isinstance(side, Constant) else side

    comparisons = tuple(each._replace(left=wide(each.left), right=wide(each.right)) for each in query.comparisons)
    moved = {name: {tuple(value * factor for value in row) for row in rows} for name, rows in relations.items()}
    return replace(query, comparisons=comparisons), moved
