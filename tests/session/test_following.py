"""Sources that a session follows: what arrives is committed, in order, exactly once; errors name the line."""

import os
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semi_naive import BadInput, Program

CLOSURE = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl path(x: symbol, y: symbol)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
QUICK = {"seconds": 0.01}


@pytest.fixture
def session():
    with Program(CLOSURE).session({"edge": []}) as opened:
        yield opened


def append(path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


def test_rows_that_are_appended_are_committed_line_by_line(session, tmp_path):
    path = tmp_path / "edges.tsv"
    append(path, "a\tb\nb\tc\nc")
    with session.follow("edge", path, **QUICK) as follower:
        assert follower.catch_up(60) and session["path"].to_set() == {("a", "b"), ("b", "c"), ("a", "c")}
        append(path, "\td\n")
        assert follower.catch_up(60) and ("a", "d") in session["path"].to_set()
    append(path, "d\te\n")
    assert session["edge"].count() == 3 and not follower.is_alive


def test_a_log_of_operations_is_followed_in_its_order(session, tmp_path):
    path = tmp_path / "log.csv"
    append(path, "op,y,x\n+,b,a\n-,b,a\n+,c,b\nd,c,b\ninsert,c,b\n")
    with session.follow("edge", path, op="op", header=True, **QUICK) as follower:
        assert follower.catch_up(60) and session["edge"].to_set() == {("b", "c")}
        append(path, "-,c,b\n")
        assert follower.catch_up(60) and not session["edge"].to_set()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 1)), max_size=12), st.integers(1, 5), st.booleans())
def test_operations_mean_the_same_in_every_batch_size(tmp_path_factory, operations, size, by_key):
    """Against a set, or a dictionary by the key, that is changed row by row."""
    path, expected = tmp_path_factory.mktemp("log") / "log.tsv", set()
    path.touch()
    with Program(CLOSURE).session({"edge": []}) as session:
        follower = session.follow("edge", path, op="op", key=["x"] if by_key else None, **QUICK)
        for begin in range(0, len(operations), size):
            for insert, x, y in operations[begin : begin + size]:
                expected = {fact for fact in expected if not (by_key and insert and fact[0] == str(x))}
                (expected.add if insert else expected.discard)((str(x), str(y)))
            append(path, "".join(f"{'-+'[insert]}\t{x}\t{y}\n" for insert, x, y in operations[begin : begin + size]))
            assert follower.catch_up(60)
        assert session["edge"].to_set() == expected
        follower.stop()


def test_files_that_arrive_in_a_folder_are_read_once(session, tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n")
    (tmp_path / "_half.csv").write_text("x,y\n")
    with session.follow("edge", tmp_path, **QUICK) as follower:
        assert follower.catch_up(60) and session["edge"].to_set() == {("a", "b")}
        (tmp_path / "2.tsv.partial").write_text("b\tc\n")
        os.rename(tmp_path / "2.tsv.partial", tmp_path / "2.tsv")
        (tmp_path / "0.json").write_text('[["c", "d"]]')
        assert follower.catch_up(60) and session["path"].count() == 6
        session.delete("edge", [("a", "b")])
        assert follower.catch_up(60) and session["edge"].count() == 2


def test_what_was_read_is_not_read_again_after_reopening(tmp_path):
    path, folder = tmp_path / "edges.tsv", tmp_path / "inbox"
    folder.mkdir()
    append(path, "a\tb\n")
    (folder / "1.tsv").write_text("b\tc\n")
    for expected in ({("a", "b"), ("b", "c")}, {("b", "c"), ("x", "y"), ("e", "f")}, {("b", "c"), ("x", "y"), ("e", "f")}):
        with Program(CLOSURE).session({"edge": []}, path=tmp_path / "state") as session:
            with session.follow("edge", path, **QUICK) as one, session.follow("edge", folder, **QUICK) as other:
                assert one.catch_up(60) and other.catch_up(60)
            assert session["edge"].to_set() == expected
            session.delete("edge", [("a", "b")])  # would come back
            session.insert("edge", [("x", "y")])
        if len(expected) == 2:
            append(path, "e\tf\n")


def test_lines_of_a_socket(session):
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=lambda: send(server, [b"a\tb\nb", b"\tc\n", b"c\td"]))
        sender.start()
        with session.follow("edge", f"tcp://127.0.0.1:{server.getsockname()[1]}", **QUICK) as follower:
            sender.join()
            follower._thread.join(60)  # the connection has ended
        assert session["path"].count() == 6


def send(server, pieces: list[bytes]) -> None:
    connection, _ = server.accept()
    with connection:
        for piece in pieces:
            connection.sendall(piece)


def test_a_wrong_line_ends_the_follower_and_is_told_with_its_number(session, tmp_path):
    path = tmp_path / "edges.tsv"
    append(path, "a\tb\n")
    follower = session.follow("edge", path, **QUICK)
    assert follower.catch_up(60)
    append(path, "b\tc\nonly one\n")
    with pytest.raises(BadInput, match="edges.tsv:3:9: Values missing"):
        follower.catch_up(60)
    with pytest.raises(BadInput):
        follower.stop()
    assert session["edge"].to_set() == {("a", "b")}, "a batch counts whole or not at all"


@pytest.mark.parametrize(
    ("relation", "source", "options", "message"),
    [
        ("edge", "nothing.tsv", {}, "no such file"),
        ("path", ".", {}, "has no .input"),
        ("edge", "whole.parquet", {}, "cannot be followed"),
        ("edge", "graph.mtx", {}, "cannot be followed"),
        ("edge", "tcp://nowhere", {}, "expected tcp://HOST:PORT"),
        ("edge", "tcp://127.0.0.1:1", {}, "no connection"),
        ("edge", ".", {"seconds": 0}, "greater than 0"),
        ("edge", ".", {"key": ["z"]}, "z"),
    ],
)
def test_what_cannot_be_followed(session, tmp_path, monkeypatch, relation, source, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "whole.parquet").write_bytes(b"PAR1")
    (tmp_path / "graph.mtx").write_text("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n")
    with pytest.raises((BadInput, ValueError), match=message):
        session.follow(relation, source, **options)


def test_a_file_that_shrinks_and_an_unknown_operation(session, tmp_path):
    path = tmp_path / "edges.tsv"
    append(path, "a\tb\n")
    follower = session.follow("edge", path, **QUICK)
    assert follower.catch_up(60)
    path.write_text("")
    with pytest.raises(BadInput, match="a file that is followed only grows"):
        follower.catch_up(60)
    append(path, "perhaps\ta\tb\n")
    with pytest.raises(BadInput, match="a row of a batch has op = 'perhaps'"):
        session.follow("edge", path, op="op", name="another", **QUICK).catch_up(60)


def test_catching_up_with_a_follower_that_has_ended(session, tmp_path):
    with session.follow("edge", tmp_path, **QUICK) as follower:
        pass
    assert follower.catch_up(), "it returns, without a timeout"


def test_closing_a_session_ends_its_followers(tmp_path):
    with Program(CLOSURE).session({"edge": []}) as session:
        follower = session.follow("edge", tmp_path, **QUICK)
    assert not follower.is_alive and follower.error is None
