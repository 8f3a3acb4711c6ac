"""`semi-naive tc` and `semi-naive subgraphs`: a closure, and the matches of a pattern, of edges in files."""

import threading
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap

import click

from semi_naive import Config, subgraphs, transitive_closure
from semi_naive.cli.live import live_page, write_report
from semi_naive.cli.options import assignment
from semi_naive.cli.progress import Progress
from semi_naive.cli.run import spark_of
from semi_naive.closure import read_input_edges, runs_here
from semi_naive.host.account import part
from semi_naive.io.edges import edge_files, edge_source
from semi_naive.io.errors import BadInput
from semi_naive.io.results.outputs import output_format


def compute_closure(edges, output: str | None, given: dict) -> None:
    """Compute and write a closure, and report on it. edges: the paths; given: the other options of the command."""
    plan, quiet, name = given["plan"], given["quiet"], Path(edges[0]).name + " …" * (len(edges) > 1)
    spark = spark_of(given["master"], given["cores"] and str(given["cores"]))
    config = Config().with_options(dict(map(assignment, given["options"])))
    if given["max_iterations"] is not None:
        config = config.with_options({"max_iterations": given["max_iterations"]})
    reading = {name: given[name] for name in ("header", "strings", "any_ids")} | {"expand_symmetric": given["symmetric"]}
    if output:
        output_format(output)
    with part("other"), live_page(given["live"], given["live_host"], name) as page:
        with Progress("closure", quiet, page) as progress:
            here = runs_here(plan, spark, config)
            source = read_input_edges(_graph_of(edges, reading), here)
            if not here:
                threading.Thread(target=_load_kernels, args=[plan], daemon=True).start()  # while the slower JVM starts
            closure = transitive_closure(source, spark, plan, config, progress.closure, page and page.watch)
        with closure:
            if output:
                closure.write(output)
            _report(closure, quiet)
            _write_records(closure.trace, given["trace"], given["plot"])
            write_report(given["report"], closure.trace, name, page)


def count_subgraphs(edges, header: bool, pattern, output: str | None, trace: str | None, options: dict) -> None:
    """Print the number of matches of a pattern, and write them to `output`, if that is given. edges: the paths; options: of
    `subgraphs`."""
    if output:
        output_format(output)
    keep = partial(_write_records, trace=trace, plot=None) if trace else None
    found = subgraphs(_graph_of(edges, {"header": header}), pattern, count=not output, trace=keep, **options)
    if output and not isinstance(found, int):
        found.write(output)
        found = len(found)
    click.echo(found)


def _graph_of(paths, reading: dict):
    """Return the unread edges of files and patterns of files, with the options `reading` of `edge_source`."""
    for path in paths:
        if path.endswith(".dl"):
            raise BadInput("a program, where edges are expected", path, hint=f"to run a program: semi-naive run {path}")
    return edge_source(paths[0], **reading) if len(paths) == 1 else edge_files(paths, **reading)


def _load_kernels(plan: str) -> None:
    """Load cached machine code of the plan's kernels."""
    from semi_naive.host import jit

    import_module(
        "semi_naive.running.balanced.partitioned" if plan == "balanced" else "semi_naive.running.decomposition.reaching"
    )
    jit.load_kernels()


def _write_records(record: dict, trace: str | None, plot: str | None) -> None:
    """Write the trace of a run, and the plot of its balance, to the files that are given."""
    if trace:
        from semi_naive.balance.trace import write_trace

        write_trace(record, trace)
    if plot:
        from semi_naive.plots.figures import overview
        from semi_naive.plots.style import save_figure

        save_figure(overview(record), plot)


def _report(closure, quiet: bool) -> None:
    """Print a summary as a table; with --quiet the number of pairs only."""
    if quiet:
        click.echo(closure.count())
        return
    from semi_naive.plots.pages.summary import summary

    rows = summary(closure.trace)
    indent = max(map(len, rows)) + 2
    for name, value in rows.items():
        for number, line in enumerate(wrap(value, max(20, get_terminal_size().columns - indent))):
            click.echo(f"{name if number == 0 else '':{indent}}{line}")
