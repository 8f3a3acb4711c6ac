"""The implementation of the command `semi-naive run`, whose options are in `__main__`."""

import json
import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from semi_naive.cli import souffle
from semi_naive.cli.live import live_page, write_report
from semi_naive.cli.program import FactOptions, Origin
from semi_naive.cli.progress import Progress
from semi_naive.host.account import as_sum, part
from semi_naive.host.numbers import quantity
from semi_naive.io.errors import BadInput
from semi_naive.io.files import atomic_stream, io_errors

if TYPE_CHECKING:
    from semi_naive.libraries import Libraries
    from semi_naive.program import Program
    from semi_naive.sandbox import Sandbox


def run_program(program: str | None, given: dict) -> None:
    """Read, check and run a program, and write its outputs. program: the path, "-" for standard input, None for the rules of
    -e; given: the options of the command, by name."""
    from semi_naive import Config

    pragmas = souffle.pragmas_of(given)
    given = souffle.merge_pragmas(given, pragmas)
    souffle.note_flags(pragmas, quiet=given["no_warn"])
    config = Config().with_options(given["options"])
    facts = FactOptions.given(given["facts"], given["header"])
    origin = Origin(program or "", given["rules"], facts)
    given |= output_and_format(given)
    check_inputs(facts.folder or ".", given["include_dirs"])
    check_output(given["output"])
    reading = reading_of(given)
    if given["show"]:
        from semi_naive.cli.show import show_modes, show_program

        spark_of(given["master"], given["jobs"])
        sys.exit(show_program(origin, show_modes(given["show"]), reading, pragmas))
    checked = origin.checked(reading, pragmas)
    given = completed_by_pragmas(given, checked.checked.pragmas, reading["sandbox"])
    named = facts.of(checked, folder_of(facts, checked.checked.pragmas, pragmas, reading["sandbox"]))
    spark = spark_of(given["master"], given["jobs"])
    if given["no_warn"]:
        logging.getLogger("semi_naive").setLevel(logging.ERROR)
    print_warnings(checked, souffle.shown_warnings(checked.warnings, given))
    if given["explain"]:
        click.echo(checked.explain(facts=named, config=config, only_outputs=True, plan=given["plan"]), nl=False)
        return
    explains = (given["provenance"] or "none") != "none"
    if explains and program == "-":
        raise BadInput("the program cannot be read from standard input", hint="questions of -t are: name a file")
    running = {"spark": spark, "config": config, "lenient": given["no_warn"], "only_outputs": not explains,
               "plan": given["plan"]}  # fmt: skip
    with part("other"), live_page(given["live"], given["live_host"], checked.name) as page:
        with Progress("program", given["quiet"], page) as progress:
            result = checked.run(facts=named, progress=progress.stratum, watch=page and page.watch, **running)
        with result:
            if given["output"] != "-":  # made late, so that a failed run leaves no folder
                with io_errors(given["output"]):
                    os.makedirs(given["output"], exist_ok=True)
            result.write(given["output"], given["format"])
            for option, record in (("trace", result.trace), ("profile", result.trace["profile"])):
                if given[option]:
                    with atomic_stream(given[option]) as file:
                        file.write(json.dumps(record, indent=1).encode())
            if given["verbose"] or sys.stderr.isatty() and not given["quiet"]:
                print_summary(result.trace, given["verbose"])
            write_report(given["report"], result.trace, checked.name, page)
            if explains:
                from semi_naive.cli.explain import explain

                explain(result, given["provenance"] == "explore")


def output_and_format(given: dict) -> dict[str, str]:
    """Return {"output": folder, or - for standard output, "format": of results}. Results of -e, or with --format, are printed
    unless -D names a folder: as a table on a terminal, else as rows. Raises BadInput if the format does not fit files. given:
    the options of the command line."""
    is_default = click.get_current_context().get_parameter_source("output") is ParameterSource.DEFAULT
    unsaid = is_default and given["output"] == "."  # a pragma may have named another folder
    output = "-" if unsaid and (given["format"] or given["rules"] is not None) else given["output"]
    if given["format"] and output != "-":
        raise BadInput(
            f"--format {given['format']} applies to results printed with -D -", hint=".output r(…) sets the format of files"
        )
    form = given["format"]
    if not form and given["rules"] is not None and unsaid:
        form = "table" if sys.stdout.isatty() else "tsv"
    return {"output": output, "format": form or "souffle"}


def print_summary(trace: dict, strata: bool) -> None:
    """Print the last line of a run on standard error: the results, and the time of each part. strata: also a line for each
    stratum."""
    from semi_naive.plots.pages.summary import outcome

    for stratum in trace["strata"] if strata else ():
        names, tuples = ", ".join(stratum["relations"]), quantity(stratum["tuples"], "tuple")
        click.echo(f"semi-naive: {names}: {tuples}, {stratum['plan']}, {as_sum(stratum)}", err=True)
    click.echo(f"semi-naive: {outcome(trace)}, {as_sum(trace)}", err=True)


def reading_of(given: dict) -> dict:
    """Return the options of `Program` that the command line gives."""
    reading = {"include_dirs": given["include_dirs"], "defines": definitions(given["macros"]), "legacy": given["legacy"]}
    functors = {"functors": _libraries_of(given)} if "libraries" in given else {}
    return reading | functors | {"sandbox": _sandbox_of(given["sandbox"], given.get("output", "-"))}


def _libraries_of(given: dict) -> "Libraries | dict":
    """Return the `Libraries` of functors that -l and -L name; none in a sandbox without -l. given: the options of the command
    line."""
    from semi_naive.libraries import Libraries

    dirs = given["library_dirs"] or (".",)
    if given.get("sandbox") and not given["libraries"]:
        return {}
    return Libraries.given(given["libraries"], dirs, given["library_bits"])


def _sandbox_of(folder: str | None, output: str) -> "Sandbox | None":
    """Return the `Sandbox` of --sandbox, None without it. Raises BadInput for a missing folder, and for a new results folder
    (`output`) outside of it."""
    from semi_naive.sandbox import Sandbox

    if folder is None:
        return None
    if not os.path.isdir(folder):
        raise BadInput(f"sandbox {folder} does not exist", hint="--sandbox names the folder that a program's files stay below")
    sandbox = Sandbox(folder)
    if output != "-" and not os.path.isdir(output) and not sandbox.below(output):
        raise BadInput(f"output directory {output} is outside of the sandbox", hint=sandbox.advice)
    return sandbox


def completed_by_pragmas(given: dict, pragmas: dict[str, str], sandbox: "Sandbox | None") -> dict:
    """Return the options of the command line, completed by the program's pragmas. Raises BadInput for a folder that is missing,
    or outside of the sandbox."""
    names = [name for name in souffle.IN_THE_TEXT if name != "output-dir" or given["output"] != "-"]
    merged = souffle.merge_pragmas(given, pragmas, names)
    for name in ("output", "profile"):
        check_pragma_path(merged[name] if merged[name] != given[name] else None, sandbox)
    check_output(merged["output"])
    return merged


def folder_of(facts: FactOptions, pragmas: dict[str, str], given: Mapping[str, str], sandbox: "Sandbox | None") -> str:
    """Return the folder of facts: that of -F, else of the pragma fact-dir, else the working directory. pragmas: all, given:
    those of -P, which may name a folder outside of the sandbox."""
    if facts.folder is None and "fact-dir" not in given:
        check_pragma_path(pragmas.get("fact-dir"), sandbox)
    folder = facts.folder or pragmas.get("fact-dir", ".")
    check_inputs(folder)
    return folder


def check_pragma_path(path: str | None, sandbox: "Sandbox | None") -> None:
    """Raise BadInput if a pragma of the program names a path outside of the sandbox."""
    if path is not None and sandbox is not None and not sandbox.holds(path):
        raise BadInput(f"{path} of a .pragma is outside of the sandbox", hint=sandbox.advice)


def check_inputs(facts: str, include_dirs=()) -> None:
    """Raise errors for folders of facts and includes that do not exist before the run begins."""
    if not os.path.isdir(facts):
        raise BadInput(f"fact directory {facts} does not exist", hint="-F (--fact-dir) names the folder with the .facts")
    for folder in include_dirs:
        if not os.path.isdir(folder):
            raise BadInput(f"include directory {folder} does not exist", hint="-I (--include-dir) names a folder")


def check_output(output: str) -> None:
    """Raise an error for a folder of results, before the run begins, if more than its last part is missing."""
    if output != "-" and not os.path.isdir(output):
        hint = "-D (--output-dir) names the folder for results, or - for standard output"
        if os.path.exists(output):
            raise BadInput(f"output directory {output} is a file", hint=hint)
        if not os.path.isdir(os.path.dirname(os.path.abspath(output))):
            raise BadInput(f"output directory {output} does not exist", hint=hint)


def definitions(macros) -> dict[str, str]:
    """Return the macros of -M, "A=1 B" and so on, by name. A macro without a value is 1, as in C.

    >>> definitions(["A=1 B", "C=x=y"])
    {'A': '1', 'B': '1', 'C': 'x=y'}
    """
    pairs = [word.partition("=") for text in macros for word in text.split()]
    return {name: value if equals else "1" for name, equals, value in pairs}


def print_warnings(program: "Program", warnings: list) -> None:
    """Print a program's warnings on standard error."""
    from semi_naive.language.errors import rendered

    for problem in warnings:
        click.echo(rendered(problem, program.checked.texts), err=True)


def spark_of(master: str | None, jobs: str | None):
    """Return Spark as the command line requests, started when it is first needed; None leaves the choice to the run. jobs: the
    value of -j."""
    if jobs is not None and jobs != "auto" and (not jobs.isdecimal() or int(jobs) < 1):
        raise BadInput(f"-j {jobs}: expected a number of cores from 1, or auto")
    cores = int(jobs) if jobs and jobs != "auto" else None
    if master is not None and cores is not None:
        raise BadInput("-j counts cores of this machine, and --master names a cluster: give one", hint="--set partitions=N")
    if master is None and cores is None:
        return None

    from semi_naive.ra.spark.spark_context import OnDemand

    return OnDemand(master, cores)
