"""`semi-naive serve`: serve a session over HTTP (`semi_naive.session.served.web`)."""

import ipaddress
import os
import socket
import ssl

import click

from semi_naive.cli.options import assignment
from semi_naive.cli.session import open_session
from semi_naive.host.memory_limits import limit
from semi_naive.host.optional_packages import import_optional
from semi_naive.io.errors import BadInput

QUERY_SECONDS, QUERY_MEMORY_SHARE = 60, 0.5  # default limits of an evaluation: seconds, and the share of all memory


def _open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises BadInput if the address or the port cannot be used."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror  # create_server's has the address
        hint = "--port names another port, 0 any that is free; --host another address of this machine"
        raise BadInput(f"cannot listen at {host}, port {port}: {why}", hint=hint) from None


def _check_open(server_socket: socket.socket, given: dict) -> None:
    """Raise BadInput for an address that other hosts reach, without a token and without --open. Log a note if tokens are sent
    unencrypted."""
    address = server_socket.getsockname()[0]
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return
    if not given["token"] and not given["open"]:
        hint = "--token FILE names a file with a token that clients send; --open serves everyone who can reach this address"
        raise BadInput(f"others can reach {address}, and would be asked for no token", hint=hint)
    if given["token"] and not given["certificate"]:
        text = f"tokens are sent unencrypted to {address}: --certificate and --key encrypt, or a proxy that you put before it"
        click.echo(f"semi-naive: warning: {text}", err=True)


def _encrypted(given: dict) -> dict:
    """Return the uvicorn settings for --certificate and --key. Raises BadInput if one is missing, or if they do not match."""
    certificate, key = given["certificate"], given["key"]
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        raise BadInput("--certificate and --key belong together", hint="give both, as files in PEM form")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: b"")
    except OSError as error:  # ssl.SSLError is one
        text = f"{certificate} and {key} cannot be used: {error.strerror or error}"
        raise BadInput(text, hint="expected a certificate and its key in PEM form, the key without a password") from None
    return {"ssl_certfile": certificate, "ssl_keyfile": key}


def run_server(program: str, state: str | None, place: tuple[str, int], retain: int, given: dict) -> None:
    """Serve until a signal ends the process. place: the address and port. state: the directory of the session, if any; retain:
    epochs kept; given: the other options of the command."""
    uvicorn, _ = (import_optional(name, "semi-naive serve", "'semi-naive[serve]'") for name in ("uvicorn", "starlette"))
    from semi_naive.session.served.clients import Clients, read_clients
    from semi_naive.session.served.web import Web

    host, port = place
    given["options"] = {"query_seconds": QUERY_SECONDS, "query_bytes": int(QUERY_MEMORY_SHARE * limit())} | given["options"]
    clients, encrypted = read_clients(given["token"]) if given["token"] else Clients(), _encrypted(given)
    with _open_socket(host, port) as server_socket:
        _check_open(server_socket, given)
        with open_session(program, state, given, retain) as session:
            for relation, source in map(assignment, given["followed"]):
                session.follow(relation, source, op=given["follow_op"], header=given["follow_header"])
            app = Web(session, program).app({host, "localhost", socket.gethostname(), *given["aliases"]}, clients)
            settings = {"log_level": "warning", "timeout_graceful_shutdown": 1, "lifespan": "off", "ws": "none"} | encrypted
            server = uvicorn.Server(uvicorn.Config(app, **settings))
            shown = f"{'https' if encrypted else 'http'}://{f'[{host}]' if ':' in host else host}"
            click.echo(f"serving {program} at {shown}:{server_socket.getsockname()[1]}", err=True)
            server.run(sockets=[server_socket])
