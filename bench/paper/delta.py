"""Joins of one to one attributes of persons by arity: the tuples that a session keeps, and the seconds of a round of inserts.

After figures 3 and 4 of Göbel (2019). Their text says: delta queries keep no tuples in between at any arity, joins at a time
keep more with each atom, and the times are about the same.
"""

import numpy as np

from bench.paper.drawing import grouped
from bench.paper.interactive import (
    FORMS,
    at_a_time,
    declared,
    draw_distributions,
    kept_tuples,
    quantiles,
    rule,
    seconds_of_rounds,
)
from bench.paper.tables import ResultTable
from semi_naive.plots.style import DARK, SAND, new_figure

TITLE = "Joins of attributes: tuples in between, and times of rounds"
SIZES = {
    "toy": (200, 100, 3),
    "quick": (10_000, 100, 7),
    "full": (10_000, 10, 7),
}  # persons, those of a round, the greatest arity
ATTRIBUTES = ("first_name", "last_name", "gender", "birthday", "created", "address", "browser")
VALUES = (400, 900, 2, 9_000, 9_900, 10_000, 5)  # distinct values of each
LONGEST = 60  # seconds of all rounds of a series
STYLES = {"all": {"color": DARK}, "pairs": {"color": SAND, "linestyle": "--"}}
BARS = {"facts": (SAND, ""), "in between": (DARK, "////"), "result": ("white", "")}


def measure(evaluation) -> dict:
    from semi_naive import Program

    persons, of_a_round, most = evaluation.pick(SIZES)
    random, found = np.random.default_rng(1), []
    facts = {
        name: np.column_stack([np.arange(persons), random.integers(0, values, persons)])
        for name, values in zip(ATTRIBUTES, VALUES, strict=True)
    }
    for arity in range(2, most + 1):
        names = ATTRIBUTES[:arity]
        program = Program(declared(names))
        for form, text in zip(FORMS, texts_of(names), strict=True):
            with program.session() as session:
                session.register("person", text)
                session.subscribe("person", lambda changes, epoch: None)
                rounds = (
                    {name: facts[name][begin : begin + of_a_round] for name in names} for begin in range(0, persons, of_a_round)
                )
                seconds = seconds_of_rounds(session, rounds, LONGEST)
                kept = kept_tuples(session)
            result, base = kept.pop("person"), sum(kept.pop(name) for name in names)
            row = {
                "arity": arity,
                "form": form,
                "facts": base,
                "in between": sum(kept.values()),
                "result": result,
                "seconds": seconds,
            }
            found.append(row)
            evaluation.say(f"{arity} attributes, {FORMS[form]}: {row['in between']:,} tuples in between, {sum(seconds):.2f} s")
    return {"persons": persons, "round": of_a_round, "rows": found}


def texts_of(names: tuple[str, ...]) -> tuple[str, str]:
    """Return the rules of the join of some attributes: one of all, and a join at a time."""
    atoms, columns = [f"{name}(p, v_{name})" for name in names], ["p", *(f"v_{name}" for name in names)]
    last, before = at_a_time(atoms, [", ".join(columns[: number + 1]) for number in range(2, len(names))])
    return rule("person", ", ".join(columns), atoms), f"{rule('person', ', '.join(columns), last)}\n{before}"


def table(data: dict) -> ResultTable:
    columns = [
        "attributes",
        "form",
        "facts",
        "tuples in between",
        "result",
        "rounds",
        *(f"{name}, ms" for name in quantiles([0])),
    ]
    rows = [
        [row["arity"], FORMS[row["form"]], row["facts"], row["in between"], row["result"], len(row["seconds"]),
         *quantiles(row["seconds"]).values()]
        for row in data["rows"]
    ]  # fmt: skip
    return ResultTable(TITLE, columns, rows, [
        f"{data['persons']:,} persons, all attributes of {data['round']:,} of them in a transaction. Göbel's figure 3 has no"
        " tuples in between for delta queries, and for joins at a time a number that grows with the arity, up to five times the"
        " persons; in figure 4 the times of rounds are about the same. He does not count the result, which a session keeps.",
    ])  # fmt: skip


def draw(data: dict):
    figure = new_figure(11, 4.5, TITLE)
    left, right = figure.subplots(1, 2)
    arities = sorted({row["arity"] for row in data["rows"]})
    rows = {(row["arity"], row["form"]): row for row in data["rows"]}
    series = {kind: [rows[arity, "pairs"][kind] for arity in arities] for kind in BARS}
    grouped(left, [str(arity) for arity in arities], series, BARS)
    left.plot(
        range(len(arities)), [rows[arity, "all"]["in between"] for arity in arities], "ko", label="in between, delta queries"
    )
    left.set_title("Tuples kept, a join at a time", loc="left")
    left.set_xlabel("attributes joined")
    left.legend(fontsize=9, frameon=False)
    last = {FORMS[form]: rows[arities[-1], form]["seconds"] for form in FORMS}
    draw_distributions(right, last, {FORMS[form]: style for form, style in STYLES.items()})
    right.set_title(f"Share of rounds that take longer, {arities[-1]} attributes", loc="left")
    return figure
