"""Structured Streaming into a session: each batch once, whatever Spark delivers again."""

import json

import pytest
from serving import served
from session_cases import PATHS

from semi_naive import BadInput, Program
from semi_naive.session.durability import directory as durable

FEED = "x long, y long, _change_type string, _commit_version long"


def changes(spark, *rows):
    return spark.createDataFrame([(x, y, op, 0) for op, x, y in rows], FEED)


@pytest.fixture(scope="module")
def frames(spark):
    from pyspark.sql import SparkSession

    return SparkSession(spark) if not isinstance(spark, SparkSession) else spark


def test_a_stream_of_files_becomes_transactions_and_goes_on_after_both_have_ended(frames, tmp_path):
    files = tmp_path / "in"
    files.mkdir()

    def feed(name: str, *rows):
        (files / name).write_text(
            "\n".join(json.dumps(dict(zip(("x", "y", "_change_type"), row, strict=True))) for row in rows)
        )

    def arrive(session) -> None:
        stream = frames.readStream.schema(FEED).option("maxFilesPerTrigger", 1).json(str(files))
        writing = stream.writeStream.foreachBatch(session.sink("edge", op="_change_type"))
        query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()

    feed("1.json", (1, 2, "insert"), (2, 3, "insert"))
    feed("2.json", (2, 3, "update_preimage"), (2, 4, "update_postimage"))
    with Program(PATHS).session(path=tmp_path / "state") as session:
        arrive(session)
        assert session.epoch == 2 and session["path"].to_set() == {(1, 2), (2, 4), (1, 4)}
        [(query, last)] = session.batches.items()
        assert last == 1
    feed("3.json", (1, 2, "delete"))
    with Program(PATHS).session(path=tmp_path / "state") as session:
        assert session.batches == {query: 1}
        arrive(session)
        assert session.epoch == 3 and session["path"].to_set() == {(2, 4)} and session.batches == {query: 2}


@pytest.mark.parametrize("least", [0, 1 << 20])
def test_a_batch_that_is_delivered_twice_counts_once(frames, tmp_path, monkeypatch, least):
    monkeypatch.setattr(durable, "MIN_LOG_BYTES", least)
    first = changes(frames, ("insert", 1, 2), ("insert", 2, 3))
    with Program(PATHS).session(path=tmp_path / "s") as session:
        sink = session.sink("edge", op="_change_type", query="roads")
        sink(first, 0)
        session.delete("edge", [(1, 2)])
        sink(first, 0)
        assert session.epoch == 2 and session["edge"].to_set() == {(2, 3)}
        session.sink("edge", op="_change_type", query="others")(first, 0)  # another stream's batch 0
        assert session["edge"].count() == 2
        sink(changes(frames, ("-U", 2, 3), ("+U", 2, 5)), 1)
    with Program(PATHS).session(path=tmp_path / "s") as session:
        sink = session.sink("edge", op="_change_type", query="roads")
        for batch in (0, 1):
            sink(first, batch)
        assert session.epoch == 4 and session["edge"].to_set() == {(1, 2), (2, 5)}


def test_rows_without_an_operation_and_with_a_key(frames):
    with Program(PATHS).session() as session:
        session.sink("edge", query="q")(frames.createDataFrame([(1, 2), (2, 3)], "a long, b long"), 0)
        session.sink("edge", key="x", query="k")(changes(frames, ("c", 1, 7)).drop("_change_type"), 0)
        assert session["edge"].to_set() == {(1, 7), (2, 3)}
        session.sink("edge", op="diff", query="d")(
            frames.createDataFrame([(2, 3, -1), (4, 4, 1)], "x long, y long, diff int"), 0
        )
        assert session["edge"].to_set() == {(1, 7), (4, 4)}
        session.sink("edge", query="q")(frames.createDataFrame([], "x long, y long"), 1)
        assert session.epoch == 4 and session.batches == {"q": 1, "k": 0, "d": 0}


def test_a_batch_that_is_wrong_leaves_nothing(frames):
    with Program(PATHS).session() as session:
        sink = session.sink("edge", op="_change_type", query="q")
        with pytest.raises(BadInput, match="has _change_type = 'replace'\n.*expected one of [+]I"):
            sink(changes(frames, ("insert", 1, 2), ("replace", 1, 2)), 0)
        with pytest.raises(BadInput, match="no column op"):
            session.sink("edge", op="op", query="q")(changes(frames), 0)
        with pytest.raises(ValueError, match="has no name that stays"):
            session.sink("edge")(changes(frames), 0)
        assert session.epoch == 0 and not session.batches
        sink(changes(frames, ("insert", 1, 2)), 0)
        assert session.epoch == 1
        with pytest.raises(ValueError, match="path cannot be changed"):
            session.sink("path")
        with pytest.raises(ValueError, match="the key names 'z'"):
            session.sink("edge", key="z")


def test_the_changes_of_a_relation_as_a_stream(frames, tmp_path):
    from semi_naive.session.served.source import ChangesSource

    text = """
    .decl edge(x: symbol, y: unsigned, w: float)
    .input edge
    .decl near(x: symbol, y: unsigned, w: float)
    .output near
    near(x, y, w) :- edge(x, y, w), w < 9.0.
    """
    frames.dataSource.register(ChangesSource)
    with Program(text).session(retain=9) as session, served(session) as call:
        options = {"url": f"http://127.0.0.1:{call.port}", "relation": "near"}

        def arrived(name: str, **more) -> list[tuple]:
            stream = frames.readStream.format("semi-naive").options(**options, **more).load()
            writing = stream.writeStream.format("parquet").option("path", str(tmp_path / name))
            query = writing.option("checkpointLocation", str(tmp_path / f"{name}.checkpoint")).start()
            try:
                query.processAllAvailable()
            finally:
                query.stop()
            return sorted(map(tuple, frames.read.parquet(str(tmp_path / name)).collect()))

        session.insert("edge", [("a", 1, 0.5), ("b", 2**63, float("-inf")), ("c", 3, 99.0)])
        first = [("a", 1, 0.5, 1), ("b", 2**63, float("-inf"), 1)]
        assert arrived("all") == first
        session.delete("edge", [("a", 1, 0.5)])
        session.insert("edge", [("d", 4, 1.0)])
        assert arrived("all") == sorted([*first, ("a", 1, 0.5, -1), ("d", 4, 1.0, 1)])  # a stream goes on where it was
        assert arrived("later", since=2) == [("d", 4, 1.0, 1)]
        assert session.between("near", 0, 3).to_set() == {("b", 2**63, float("-inf"), 1), ("d", 4, 1.0, 1)}
        with pytest.raises(Exception, match="the server has no relation 'far'"):
            frames.readStream.format("semi-naive").options(**options | {"relation": "far"}).load()
        with pytest.raises(Exception, match="there is no epoch 7"):
            session.between("near", 0, 7)


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_lines_of_text_as_kafka_has_them(frames, kind):
    def batch(*rows):
        values = [(None, bytearray(line.encode()) if kind == "binary" else line, op) for op, line in rows]
        return frames.createDataFrame(values, f"key string, value {kind}, op string")

    with Program(PATHS).session({"edge": [(7, 8)]}) as session:
        sink = session.sink("edge", lines="value", query="topic", op="op")
        sink(batch(("c", "1\t2"), ("c", "2\t3"), ("d", "7\t8")), 0)
        assert session["edge"].to_set() == {(1, 2), (2, 3)}
        session.sink("edge", lines="value", query="other", key="x")(batch(("c", "2\t5")).select("value"), 0)
        assert session["edge"].to_set() == {(1, 2), (2, 5)}
        with pytest.raises(BadInput, match="a batch for edge:2"):
            sink(batch(("c", "1\t2"), ("c", "2\tx")), 1)
        with pytest.raises(BadInput, match="has no column text"):
            session.sink("edge", lines="text", query="third")(batch(("c", "2\t5")), 0)
        assert session.epoch == 2
