"""The commands: `run PROGRAM.dl`, `session PROGRAM.dl`, `tc EDGES`, `subgraphs EDGES`, `plot run.json`, …"""

import sys

if __name__ == "__main__":  # before slow imports, so that they can be interrupted
    from semi_naive.cli.ending import command

    command()
    sys.exit()

from pathlib import Path

import click

from semi_naive import __version__
from semi_naive.cli.live import looking
from semi_naive.cli.options import Bytes, facts_from, limiting, option_group, settings
from semi_naive.cli.program import DATA
from semi_naive.cli.souffle import flags, transforming, warning
from semi_naive.host.account import open_account

PLANS = ("auto", "balanced", "decomposed")
FORMATS = ("souffle", "table", "tsv", "csv", "json", "markdown")
SEARCHES = ("auto", "leapfrog", "boxed", "bigjoin", "bigjoin-s")


class Commands(click.Group):
    """The group of all commands. For an unknown command, the error suggests the likely one."""

    def resolve_command(self, ctx, args):
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as wrong:
            if args[0].endswith(".dl"):
                hint = "To run a program: semi-naive run"
            elif args[0].endswith(DATA):
                hint = "To compute the closure of edges: semi-naive tc"
            else:
                raise
            raise click.UsageError(f"{wrong.format_message()} {hint} {' '.join(args)}", wrong.ctx) from wrong


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="semi-naive", help="Print the version.")
def cli():
    """Run Datalog programs and compute transitive closures, on Apache Spark where they are large."""


including = option_group(  # what the preprocessor is given
    click.option(
        "-I", "--include-dir", "include_dirs", metavar="DIR", multiple=True, help="Look for included files here, too."
    ),
    click.option(
        "-M", "--macro", "macros", metavar="MACROS", multiple=True, help="Define macros for the preprocessor, as in -M 'A=1 B'."
    ),
)
reading = option_group(  # options of reading a program
    click.option("--legacy", is_flag=True, help="Take programs as they were once written."),
    click.option(
        "-l", "--libraries", "libraries", metavar="NAME", multiple=True,
        help="Take functors from MODULE.py, or from libNAME.so.",
    ),
    click.option("-L", "--library-dir", "library_dirs", metavar="DIR", multiple=True, help="Look for libraries here."),
    click.option(
        "--library-bits", type=click.IntRange(32, 64), metavar="32|64", default=64, show_default=True,
        help="The numbers of shared libraries have so many bits.",
    ),
)  # fmt: skip


@cli.command(
    short_help="Run a Datalog program.", epilog="All flags of Soufflé 2.5 are taken: docs/souffle.md says what each means here."
)
@click.argument("program", required=False)
@click.option("-e", "--rules", metavar="TEXT", help="Run these rules; declarations may be left out, and results are printed.")
@facts_from("from this folder, the working directory by default")
@click.option(
    "-D", "--output-dir", "output", metavar="DIR", default=".", show_default=True,
    help="Write the results to this folder, or with - to standard output.",
)  # fmt: skip
@click.option("--format", type=click.Choice(FORMATS), help="Print results in this form.")
@including
@reading
@click.option("--sandbox", metavar="DIR", help="Read and write only files below this folder, whatever the program says.")
@click.option("-j", "--jobs", metavar="N", help="Use so many cores; auto uses all.")
@warning
@click.option("-p", "--profile", metavar="FILE", help="Write how long each rule took; see `semi-naive profile`.")
@click.option("--show", metavar="WHAT", multiple=True, help="Print this instead of running: initial-datalog, scc-graph, …")
@transforming
@click.option("--plan", type=click.Choice(PLANS), default="auto", show_default=True, help="Evaluate by this plan.")
@click.option("--explain", is_flag=True, help="Print the plan instead of running it.")
@click.option(
    "-t", "--provenance", type=click.Choice(["none", "explain", "explore"]), default=None,
    help="explain: after the run, answer why tuples are there, or are not; explore shows proofs whole.",
)  # fmt: skip
@click.option("--trace", metavar="FILE", help="Write the record of the run as JSON.")
@looking
@click.option("--live-profile", is_flag=True, help="The same as --live.")
@click.option("--set", "options", multiple=True, metavar="NAME=VALUE", help="Set a tunable: buckets=64, refine=off, …")
@limiting
@click.option("--master", metavar="URL", help="Run on this Spark cluster instead of in this process.")
@click.option("-v", "--verbose", is_flag=True, help="At the end, say what came out, and what each part and each stratum took.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress bar.")
@flags
def run(program, live_profile, **given):
    """Run a Datalog PROGRAM (- for standard input). Its .input is read from --fact-dir, its .output written to --output-dir.

    \b
    semi-naive run program.dl -F facts -D out
    semi-naive run -e 'path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z).' -F edge=edges.tsv
    """
    from semi_naive.cli.run import run_program

    if (program is None) == (given["rules"] is None):
        raise click.UsageError("name a PROGRAM, or rules by -e" if program is None else "-e is in place of a PROGRAM: give one")
    given["live"] = "0" if live_profile and given["live"] is None else given["live"]
    _check_writable(given["trace"], given["profile"], given["report"])
    run_program(program, given | {"options": settings(given)})


@cli.command(short_help="Print the errors and warnings of a program.")
@click.argument("program")
@including
@click.option("--sandbox", metavar="DIR", help="Read only files below this folder, whatever the program says.")
@click.option("--legacy", is_flag=True, help="Take programs as they were once written.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON, for editors.")
def check(program, as_json, **given):
    """Print all errors and warnings of PROGRAM (- for standard input). Exit status 1: there are errors."""
    from semi_naive.cli.check import check_program
    from semi_naive.cli.run import reading_of

    sys.exit(check_program(program, reading_of(given), as_json))


@cli.command("format", short_help="Put programs into the one layout.")
@click.argument("programs", nargs=-1, required=True, metavar="PROGRAM...")
@click.option("-i", "--in-place", is_flag=True, help="Change the files.")
@click.option("--check", is_flag=True, help="Change nothing; exit status 1: a file is not formatted.")
@click.option("--diff", is_flag=True, help="Print what changes.")
def format_(programs, in_place, check, diff):
    """Print programs (- for standard input) in the one layout: spaces, indentation, blank lines. Comments and lines of the
    preprocessor stay, and so do the lines that a statement is broken into."""
    from semi_naive.cli.format import format_programs

    sys.exit(format_programs(programs, in_place, check, diff))


@cli.command(short_help="Answer an editor about programs.")
def lsp():
    """Answer an editor about programs, on standard input and output, by the language server protocol.

    Errors while you type, types and sizes, declarations and uses of a name, renaming, formatting: see docs/editor.md.
    It needs the package pygls: pip install 'semi-naive[editor]'.
    """
    from semi_naive.host.optional_packages import import_optional

    import_optional("pygls", "semi-naive lsp", "'semi-naive[editor]'")
    from semi_naive.editor.server import make_server

    make_server().start_io()


session_options = option_group(  # options of session and serve
    reading,
    facts_from("to begin with from this folder"),
    click.option("--state", metavar="DIR", help="Keep the session in this folder: commits outlive it."),
    including,
    click.option("--sandbox", metavar="DIR", help="Read only files below this folder, whatever the program says."),
    click.option("--set", "options", multiple=True, metavar="NAME=VALUE", help="Set a tunable: small_delta=0, memory=2G, …"),
    limiting,
)


@cli.command(short_help="Keep answers current as facts come and go.")
@click.argument("program")
@session_options
def session(program, state, **given):
    """Keep the relations of PROGRAM at their fixed point while facts are inserted and deleted.

    \b
    Commands are read from standard input, one a line:
      begin, commit, abort         group the commands between them into one transaction
      insert R v…, delete R v…     one fact; fields between blanks or tabs, in double quotes where they have blanks
      load R FILE, unload R FILE   insert or delete the facts of a file
      query path(1, y).            print the values of the variables
      subscribe R                  print the changes of R, too; changes of .output relations are always printed
      quit

    A commit prints the changed tuples, one a line: the relation, +1 or -1, and the values, with tabs between.

    With --state the session is kept in a folder. A commit is on the disk before it is printed, and the next session with
    this folder resumes after it. Facts of -F are read when the folder is new. Without -F there are no facts.
    """
    from semi_naive.cli.session import run_session

    run_session(program, state, given | {"options": settings(given)})


@cli.command(short_help="Keep answers current, over HTTP.")
@click.argument("program")
@session_options
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Listen at this address.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8642, show_default=True, help="Listen at this port; 0: a free one."
)
@click.option(
    "--follow", "followed", metavar="NAME=SOURCE", multiple=True,
    help="Commit what is appended to a file, arrives in a folder or comes from tcp://HOST:PORT as facts of this relation.",
)  # fmt: skip
@click.option("--follow-op", metavar="COLUMN", help="This column of what is followed says what a row does: +, -, …")
@click.option("--follow-header", is_flag=True, help="Text that is followed begins with the names of its columns.")
@click.option("--retain", type=click.IntRange(0), default=100, show_default=True, help="Keep so many epochs for since=.")
@click.option("--token", metavar="FILE", help="Ask clients for a token of this file, which also says what each may do.")
@click.option("--certificate", metavar="FILE", help="Encrypt by this certificate (PEM); --key names its key.")
@click.option("--key", metavar="FILE", help="The key of --certificate (PEM).")
@click.option("--open", is_flag=True, help="Listen at an address that others can reach, without a token.")
@click.option("--alias", "aliases", metavar="NAME", multiple=True, help="Answer requests for this host name, too.")
def serve(program, state, host, port, retain, **given):
    """Keep the relations of PROGRAM at their fixed point, and serve them over HTTP.

    \b
      POST /transactions       [{"insert": "edge", "rows": [[1, 2]]}, {"delete": "edge", "rows": [[2, 3]]}]
      GET  /query?atom=…       the answers to an atom, as path(1,y)
      GET  /changes/path       what changes, as server-sent events; the epoch is their id
      GET  /                   a page that shows the relations and the last epochs

    All of it is in docs/sessions.md. It needs the packages starlette and uvicorn: pip install 'semi-naive[serve]'.
    """
    from semi_naive.cli.serve import run_server

    run_server(program, state, (host, port), retain, given | {"options": settings(given)})


@cli.command(short_help="Show which rules took how long.")
@click.argument("profile", metavar="FILE")
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Show so many rules and relations.")
@click.option("--all", "every", is_flag=True, help="Show all of them.")
@click.option("--sort", type=click.Choice(["time", "tuples", "name"]), default="time", show_default=True, help="In this order.")
@click.option("--whole", is_flag=True, help="Show rules as they were written, on as many lines.")
def profile(profile, top, every, sort, whole):
    """Show what `semi-naive run -p FILE` recorded, the slowest rules first, a line each."""
    from semi_naive.cli.profiles import print_profile

    print_profile(profile, None if every else top, sort, whole)


@cli.command(short_help="Compute a transitive closure.")
@click.argument("edges", nargs=-1, required=True, metavar="EDGES...")
@click.option("-o", "--output", metavar="OUT", help="Write the pairs: .parquet .csv .tsv .facts .txt, also .gz.")
@click.option("--plan", type=click.Choice(PLANS), default="auto", show_default=True, help="Evaluate by this plan.")
@click.option(
    "--set", "options", multiple=True, metavar="NAME=VALUE", help="Set a tunable: buckets=64, refine=off, rule=path-path …"
)
@click.option("--max-iterations", type=click.IntRange(1), help="Stop when all paths of up to this length are found.")
@click.option("--trace", metavar="FILE", help="Write the record of the run as JSON.")
@click.option("--plot", metavar="FILE", help="Draw the balance of the run (.png, .svg).")
@looking
@click.option("--header", is_flag=True, help="Take the first row as the columns' names.")
@click.option("--strings/--no-strings", default=None, help="Read vertices as names, or insist on integers.")
@click.option("--any-ids", is_flag=True, help="Allow negative ids and ids over 2^32.")
@click.option("--symmetric/--as-given", default=True, help="Read a symmetric matrix in both directions, or as given.")
@click.option("--master", metavar="URL", help="Run on this Spark cluster instead of in this process.")
@click.option("-j", "--cores", type=click.IntRange(1), help="Use so many cores, without a cluster.")
@click.option("-q", "--quiet", is_flag=True, help="Print the number of pairs and nothing else.")
def tc(edges, output, trace, plot, report, **given):
    """Compute the transitive closure of EDGES: .facts .tsv .csv .txt .mtx files (also .gz), .parquet, or 'edges/*.parquet'."""
    from semi_naive.cli.edges import compute_closure

    _check_writable(output, trace, plot, report)
    compute_closure(edges, output, given | {"trace": trace, "plot": plot, "report": report})


@cli.command(short_help="Draw figures of a run that was recorded.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN.json...", type=click.Path())
@click.option("-o", "--output", metavar="DIR", help="Write the figures to this folder.  [default: .]")
@click.option("--report", metavar="FILE", help="Write a page about the runs (.html), and figures only with -o or --only.")
@click.option("--only", metavar="NAMES", help="Draw only these figures: balance,heat,imbalance,times,tuples,bytes,…")
def plot(runs, output, only, report):
    """Draw figures of a run that --trace recorded, as PNG and SVG. Several runs are drawn side by side."""
    from semi_naive.plots.command import draw
    from semi_naive.plots.pages.report import report_files

    _check_writable(report)
    if report:
        report_files(runs, report)
        click.echo(report)
    if output or only or not report:
        for path in draw(runs, output or ".", only):
            click.echo(path)


@cli.command(short_help="Predict time and balance on many ranks.")
@click.argument("source", metavar="EDGES|PROGRAM.dl|RUN.json")
@click.option("--ranks", required=True, metavar="NUMBERS", help="Simulate these numbers of ranks: 2,64,512,32768.")
@click.option(
    "--policy", "policies", multiple=True, type=click.Choice(["work", "paper", "none"]),
    help="Balance by this policy, with one bucket a rank and nothing replicated. The option may be given several times.",
)  # fmt: skip
@click.option(
    "--machine", type=click.Choice(["spark", "mpi"]), default="spark", show_default=True,
    help="Price the work as Spark, where each iteration is a job, or as MPI, where jobs and tasks cost nothing by themselves.",
)  # fmt: skip
@click.option("--set", "options", multiple=True, metavar="NAME=VALUE", help="Set a tunable: buckets=64, tolerance=1.05, …")
@click.option("--trace", metavar="FILE", help="Write the record as JSON. It needs a single number of ranks.")
@click.option("-q", "--quiet", is_flag=True, help="Print the tables and nothing else.")
@facts_from("of a program from this folder, the working directory by default", "The edges, or files of -F NAME=FILE,")
def simulate(source, ranks, policies, options, trace, quiet, **given):
    """Simulate the closure of EDGES, a program (.dl), or a run that --trace recorded, on many ranks.

    A rank is what a Spark partition is to the engine. The tables show time, balance, messages and memory.
    """
    from semi_naive.cli.simulate import simulate_command

    _check_writable(trace)
    tunables = settings({"options": options, "null": given.pop("null")})
    simulate_command(source, ranks, policies, tunables, trace, quiet, **given)


@cli.command(short_help="Count a pattern in a graph.")
@click.argument("edges", nargs=-1, required=True, metavar="EDGES...")
@click.option(
    "--pattern", required=True, metavar="PATTERN",
    help="Look for triangle, diamond, 4-clique, house, 5-clique, square or ammar-house, or for the edges a-b,b-c,…",
)  # fmt: skip
@click.option("--directed", is_flag=True, help="Take an edge as leading one way.")
@click.option("-o", "--output", metavar="OUT", help="Write the matches: .parquet .csv .tsv .facts .txt, also .gz.")
@click.option("--all", "every", is_flag=True, help="Count each match in every order that the pattern's symmetries allow.")
@click.option("--homomorphisms", is_flag=True, help="Count assignments: vertices without an edge may be the same one.")
@click.option("--order", metavar="VERTICES", help="Bind the pattern's vertices in this order: a,c,b. Default: one is chosen.")
@click.option("--triangles", is_flag=True, help="Find all triangles first, and join these in place of their edges.")
@click.option("--no-factorised", is_flag=True, help="Count by listing, not by products of the counts of independent parts.")
@click.option("--plan", type=click.Choice(SEARCHES), default="auto", show_default=True, help="Search by this plan.")
@click.option(
    "--memory", type=Bytes(), metavar="BYTES",
    help="Keep the graph in files, and take so much memory (boxed), or so much for the bindings of a task (bigjoin):"
    " 64M, 2G.",
)  # fmt: skip
@click.option("--local-dir", metavar="DIR", help="Keep these files there, not in the system's temporary folder.")
@click.option("--trace", metavar="FILE", help="Write the record of a boxed or bigjoin plan as JSON; see `semi-naive plot`.")
@click.option("--header", is_flag=True, help="Take the first row as the columns' names.")
def subgraphs(edges, pattern, output, every, order, no_factorised, trace, header, **options):
    """Count the subgraphs of EDGES that look like a pattern. With -o, write where they are."""
    from semi_naive.cli.edges import count_subgraphs

    _check_writable(output, trace)
    pattern = [pair.split("-") for pair in pattern.split(",")] if "," in pattern else pattern
    options |= {"symmetry": not every, "order": order.split(",") if order else None, "factorised": not no_factorised}
    count_subgraphs(edges, header, pattern, output, trace, options)


for _command in cli.commands.values():
    click.version_option(__version__, prog_name="semi-naive", help="Print the version.")(_command)


def _check_writable(*paths) -> None:
    """Raise errors of output files before the work."""
    for path in filter(None, paths):
        folder = Path(path).parent
        if "://" not in path and not folder.is_dir():
            raise ValueError(f"{path}: there is no directory {str(folder)!r}")


def main(arguments=None, begun: float | None = None) -> None:
    """Run the command line. Expected errors are one message on stderr. Exit status 1: the program is wrong, or failed; 2: bad
    input or usage. begun: the start of the process, by `time.perf_counter`."""
    from semi_naive.cli import failures
    from semi_naive.language.errors import ProgramError

    try:
        with open_account("start", begun):
            cli.main(arguments, prog_name="semi-naive", standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as wrong:
        wrong.show()
        sys.exit(failures.BAD_INPUT_STATUS)
    except (KeyboardInterrupt, click.Abort) as stop:
        if isinstance(stop.__cause__, EOFError):  # click takes it for an interrupt
            raise stop.__cause__ from None
        click.echo("semi-naive: interrupted", err=True)
        sys.exit(130)
    except ProgramError as wrong:
        click.echo(wrong, err=True)
        sys.exit(1)
    except Exception as failed:
        if (ending := failures.text_and_status(failed)) is None:
            raise
        text, status = ending
        click.echo(f"semi-naive: {text}", err=True)
        sys.exit(status)
