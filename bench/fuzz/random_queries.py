"""Random conjunctive queries."""

from dataclasses import replace
from itertools import product

from bench.fuzz.cases import QueryCase, Relations
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery, Constant, QueryAtom, QueryError

ARITIES = {"a": 1, "b": 2, "c": 2, "d": 3}
FACTORS = (1, -(1 << 40), 3_000_000_007)  # values that are their own ids, and values that are not


def random_query(random) -> QueryCase:
    """Make a query of random atoms and comparisons, with an order or without, and relations of a few numbers or multiples."""
    atoms = [_atom(random) for _ in range(random.randint(2, 6))]
    bound = {*ConjunctiveQuery(tuple(atoms)).joined}
    atoms = [each for each in atoms if not each.negated or {term for term in each.terms if isinstance(term, str)} <= bound]
    comparisons = tuple(_comparison(random) for _ in range(random.randrange(3)))
    query = _checked(ConjunctiveQuery(tuple(atoms), comparisons), ConjunctiveQuery(tuple(atoms)))
    order = tuple(random.sample(query.variables, len(query.variables)))
    query = _checked(replace(query, order=order), query)
    return QueryCase(*scaled(query, random_relations(random), random.choice(FACTORS)))


def _term(random, constants: int):
    return random.choice("uvwxy") if random.randrange(constants) else Constant(random.randint(-1, 5))


def _atom(random) -> QueryAtom:
    name = random.choice([*ARITIES])
    return QueryAtom(name, tuple(_term(random, 8) for _ in range(ARITIES[name])), random.randrange(4) == 0)


def _comparison(random) -> Comparison:

    def side():
        return _term(random, 2) if random.randrange(3) else (random.choice("+-*"), _term(random, 2), _term(random, 2))

    return Comparison(random.choice(["=", "!=", "<", "<=", ">", ">="]), side(), side())


def _checked(query: ConjunctiveQuery, other: ConjunctiveQuery) -> ConjunctiveQuery:
    """The query, or another one if it is none."""
    try:
        query.check()
        if query.order is not None:
            query.check_order(query.order)
    except QueryError:
        return other
    return query


def random_relations(random) -> Relations:
    every = {name: [*product(range(5), repeat=arity)] for name, arity in ARITIES.items()}
    sizes = {name: random.randint(2 * ARITIES[name], min(len(rows), 30)) for name, rows in every.items()}
    return {name: set(random.sample(rows, sizes[name])) for name, rows in every.items()}


def scaled(query: ConjunctiveQuery, relations: Relations, factor: int) -> tuple[ConjunctiveQuery, Relations]:
    """The same with every value so many times as large."""

    def wide(term):
        if isinstance(term, tuple):
            return (term[0], *map(wide, term[1:]))
        return Constant(term.value * factor) if isinstance(term, Constant) else term

    atoms = tuple(each._replace(terms=tuple(map(wide, each.terms))) for each in query.atoms)
    comparisons = tuple(each._replace(left=wide(each.left), right=wide(each.right)) for each in query.comparisons)
    moved = {name: {tuple(value * factor for value in row) for row in rows} for name, rows in relations.items()}
    return replace(query, atoms=atoms, comparisons=comparisons), moved
