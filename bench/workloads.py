"""The rows of the Datalog benchmark: a program (programs/*.dl), its facts in a folder of files, and who computes the same."""

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from bench import analyses, loops
from bench.peers import COUNT, Sample, decomposed, rows_in
from bench.sql import query, query_written
from semi_naive import graphs

PROGRAMS = Path(__file__).parent / "programs"


@dataclass
class Workload:
    """A program over facts. `path` is what an engine gets: the folder of the facts, or their file."""

    name: str
    path: str
    text: str
    counted: tuple[str, ...]  # relations whose sizes are added up
    value: str | None = None  # or the relation whose only value is the answer
    peers: dict[str, Callable] = field(default_factory=dict)
    pairs: int | None = None  # the answer, where it is known


def workloads(
    names, folder: Path, data: Path | None = None, quick: bool = False, scale: float = 1, known=None
) -> list[Workload]:
    """Those asked for, of those `known` by name, their facts written to files in `folder`."""
    known = known or NAMES
    for name in names:
        if name not in known:
            raise ValueError(f"there is no row {name!r}: expected some of {', '.join(known)}")
    found = [known[name](folder / name, data, quick, scale) for name in names]
    return [workload for workload in found if workload]


def ours(workload: Workload, path, spark, timeout: float) -> Sample:
    """From the text of the program to the answer, with every default. No time limit."""
    from semi_naive import Program

    begun = time.perf_counter()
    with Program(workload.text).run(facts=path, spark=spark) as result:
        if workload.value:
            [(answer,)] = result[workload.value].to_list()
        else:
            answer = sum(result[name].count() for name in workload.counted)
        return Sample(time.perf_counter() - begun, answer)


def ours_written(workload: Workload, path, spark, timeout: float) -> Sample:
    """From the text of the program until what is counted is in parquet files. No time limit."""
    from semi_naive import Program

    with tempfile.TemporaryDirectory(prefix="bench-written-") as folder:
        begun = time.perf_counter()
        with Program(workload.text).run(facts=path, spark=spark) as result:
            for name in workload.counted:
                result[name].write(Path(folder) / f"{name}.parquet")
        return Sample(time.perf_counter() - begun, rows_in(folder))


def facts(folder: Path, relations: dict[str, np.ndarray]) -> str:
    """The relations as the files that .input reads."""
    folder.mkdir(parents=True)
    for name, rows in relations.items():
        lines = ("\t".join(map(str, row)) for row in np.asarray(rows).tolist())
        (folder / f"{name}.facts").write_text("".join(f"{line}\n" for line in lines))
    return str(folder)


def _workload(name: str, path: str, program: str, counted=(), value=None, **peers) -> Workload:
    text, sql = ((PROGRAMS / f"{program}.{kind}").read_text() for kind in ("dl", "sql"))
    written = (
        {"duckdb_written": partial(query_written, sql)} if sql.strip().rpartition("\n")[2].startswith(f"{COUNT} FROM") else {}
    )
    return Workload(name, path, text, counted, value, {"duckdb": partial(query, sql), **written, **peers})


def _same_generation(name: str, file: str | None, folder, data, quick, scale) -> Workload | None:
    """On a graph that comes with the package, or on a file of --data; None without it."""
    if quick:
        edges = graphs.tree(5)[:, ::-1]  # from parent to child
    elif file is None:
        edges = graphs.as_edges(graphs.bundled("p2p-gnutella09")).pairs
    elif data is None:
        return None
    else:
        edges = graphs.as_edges(data / file).pairs
    return _workload(name, facts(folder, {"edge": edges}), "same_generation", ("same",))


def _andersen(folder, data, quick, scale) -> Workload:
    size = 500 if quick else int(250_000 * scale)
    return _workload("andersen", facts(folder, analyses.andersen(size)), "andersen", ("points_to",))


def _cspa(folder, data, quick, scale) -> Workload:
    size = 300 if quick else int(30_000 * scale)
    path = facts(folder, analyses.cspa(size))
    return _workload("cspa", path, "cspa", ("value_flow", "memory_alias", "value_alias"))


def _rmat(quick, scale) -> np.ndarray:
    return graphs.rmat(6, 100, seed=3) if quick else graphs.rmat(18, int(1_000_000 * scale), seed=3)


def _components(folder, data, quick, scale) -> Workload:
    path = facts(folder, {"edge": _rmat(quick, scale)})
    return _workload("components", path, "components", ("component",), loop=loops.components)


def _shortest_paths(folder, data, quick, scale) -> Workload:
    """From node 0, which has most edges, by weights from 1 to 100."""
    edges = _rmat(quick, scale)
    weights = np.random.default_rng(4).integers(1, 101, len(edges))
    path = facts(folder, {"edge": np.column_stack([edges, weights]), "start": np.zeros((1, 1), np.int64)})
    return _workload("shortest paths", path, "shortest_paths", value="total", loop=loops.shortest_paths)


def _closure(folder, data, quick, scale) -> Workload:
    edges = graphs.gnp(30, 0.1, seed=1) if quick else graphs.gnp(int(5000 * scale), 0.001 / scale, seed=1)
    workload = _workload("closure", facts(folder, {"edge": edges}), "closure", ("path",))
    file = shutil.copy(folder / "edge.facts", folder / "edge.tsv")  # the suffix says to transitive_closure what it is
    workload.peers["transitive_closure"] = lambda path, spark, timeout: decomposed(str(file), spark, timeout)
    return workload


def _small_rules(folder, data, quick, scale) -> Workload:
    """Hundreds of rules over next to nothing: what a rule costs when there is nothing to do in it."""
    count = 20 if quick else int(500 * scale)
    rules = [".decl r0(x: number, y: number)", ".input r0"]
    for i in range(1, count + 1):
        rules.append(f".decl r{i}(x: number, y: number)\n.output r{i}\nr{i}(x, z) :- r{i // 2}(x, y), r{i - 1}(y, z).")
    edges = np.array([[i, j] for i in range(4) for j in range(4)])
    names = tuple(f"r{i}" for i in range(1, count + 1))
    return Workload("small rules", facts(folder, {"r0": edges}), "\n".join(rules), names, pairs=16 * count)


NAMES = {
    "sg-gnutella": partial(_same_generation, "sg gnutella09", None),
    "sg-tg": partial(_same_generation, "sg tg-cedge", "tg-cedge.tsv.gz"),
    "andersen": _andersen,
    "cspa": _cspa,
    "components": _components,
    "shortest-paths": _shortest_paths,
    "closure": _closure,
    "small-rules": _small_rules,
}
