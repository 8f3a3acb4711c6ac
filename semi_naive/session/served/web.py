"""A session over HTTP: transactions and queries as JSON, changes as server-sent events, and a page that shows it all.

GET  /relations                                its relations: name, attributes, tuples, whether facts may be changed
GET  /relations/path?limit=100                 tuples of one
POST /transactions                             [{"insert": "edge", "rows": [[1, 2]]}, {"delete": …}, {"clear": "edge"},
                                               {"upsert": "edge", "rows": …, "key": ["x"]}]: one transaction
GET  /query?atom=path(1,y)                     the values of the variables; others are parameters of registered rules
GET  /rules, PUT /rules/near, DELETE /rules/near    registered rules; PUT has their text as its body
GET  /changes/path?snapshot=1                  server-sent events: id is the epoch, data {"epoch", "changes": [[…, diff]]};
                                               since=41 or Last-Event-ID goes on after an epoch that is retained
GET  /epochs                                   the last epochs: when, how long, and how many tuples came and went
"""

import asyncio
import contextlib
import json
import math
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from importlib.resources import files

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from semi_naive.branch import Branch
from semi_naive.host import limits
from semi_naive.plots.page import style
from semi_naive.ra.rules.arithmetic import EvaluationError
from semi_naive.ra.rules.ir import Kind
from semi_naive.session.query import name_of
from semi_naive.session.registered.subscriptions import Subscription

MOST = 1000  # tuples of a relation, or of an answer, where no limit is asked for
SHOWN = 200  # epochs that the page has
ALIVE = 15.0  # seconds after which a comment tells that a stream is still there
WRONG = ValueError, KeyError, TypeError, EvaluationError, limits.LimitExceeded
EVALUATING = 8  # requests that evaluate, or wait for each other; readers have threads of their own


class Wrong(ValueError):
    """A request that makes no sense."""


class Web:
    """The answers. What touches the session runs in threads: `evaluating` are those of transactions, registrations and queries
    that evaluate rules, which wait for each other. Readers never wait for these."""

    def __init__(self, session, name: str):
        self.session, self.name = session, name
        self.evaluating = ThreadPoolExecutor(EVALUATING, "semi-naive-evaluating")

    def app(self, hosts: list[str]) -> Starlette:
        """hosts: what browsers may call this server; so no page of another name reaches it."""
        paths: list[tuple[str, Callable, str]] = [
            ("/", self.page, "GET"), ("/relations", self.relations, "GET"), ("/relations/{name}", self.relation, "GET"),
            ("/query", self.query, "GET"), ("/rules", self.rules, "GET"), ("/epochs", self.last_epochs, "GET"),
            ("/differences/{name}", self.differences, "GET"), ("/rules/{name}", self.unregister, "DELETE"),
        ]  # fmt: skip
        routes = [Route(path, self._answered(call), methods=[method]) for path, call, method in paths]
        routes += [
            Route("/transactions", self.transactions, methods=["POST"]),
            Route("/rules/{name}", self.register, methods=["PUT"]),
            Route("/changes/{name}", self.changes, methods=["GET"]),
        ]
        guarded = [Middleware(TrustedHostMiddleware, allowed_hosts=hosts)]
        return Starlette(routes=routes, middleware=guarded, exception_handlers=dict.fromkeys(WRONG, _failed))

    def _answered(self, call: Callable):
        async def answer(request: Request) -> Response:
            found = await _while_connected(request, self._threads(request), call, request)
            return found if isinstance(found, Response) else JSONResponse(found)

        return answer

    def _threads(self, request: Request) -> Executor | None:
        """The threads for a request: those of readers, unless it evaluates rules or changes the session."""
        asked = name_of(request.query_params.get("atom", ""))
        reads = request.method == "GET" and (request.url.path != "/query" or self.session.is_there(asked))
        return None if reads else self.evaluating

    # -- what there is

    def page(self, request: Request) -> Response:
        text = files("semi_naive.session.served").joinpath("page.html").read_text("utf-8")
        return HTMLResponse(text.replace("{{program}}", _escaped(self.name)).replace("{{style}}", style()))

    def relations(self, request: Request) -> dict:
        now = self.session.at(self.session.epoch)
        found = []
        for name, relation in self.session.relations.items():
            if name in now.tables:
                attributes = [[attribute, type_.name] for attribute, type_ in relation.attributes]
                kinds = [kind.value for kind in relation.kinds]
                known = {"tuples": now[name].count(), "changeable": name in self.session.changeable}
                found.append({"name": name, "attributes": attributes, "kinds": kinds} | known)
        return {"program": self.name, "epoch": now.number, "relations": found}

    def relation(self, request: Request) -> dict:
        with self.session.at(self.session.epoch)[request.path_params["name"]] as answer:
            return _shown(answer, _limit(request))

    def query(self, request: Request) -> dict:
        given = dict(request.query_params)
        if "atom" not in given:
            raise Wrong("a query has an atom: /query?atom=path(1,y)")
        atom, _ = given.pop("atom"), given.pop("limit", None)
        return _shown(self.session.query(atom, **_parameters(self.session, name_of(atom), given)), _limit(request))

    def differences(self, request: Request) -> dict:
        """since=-1: from when nothing was there. Without until: up to now."""
        name, given = self.session.known(request.path_params["name"]), request.query_params
        until = _number(given.get("until"), int, "until")
        until = self.session.epoch if until is None else until
        change = self.session.between(name, _number(given.get("since", "-1"), int, "since"), until)
        return {"epoch": until, "changes": _rows(change.to_list())}

    def rules(self, request: Request) -> list:
        return [{"name": each.name, "parameters": list(each.parameters), "subscriptions": each.users}
                for each in list(self.session.registry.rules.values())]  # fmt: skip

    def last_epochs(self, request: Request) -> list:
        shown = ("epoch", "at", "seconds", "changes")
        return [{name: getattr(each, name) for name in shown} for each in list(self.session.system.epochs)[-SHOWN:]]

    # -- what changes it

    async def transactions(self, request: Request) -> Response:
        _check_type(request, "application/json")
        return JSONResponse(await _while_connected(request, self.evaluating, self.commit, await request.body()))

    def commit(self, body: bytes) -> dict:
        operations = _operations(body)
        with self.session.transaction() as transaction:
            for operation, relation, rows, key in operations:
                if operation == "clear":
                    transaction.clear(relation)
                elif operation == "upsert":
                    transaction.upsert(relation, rows, key)
                else:
                    getattr(transaction, operation)(relation, rows)
        changes = {name: _rows(change.to_list()) for name, change in transaction.changes.items()}
        return {"epoch": transaction.epoch, "ignored": transaction.ignored, "changes": changes}

    async def register(self, request: Request) -> Response:
        text, name = (await request.body()).decode(errors="replace"), request.path_params["name"]
        await _while_connected(request, self.evaluating, self.session.register, name, text)
        return JSONResponse({"name": name})

    def unregister(self, request: Request) -> dict:
        self.session.unregister(request.path_params["name"])
        return {}

    # -- who is told

    async def changes(self, request: Request) -> Response:
        given, name = dict(request.query_params), request.path_params["name"]
        options = {option: given.pop(option, None) for option in ("snapshot", "since", "epochs", "seconds")}
        options["since"] = request.headers.get("last-event-id") or options["since"]
        stream = _Stream(asyncio.get_running_loop())
        subscription = await _while_connected(request, self.evaluating, self._subscribed, stream, name, options, given)
        events = self._events(stream, subscription)
        return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})

    def _subscribed(self, stream: "_Stream", name: str, options: dict, given: dict):
        """Each stream has a thread that waits until it has taken what is told: what comes meanwhile becomes one sum."""
        asked = {"snapshot": options["snapshot"] in ("1", "true"), "since": _number(options["since"], int, "since")}
        asked |= {key: _number(options[key], kind, key) for key, kind in (("epochs", int), ("seconds", float)) if options[key]}
        return self.session.subscribe(name, stream.put, background=True, **asked, **_parameters(self.session, name, given))

    async def _events(self, stream: "_Stream", subscription: Subscription):
        try:
            yield ": these are the changes\n\n"
            while not stream.closed:
                try:
                    epoch, rows = await asyncio.wait_for(stream.queue.get(), ALIVE)
                    yield f"id: {epoch}\ndata: {json.dumps({'epoch': epoch, 'changes': rows})}\n\n"
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            stream.closed = True
            await asyncio.shield(stream.loop.run_in_executor(self.evaluating, subscription.cancel))


class _Stream:
    """From the thread of a subscription to the server's loop, one message at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.loop, self.closed = loop, False
        self.queue: asyncio.Queue[tuple[int, list]] = asyncio.Queue(maxsize=1)

    def put(self, changes, epoch: int) -> None:
        message = asyncio.run_coroutine_threadsafe(self.queue.put((epoch, _rows(changes.to_list()))), self.loop)
        while not self.closed:
            with contextlib.suppress(TimeoutError):
                return message.result(0.2)
        message.cancel()
        return None


# -- in


def _operations(body: bytes) -> list[tuple]:
    """(operation, relation, rows, key) of a transaction's JSON. Wrong, with an example, for what is none."""
    example = 'expected a list like [{"insert": "edge", "rows": [[1, 2]]}]'
    try:
        asked = json.loads(body)
    except ValueError as error:
        raise Wrong(f"the body is no JSON: {error}; {example}") from None
    asked = asked.get("operations") if isinstance(asked, dict) and "operations" in asked else asked
    if not isinstance(asked, list):
        raise Wrong(f"the body is {type(asked).__name__}; {example}")
    return [_operation(number, each, example) for number, each in enumerate(asked)]


def _operation(number: int, each, example: str) -> tuple:
    names = [name for name in ("insert", "delete", "upsert", "clear") if isinstance(each, dict) and name in each]
    if len(names) != 1 or not isinstance(each[names[0]], str):
        raise Wrong(f"operation {number} names neither insert, delete, upsert nor clear, or several of them; {example}")
    rows = each.get("rows", [])
    if not isinstance(rows, list):
        raise Wrong(f"the rows of operation {number} are no list; {example}")
    if names[0] == "upsert" and not each.get("key"):
        raise Wrong(f'operation {number} is an upsert without a key, as in "key": ["x"]')
    return names[0], each[names[0]], [_row(row) for row in rows], each.get("key")


def _row(row):
    """Lists are tuples, at any depth: records too."""
    return tuple(map(_row, row)) if isinstance(row, list) else row


def _parameters(session, name: str, given: dict) -> dict:
    """The values of parameters, which are text, by their types."""
    if name not in session.registry.rules:
        return given
    rules, read = session.registry.rules[name], {Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: float}
    kinds = dict(zip(rules.parameters, rules.relation.kinds, strict=False))
    return {each: _number(text, read[kinds[each]] if kinds.get(each) in read else str, each) for each, text in given.items()}


def _number(text: str | None, kind: type, what: str):
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise Wrong(f"{what} is {text!r}: expected a number") from None


def _limit(request: Request) -> int:
    return _number(request.query_params.get("limit", str(MOST)), int, "limit")


def _check_type(request: Request, wanted: str) -> None:
    """A page of another site can send no JSON without asking; a form it could."""
    if request.headers.get("content-type", "").split(";")[0].strip() != wanted:
        raise Wrong(f"a transaction has the content type {wanted}")


# -- out


def _shown(answer, limit: int) -> dict:
    batch = next(answer.to_batches(), None) if answer.relation.arity else None
    rows: list = [()] * min(limit, answer.count()) if batch is None else []
    if batch is not None:
        rows = list(zip(*(column.to_pylist() for column in batch.slice(0, limit).columns), strict=True))
    return {"columns": answer.arrow_schema().names, "rows": _rows(rows), "tuples": answer.count()}


def _rows(rows: list) -> list:
    """JSON has neither infinities nor NaN: they are text, and so are branches."""

    def shown(value):
        return str(value) if isinstance(value, Branch) or isinstance(value, float) and not math.isfinite(value) else value

    return [list(map(shown, row)) for row in rows]


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


async def _while_connected(request: Request, threads: Executor | None, call: Callable, *given):
    """Call in a thread of some. Its evaluation ends when the client leaves, or the server does. The body has been read."""
    with limits.within() as limit:
        here = copy_context()
    work = asyncio.get_running_loop().run_in_executor(threads, here.run, call, *given)
    left = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
        limit.cancel("its client has left")  # which has no effect on work that is done
    return await work


async def _left(request: Request) -> None:
    """Wait until the client has left."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _failed(request: Request, error: Exception) -> Response:
    told = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    status = 404 if isinstance(error, KeyError) else 503 if isinstance(error, limits.LimitExceeded) else 400
    return JSONResponse({"error": told}, status)
