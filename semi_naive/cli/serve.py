"""`semi-naive serve`: a session over HTTP (`semi_naive.session.served.web`)."""

import socket

import click

from semi_naive.cli.session import opened

ANYWHERE = {"0.0.0.0", "::", ""}  # addresses that are all of a machine's


def run_server(program: str, state: str | None, place: tuple[str, int], retain: int, given: dict) -> None:
    """Serve until somebody ends it. place: the address and the port to listen at."""
    try:
        import uvicorn

        from semi_naive.session.served.web import Web
    except ImportError as missing:
        told = f"semi-naive serve needs the package {missing.name}, which is not installed"
        raise ValueError(f"{told}: pip install 'semi-naive[serve]'") from None
    host, port = place
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, port), family=family) as listening,
        opened(program, state, given, retain) as session,
    ):
        hosts = ["*"] if host in ANYWHERE else [host, "localhost", "127.0.0.1", "[::1]"]
        app = Web(session, program).app(hosts)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="off"))
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"serving {program} at http://{shown}:{listening.getsockname()[1]}", err=True)
        server.run(sockets=[listening])
