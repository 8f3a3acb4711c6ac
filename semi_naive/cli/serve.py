"""`semi-naive serve`: a session over HTTP (`semi_naive.session.served.web`)."""

import os
import socket

import click

from semi_naive.cli.session import opened
from semi_naive.host.memory_limits import limit
from semi_naive.io.errors import BadInput

SECONDS, SHARE = 60, 0.5  # limits of an evaluation, if none are given: seconds, and the part of all memory
ANYWHERE = {"0.0.0.0", "::", ""}  # addresses that are all of a machine's


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror  # create_server's has the address
        hint = "--port names another port, 0 any that is free; --host another address of this machine"
        raise BadInput(f"cannot listen at {host}, port {port}: {why}", hint=hint) from None


def run_server(program: str, state: str | None, place: tuple[str, int], retain: int, given: dict) -> None:
    """Serve until somebody ends it. place: the address and the port to listen at."""
    try:
        import uvicorn

        from semi_naive.session.served.web import Web
    except ImportError as missing:
        told = f"semi-naive serve needs the package {missing.name}, which is not installed"
        raise ValueError(f"{told}: pip install 'semi-naive[serve]'") from None
    host, port = place
    given["options"] = {"query_seconds": SECONDS, "query_bytes": int(SHARE * limit())} | given["options"]
    with _listening(host, port) as listening, opened(program, state, given, retain) as session:
        hosts = ["*"] if host in ANYWHERE else [host, "localhost", "127.0.0.1", "[::1]"]
        app = Web(session, program).app(hosts)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="off"))
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"serving {program} at http://{shown}:{listening.getsockname()[1]}", err=True)
        server.run(sockets=[listening])
