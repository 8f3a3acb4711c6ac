"""The processing that all requests to a server share: authentication, limits of their size, and errors.

Every error is JSON, {"error": text}: 400 for a malformed request, 401 without a token, 403 for a relation that the client may
not read, 404 for unknown names and addresses, 413 for a body that is too large. A failure of the server itself is
500; the traceback is in its log.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
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

CLIENT = "semi_naive.client"  # the key of a request's scope under which its `Client` is stored
PAGE = "/"  # the address of the page, which has no data: it may be read without a token, and from links of other sites
OWN = ("", "same-origin", "none")  # allowed values of Sec-Fetch-Site; other values are requests made by pages of other sites
JSON = "application/json"

log = logging.getLogger("semi_naive")


class BadRequest(ValueError):
    """A malformed request."""


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
    """Authentication in front of an application: pass on requests of known clients for this host, refuse others."""

    def __init__(self, app: ASGIApp, clients: Clients, names: set[str]):
        self.app, self.clients, self.names = app, clients, {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refused(scope, Headers(scope=scope)) if scope["type"] == "http" else None
        await (refused or self.app)(scope, receive, send)

    def _refused(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response that refuses a request. None if it is allowed; then the client is added to the scope."""
        host = headers.get("host", "")
        if not known_host(host, self.names):
            return error_answer(f"this server does not answer for the host {abbreviated(host)}: --alias names one more", 400)
        if scope["path"] == PAGE:
            return None
        if headers.get("sec-fetch-site", "") not in OWN or not self._own(headers.get("origin")):
            return error_answer("this server does not answer requests that pages of other sites make", 403)
        client = self.clients.of(headers.get("authorization", ""))
        if client is None:
            message = "this server asks for a token: send the header Authorization: Bearer TOKEN"
            return error_answer(message, 401, {"www-authenticate": "Bearer"})
        scope[CLIENT] = client
        return None

    def _own(self, origin: str | None) -> bool:
        return origin is None or known_host(origin.partition("//")[2], self.names)


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
        """The options behind the ?, by name. BadRequest for a name that occurs twice."""
        found: dict[str, str] = {}
        for name, value in self.request.query_params.multi_items():
            if name in found:
                raise BadRequest(f"{name} is given twice")
            found[name] = value
        return found

    def check_json(self) -> None:
        """Raise BadRequest for a body of another type: a page of another site can send a form without asking, but no JSON."""
        if self.request.headers.get("content-type", "").split(";")[0].strip() != JSON:
            raise BadRequest(f"the body has the content type {JSON}")


def answered(call: Callable[[ClientRequest], Any], most: int, run: Callable[..., Awaitable[Any]]) -> Callable:
    """Return the handler of requests for a method of `Web`. most: the limit of the body in bytes; run: runs a function in a
    thread."""

    async def answer(request: Request) -> Response:
        """Read a request, answer it, and return errors as JSON."""
        client: Client = request.scope.get(CLIENT, Client())
        try:
            asked = ClientRequest(client, request, await _body(request, most), asyncio.get_running_loop())
            found = await run(request, call, asked)
            return found if isinstance(found, Response) else JSONResponse(found)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody receives it
        except Exception as error:
            return failed(client, error)

    return answer


async def _body(request: Request, most: int) -> bytes:
    """Read the body of a request. most: the limit in bytes; BodyTooLarge is raised as soon as it is exceeded."""
    body, message = bytearray(), f"the body has more than {most:,} bytes: send it in several requests"
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise BodyTooLarge(message)
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise BodyTooLarge(message)
    return bytes(body)


def failed(client: Client, error: Exception) -> Response:
    """The answer for an error. Only the owner is shown the values that a rule failed with."""
    if isinstance(error, EvaluationError) and not client.owner:
        log.warning("a transaction or a query of %s has failed: %s", client.name, error)
        return error_answer("a rule has no value for this, so nothing was changed; the log of the server tells which", 400)
    for kind, status in STATUS.items():
        if isinstance(error, kind):
            return error_answer(str(error), status)
    if isinstance(error, RecursionError):
        return error_answer("the request is nested too deeply", 400)
    log.error("a request of %s has failed", client.name or "a client", exc_info=error)
    return error_answer(f"the server has failed: {error or type(error).__name__}", 500)


async def not_routed(request: Request, error: Exception) -> Response:
    """The answer for an unknown address, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    told = "there is no such address; docs/sessions.md has all" if error.status_code == 404 else error.detail
    return error_answer(f"{request.method} {request.url.path}: {told}", error.status_code, error.headers)


def error_answer(told: str, status: int, headers=None) -> Response:
    return JSONResponse({"error": told}, status, headers)
