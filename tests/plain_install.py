"""Every method of the public face, every format and every command, called once: `python plain_install.py SOURCE`.

Run by .ci/plain with the wheel and what it requires, and nothing else: no pytest, pandas or polars. What needs more must say so
in one error that names the package. SOURCE: the checkout, whose files the installed package must have, and no others.
"""

import contextlib
import gzip
import inspect
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import semi_naive
from semi_naive import (
    Branch,
    Config,
    Libraries,
    Program,
    Relation,
    Vertices,
    simulate,
    subgraphs,
    transforms,
    transitive_closure,
    vectorised,
)
from semi_naive.host import native
from semi_naive.ra.spark import spark_context
from semi_naive.running.results.answers import Answer, Result
from semi_naive.subgraph_queries.embeddings import Subgraphs
from semi_naive.subgraph_queries.patterns import Pattern

PATHS = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
EDGES = [(1, 2), (2, 3), (1, 3)]
KERNELS = "kernels"  # a folder that the wheel has, and the checkout has not
CLOSED = {(1, 2), (2, 3), (1, 3)}
FORMATS = {  # of .input and .output, by the ending of the file
    "facts": "", "csv": ', IO="file", delimiter=","', "tsv.gz": ', compress="true"', "json": ', IO="jsonfile"',
    "sqlite": ', IO="sqlite"', "parquet": ', IO="parquet"',
}  # fmt: skip
TEXTS = ("tsv", "csv", "facts", "txt", "tsv.gz", "csv.gz", "parquet")  # that results write

called: set[str] = set()


def call(name: str, function: Callable, *given, **options):
    """Call it, and remember that; what it returns."""
    called.add(name)
    return function(*given, **options)


def needs(package: str, name: str, function: Callable, *given) -> None:
    """It says which package it needs and how to install it."""
    try:
        call(name, function, *given)
    except ImportError as error:
        assert package in str(error) and f"pip install {package}" in str(error), error
    else:
        raise AssertionError(f"{name} works without {package}: call it with `call`")


def attributes(owner: str, found) -> None:
    """Read every public property and constant of a class."""
    for name in dir(type(found)):
        if not name.startswith("_") and not callable(getattr(type(found), name)):
            call(f"{owner}.{name}", getattr, found, name)


def tuples(owner: str, make: Callable, arity: int = 2) -> None:
    """What every result can do. make: a new one."""
    with make() as found:
        assert call(f"{owner}.count", found.count) == len(found) == 3
        assert call(f"{owner}.to_arrow", found.to_arrow).num_rows == 3
        assert call(f"{owner}.to_numpy", found.to_numpy).shape == (3, arity)
        assert set(call(f"{owner}.to_list", found.to_list)) == call(f"{owner}.to_set", found.to_set)
        needs("pandas", f"{owner}.to_pandas", found.to_pandas)
        needs("polars", f"{owner}.to_polars", found.to_polars)
        assert len(call(f"{owner}.to_df", found.to_df).collect()) == 3
        for ending in TEXTS:
            call(f"{owner}.write", found.write, f"{owner}.{ending}")
            assert Path(f"{owner}.{ending}").exists(), ending
        assert call(f"{owner}.explain", found.explain)
        call(f"{owner}.report", found.report, f"{owner}.html")
        call(f"{owner}.plot", found.plot, f"{owner}.svg")
        assert len(call(f"{owner}.first", found.first, 2)) == 2 and "<table>" in found._repr_html_()
        assert sum(batch.num_rows for batch in call(f"{owner}.to_batches", found.to_batches)) == 3
        assert call(f"{owner}.arrow_schema", found.arrow_schema).names
        attributes(owner, found)
        call(f"{owner}.close", found.close)


def answers(owner: str, answer: Answer) -> None:
    """What only the results of runs can do."""
    for name in ("encoded", "rows", "frame", "facts"):
        call(f"{owner}.{name}", getattr(answer, name))
    call(f"{owner}.renamed", answer.renamed, ("a", "b"))


def closures() -> None:
    for plan in ("decomposed", "balanced"):
        tuples("Closure", lambda plan=plan: transitive_closure(EDGES, plan=plan))
    with call("transitive_closure", transitive_closure, EDGES) as found:
        answers("Closure", found)
        assert call("Closure.why", found.why, *EDGES[0]).height == 1
    with transitive_closure([("a", "b"), ("b", "c"), ("a", "c")]) as found:
        assert found.to_arrow().num_rows == 3 and ("a", "c") in found.to_set()


def programs() -> None:
    program = call("Program", Program, PATHS)
    Path("paths.dl").write_text(PATHS)
    call("Program.from_file", Program.from_file, "paths.dl")
    relations = {name: {"x": "number", "y": "number"} for name in ("edge", "path")}
    made = call("Program.from_rules", Program.from_rules, relations, [(("path", "x", "y"), ("edge", "x", "y"))], ["path"])
    call("Program.from_checked", Program.from_checked, made.checked)
    from semi_naive.language.parsing.parse import parse

    call("Program.from_source", Program.from_source, parse(PATHS, "paths.dl"))
    for name in ("warnings", "relations", "outputs", "inputs", "sandbox"):
        call(f"Program.{name}", getattr, program, name)
    call("Program.compile", program.compile)
    assert "path" in call("Program.explain", program.explain, {"edge": EDGES})
    tuples("Answer", lambda: program.run({"edge": EDGES})["path"])
    tuples("Answer", lambda: program.run({"edge": EDGES}, local_tuples=0)["path"])
    with call("Program.run", program.run, {"edge": EDGES}) as result:
        answer = result["path"]
        answers("Answer", answer)
        call("Result.trace", lambda: result.trace)
        assert "path" in call("Result.keys", result.keys) and call("Result.explain", result.explain)
        call("Result.check_open", result.check_open)
        row = result["path"].to_list()[0]
        call("Result.pin", result.pin)
        call("Result.why", result.why, "path", row).plot("proof.svg")
        assert not call("Result.proofs", lambda: result.proofs).absent("path", row)
        call("Result.why_not", result.why_not, "path", (row[0], row[0] + 1_000_000))
        os.makedirs("results", exist_ok=True)
        assert call("Result.write", result.write, "results") == [os.path.join("results", "path.csv")]
        call("Result.report", result.report)
        call("Result.plot", result.plot)
        assert dict(call("Result.items", result.items))["path"].count() == 3
        call("Result.close", result.close)
    with call("Program.session", program.session, {"edge": EDGES}) as session:
        assert session.insert("edge", [(3, 4)]).changes["path"].count() == 3
        Path("edges.tsv").write_text("4\t5\n")
        with call("Session.follow", session.follow, "edge", "edges.tsv", seconds=0.01) as follower:
            assert follower.catch_up() and session["edge"].count() == len(EDGES) + 2
    for facts in (
        pa.table({"x": [1, 2, 1], "y": [2, 3, 3]}),
        transitive_closure(EDGES).to_numpy(),
        transitive_closure(EDGES).to_df(),
    ):
        assert program.run({"edge": facts})["path"].to_set() == CLOSED


def relations() -> None:
    from semi_naive.relation import count, max_, min_, sum_

    edge = call("Relation.from_tuples", Relation.from_tuples, EDGES, ["x", "y"])
    call("Relation.from_numpy", Relation.from_numpy, edge.to_numpy(), ["x", "y"])
    call("Relation.from_arrow", Relation.from_arrow, edge.to_arrow())
    call("Relation.from_df", Relation.from_df, edge.to_df())
    called.update({"Relation.from_pandas", "Relation.from_polars"})  # whoever has a frame has the package
    other = call("Relation.rename", edge.rename, x="y", y="z")
    assert call("Relation.join", edge.join, other).to_set() == {(1, 2, 3)}
    one = edge.select(x=1)
    for name, given in {
        "select": (("x", "y"),), "where_equal": ("x", "y"), "project": ("x",), "reorder": ("y", "x"), "union": (one,),
        "distinct": (), "intersection": (one,), "difference": (one,), "product": (edge.rename(x="v", y="w"),), "evaluate": (),
        "with_options": (),
    }.items():  # fmt: skip
        call(f"Relation.{name}", getattr(edge, name), *given).count()
    summed = call("Relation.aggregate", edge.aggregate, ["x"], n=count(), s=sum_("y"), low=min_("y"), high=max_("y"))
    assert (1, 2, 5, 2, 3) in summed.to_set()
    call("Relation.arity", lambda: edge.arity)
    tuples("Relation", lambda: Relation.from_tuples(EDGES, ["x", "y"]).distinct())


def patterns() -> None:
    square = [(1, 2), (2, 3), (1, 3), (3, 4), (4, 1), (2, 4)]
    with call("Vertices.of", Vertices.of, [(1, 2), (2, 3), (1, 3), (3, 4), (4, 5), (3, 5), (5, 6), (6, 7), (5, 7)]) as vertices:
        for plan in ("leapfrog", "bigjoin", "bigjoin-s"):
            assert call("subgraphs", subgraphs, vertices, "triangle", plan=plan) == 3
        assert subgraphs(vertices, "triangle", plan="boxed", memory=1 << 20) == 3
        tuples("Subgraphs", lambda: subgraphs(vertices, "triangle", count=False, plan="boxed", memory=1 << 20), 3)
        call("Vertices.want", vertices.want, ["edge"])
        call("Vertices.adjacency", lambda: vertices.adjacency)
        call("Vertices.counter", vertices.counter, Pattern.of("triangle"))
        call("Vertices.on_partitions", vertices.on_partitions, spark_context.context(), False)
        call("Vertices.close", vertices.close)
    assert subgraphs(square, "4-clique") == 1
    call("simulate", simulate, EDGES, 4)


def frames() -> None:
    """What `DataFrame.transform` takes, without pandas."""
    edges = transitive_closure(EDGES).to_df()
    assert edges.transform(transforms.transitive_closure).count() == 3
    assert edges.transform(transforms.evaluated, "paths.dl").count() == 3


def settings() -> None:
    assert call("Config", Config, buckets=64).buckets_on(2) == 64
    for name, given in {"with_options": ({"buckets": "32"},), "buckets_on": (2,), "least": (), "to_json": ()}.items():
        call(f"Config.{name}", getattr(Config(), name), *given)
    call("Config.paper", Config.paper)
    call("Config.threshold", lambda: Config().threshold)
    for name in semi_naive.__all__:
        if inspect.isclass(found := getattr(semi_naive, name)) and issubclass(found, Exception):
            called.add(name)


def formats() -> None:
    """A program writes in each format what another one reads; graphs are read from files of each kind."""
    for ending, how in FORMATS.items():
        out = f'.decl p(x: number, y: symbol)\np(1, "a"). p(2, "b").\n.output p(filename="rows.{ending}"{how})'
        with Program(out).run() as result:
            result.write(".")
        back = f'.decl p(x: number, y: symbol)\n.input p(filename="rows.{ending}"{how})\n.output p'
        with Program(back).run() as result:
            assert result["p"].to_set() == {(1, "a"), (2, "b")}, ending
    rows = "1{0}2\n2{0}3\n1{0}3\n"
    Path("graph.mtx").write_text(f"%%MatrixMarket matrix coordinate pattern general\n3 3 3\n{rows.format(' ')}")
    Path("graph.txt.gz").write_bytes(gzip.compress(rows.format(" ").encode()))
    for ending, between in {"facts": "\t", "tsv": "\t", "csv": ",", "txt": " "}.items():
        Path(f"graph.{ending}").write_text(rows.format(between))
    Path("graph.json").write_text(json.dumps(EDGES))
    pa.parquet.write_table(pa.table({"x": [1, 2, 1], "y": [2, 3, 3]}), "graph.parquet")
    for ending in ("facts", "tsv", "csv", "txt", "txt.gz", "mtx", "json", "parquet"):
        with transitive_closure(f"graph.{ending}") as found:
            assert found.to_set() == CLOSED, ending


COMMANDS = {
    "run": [
        "paths.dl -F facts -D . -j 2 --trace run.json -p profile.json --report run.html --set local_tuples=0",
        "paths.dl -F facts -D - --plan balanced -q",
        "paths.dl -F facts --explain",
        "paths.dl --show initial-datalog,scc-graph,type-analysis",
        "paths.dl -F facts -D - -q -t explain",
        "-e n(x,count(y)):-edge(x,y). -F edge=facts/*.facts --format table",
    ],
    "check": ["paths.dl", "paths.dl --json"],
    "format": ["paths.dl", "--diff paths.dl"],
    "tc": [
        "graph.txt.gz -o tc.parquet -q -j 1 --max-iterations 2 --any-ids --strings",
    ],
    "session": ["paths.dl -F facts"],
    "profile": ["profile.json --top 3"],
    "plot": ["tc.json -o figures", "tc.json --report plot.html"],
    "simulate": ["graph.tsv --ranks 2,8 --policy work --policy paper -q", "paths.dl -F facts --ranks 2", "tc.json --ranks 2"],
    "subgraphs": [
        "graph.tsv --pattern triangle",
        "graph.tsv --pattern a-b,b-c --directed --all -o found.tsv",
    ],
}
ON_SPARK = [  # in this process, which has started Spark; so does the first `run` above, in a process of its own
    "tc graph.csv -o tc.tsv.gz --plan balanced --trace tc.json --plot tc.png --report tc.html",
    "subgraphs graph.tsv --pattern triangle --plan bigjoin --trace sub.json -o found.parquet",
]


def commands() -> None:
    os.makedirs("facts", exist_ok=True)
    Path("facts/edge.facts").write_text("1\t2\n2\t3\n1\t3\n")
    command = Path(sys.executable).parent / "semi-naive"
    from semi_naive.__main__ import cli, main

    for line in ON_SPARK:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            main(line.split())
        assert not said.getvalue(), f"semi-naive {line}: {said.getvalue()}"
    for name, lines in COMMANDS.items():
        for line in lines:
            given = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 300}
            done = subprocess.run([command, name, *line.split()], **given)
            assert done.returncode == 0 and not done.stderr, f"semi-naive {name} {line}: {done.returncode}, {done.stderr}"
    for extra, words in {"serve": ["serve", "paths.dl"], "editor": ["lsp"]}.items():
        done = subprocess.run([command, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        assert done.returncode == 2 and f"pip install 'semi-naive[{extra}]'" in done.stderr, done.stderr
    assert set(cli.commands) == COMMANDS.keys() | {"serve", "lsp"}, "a command is never called here"


def branches() -> None:
    found = call("Branch", Branch, "Cons", 1, Branch("Nil"))
    for name, expected in {"name": "Cons", "fields": (1, Branch("Nil"))}.items():
        assert call(f"Branch.{name}", getattr, found, name) == expected
    assert call("Branch.index", found.index, 1) == call("Branch.count", found.count, 1) == 1
    text = ".type List = Nil {} | Cons {head: number, tail: List}\n.decl list(l: List)\n.output list\nlist($Cons(1, $Nil())).\n"
    with Program(text).run() as result:
        assert result["list"].to_list() == [(found,)]


def functors() -> None:
    Path("doubling.py").write_text("def double(x):\n    return 2 * x\n")
    found = call("Libraries", Libraries, ["doubling.py"])
    assert call("Libraries.keys", found.keys) == {"double"} and call("Libraries.get", found.get, "double")(4) == 8
    assert call("Libraries.given", Libraries.given, ["doubling.py"])["double"](4) == 8
    assert len([*call("Libraries.items", found.items), *call("Libraries.values", found.values)]) == 2
    text = ".functor double(x: number): number\n.decl a(x: number)\na(@double(21)).\n.output a\n"
    for given in (found, {"double": call("vectorised", vectorised, lambda x: 2 * x)}):
        assert Program(text, functors=given).run()["a"].to_list() == [(42,)]


def complete() -> None:
    """Every public name has been called."""
    classes = {"Answer": Answer, "Result": Result, "Subgraphs": Subgraphs}
    for name in semi_naive.__all__:
        found = getattr(semi_naive, name)
        if inspect.isclass(found) and not issubclass(found, Exception):
            classes[name] = found
    wanted = set(semi_naive.__all__) - {"Closure", "Relation", "Vertices"}  # which other things make
    fields = set(Config.__dataclass_fields__)
    for name, each in classes.items():
        wanted |= {f"{name}.{one}" for one in dir(each) if not one.startswith("_") and not (each is Config and one in fields)}
    assert not wanted - called, f"never called: {sorted(wanted - called)}"


def whole(source: Path) -> None:
    """The package has the files of the checkout, and none of an earlier build."""
    there, here = Path(semi_naive.__file__).parent, set()
    for top in ("semi_naive", "ra", "balance", "graphs", "plots"):
        under = source / top
        inside = Path() if top == "semi_naive" else Path(top)
        here |= {inside / path for path in _files(under)}
    installed = {path for path in _files(there) if path.parts[0] != KERNELS}
    assert here == installed, f"only in the checkout: {here - installed}, only installed: {installed - here}"


def carried() -> None:
    """The machine code that the wheel has brought: for every kernel of the engine, and none of these was compiled again."""
    kernels = {path.name for path in _files(Path(semi_naive.__file__).with_name(KERNELS))}
    again = {path.name for path in _files(native.cache_folder())}
    assert len(kernels) > 100 and not kernels & again, f"{len(kernels)} kernels came with the wheel, and again: {again}"


def _files(folder: Path) -> set[Path]:
    """All but what Python has made of them."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


if __name__ == "__main__":
    whole(Path(sys.argv[1]))
    for part in (
        settings,
        programs,
        branches,
        functors,
        relations,
        closures,
        patterns,
        frames,
        formats,
        commands,
        complete,
        carried,
    ):
        begun = time.process_time()
        part()
        print(f"{part.__name__}: done, {time.process_time() - begun:.1f} s of this process", flush=True)
