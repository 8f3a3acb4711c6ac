"""The options `--report` and `--live` of commands that run something."""

import contextlib

import click

from semi_naive.cli.options import option_group

LOOPBACK = "127.0.0.1"


looking = option_group(  # of a command that runs something
    click.option("--report", metavar="FILE", help="Write a page about the run: figures, what was moved, times (.html)."),
    click.option(
        "--live", metavar="[PORT]", is_flag=False, flag_value="0", help="Serve that page on a local port while the run goes on."
    ),
    click.option("--live-host", metavar="ADDRESS", default=LOOPBACK, show_default=True, help="Serve --live at this address."),
)


@contextlib.contextmanager
def live_page(port: str | None, host: str, name: str):
    """Serve the report while the block runs, and print its address on standard error. Yields the `Live` page, or None without a
    port. Raises ValueError if it cannot be served. port: the text of --live."""
    if port is None:
        yield None
        return
    from semi_naive.plots.pages.live import Live

    if not port.isdecimal():
        raise ValueError(f"--live {port}: expected the number of a port; --live=0 takes a free one")
    with Live(int(port), host, name) as live:
        click.echo(f"live: {live.url}", err=True)
        yield live


def write_report(path: str | None, trace: dict, name: str, live=None) -> None:
    """Write the page to a file, if one is named. Viewers of the live page see the end of the run."""
    if live:
        live.watch(lambda: trace)
    if path:
        from semi_naive.plots.pages.report import report

        report(trace, path, [name])
