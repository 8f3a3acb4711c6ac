"""The common parts of the figures of *Optimising Distributed Dataflows in Interactive Environments* (Göbel, 2019): rounds of
changes that a session follows by one join of all atoms, or by joins of two relations each, whose results are kept.

A join at a time is written as rules: each joins the relation of the rule before with one atom more, and its relation is kept.
"""

import time
from collections.abc import Iterable, Iterator

import numpy as np

from bench.paper.drawing import logarithmic, small_legend

FORMS = {"all": "one delta query for each atom", "pairs": "a join at a time"}


def at_a_time(atoms: list[str], kept: list[str]) -> tuple[list[str], str]:
    """Join the first atoms one at a time. kept: the columns of the relation that each of these joins makes. Return the atoms of
    the last join, and the rules of the others.

    >>> print(*at_a_time(["e(a, b)", "f(b, c)", "g(c)"], ["a, b, c"]), sep="\\n")
    ['first_2(a, b, c)', 'g(c)']
    .decl first_2(a: number, b: number, c: number)
    first_2(a, b, c) :- e(a, b), f(b, c).
    """
    before, texts = atoms[0], []
    for number, columns in enumerate(kept, 2):
        texts.append(rule(f"first_{number}", columns, [before, atoms[number - 1]]))
        before = f"first_{number}({columns})"
    return [before, *atoms[len(kept) + 1 :]], "\n".join(texts)


def rule(name: str, columns: str, atoms: list[str]) -> str:
    """Return the declaration and the rule of a join.

    >>> print(rule("t", "a, b", ["e(a, b)", "f(b)"]))
    .decl t(a: number, b: number)
    t(a, b) :- e(a, b), f(b).
    """
    declared = ", ".join(f"{column}: number" for column in columns.split(", "))
    return f".decl {name}({declared})\n{name}({columns}) :- {', '.join(atoms)}."


def declared(relations: Iterable[str]) -> str:
    """Return the declarations of input relations of two numbers each."""
    return "\n".join(f".decl {name}(x: number, y: number)\n.input {name}" for name in relations)


def seconds_of_rounds(session, rounds: Iterator[dict[str, np.ndarray]], most: float) -> list[float]:
    """Insert the facts of each round in one transaction, and return the seconds of each. Stop once all have taken `most`
    seconds."""
    found: list[float] = []
    for facts in rounds:
        begun = time.perf_counter()
        with session.transaction() as changes:
            for name, rows in facts.items():
                changes.insert(name, rows)
        found.append(time.perf_counter() - begun)
        if sum(found) > most:
            break
    return found


def kept_tuples(session) -> dict[str, int]:
    """Return the number of tuples of each relation that the session keeps, without what it holds beside them."""
    relations = {name for name, *_ in session["sys.index"].to_list()}
    return {name: tuples for name, tuples in session.query("sys.memory(name, tuples, _)").to_list() if name in relations}


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Return the median, the ninth decile and the greatest, in milliseconds."""
    levels = {"median": 0.5, "nine in ten": 0.9, "longest": 1.0}
    return {name: 1000 * float(np.quantile(seconds, level)) for name, level in levels.items()}


def draw_distributions(axes, series: dict[str, list[float]], styles: dict[str, dict]) -> None:
    """Draw, for each series of seconds, the share of rounds that took longer than a time."""
    for label, seconds in series.items():
        ordered = np.sort(seconds) * 1000
        axes.step(ordered, 1 - np.arange(ordered.size) / ordered.size, where="pre", label=label, **styles.get(label, {}))
    logarithmic(axes.xaxis)
    logarithmic(axes.yaxis)
    axes.set_xlabel("milliseconds of a round")
    axes.grid(linewidth=0.4, alpha=0.6)
    small_legend(axes, loc="upper right")
