"""Checkpoints and runs that are not as they were written: one clear error, or made again; never a wrong answer."""

import json
import shutil
import stat
from functools import partial
from pathlib import Path

import pytest
from test_checkpoints import GENERATION, SAME, SPREAD, TREE, Killed, dying, events

from semi_naive import CheckpointUnusable, Program, RunsLost
from semi_naive.__main__ import main
from semi_naive.host import private
from semi_naive.ra.storage import runs

DAMAGES = "flipped", "cut", "emptied", "gone"
CASES = {
    "partitioned": (GENERATION, {"parent": TREE}, SPREAD | {"replicate_bytes": 0}),
    "replicated": (GENERATION, {"parent": TREE}, SPREAD),
    "lattice": (
        """.decl edge(x: number, y: number)
        .input edge
        .decl checksum(y: number, d: number)
        .output checksum
        checksum(0, min(0)).
        checksum(y, min(d + 1)) :- checksum(x, d), edge(x, y).""",
        {"edge": [(i, i + 1) for i in range(9)]}, SPREAD,
    ),
    "equivalence": (
        """.decl pair(x: symbol, y: symbol)
        .input pair
        .decl same(x: symbol, y: symbol) eqrel
        same(x, y) :- pair(x, y).
        .decl far(x: symbol)
        .output far
        far("n0").
        far(y) :- far(x), pair(x, y), same(y, x).""",
        {"pair": [(f"n{i}", f"n{i + 1}") for i in range(7)]}, SPREAD,
    ),
    "records": (
        """.type List = [head: symbol, tail: List]
        .decl word(x: symbol)
        .input word
        .decl made(n: number, x: List)
        .output made
        made(0, nil).
        made(n + 1, [x, l]) :- made(n, l), word(x), n < 3.""",
        {"word": [("a",), ("b",)]}, SPREAD,
    ),
}  # fmt: skip


def test_a_damaged_checkpoint_is_one_clear_error(here, processes, tmp_path):
    """Whichever of its files is cut short, changed or gone: the error names it and says what to do."""
    options = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": 2, **SPREAD}
    with pytest.raises(Killed):
        Program(GENERATION).run({"parent": TREE}, here, progress=dying(4), **options)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kinds = {path.name.split("-")[-1] for path in files}
    assert len(files) > 5 and {"manifest.json", "trace"} <= {name.split("-")[-1] for name in kinds}
    for path in files:
        content = path.read_bytes()
        for broken in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), None):
            if broken is None and path.name == "manifest.json":
                continue  # then there is no checkpoint
            path.unlink() if broken is None else path.write_bytes(broken)
            with pytest.raises(CheckpointUnusable, match=f"{path.name}.*remove .*manifest.json|manifest.json .*remove it"):
                Program(GENERATION).run({"parent": TREE}, here, **options)
        path.write_bytes(content)
    with Program(GENERATION).run({"parent": TREE}, here, **options) as result:
        assert result["same"].count() == SAME and events(result, "restore") == [2]


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_file_of_a_checkpoint_is_one_clear_error(here, processes, tmp_path, name):
    """A bit, the end or all of each file in turn, and its absence: nothing of it is taken up, and nothing is changed."""
    text, facts, options = CASES[name]
    saved, tried = tmp_path / "saved", tmp_path / "tried"
    options = options | {"checkpoint_interval": 1}
    with pytest.raises(Killed):
        Program(text).run(facts, here, progress=dying(4), checkpoint_dir=str(saved), **options)
    files = [path.relative_to(saved) for path in saved.rglob("*") if path.is_file()]
    assert len(files) > 4 and all(stat.S_IMODE((saved / path).stat().st_mode) == 0o600 for path in files)
    for number, path in enumerate(files):
        for damage in DAMAGES[:3] if path.name == "manifest.json" else DAMAGES[number % 4 :][:1]:
            shutil.rmtree(tried, ignore_errors=True)
            shutil.copytree(saved, tried)
            spoilt(tried / path, damage)
            before = sorted(tried.rglob("*"))
            with pytest.raises(CheckpointUnusable, match=f"{tried}.*remove .*to start anew"):
                Program(text).run(facts, here, checkpoint_dir=str(tried), **options)
            assert sorted(tried.rglob("*")) == before
    with Program(text).run(facts, here, checkpoint_dir=str(saved), **options) as result:
        assert "restore" in str(result.trace)


def spoilt(path, damage: str) -> None:
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "flipped":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 16]))
    else:
        path.write_bytes(data[:-1] if damage == "cut" else b"")


def test_a_manifest_that_is_not_of_this_version_or_not_complete_is_one_clear_error(here, processes, tmp_path):
    options = {"checkpoint_dir": str(tmp_path), "checkpoint_interval": 1, **SPREAD}
    with pytest.raises(Killed):
        Program(GENERATION).run({"parent": TREE}, here, progress=dying(4), **options)
    whole = json.loads(private.load(tmp_path / "manifest.json"))
    block = next(record for record in whole["running"]["relations"].values())["full"][0]
    for inside, key in [(whole, key) for key in whole] + [
        (whole["running"], "iterations"),
        (block, "checksum"),
        (block, "bounds"),
    ]:
        kept = inside.pop(key)
        private.save_checked(tmp_path / "manifest.json", json.dumps(whole).encode())
        inside[key] = kept
        with pytest.raises(CheckpointUnusable, match=f"{tmp_path}.*remove .*to start anew"):
            Program(GENERATION).run({"parent": TREE}, here, **options)
    private.save_checked(tmp_path / "manifest.json", json.dumps(whole | {"version": "0.0.1"}).encode())
    with pytest.raises(CheckpointUnusable, match="semi-naive 0.0.1 has written it, and this is"):
        Program(GENERATION).run({"parent": TREE}, here, **options)


def test_a_checkpoint_that_others_may_write_is_one_clear_error(here, tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(CheckpointUnusable, match=f"{tmp_path} may be written by other users.*chmod go-w"):
        Program(GENERATION).run({"parent": TREE}, here, checkpoint_dir=str(tmp_path))


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied"])
def test_damaged_runs_are_made_again(here, tmp_path, checkpoints, damage):
    """As if they were gone; and after three times one error says that they are damaged."""
    local, durable, calls = tmp_path / "local", tmp_path / "durable", []
    local.mkdir()

    def damaging(*_, times=(4,)):
        calls.append(None)
        if len(calls) in times:
            for path in local.glob("semi-naive-*/runs/**/*"):
                if path.is_file() and path.stat().st_size:
                    spoilt(path, damage)

    options = {"checkpoint_dir": str(durable), "checkpoint_interval": 2} if checkpoints else {}
    options |= {"local_dir": str(local), **SPREAD}
    with Program(GENERATION).run({"parent": TREE}, here, progress=damaging, **options) as result:
        assert result["same"].count() == SAME and result["alone"].to_set() == {("n1",)}
        assert events(result, "runs lost") == [4]
        calls.clear()
        damaging(times=(1,))
        runs._verified.clear()  # as in another process
        with pytest.raises(RunsLost, match="a run is damaged or cut short"):
            result["same"].to_set()
    calls.clear()
    with pytest.raises(RunsLost, match=f"a run is damaged or cut short: {local}"):
        Program(GENERATION).run({"parent": TREE}, here, progress=partial(damaging, times=range(99)), **options)


def test_a_damaged_checkpoint_is_bad_input_on_the_command_line(tmp_path, capsys):
    program, directory = tmp_path / "p.dl", Path(private.folder(tmp_path / "checkpoint"))
    program.write_text(".decl a(x: number)\n.output a\na(1).\na(x + 1) :- a(x), x < 3.")
    (directory / "manifest.json").write_bytes(b"")
    with pytest.raises(SystemExit) as ended:
        main(["run", str(program), "-D", str(tmp_path / "out"), "-q", "--set", f"checkpoint_dir={directory}"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.startswith("semi-naive: ") and f"{directory}/manifest.json is damaged" in said
    assert said.count("\n") == 1 and not list((tmp_path / "out").glob("*"))
