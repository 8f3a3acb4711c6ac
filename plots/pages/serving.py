"""The web server of a live report: a page, its script, and the two addresses that the script polls every second."""

import contextlib
import errno
import ipaddress
import json
import socket
import socketserver
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from semi_naive.plots.pages.page import page, text_of

BEGINNING = '<main id="report"><h1>semi-naive</h1><p>As soon as there is something to show, it is here.</p></main>'
OWN_ONLY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'self'; connect-src 'self'"


class _Server(ThreadingHTTPServer):
    """The server of one live report."""

    server_address: tuple[str, int]
    daemon_threads = True

    def __init__(self, address: tuple, live, family: int):
        """live: the `Live` whose report it serves; family: that of the address, IPv4 or IPv6."""
        self.live, self.address_family = live, family
        # The host names under which it may be requested: see `known_host`.
        self.names = {"localhost", socket.gethostname().lower(), address[0].lower()}
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own method looks up the machine's name first

    def handle_error(self, request, client_address) -> None:
        """Ignore the error: the client has closed the connection."""


def bound_server(host: str, port: int, live) -> _Server:
    """Return the server of a `plots.pages.live.Live`, which does not serve yet. Raises ValueError if the address cannot be
    bound."""
    if not 0 <= port <= 65535:
        raise ValueError(f"cannot serve on port {port}: expected a number from 0, for a free one, to 65535")
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return _Server(address[:2], live, family)
    except OSError as error:
        hints: dict[int | None, str] = {
            errno.EADDRINUSE: "another program listens there; without a number a free port is taken",
            errno.EACCES: "ports under 1024 need rights; without a number a free port is taken",
            errno.EADDRNOTAVAIL: "this machine has no such address",
        }
        hint = hints.get(error.errno, "expected an address or a name of this machine")
        raise ValueError(f"cannot serve on {host}, port {port}: {error.strerror or error}: {hint}") from None


class _Handler(BaseHTTPRequestHandler):
    """The answers to requests for a live report."""

    server: _Server
    protocol_version, server_version, sys_version = "HTTP/1.1", "semi-naive", ""
    timeout = 60

    def do_GET(self) -> None:
        """Answer a request, unless its host name is foreign."""
        url = urlsplit(self.path)
        viewer = parse_qs(url.query).get("viewer", ["somebody"])[0][:40]  # cut, as it is kept, and any text may be requested
        answers = {"/": self._page, "/live.js": self._script, "/state": self._state, "/report": self._report}
        if not known_host(self.headers.get("Host", ""), self.server.names):
            self._text(HTTPStatus.FORBIDDEN, "this page is served under the address of its machine only\n")
        elif url.path not in answers:
            self._text(HTTPStatus.NOT_FOUND, "there is nothing of this name\n")
        else:
            answers[url.path](viewer)

    do_HEAD = do_GET

    def _page(self, viewer: str) -> None:
        """Send the page, whose script requests the state and the report."""
        script = '<link rel="icon" href="data:,">\n<script src="live.js" defer></script>\n'
        title = f"{self.server.live.name or 'semi-naive'}: live"
        status = '<header>\n<p id="status" class="quiet">…</p>\n<p id="ended" role="status"></p>\n</header>\n'
        status += '<noscript><p>Refreshed by a script; <a href="report">the current report</a> needs none.</p></noscript>\n'
        self._send("text/html", page(title, status + BEGINNING, script))

    def _script(self, viewer: str) -> None:
        self._send("text/javascript", text_of("live.js"))

    def _state(self, viewer: str) -> None:
        self.server.live.seen(viewer)
        self._send("application/json", json.dumps(self.server.live.state()))

    def _report(self, viewer: str) -> None:
        """Send the current report; if the browser has it, only a status."""
        with self.server.live.served(viewer) as (version, body):
            tag = f'"{version}"'
            if self.headers.get("If-None-Match") == tag:
                self._send("text/html", "", HTTPStatus.NOT_MODIFIED, {"ETag": tag})
            else:
                self._send("text/html", body, headers={"ETag": tag})

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._send("text/plain", text, status)

    def _send(self, kind: str, text: str, status: HTTPStatus = HTTPStatus.OK, headers: dict | None = None) -> None:
        """Send an answer with headers that forbid caching and foreign content."""
        data = text.encode()
        self.send_response(status)
        safe = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
        safe |= {"Content-Security-Policy": OWN_ONLY, "Cross-Origin-Resource-Policy": "same-origin"}
        if status != HTTPStatus.NOT_MODIFIED:
            safe |= {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(data))}
        for name, value in (safe | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_) -> None:
        """Log nothing, as standard error belongs to the run."""


def known_host(header: str, names: set[str]) -> bool:
    """True if a request's Host is an address, or a name of this machine. Any other name could belong to a foreign page whose
    name was made to resolve to this machine (DNS rebinding), so that browsers would let it read the report.

    >>> [known_host(h, {"localhost"}) for h in ("127.0.0.1:8000", "localhost", "[::1]:80", "evil.example:8000", "")]
    [True, True, True, False, False]
    """
    with contextlib.suppress(ValueError):
        host = (urlsplit(f"//{header}").hostname or "").lower()
        if host in names:
            return True
        ipaddress.ip_address(host)
        return True
    return False
