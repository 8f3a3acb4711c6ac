"""A folder with a file for each epoch that changes a relation."""

import random

import pytest
from session_cases import PATHS

from semi_naive import BadInput, Program
from semi_naive.session.contents import Changes


def rows_of(folder, name: str) -> dict[int, set]:
    """The rows of each file, by its epoch."""
    import pyarrow.parquet as pq

    files = {int(path.stem.removeprefix(f"{name}-")): path for path in folder.glob(f"{name}-*.parquet")}
    return {epoch: set(map(tuple, (row.values() for row in pq.read_table(path).to_pylist()))) for epoch, path in files.items()}


@pytest.mark.parametrize("declared", [False, True])
def test_the_files_add_up_to_the_relation(tmp_path, monkeypatch, declared):
    """Also if a file could not be written, and if the process ended before one was."""
    rng, folder, told, edges = random.Random(2), tmp_path / "out", {}, {(1, 2)}
    text = PATHS.replace(".output path", f'.output path(epochs="{folder}")') if declared else PATHS
    assert text != PATHS or not declared
    fails, write = [], Changes.write

    def failing(self, path):
        if fails:
            raise OSError(fails.pop())
        write(self, path)

    monkeypatch.setattr(Changes, "write", failing)
    for _ in range(4):
        with Program(text).session({"edge": edges}, path=tmp_path / "state") as s:
            if not declared:
                s.record("path", folder)
            assert rows_of(folder, "path") == told, "what the process before has missed"
            for step in range(5):
                row = rng.randrange(5), rng.randrange(5)
                edges.symmetric_difference_update({row})
                fails += ["no space"] * (rng.random() < 0.3 or step == 4)
                done = (s.insert if row in edges else s.delete)("edge", [row])
                if "path" in done.changes:
                    told[done.epoch] = done.changes["path"].to_set()
                fails.clear()
            whole = s["path"].to_set()
    files = rows_of(folder, "path")
    assert files.keys() <= told.keys() and all(files[epoch] == told[epoch] for epoch in files)
    summed = {(1, 2)}
    for _, rows in sorted(told.items()):
        summed.symmetric_difference_update(row[:-1] for row in rows)
    assert summed == whole


def test_parameters_formats_and_errors(tmp_path, session):
    session.register("near", ".decl near(y: number)\nnear(y) :- path($x, y).")
    recording = session.record("near", tmp_path / "near", ".csv", x=1)
    session.insert("edge", [(2, 3)])
    assert (tmp_path / "near" / "near-0000000001.csv").read_text().split() == ["3,1"]
    recording.cancel()
    with pytest.raises(ValueError, match="the extension is '.xls': expected .parquet, .csv"):
        session.record("path", tmp_path / "x", ".xls")
    text = PATHS.replace(".output path", '.output path(epochs="/elsewhere")')
    with pytest.raises(BadInput, match="outside of the sandbox"):
        Program(text, sandbox=tmp_path).session({})
