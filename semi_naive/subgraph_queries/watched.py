"""The matches of a pattern in a relation of edges that changes, as registered rules (Ammar et al. 2018, 4.3: Delta-BiGJoin).

    edge__diamond(a, b, c, d) :- edge__up(a, b), edge__both(a, c), edge__both(a, d), edge__both(b, c), edge__both(b, d), c < d.

The head has all variables, so the changes of the matches follow from those of the edges, and no match is kept
(`Session.subscribe(keep=False)`). Symmetries are broken by the values of the vertices. A change may be any edge of a match, so
an order by degree would save less than in `subgraphs`: no bindings for diamonds, 2 to 5 % for triangles, at most 20 % for
4-cliques (RMAT graphs of 2^11 and 2^13 vertices), while degrees change with each edge.
"""

from collections.abc import Iterator

from semi_naive.io.errors import BadInput
from semi_naive.ra.ir import Kind, Relation
from semi_naive.ra.multiway.query import Comparison, ConjunctiveQuery
from semi_naive.subgraph_queries.embeddings import embedding_query
from semi_naive.subgraph_queries.patterns import Pattern

# The rules of the relations that patterns read, in an order in which each reads earlier ones: see `Vertices`.
INDEXES = {
    "both": ("x y", "{both}(x, y), {both}(y, x) :- {edge}(x, y), x != y."),
    "up": ("x y", "{up}(x, y) :- {both}(x, y), {x} < {y}."),
    "triangles": ("x y z", "{triangles}(x, y, z) :- {up}(x, y), {up}(y, z), {up}(x, z)."),
    "corners": ("x y z", "{corners}(x, y, z) :- {both}(x, y), {both}(y, z), {both}(x, z)."),
}
READS = {"both": (), "up": ("both",), "triangles": ("both", "up"), "corners": ("both",)}
NAMES = {"edge": "both", "up": "up", "triangle": "triangles", "corner": "corners"}  # by the relations of undirected queries


def rules_of_pattern(
    source, edges: Relation, directed: bool, symmetry: bool, homomorphisms: bool, triangles: bool, count: bool
) -> list[tuple[str, str]]:
    """Return (name, rules) of the relations to register, of which the last one has the matches of a pattern, or their number;
    the others are its indexes. The name is a placeholder `{match}` in the last rules. edges: the relation that is searched;
    other parameters: see `Session.watch`. Raises BadPattern, and BadInput if the relation is no graph."""
    types = [type_ for _, type_ in edges.attributes]
    if len(types) != 2 or types[0].name != types[1].name or types[0].kind is Kind.RECORD:
        found = ", ".join(f"{name}: {type_.name}" for name, type_ in edges.attributes)
        hint = "a graph has two attributes of one type, numbers or symbols: register rules that make such a relation of it"
        raise BadInput(f"{edges.name}({found}) is no relation of edges", hint=hint)
    pattern = Pattern.of(source, directed)
    query = embedding_query(pattern, symmetry and not homomorphisms, triangles=triangles, injective=not homomorphisms)
    names = {"edge": edges.name} | {name: f"{edges.name}__{name}" for name in INDEXES}
    wanted = set() if directed else {NAMES[atom.relation] for atom in query.atoms}
    wanted |= {read for name in wanted for read in READS[name]}
    ordered = "ord({})" if types[0].kind is Kind.SYMBOL else "{}"  # symbols by number: to compare their texts takes longer
    ends = {end: ordered.format(end) for end in "xy"}
    texts = []
    for name, (attributes, rule) in INDEXES.items():
        if name in wanted:
            head = _declaration(names[name], attributes.split(), types[0].name)
            texts.append((names[name], f"{head}\n{rule.format(**names, **ends)}"))
    body = ", ".join(_literals(query, names, ordered, directed))
    match = f"{edges.name}__{str(source).replace('-', '_') if isinstance(source, str) else 'pattern'}"
    if count:
        return [*texts, (f"{match}_count", f".decl {{match}}(n: number)\n{{match}}(n) :- n = count : {{{{ {body} }}}}.")]
    variables = sorted(query.variables)
    head = _declaration("{match}", variables, types[0].name)
    return [*texts, (match, f"{head}\n{{match}}({', '.join(variables)}) :- {body}.")]


def _declaration(name: str, columns: list[str], type_name: str) -> str:
    return f".decl {name}({', '.join(f'{column}: {type_name}' for column in columns)})"


def _literals(query: ConjunctiveQuery, names: dict[str, str], ordered: str, directed: bool) -> Iterator[str]:
    """Yield the atoms and comparisons of a query as text. A directed graph has no relations of its ascending or descending
    edges: atoms of these read all edges, with a comparison of the ends. names: of the registered relations; ordered: the text
    by which a vertex is compared, with {} in its place."""
    comparisons = list(query.comparisons)
    for atom in query.atoms:
        yield f"{names['edge' if directed else NAMES[atom.relation]]}({', '.join(atom.terms)})"
        if directed:
            operator = {"edge": "!=", "up": "<", "down": ">"}[atom.relation]
            comparisons.append(Comparison(operator, *atom.terms))
    for operator, left, right in comparisons:
        yield f"{left} != {right}" if operator == "!=" else f"{ordered.format(left)} {operator} {ordered.format(right)}"
