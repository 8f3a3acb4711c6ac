"""Symbols and records as ids, in the driver, in workers, and from one to the other."""

import pickle
import shutil
import threading
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from counted import python_calls
from hypothesis import given
from hypothesis import strategies as st

from semi_naive.ra.text.symbols import SymbolTable
from semi_naive.ra.values import dictionary
from semi_naive.ra.values.dictionary import Dictionary, Rows, Strings
from semi_naive.ra.values.values import AddedValues, Values


@pytest.fixture
def values():
    return Values(SymbolTable())


def worker(shared):
    """What a task gets."""
    return pickle.loads(pickle.dumps(shared))


def test_symbols_are_dense_in_order_of_first_appearance(values):
    assert values.intern(["b", "a", "b"]).tolist() == [0, 1, 0]
    assert values.intern(np.array(["c", "a"], object)).tolist() == [2, 1]
    assert values.intern(pa.array(["a"]).dictionary_encode()).tolist() == [1]
    assert values.intern(pa.chunked_array([["d"], ["", "é"]])).tolist() == [3, 4, 5]
    assert values.intern(pa.array(["b", "x"], pa.large_string())).tolist() == [0, 6]
    assert values.strings(np.array([5, 4, 0])) == ["é", "", "b"]
    assert values.arrow(np.array([1])).to_pylist() == ["a"]


def test_records_are_dense_per_arity_and_nil_is_none_of_them(values):
    assert values.pack(np.array([[7, 8, 7], [1, 1, 1]])).tolist() == [1, 2, 1]
    assert values.pack(np.array([[7]])).tolist() == [1]
    assert values.pack(np.array([[9, 8], [1, 1]])).tolist() == [3, 2]
    assert values.pack(np.empty((0, 2), np.int64)).tolist() == [1, 1]
    assert values.fields(np.array([3, 1]), 2).tolist() == [[9, 7], [1, 1]]


def test_nothing_in_nothing_out(values):
    for content in (values, worker(values.share("/nowhere"))):
        assert content.intern([]).tolist() == content.pack(np.empty((3, 0), np.int64)).tolist() == []
        assert content.strings(np.empty(0, np.int64)) == []
        assert content.fields(np.empty(0, np.int64), 3).shape == (3, 0)
        assert content.fields(np.empty(0, np.int64), 0).shape == (0, 0)


def test_an_unknown_id_is_an_error(values, tmp_path):
    values.intern(["a"])
    values.pack(np.array([[1]]))
    for content in (values, worker(values.share(str(tmp_path))), values):
        for unknown in (0, 2, -5):
            with pytest.raises(KeyError, match=f"{unknown} is not the id of any record"):
                content.fields(np.array([1, unknown]), 1)
    with pytest.raises(KeyError, match="7 is not the id of any symbol"):
        values.strings(np.array([0, 7]))
    with pytest.raises(KeyError):
        Values(SymbolTable()).strings(np.array([0]))


@given(st.lists(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0, 2**63 - 1, -(2**63)])), min_size=1)))
def test_equal_records_and_only_they_have_equal_ids(batches):
    values, known = Values(SymbolTable()), {}
    for batch in batches:
        ids = values.pack(np.array(batch).T)
        for row, id_ in zip(batch, ids.tolist(), strict=True):
            assert known.setdefault(row, id_) == id_
        assert values.fields(ids, 2).T.tolist() == [list(row) for row in batch]
    assert sorted(known.values()) == list(range(1, len(known) + 1))


@given(st.lists(st.lists(st.text(max_size=20), min_size=1), max_size=6), st.integers(0, 3))
def test_strings_keep_their_ids_over_workers_and_shares(tmp_path_factory, batches, first):
    values = Values(SymbolTable())
    directory = str(tmp_path_factory.mktemp("snapshot"))
    for batch in batches[:first]:
        values.intern(batch)
    known = {string: values.intern([string])[0] for batch in batches[:first] for string in batch}
    for batch in batches:
        one, other = worker(values.share(directory)), worker(values.share(directory))
        ids = one.intern(batch)
        assert one.strings(ids) == batch
        assert other.intern(batch[::-1]).tolist() == ids[::-1].tolist()
        values.learn(worker(one.added()))
        values.learn(worker(other.added()))
        assert values.strings(ids) == batch
        assert values.intern(batch).tolist() == ids.tolist()
        for string, id_ in zip(batch, ids.tolist(), strict=True):
            assert known.setdefault(string, id_) == id_
    assert len(set(known.values())) == len(known)


def test_a_worker_hashes_what_the_snapshot_lacks(values, tmp_path):
    values.intern(["a", "b"])
    values.pack(np.array([[0], [1]]))
    one = worker(values.share(str(tmp_path)))
    ids = one.intern(["b", "new", "a"])
    assert ids[[0, 2]].tolist() == [1, 0]
    assert -(2**62) <= ids[1] < 0
    records = one.pack(np.array([[0, ids[1]], [1, 0]]))
    assert records[0] == 1 and records[1] < 0
    assert one.fields(records, 2).tolist() == [[0, ids[1]], [1, 0]]
    made = one.added()
    assert made.symbols.to_pylist() == ["new"]
    assert {arity: rows.tolist() for arity, rows in made.records.items()} == {2: [[ids[1]], [0]]}
    values.learn(made)
    values.learn(made)
    assert values.pack(np.array([[ids[1]], [0]])).tolist() == [records[1]]
    other = worker(values.share(str(tmp_path)))
    assert other.intern(["new", "a"]).tolist() == [ids[1], 0]
    assert not other.added()


def test_after_the_first_share_the_driver_hashes_too(values, tmp_path):
    values.intern(["a"])
    shared = worker(values.share(str(tmp_path)))
    assert values.intern(["later"]).tolist() == shared.intern(["later"]).tolist()
    assert values.pack(np.array([[5]])).tolist() == shared.pack(np.array([[5]])).tolist()
    assert values.intern(["x"])[0] < 0


def test_a_snapshot_is_written_once(values, tmp_path):
    values.intern([f"s{i}" for i in range(1000)])
    shared = values.share(str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert values.share(str(tmp_path)) is shared
    values.learn(AddedValues(pa.array(["new"])))
    again = values.share(str(tmp_path))
    assert again is not shared
    assert before.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}.items()
    assert len(list(tmp_path.iterdir())) == 2 * len(before)
    assert len(pickle.dumps(again)) < 1000


def test_many_small_shares_leave_few_segments(values, tmp_path):
    for i in range(200):
        values.intern([f"s{i}"])
        values.share(str(tmp_path))
    assert len(values._symbols.segments) <= 8
    opened = worker(values.share(str(tmp_path)))
    ids = opened.intern([f"s{i}" for i in range(200)])
    assert not opened.added()
    assert opened.strings(ids[::-1]) == [f"s{i}" for i in range(200)][::-1]


def test_another_directory_gets_a_snapshot_of_its_own(values, tmp_path):
    values.intern(["a"])
    first, second = tmp_path / "1", tmp_path / "2"
    for directory in (first, second):
        assert worker(values.share(str(directory))).strings(np.array([0])) == ["a"]
        assert list(directory.iterdir())


def test_a_lost_snapshot_is_said_clearly(values, tmp_path):
    values.intern(["a"])
    shared = values.share(str(tmp_path))
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(RuntimeError, match="the shared symbols at .* are gone"):
        worker(shared).intern(["a"])


def test_only_the_driver_counts(values, tmp_path):
    assert values.autoinc(2).tolist() + values.autoinc(1).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="counts in the driver alone"):
        worker(values.share(str(tmp_path))).autoinc(1)


class _Colliding(Strings):
    """Strings whose hash is their length."""

    @staticmethod
    def hashes(strings):
        return np.array([len(string) for string in strings.to_pylist()], np.uint64)


def test_two_contents_with_one_hash_are_refused(monkeypatch):
    lexicon = Dictionary(_Colliding, 0, frozen=True)
    assert lexicon.encode(pa.array(["a", "bb"])).tolist() == [-2, -3]
    with pytest.raises(RuntimeError, match="two different symbols have the same 62-bit hash.*'b'"):
        lexicon.encode(pa.array(["a", "b"]))
    with pytest.raises(RuntimeError, match="two different symbols"):
        lexicon.encode(pa.array(["xyz", "zyx"]))
    monkeypatch.setattr(Rows, "hashes", staticmethod(lambda rows: rows[0].astype(np.uint64)))
    with pytest.raises(RuntimeError, match="two different records"):
        Dictionary(Rows, 1).encode(np.array([[1, 1], [2, 3]]))


def test_no_python_runs_for_each_record(values):
    rows = np.random.default_rng(1).integers(0, 1 << 40, (2, 100_000))
    values.pack(rows[:, :1])  # compiled
    assert python_calls(lambda: values.pack(rows)) < 1000
    assert (values.fields(values.pack(rows), 2) == rows).all()


def test_a_host_without_the_files_gets_them_from_spark(tmp_path):
    """What a broadcast brings, in place of another host: the files are gone, the bytes are there."""
    values = Values(SymbolTable())
    ids, records = values.intern(["a", "b"]), values.pack(np.array([[1, 2], [3, 4]]))
    shared = values.share(str(tmp_path / "values"))
    files = {str(path): SimpleNamespace(value=path.read_bytes()) for path in (tmp_path / "values").iterdir()}
    shutil.rmtree(tmp_path / "values")
    there = pickle.loads(pickle.dumps(shared.sent(files)))
    assert there.strings(ids) == ["a", "b"] and there.fields(records, 2).tolist() == [[1, 2], [3, 4]]


def test_shared_files_that_are_damaged_are_one_clear_error(tmp_path):
    values = Values(SymbolTable())
    ids, records = values.intern(["a", "b"]), values.pack(np.array([[1, 2], [3, 4]]))
    data = pickle.dumps(values.share(str(tmp_path)))
    assert pickle.loads(data).strings(ids) == ["a", "b"]
    for path in list(tmp_path.iterdir()):
        whole = path.read_bytes()
        for damaged in (whole[:-1], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
            path.write_bytes(damaged)
            dictionary._checksum.cache_clear()  # as in another process
            with pytest.raises(RuntimeError, match=f"the shared (symbols|records) at {tmp_path}/.* are damaged"):
                there = pickle.loads(data)
                there.strings(ids), there.fields(records, 2)
        path.write_bytes(whole)


@pytest.mark.parametrize("frozen", [False, True])
def test_threads_share_a_dictionary(frozen):
    """They add the same content and other content at once, and read it while segments are merged."""
    for seed in range(20):
        shared, errors = Dictionary(Rows, base=1, frozen=frozen), []

        def work(number: int, shared=shared, errors=errors, seed=seed):
            rng = np.random.default_rng([seed, number])
            try:
                for _ in range(60):
                    rows = np.array([rng.integers(0, 40, 7), rng.integers(0, 40, 7)])
                    ids = shared.encode(rows)
                    assert (shared.decode(ids) == rows).all() and (shared.encode(rows) == ids).all()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        every = shared.content_from(0)
        assert len(np.unique(every, axis=1).T) == every.shape[1] == len(shared)
