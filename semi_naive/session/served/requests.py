"""The processing that all requests to a server share: authentication, limits of their size, and errors.

Every error is JSON, {"error": text}: 400 for a malformed request, 401 without a token, 403 for a relation that the client may
not read, 404 for unknown names and addresses, 413 for a body that is too large. A failure of the server itself is
500; the traceback is in its log.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from semi_naive.host.limits import LimitExceeded
from semi_naive.io.values.bits import abbreviated
from semi_naive.plots.pages.serving import known_host
from semi_naive.ra.expressions.arithmetic import EvaluationError
from semi_naive.ra.text.ids import UnknownId
from semi_naive.session.served.clients import Client, Clients, NotAllowed

MAX_TUPLES = 1_000_000  # of one answer
DEFAULT_LIMIT = 1000  # tuples of a relation or an answer that are sent, if the request has no limit
CLIENT = "semi_naive.client"  # the key of a request's scope under which its `Client` is stored
PAGE = "/"  # the address of the page, which has no data: it may be read without a token, and from links of other sites
ALLOWED_FETCH_SITES = "", "same-origin", "none"  # of the header Sec-Fetch-Site; pages of other sites have other values
JSON = "application/json"

log = logging.getLogger("semi_naive")


class BadRequest(ValueError):
    """A request that is malformed, or asks for too much."""


class BodyTooLarge(BadRequest):
    """A body that exceeds the limit."""


class NotFound(LookupError):
    """A request for an unknown name."""


STATUS = {
    LimitExceeded: 503,
    NotFound: 404,
    NotAllowed: 403,
    BodyTooLarge: 413,
    ValueError: 400,
    EvaluationError: 400,
    UnknownId: 400,
}


class Authentication:
    """Middleware that passes on requests of known clients to this host, and refuses all others. names: those of the host."""

    def __init__(self, app: ASGIApp, clients: Clients, names: set[str]):
        self.app, self.clients, self.names = app, clients, {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope, Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response that refuses a request. None if it is allowed; then the client is added to the scope."""
        host = headers.get("host", "")
        if not known_host(host, self.names):
            return json_error(f"this server does not answer for the host {abbreviated(host)}: --alias names one more", 400)
        if scope["path"] == PAGE:
            return None
        _, _, origin = headers.get("origin", "").partition("//")
        is_own_origin = "origin" not in headers or known_host(origin, self.names)
        if headers.get("sec-fetch-site", "") not in ALLOWED_FETCH_SITES or not is_own_origin:
            return json_error("this server does not answer requests that pages of other sites make", 403)
        client = self.clients.of(headers.get("authorization", ""))
        if client is None:
            message = "this server asks for a token: send the header Authorization: Bearer TOKEN"
            return json_error(message, 401, {"www-authenticate": "Bearer"})
        scope[CLIENT] = client
        return None


@dataclass
class ClientRequest:
    """A client's request with its whole body."""

    client: Client
    request: Request
    body: bytes
    loop: asyncio.AbstractEventLoop

    @property
    def name(self) -> str:
        """The name in the address."""
        return self.request.path_params["name"]

    def options(self) -> dict[str, str]:
        """Return the options of the query string, by name. Raises BadRequest for a name that occurs twice."""
        options: dict[str, str] = {}
        for name, value in self.request.query_params.multi_items():
            if name in options:
                raise BadRequest(f"{name} is given twice")
            options[name] = value
        return options

    def check_json(self) -> None:
        """Raise BadRequest if the content type is not JSON. Browsers let pages of other sites send forms, but no JSON."""
        if self.request.headers.get("content-type", "").split(";")[0].strip() != JSON:
            raise BadRequest(f"the body has the content type {JSON}")


def request_handler(method: Callable[[ClientRequest], Any], max_bytes: int, run_in_thread: Callable) -> Callable:
    """Return the coroutine function that answers requests by a method of `Web`. max_bytes: the limit of the body.
    run_in_thread: see `Web.run_in_thread`."""

    async def handle(request: Request) -> Response:
        """Read a request, answer it, and return errors as JSON."""
        client: Client = request.scope.get(CLIENT, Client())  # only a request for the page, which has no data, has no client
        try:
            client_request = ClientRequest(client, request, await _body(request, max_bytes), asyncio.get_running_loop())
            answer = await run_in_thread(request, method, client_request)
            return answer if isinstance(answer, Response) else JSONResponse(answer)
        except ClientDisconnect:
            return Response(status_code=400)  # it is not received
        except Exception as error:
            return error_response(client, error)

    return handle


async def _body(request: Request, max_bytes: int) -> bytes:
    """Read the body of a request. Raises BodyTooLarge as soon as it exceeds max_bytes."""
    body, message = bytearray(), f"the body has more than {max_bytes:,} bytes: send it in several requests"
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > max_bytes:  # 20 digits suffice, and int() refuses thousands
        raise BodyTooLarge(message)
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise BodyTooLarge(message)
    return bytes(body)


def error_response(client: Client, error: Exception) -> Response:
    """Return the response for an error. Only an owner gets the message of an error of a rule, as it contains values."""
    if isinstance(error, EvaluationError) and not client.owner:
        log.warning("a transaction or a query of %s has failed: %s", client.name, error)
        return json_error("a rule has no value for this, so nothing was changed; the log of the server tells which", 400)
    for kind, status in STATUS.items():
        if isinstance(error, kind):
            return json_error(str(error), status)
    if isinstance(error, RecursionError):
        return json_error("the request is nested too deeply", 400)
    log.error("a request of %s has failed", client.name or "a client", exc_info=error)
    return json_error(f"the server has failed: {error or type(error).__name__}", 500)


async def routing_error(request: Request, error: Exception) -> Response:
    """Return the response for an unknown address, or for a method that an address does not have."""
    assert isinstance(error, HTTPException)
    message = "there is no such address; docs/sessions.md has all" if error.status_code == 404 else error.detail
    return json_error(f"{request.method} {request.url.path}: {message}", error.status_code, error.headers)


def json_error(message: str, status: int, headers=None) -> Response:
    return JSONResponse({"error": message}, status, headers)


def parsed(text: str | None, parser: type, option: str):
    """Convert the text of an option to int, float or str (`parser`); None remains None. Raises BadRequest if that fails."""
    try:
        return None if text is None else parser(text)
    except ValueError:
        raise BadRequest(f"{option} is {abbreviated(text)}: expected a number") from None


def pop_limit(options: dict) -> int:
    """Remove the option `limit`, and return its value."""
    limit = parsed(options.pop("limit", str(DEFAULT_LIMIT)), int, "limit")
    if not 0 <= limit <= MAX_TUPLES:
        raise BadRequest(f"limit is {abbreviated(limit)}: expected a number from 0 to {MAX_TUPLES:,}")
    return limit
