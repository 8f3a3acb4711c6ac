"""Relations whose .input declares a key: an insert replaces the fact with the same key."""

import random

import pytest

from semi_naive import BadInput, Program

TEXT = """
.decl account(id: number, owner: symbol, amount: number)
.input account(key="id")
.decl total(owner: symbol, owned: number)
.output total
total(o, s) :- account(_, o, _), s = sum a : { account(_, o, a) }.
"""


def test_an_insert_replaces_the_fact_of_its_key(tmp_path):
    rng, accounts, program = random.Random(1), {1: ("ann", 5)}, Program(TEXT)
    for _ in range(3):
        with program.session({"account": [(1, "ann", 5)]}, path=tmp_path / "state") as s:
            for _ in range(8):
                rows = [(rng.randrange(5), rng.choice(["ann", "bob"]), rng.randrange(4)) for _ in range(3)]
                with s.transaction() as t:
                    t.insert("account", rows[:2])
                    t.insert("account", rows[2:])  # a later one replaces an earlier one, also in a transaction
                accounts |= {key: tuple(rest) for key, *rest in rows}
                assert s["account"].to_set() == {(key, *rest) for key, rest in accounts.items()}
                with program.run({"account": s["account"].to_set()}) as result:
                    assert s["total"].to_set() == result["total"].to_set()


def test_what_is_wrong_with_a_key_is_said():
    with pytest.raises(BadInput, match=r"account has other facts with the key \(id\) of \(1, 'ann', 5\)"):
        Program(TEXT).session({"account": [(1, "ann", 5), (1, "bob", 5), (2, "bob", 1)]})
    with pytest.raises(BadInput, match=r"<program>:3.*the key names 'name'"):
        Program(TEXT.replace('"id"', '"id, name"')).session({})
    two = Program(TEXT.replace('"id"', '"id, owner"'))
    with two.session({"account": [(1, "ann", 5), (1, "bob", 5)]}) as s:
        assert s.insert("account", [(1, "bob", 6)]).changes["total"].to_set() == {("bob", 5, -1), ("bob", 6, 1)}
