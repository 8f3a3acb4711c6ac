"""Tables of symbols: ids by first appearance, tables on tables, and what keeps the common one."""

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest
from counted import python_calls
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import Program
from semi_naive.ra.text import symbols
from semi_naive.ra.text.hashing import hash_strings
from semi_naive.ra.text.symbols import SymbolTable, process_symbols
from semi_naive.relation import Relation


def test_symbols_are_dense_and_stay():
    table = SymbolTable()
    assert table.intern(["b", "", "b", "ü"]).tolist() == [0, 1, 0, 2]
    assert table.intern(["ü", "new"]).tolist() == [2, 3]
    assert table.arrow(np.array([3, 1, 0])).to_pylist() == ["new", "", "b"]
    assert table.intern([]).size == 0 and len(table) == 4
    assert table.content_from(0).to_pylist() == ["b", "", "ü", "new"]
    assert SymbolTable().content_from(0).to_pylist() == []


WORDS = st.sampled_from(["", "a", "b", "ab", "12345678", "12345678\0", "123456789", "é" * 40]) | st.text(max_size=20)


@given(st.lists(WORDS), st.lists(st.lists(WORDS)), st.lists(WORDS))
def test_a_table_is_a_dictionary_that_counts(below, batches, later):
    base = SymbolTable()
    base.intern(below)
    known, table = {name: number for number, name in enumerate(dict.fromkeys(below))}, SymbolTable(base)
    base.intern(later)  # is none of its business
    for batch in batches:
        ids = table.intern(batch)
        assert ids.tolist() == [known.setdefault(name, len(known)) for name in batch]
        assert table.arrow(ids).to_pylist() == table.strings(ids) == batch
        assert table.lengths(ids).tolist() == [len(name.encode()) for name in batch]
    assert table.content_from(0).to_pylist() == list(known) and len(table) == len(known)
    for strings, hashes in table.parts():
        assert (hash_strings(strings) == hashes).all()


def test_a_table_grows_by_many_and_by_one_and_by_long_ones():
    table, names = SymbolTable(), [f"{i}" * (i % 60) for i in range(1, 20_000)]
    expected = {name: number for number, name in enumerate(dict.fromkeys(["", *names]))}
    for name in ["", *names[:700]]:
        table.intern([name])
    before = table.arrow(np.arange(600))
    assert table.intern(pa.array(names)).tolist() == [expected[name] for name in names]
    assert before.to_pylist() == list(expected)[:600] and table.content_from(0).to_pylist() == list(expected)
    assert table.intern(["x" * 5_000_000]).tolist() == [len(expected)]
    table.intern(pa.array(names))  # compiled
    assert python_calls(lambda: table.intern(pa.array([f"other {i}" for i in range(100_000)]))) < 1000


def test_slices_chunks_and_other_types_of_strings():
    table = SymbolTable()
    assert table.intern(pa.array(["x", "a", "b", "y"])[1:3]).tolist() == [0, 1]
    assert table.intern(pa.chunked_array([["b"], ["c"]])).tolist() == [1, 2]
    assert table.intern(pa.array(["c", "a"], pa.large_string())).tolist() == [2, 0]
    assert table.intern(pa.array(["c", "d", "c"]).dictionary_encode()).tolist() == [2, 3, 2]


def test_parts_are_no_larger_than_arrays_may_be(monkeypatch):
    monkeypatch.setattr(symbols, "MAX_ARROW_BYTES", 10)
    base = SymbolTable()
    base.intern(["12345", "67890", "1"])
    table = SymbolTable(base)
    table.intern(["x" * 25, "y", "z"])
    assert [strings.to_pylist() for strings, _ in table.parts()] == [["12345", "67890"], ["1"], ["x" * 25], ["y", "z"]]


@pytest.mark.parametrize("unknown", [-1, 3])
def test_an_unknown_id_is_an_error(unknown):
    base = SymbolTable()
    base.intern(["a"])
    table = SymbolTable(base)
    table.intern(["b", "c"])
    with pytest.raises(KeyError, match=f"{unknown} is not the id"):
        table.arrow(np.array([0, 1, unknown]))
    with pytest.raises(KeyError, match=f"{unknown} is not the id"):
        table.lengths(np.array([0, 1, unknown]))
    with pytest.raises(KeyError, match=f"{unknown} is not the id"):
        table.strings(np.array([0, 1, unknown]))


SHOUT = '.decl e(x: symbol)\n.input e\n.decl f(x: symbol)\n.output f\nf(cat(x, "!")) :- e(x).'


def test_what_a_run_made_goes_with_it():
    with Program(SHOUT).run({"e": [("a",), ("b",)]}) as result:
        table = weakref.ref(result.values._symbols)
        assert sorted(result["f"].to_list()) == [("a!",), ("b!",)]
    del result
    gc.collect()
    assert table() is None


def test_the_common_table_stays_as_long_as_a_relation_has_ids_of_it(monkeypatch):
    monkeypatch.setattr(symbols, "_common", None)  # the one of this process may be kept by what other tests have made
    edge = Relation.from_tuples([("kept apart", "b"), ("b", "kept apart too")], ["x", "y"])
    table = weakref.ref(process_symbols())
    two = edge.join(edge.rename(x="y", y="z")).project("x", "z")
    assert two.to_set() == {("kept apart", "kept apart too")}
    del edge
    gc.collect()
    assert two.rename(x="a").to_set() == {("kept apart", "kept apart too")} and table() is process_symbols()
    del two
    gc.collect()
    assert table() is None and len(process_symbols()) == 0


def test_relations_that_runs_made_with_new_symbols_meet():
    first, second = (Program(SHOUT).run({"e": [(name,), ("both",)]}) for name in ("a", "b"))
    made = [Relation.from_arrow(result["f"].to_arrow()) for result in (first, second)]
    assert made[0].join(made[1]).to_set() == {("both!",)}
    selected = Relation.from_tuples([("b", 1), ("c", 2)], ["x", "n"]).select(x="b")
    other = Relation.from_tuples([("q", 3), ("b", 4)], ["x", "m"])
    assert selected.join(other).to_set() == {("b", 1, 4)}
