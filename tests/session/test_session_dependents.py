"""Many rules that read one relation: only those whose constants a change has are evaluated, with the answers of all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_cases import SETTINGS

from semi_naive import EvaluationError, Program
from semi_naive.session.maintenance.propagation import Propagation

BASE = ".decl likes(who: symbol, what: symbol, n: number)\n.input likes\n"
NAMES, THINGS, NUMBERS = ("ann", "bob", "cyd"), ("tea", "ale"), range(3)
RULES = {  # with a constant to be filled in
    "of": 'of{i}(w, n) :- likes("{c}", w, n).',
    "both": 'both{i}(w, 0) :- likes("{c}", w, _), likes("ann", w, _).',
    "none": 'none{i}(w, n) :- likes(_, w, n), !likes("{c}", w, n).',
    "much": 'much{i}(w, n) :- likes("{c}", w, _), n = sum m : {{ likes("{c}", w, m) }}.',
    "far": 'far{i}(w, n) :- likes("{c}", w, n), n > 0.\nfar{i}(w, n) :- likes("bob", w, m), n = m - 7.',
    "chain": 'chain{i}(w, n) :- likes("{c}", w, n).\nchain{i}(v, n) :- chain{i}(w, n), likes(w, v, n).',
}
facts = st.sets(
    st.tuples(st.sampled_from(NAMES + THINGS), st.sampled_from(THINGS + ("new", "bob")), st.sampled_from(NUMBERS)), max_size=5
)


def rule(kind: str, i: int, constant: str) -> tuple[str, str]:
    name = f"{kind}{i}"
    return name, f".decl {name}(w: symbol, n: number)\n{RULES[kind].format(i=i, c=constant)}\n"


@settings(max_examples=40, **SETTINGS)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(RULES)), st.sampled_from([*NAMES, "new", "unheard of"])), min_size=1, max_size=6),
    st.lists(st.tuples(st.sampled_from(["insert", "delete", "abort", "cancel"]), facts), max_size=6),
)
def test_rules_with_constants_follow_as_a_fresh_run_has_them(kinds, steps):
    now, rules = set(), dict(rule(kind, i, constant) for i, (kind, constant) in enumerate(kinds))
    with Program(BASE).session({"likes": now}) as session:
        subscriptions = {}
        for name, text in rules.items():
            session.register(name, text)
            subscriptions[name] = session.subscribe(name, lambda changes, epoch: None)
        for step, changed in steps:
            if step == "cancel" and len(subscriptions) > 1:
                name = min(subscriptions)
                subscriptions.pop(name).cancel()
                del rules[name]
            with session.transaction() as transaction:
                getattr(transaction, "delete" if step == "delete" else "insert")("likes", changed)
                if step == "abort":
                    transaction.abort()
            if step != "abort":
                now = now - changed if step == "delete" else now | changed
            outputs = "".join(f".output {name}\n" for name in rules)
            with Program(BASE + "".join(rules.values()) + outputs).run({"likes": now}) as result:
                assert {name: session[name].to_set() for name in rules} == {name: result[name].to_set() for name in rules}


@pytest.fixture
def evaluated(monkeypatch):
    """The strata that are looked at."""
    found, change = [], Propagation._change_stratum
    monkeypatch.setattr(
        Propagation, "_change_stratum", lambda self, number, *rest: (found.append(number), change(self, number, *rest))[1]
    )
    return found


def test_rules_that_a_change_does_not_concern_are_not_looked_at(evaluated):
    with Program(BASE).session({"likes": []}) as session:
        for i in range(200):
            name, text = rule("of", i, f"name {i}")
            session.register(name, text)
            session.subscribe(name, lambda changes, epoch: None)
        del evaluated[:]
        session.insert("likes", [("nobody", "tea", 1)])
        assert len(evaluated) == 1
        changed = session.insert("likes", [("name 7", "tea", 1), ("name 9", "tea", 1), ("more", "tea", 1)]).changes
        assert len(evaluated) == 4 and set(changed) == {"of7", "of9"}


def test_symbols_that_a_failed_transaction_numbers_are_not_taken_for_others():
    with Program(BASE).session({"likes": [("ann", "tea", 1)]}) as session:
        session.register("wrong", ".decl wrong(n: number)\nwrong(m) :- likes(_, _, n), m = 1 / (n - 2).")
        session.subscribe("wrong", lambda changes, epoch: None)
        for name, text in (rule("of", 0, "first"), rule("of", 1, "second")):
            session.register(name, text)
            session.subscribe(name, lambda changes, epoch: None)
        with pytest.raises(EvaluationError):
            session.insert("likes", [("third", "tea", 2)])
        session.insert("likes", [("fourth", "ale", 1), ("second", "ale", 1)])
        assert session["of0"].to_list() == [] and session["of1"].to_list() == [("ale", 1)]
