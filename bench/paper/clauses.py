"""A triangle count, a query of messages by tag and country, and a star of one to one attributes, followed while the data
streams in: by worst-case optimal delta queries, and a join at a time in several orders of the clauses.

After figures 6, 7, 8a and 8b of Göbel (2019): his worst order of the triangle never completes node 87 before the memory is full
(16 GB), his best one comes close to the worst-case optimal plan, which has the same times in every order; on the star a join at
a time is an order of magnitude faster.
"""

from collections.abc import Iterator

import numpy as np

from bench.paper.interactive import at_a_time, declared, draw_distributions, kept_tuples, quantiles, seconds_of_rounds
from bench.paper.tables import ResultTable
from semi_naive.plots.style import DARK, GREY, SAND, new_figure

TITLE = "Orders of the clauses, while the data streams in"
SIZES = {  # scale of the RMAT graph, its nodes of a round; messages, those of a round
    "toy": (6, 8, 300, 100), "quick": (14, 16, 100_000, 2_000), "full": (17, 16, 1_000_000, 2_500),
}  # fmt: skip
EDGES_OF_A_NODE = 8
LONGEST = 30  # seconds of all rounds of a series
COUNTRIES, TAGS, WANTED = 100, 1_000, "c < 2"
STYLES = [{"color": DARK}, {"color": DARK, "linestyle": ":"}, {"color": SAND}, {"color": SAND, "linestyle": "--"},
          {"color": GREY}, {"color": GREY, "linestyle": "--"}]  # fmt: skip
TRIANGLE = "edge(a, b)", "edge(b, c)", "edge(a, c)"
BI2 = "creator(m, p)", "tag(m, t)", "country(p, c)"
STAR = "address(m, v)", "browser(m, w)", "language(m, x)", "content(m, y)"


def counted(*atoms: str) -> str:
    """Return the rule that counts all bindings of some atoms.

    >>> counted("e(a, b)", "f(b)")
    '.decl found(n: number)\\nfound(n) :- n = count : { e(a, b), f(b) }.'
    """
    return f".decl found(n: number)\nfound(n) :- n = count : {{ {', '.join(atoms)} }}."


def counted_at_a_time(atoms: tuple[str, ...], *kept: str, where: tuple[str, ...] = ()) -> str:
    """Return the rules that count the bindings of atoms joined one at a time. kept: the columns of each join but the last."""
    last, before = at_a_time([*atoms], [*kept])
    return f"{counted(*last, *where)}\n{before}"


QUERIES = {  # by figure: the rules by name
    "triangle": {
        "all at once, (a, b), (b, c), (a, c)": counted(*TRIANGLE),
        "all at once, (a, c), (a, b), (b, c)": counted(TRIANGLE[2], TRIANGLE[0], TRIANGLE[1]),
        "((a, c), (b, c)), (a, b)": counted_at_a_time((TRIANGLE[2], TRIANGLE[1], TRIANGLE[0]), "a, b, c"),
        "((a, b), (b, c)), (a, c)": counted_at_a_time(TRIANGLE, "a, b, c"),
        "((a, b), (a, c)), (b, c)": counted_at_a_time((TRIANGLE[0], TRIANGLE[2], TRIANGLE[1]), "a, b, c"),
    },
    "messages by tag and country": {
        "all at once": counted(*BI2, WANTED),
        "(message, tag), country": counted_at_a_time(BI2, "m, p, t", where=(WANTED,)),
        "(message, country), tag": counted_at_a_time((BI2[0], BI2[2], BI2[1]), "m, p, c", where=(WANTED,)),
    },
    "star of four attributes": {
        "all at once": counted(*STAR),
        "address, browser, language, content": counted_at_a_time(STAR, "m, v, w", "m, v, w, x"),
        "content, language, browser, address": counted_at_a_time(STAR[::-1], "m, y, x", "m, y, x, w"),
    },
}  # fmt: skip
RELATIONS = {"triangle": ("edge",), "messages by tag and country": ("creator", "tag", "country"),
             "star of four attributes": ("address", "browser", "language", "content")}  # fmt: skip


def measure(evaluation) -> dict:
    from semi_naive import Program

    sizes, found = evaluation.pick(SIZES), []
    for query, forms in QUERIES.items():
        program, counts = Program(declared(RELATIONS[query])), set()
        for form, text in forms.items():
            with program.session() as session:
                session.register("found", text)
                session.subscribe("found", lambda changes, epoch: None)
                seconds = seconds_of_rounds(session, rounds_of(query, sizes), LONGEST)
                between = sum(tuples for name, tuples in kept_tuples(session).items() if "first_" in name)
                ended = sum(seconds) <= LONGEST
                if ended:
                    counts |= session["found"].to_set()
            found.append({"query": query, "form": form, "ended": ended, "in between": between, "seconds": seconds})
            evaluation.say(f"{query}, {form}: {len(seconds)} rounds in {sum(seconds):.2f} s, {between:,} tuples in between")
        assert len(counts) == 1, f"{query}: the forms count {sorted(counts)}"
    return {"sizes": sizes, "rows": found}


def rounds_of(query: str, sizes: tuple[int, int, int, int]) -> Iterator[dict[str, np.ndarray]]:
    """Yield the facts of each round of a query."""
    from semi_naive import graphs

    scale, nodes, messages, of_a_round = sizes
    if query == "triangle":  # the edges out of some nodes, in the order of the nodes
        edges = np.unique(graphs.rmat(scale, EDGES_OF_A_NODE << scale), axis=0)
        bounds = np.searchsorted(edges[:, 0], np.arange(0, (1 << scale) + nodes, nodes))
        yield from ({"edge": edges[begin:end]} for begin, end in zip(bounds, bounds[1:], strict=False) if begin < end)
        return
    random, ids = np.random.default_rng(2), np.arange(messages)
    persons = max(2, messages // 100)
    ranges = {"creator": persons, "tag": TAGS, "address": messages, "browser": 5, "language": 40, "content": messages}
    columns = {
        name: np.column_stack([ids, random.integers(0, ranges[name], messages)]) for name in RELATIONS[query] if name in ranges
    }
    if "country" in RELATIONS[query]:
        yield {"country": np.column_stack([np.arange(persons), random.integers(0, COUNTRIES, persons)])}
    for begin in range(0, messages, of_a_round):
        yield {name: rows[begin : begin + of_a_round] for name, rows in columns.items()}


def table(data: dict) -> ResultTable:
    columns = ["query", "form", "rounds", "all of them", "tuples in between", *(f"{name}, ms" for name in quantiles([0]))]
    rows = [
        [row["query"], row["form"], len(row["seconds"]), "yes" if row["ended"] else f"no, {LONGEST} s", row["in between"],
         *quantiles(row["seconds"]).values()]
        for row in data["rows"]
    ]  # fmt: skip
    scale, nodes, messages, of_a_round = data["sizes"]
    return ResultTable(TITLE, columns, rows, [
        f"Triangles of an RMAT graph of scale {scale}, the edges out of {nodes} nodes in a round; {messages:,} messages and"
        f" posts of a generator in the manner of LDBC's, {of_a_round:,} in a round. What joins in brackets make is kept. Göbel"
        " has live journal's graph, one node and 1,000 nodes in a round, and LDBC's messages of 10,000 users. His worst order"
        " of the triangle, ((a, b), (a, c)), (b, c), ran out of memory at node 87; the others converge; all at once is the"
        " fastest on triangles, alike on BI/read/2, and slower by an order of magnitude on the star.",
    ])  # fmt: skip


def draw(data: dict):
    figure = new_figure(14, 4.8, TITLE)
    for axes, query in zip(figure.subplots(1, len(QUERIES)), QUERIES, strict=True):
        series = {
            row["form"] + ("" if row["ended"] else " (stopped)"): row["seconds"]
            for row in data["rows"]
            if row["query"] == query
        }
        draw_distributions(axes, series, dict(zip(series, STYLES, strict=False)))
        axes.set_title(query, loc="left")
        axes.set_ylabel("share of rounds that take longer")
    return figure
