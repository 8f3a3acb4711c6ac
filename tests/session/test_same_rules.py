"""Registered rules that are the same but for names and order are one dataflow."""

import random

import pytest
from session_cases import PATHS

from semi_naive import Program

OWN = ".decl own(x: number, y: number)\nown(x, y) :- edge(x, y).\n"
BODIES = {  # texts of the same rules; the last one of each is another rule
    "join": [
        "NAME(x, z) :- edge(x, y), edge(y, z), x != z, !edge(z, x).",
        "NAME(b, a) :- !edge(a, b), edge(c, a), b != a, edge(b, c).",
        "NAME(x, z) :- edge(x, y), edge(y, z), x != z, !edge(x, z).",
    ],
    "ties": [
        "NAME(x, y) :- edge(x, a), edge(x, b), edge(x, c), edge(a, y), edge(b, b), edge(c, a).",
        "NAME(x, y) :- edge(x, p), edge(x, q), edge(x, r), edge(r, r), edge(q, p), edge(p, y).",
        "NAME(x, y) :- edge(x, p), edge(x, q), edge(x, r), edge(r, r), edge(p, q), edge(p, y).",
    ],
    "recursion": [
        OWN + "own(x, z) :- own(x, y), edge(y, z).\nNAME(x, y) :- own(x, y), x < y.",
        "NAME(v, w) :- v < w, all(v, w).\nall(a, c) :- edge(b, c), all(a, b).\nall(p, q) :- edge(p, q)."
        ".decl all(a: number, b: number)",
        OWN + "own(x, z) :- own(x, y), own(y, z).\nNAME(x, y) :- own(x, y), x < y.",
    ],
    "depth": [
        ".decl p(x: number)\n.decl q(x: number, y: number)\nNAME(x, 1) :- p(x).\np(x) :- q(x, _).\nq(x, y) :- edge(x, y).",
        ".decl s(x: number)\n.decl r(x: number, y: number)\nNAME(x, 1) :- s(x).\nr(y, x) :- edge(y, x).\ns(y) :- r(y, _).",
        ".decl p(x: number)\n.decl q(x: number, y: number)\nNAME(x, 1) :- p(x).\np(x) :- q(x, _).\nq(x, y) :- edge(y, x).",
    ],
    "count": [
        "NAME(x, n) :- edge(x, _), n = count : { edge(x, y), y > 1 }.",
        "NAME(a, m) :- m = count : { edge(a, b), b > 1 }, edge(a, _).",
        "NAME(x, n) :- edge(x, _), n = count : { edge(x, y), y > 2 }.",
    ],
}


def text(name: str, body: str) -> str:
    return f".decl {name}(x: number, y: number)\n{body.replace('NAME', name)}"


def nothing(changes, epoch) -> None:
    pass


@pytest.mark.parametrize("body", BODIES)
def test_the_same_rules_are_evaluated_and_kept_once(body):
    first, second, other = BODIES[body]
    with Program(PATHS).session({"edge": [(x, (x * x + 1) % 11) for x in range(11)]}) as s:
        for name, each in {"a": first, "b": second, "c": other}.items():
            s.register(name, text(name, each))
        s.subscribe("a", nothing)
        work, held = s["sys.work"].count(), sum(nbytes for *_, nbytes in s["sys.memory"].to_list())
        s.subscribe("b", nothing)
        assert s["sys.work"].count() == work and sum(nbytes for *_, nbytes in s["sys.memory"].to_list()) == held
        assert "both are one dataflow" in s.explain("b") and s["a"].to_set() == s["b"].to_set()
        t = s.insert("edge", [(20, 21), (3, 4), (4, 3), (4, 5), (0, 4), (4, 4)])
        worked = {relation for epoch, relation, *_ in s["sys.work"].to_list() if epoch}
        assert all(relation.split(".")[0] in ("a", "path") for relation in worked)
        assert t.changes["a"].to_set() == t.changes["b"].to_set() != set()
        s.subscribe("c", nothing)
        assert "one dataflow" not in s.explain("c")


@pytest.mark.parametrize("seed", range(4))
def test_subscriptions_to_the_same_rules_come_and_go(seed):
    """Rules without and with a parameter, which others read: each subscriber gets what a fresh evaluation has."""
    rng, edges = random.Random(seed), {(1, 2)}
    bodies = [*BODIES["recursion"][:2], "NAME(x, y) :- edge($a, x), path(x, y).", "NAME(q, r) :- path(q, r), edge($from, q)."]
    names = {f"r{number}": body for number, body in enumerate(bodies * 2)}
    with Program(PATHS).session({"edge": edges}, retain=2) as s, Program(PATHS).session({"edge": edges}) as fresh:
        for name, body in names.items():
            s.register(name, text(name, body))
            fresh.register(name, text(name, body))
        s.register("reader", ".decl reader(x: number)\nreader(x) :- r1(x, _), !r0(_, x).", share=True)
        fresh.register("reader", ".decl reader(x: number)\nreader(x) :- r1(x, _), !r0(_, x).")
        subscriptions, told = {}, {}
        for _ in range(60):
            name = rng.choice([*names, "reader"])
            parameter = {"2": "a", "3": "from"}.get(str(int(name[1:]) % 4)) if name in names else None
            key = name, rng.randrange(3) if parameter else None
            given = {parameter: key[1]} if parameter else {}
            if key in subscriptions:
                subscriptions.pop(key).cancel()
                told.pop(key)
                if name in names and not any(each == name for each, _ in subscriptions) and name not in ("r0", "r1"):
                    s.unregister(name)  # others may be its copies
                    s.register(name, text(name, names[name]))
            elif rng.random() < 0.5:
                rows = told[key] = set()
                take = lambda changes, epoch, rows=rows: rows.symmetric_difference_update(row[:-1] for row in changes)  # noqa: E731
                subscriptions[key] = s.subscribe(name, take, snapshot=True, **given)
            row = rng.randrange(5), rng.randrange(5)
            edges.symmetric_difference_update({row})
            for each in (s, fresh):
                if rng.random() < 0.1 and each is s:
                    with pytest.raises(ZeroDivisionError), each.transaction() as failing:
                        failing.insert("edge", [(9, 9), row])
                        raise ZeroDivisionError
                (each.insert if row in edges else each.delete)("edge", [row])
            for (name, value), rows in told.items():
                parameter = {"2": "a", "3": "from"}.get(str(int(name[1:]) % 4)) if name in names else None
                variables = "x" if name == "reader" else "x, y"
                assert rows == fresh.query(f"{name}({variables})", **({parameter: value} if parameter else {})).to_set()
        assert s.at(s.epoch - 1)["edge"].count()


def test_copies_and_added_relations_on_partitions(spark):
    """The first of two copies is unregistered while the other one follows; its dropped strata stay empty."""
    first, second, _ = BODIES["join"]
    rng, edges = random.Random(1), {(x, (x * 7 + 1) % 40) for x in range(40)}
    with Program(PATHS).session({"edge": edges}, spark=spark, local_tuples=0, partitions=2) as s:
        s.register("a", text("a", first))
        s.register("b", text("b", second))
        subscription, told = s.subscribe("a", nothing), set()
        s.subscribe("b", lambda changes, epoch: told.symmetric_difference_update(row[:-1] for row in changes), snapshot=True)
        assert s["b"].on_partitions and "both are one dataflow" in s.explain("b")
        s.declare("mark(x: number)")
        for step in range(4):
            if step == 2:
                subscription.cancel()
                s.unregister("a")
            row = rng.randrange(40), rng.randrange(40)
            edges.symmetric_difference_update({row})
            (s.insert if row in edges else s.delete)("edge", [row])
            s.insert("mark", [(row[0],)])
            joined = {(x, z) for x, y in edges for w, z in edges if y == w and x != z and (z, x) not in edges}
            assert told == joined == s["b"].to_set()
        assert s.query("mark(x), b(x, y)").count() == len([x for x, _ in joined if (x,) in s["mark"].to_set()])
