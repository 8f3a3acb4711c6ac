"""A session over HTTP: transactions and queries as JSON, changes as server-sent events, and a page that shows it all.

GET  /relations                                its relations: name, attributes, tuples, whether facts may be changed
GET  /relations/path?limit=100                 tuples of a relation
POST /transactions                             [{"insert": "edge", "rows": [[1, 2]]}, {"delete": …}, {"clear": "edge"},
                                               {"upsert": "edge", "rows": …, "key": ["x"]}]: one transaction
GET  /query?atom=path(1,y)                     the values of the variables of an atom or a body
GET  /rules, GET /rules/near                   the registered relations; the attributes and rules of one
PUT  /rules/near, DELETE /rules/near           register rules, whose text is the body; unregister them
GET  /changes/path?snapshot=1                  server-sent events: id is the epoch, data {"epoch", "changes": [[…, diff]]};
                                               since=41 or Last-Event-ID: begin after an epoch that is retained
GET  /changes/path?name=billing                the same for a durable subscription: it begins with unacknowledged changes
GET  /subscriptions                            the durable subscriptions of the client
POST /subscriptions/billing                    {"acknowledge": 41}: changes up to this epoch need not be stored any more
DELETE /subscriptions/billing                  end a durable subscription
GET  /differences/path?since=3&until=7         the change between two epochs that are retained
GET  /epochs                                   the last epochs: time, duration, and numbers of inserted and deleted tuples

Parameters of registered rules are given as &town=Ulm, or as &$town=Ulm if there is an option of that name.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from semi_naive.host import limits
from semi_naive.host.similar import unknown
from semi_naive.io.errors import BadInput
from semi_naive.io.values.bits import abbreviated
from semi_naive.language.errors import ProgramError
from semi_naive.language.syntax import Atom
from semi_naive.plots.pages.page import style
from semi_naive.ra.ir import Kind, Relation
from semi_naive.session.contents import Changes
from semi_naive.session.query import answer_of, answers_to_atom, answers_to_rules, everything
from semi_naive.session.registered.bodies import parse_query
from semi_naive.session.registered.rules import Registered
from semi_naive.session.registered.subscriptions import Granularity, Subscription
from semi_naive.session.served.as_json import MOST_TUPLES, NOT_SHOWN, all_rows, operations, parse_body, relation_as_json, row_of
from semi_naive.session.served.clients import Client, Clients, NotAllowed
from semi_naive.session.served.events import Events, Stream, left
from semi_naive.session.served.requests import (
    Authentication,
    BadRequest,
    BodyTooLarge,
    ClientRequest,
    NotFound,
    answered,
    not_routed,
)

USUAL = 1000  # the limit of the tuples of a relation or an answer, if the request has none
SHOWN = 200  # epochs on the page
EVALUATING = 8  # threads for requests that evaluate rules or change the session; those that only read have other threads
MOST_OF_BODY = {"POST": 64 << 20, "PUT": 64 << 20}  # the limit of a body in bytes, by the method of the request
MOST_OF_RULES = 1 << 20  # the limit of a text of rules in bytes: parsing takes 1.4 s for each 100 KB
MOST_OF_ATOM = 1000  # characters of a query above which it counts as a body; they are parsed in 10 ms
MOST_WAITING = 1_000_000  # tuples stored for a durable subscription above which it lapses
READ = {Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: float}


class Web:
    """The handlers of requests. Code that uses the session runs in threads: requests that change it or evaluate rules run in
    `evaluating` and wait for each other; others only read, and never wait for these.
    """

    def __init__(self, session, name: str):
        """name: of the program."""
        self.session, self.name = session, name
        session.registry.subscribers.max_waiting = MOST_WAITING
        self.evaluating = ThreadPoolExecutor(EVALUATING, "semi-naive-evaluating")
        self.durable: dict[str, Callable[[], None]] = {}  # by their names in the session, what ends the streams

    def app(self, names: set[str], clients: Clients | None = None) -> Starlette:
        """Return the application. names: the names of this host that requests may use. clients: those with tokens; None: every
        request is one of the owner."""
        calls: dict[str, dict[str, Callable[[ClientRequest], Any]]] = {
            "/": {"GET": self.page},
            "/relations": {"GET": self.relations},
            "/relations/{name}": {"GET": self.relation},
            "/query": {"GET": self.query},
            "/differences/{name}": {"GET": self.differences},
            "/why/{name}": {"GET": self.why},
            "/why_not/{name}": {"GET": self.why_not},
            "/explain": {"GET": self.explain},
            "/explain/{name}": {"GET": self.explain},
            "/epochs": {"GET": self.last_epochs},
            "/transactions": {"POST": self.transactions},
            "/rules": {"GET": self.rules},
            "/rules/{name}": {"GET": self.rule, "PUT": self.register, "DELETE": self.unregister},
            "/changes/{name}": {"GET": self.changes},
            "/subscriptions": {"GET": self.subscriptions},
            "/subscriptions/{name:path}": {"POST": self.acknowledge, "DELETE": self.end},
        }
        routes = [
            Route(path, answered(call, MOST_OF_BODY.get(method, 0), self.run), methods=[method])
            for path, by_method in calls.items()
            for method, call in by_method.items()
        ]
        door = Middleware(Authentication, clients=clients or Clients(), names=names)
        app = Starlette(routes=routes, middleware=[door], exception_handlers={HTTPException: not_routed})
        app.router.redirect_slashes = False
        return app

    async def run(self, request: Request, call: Callable, *given: Any) -> Any:
        """Call in a thread. Its evaluation ends when the client leaves, or the server ends. The body has been read."""
        threads = self.evaluating if self._evaluates(request) else None
        with limits.within() as limit:
            work = asyncio.get_running_loop().run_in_executor(threads, copy_context().run, call, *given)
            leaving = asyncio.ensure_future(left(request.receive))
            try:
                await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                leaving.cancel()
                limit.cancel("its client has left")  # which has no effect on work that is done
            return await work

    def _evaluates(self, request: Request) -> bool:
        """True if a request changes the session, or may evaluate rules."""
        kind = request.url.path.split("/")[1]
        if request.method != "GET" or kind in ("changes", "why", "why_not", "explain"):
            return True
        if kind not in ("differences", "query", "relations"):
            return False
        name = request.path_params.get("name", "")
        if kind == "query":
            name = _relation_of_query(request.query_params.get("atom", ""))
        known = name in self.session.declared or name in self.session.registry.rules
        return name is None or bool(name) and not (known and self.session.is_there(name))

    # -- relations

    def page(self, asked: ClientRequest) -> Response:
        text = files("semi_naive.session.served").joinpath("page.html").read_text("utf-8")
        return HTMLResponse(text.replace("{{style}}", style()))

    def relations(self, request: ClientRequest) -> dict:
        """GET /relations."""
        now, entries = self.session.at(self.session.epoch), []
        for name, relation in self.session.declared.items():
            if request.client.reads_whole(name, self.session.registry):
                tuples = now[name].count() if name in now.tables else None  # before its first use
                known = {"tuples": tuples, "changeable": name in self.session.changeable}
                entries.append({"name": name} | _schema_of(relation) | known)
        return {"program": self.name, "epoch": now.number, "relations": entries}

    def relation(self, request: ClientRequest) -> dict:
        """GET /relations/name."""
        options = request.options()
        limit, name = _limit(options), self._readable(request.client, request.name)
        values = self._values(request.client, name, options)
        return relation_as_json(everything(self.session, name, values, request.client.viewer), limit)

    def query(self, request: ClientRequest) -> dict:
        """GET /query."""
        options = request.options()
        text, limit = options.pop("atom", None), _limit(options)
        if text is None:
            raise BadRequest("a query has an atom or a body: /query?atom=path(1,y)")
        session, client, asked = self.session, request.client, parse_query(text)
        if isinstance(asked, Atom):
            values = self._values(client, self._readable(client, asked.relation), options)
            return relation_as_json(answers_to_atom(session, asked, text, values, client.viewer), limit)
        check = partial(client.check_rules, registry=session.registry)
        with session.limited(), session.in_turn(), session.registry.registered_body(text, check) as name:
            return relation_as_json(answers_to_rules(session, name, self._values(client, name, options)), limit)

    def differences(self, asked: ClientRequest) -> dict:
        """since=-1: from when nothing was there. Without until: up to now."""
        given, name = asked.options(), self._readable(asked.client, asked.name)
        since, until = _number(given.pop("since", "-1"), int, "since"), _number(given.pop("until", None), int, "until")
        until = self.session.epoch if until is None else until
        values = self._values(asked.client, name, given)
        self.session.registry.check_given(name, values)  # which may not be left out here
        return {"epoch": until, "changes": all_rows(self.session.between(name, since, until, **values))}

    def why(self, asked: ClientRequest) -> dict:
        """GET /why/name?row=[…]."""
        return self._reason(asked, self.session.why)

    def why_not(self, asked: ClientRequest) -> dict:
        """GET /why_not/name?row=[…]."""
        return self._reason(asked, self.session.why_not)

    def _reason(self, asked: ClientRequest, ask: Callable[..., Any]) -> dict:
        """Return why a tuple is there, or why it is not, as text. ask: the session's method."""
        asked.client.check_owner("proofs")
        given, name = asked.options(), self._readable(asked.client, asked.name)
        row = row_of(given.pop("row", ""))
        return {"text": str(ask(name, row, **self._values(asked.client, name, given)))}

    def explain(self, asked: ClientRequest) -> dict:
        """GET /explain and /explain/name."""
        asked.client.check_owner("plans")
        name, given = asked.request.path_params.get("name"), asked.options()
        changes = given.pop("changes", "") in ("1", "true")
        if given:
            raise BadRequest(f"{next(iter(given))} is no option of a plan: there is changes=1")
        return {"text": self.session.explain(name and self._readable(asked.client, name), changes)}

    def last_epochs(self, request: ClientRequest) -> list:
        """GET /epochs."""
        reads, registry = request.client.reads_whole, self.session.registry
        return [{"epoch": past.epoch, "at": past.at, "seconds": past.seconds,
                 "changes": {name: counts for name, counts in past.changes.items() if reads(name, registry)}}
                for past in list(self.session.system.epochs)[-SHOWN:]]  # fmt: skip

    # -- what changes it

    def transactions(self, request: ClientRequest) -> dict:
        """POST /transactions."""
        request.check_json()
        requested = operations(request.body)
        for _, relation, _, _ in requested:
            request.client.check_writes(relation)
            if relation not in self.session.declared:
                may = ", ".join(sorted(self.session.changeable))
                raise NotFound(f"the program has no relation {relation!r}: facts may be changed of {may or 'none'}")
        with self.session.transaction() as transaction:
            for operation, relation, rows, key in requested:
                more = {"clear": (), "upsert": (rows, key)}.get(operation, (rows,))
                getattr(transaction, operation)(relation, *more)
        shown, left_out = {}, {}
        for name, change in transaction.changes.items():
            if (own := self._own(request.client, change)) is not None:
                try:
                    shown[name] = all_rows(own)
                except NOT_SHOWN as error:  # the transaction stands
                    left_out[name] = str(error)
        answer = {"epoch": transaction.epoch, "ignored": transaction.ignored, "changes": shown}
        return answer | ({"left_out": left_out} if left_out else {})

    def _own(self, client: Client, change: Changes) -> Changes | None:
        """Return the part of a transaction's change that a client may see: of outputs, and of relations that it subscribes to,
        with the parameter values that it has given. None if there is none."""
        name, registry = change.name, self.session.registry
        keys = {each.key for each in registry.subscribers.active if each.relation == name and each.owner == client.name}
        if not client.asks(name, registry) or not keys and name not in self.session.program.outputs:
            return None
        found = change.with_keys(keys) if keys and all(keys) else change
        return found if found.count() else None

    # -- rules

    def rules(self, request: ClientRequest) -> list:
        """GET /rules."""
        registry, client, entries = self.session.registry, request.client, []
        for registered in list(registry.rules.values()):
            if client.asks(registered.name, registry):
                own = sum(
                    subscription.relation == registered.name
                    for subscription in registry.subscribers.active
                    if subscription.owner == client.name
                )
                users = registered.users if client.owner else own
                entries.append({"name": registered.name, "parameters": list(registered.parameters), "subscriptions": users})
        return entries

    def rule(self, request: ClientRequest) -> dict:
        """GET /rules/name."""
        rules = self._registered(self._readable(request.client, request.name))
        attributes = rules.relation.attributes[len(rules.parameters) :]
        shape = {"name": rules.name, "parameters": list(rules.parameters)} | _schema_of(Relation(rules.name, attributes))
        return shape | ({"text": rules.text} if request.client.owns(rules.name) else {})

    def register(self, request: ClientRequest) -> dict:
        """PUT /rules/name."""
        client, registry = request.client, self.session.registry
        client.check_name(request.name)
        if len(request.body) > MOST_OF_RULES:
            raise BodyTooLarge(f"the rules have more than {MOST_OF_RULES:,} bytes: register them as several relations")
        try:
            text = request.body.decode()
        except UnicodeDecodeError as error:
            raise BadRequest(f"the rules are not UTF-8: {error.reason} at byte {error.start}") from None
        with self.session.limited(), self.session.in_turn():
            check = None if client.owner else partial(client.check_rules, registry=registry)
            registry.register(request.name, text, check)
        waited = registry.waiting.get(request.name)
        return {"name": request.name} | ({"waits_for": sorted(waited.missing)} if waited else {})

    def unregister(self, request: ClientRequest) -> dict:
        """DELETE /rules/name."""
        request.client.check_name(request.name)
        if request.name not in self.session.registry.waiting:
            self._registered(request.name)
        self.session.unregister(request.name)
        return {}

    def _registered(self, name: str) -> Registered:
        """Return registered rules. Raises NotFound if there are none of this name."""
        if name not in self.session.registry.rules:
            raise NotFound(f"{name!r} is not registered")
        return self.session.registry.rules[name]

    # -- who is told

    def changes(self, request: ClientRequest) -> Response:
        """GET /changes/name: begin a stream. Its thread waits until the last message has been sent; the changes that come
        meanwhile are summed up."""
        values_of_options, client, name = request.options(), request.client, self._readable(request.client, request.name)
        options = {option: values_of_options.pop(option, None) for option in ("snapshot", "since", "epochs", "seconds", "name")}
        if self.session.registry.is_system(name) and not client.owner:
            raise NotAllowed(f"{client.name} may not subscribe to {name}: read /relations/{name}")
        since = _number(request.request.headers.get("last-event-id") or options["since"], int, "since")
        epochs, seconds = _number(options["epochs"] or "1", int, "epochs"), _number(options["seconds"] or "0", float, "seconds")
        if not seconds <= threading.TIMEOUT_MAX:
            raise BadRequest(f"seconds is {seconds}: expected {threading.TIMEOUT_MAX:.0f} at most")
        values, when = self._values(client, name, values_of_options), Granularity(epochs, seconds, background=True)
        called = client.prefix + options["name"] if options["name"] else None
        return self._begun(
            Stream(request.loop), called,
            lambda put: self.session.registry.subscribers.subscribe(
                name, put, values, when, options["snapshot"] in ("1", "true"), since, called, client.name
            ),
        )  # fmt: skip

    def _begun(self, stream: Stream, called: str | None, subscribe: Callable[[Callable], Subscription]) -> Events:
        """The events of a subscription, which ends with them."""
        if called in self.durable:
            self.durable[called]()  # the client has come back before its old stream was seen to end
        with self.session.limited(), self.session.in_turn():
            subscription = subscribe(stream.put)

        def end() -> None:
            stream.close()
            subscription.cancel()
            if called and self.durable.get(called) is end:
                del self.durable[called]

        def reached() -> int | None:
            epoch = self.session.epoch  # read first: its changes are passed to subscriptions before it is shown
            return epoch if subscription.idle else None

        if called:
            self.durable[called] = end
        return Events(stream, end, reached)

    def subscriptions(self, request: ClientRequest) -> list:
        """GET /subscriptions."""
        registry, prefix = self.session.registry, request.client.prefix
        connected = {each.name for each in registry.subscribers.active}
        return [{"name": called.removeprefix(prefix), "relation": history.relation,
                 "parameters": self._parameters(history.relation, history.key), "acknowledged": history.acknowledged,
                 "waiting": history.waiting, "lapsed": history.lapsed, "connected": called in connected}
                for called, history in list(registry.subscribers.histories.items()) if called.startswith(prefix)]  # fmt: skip

    def _parameters(self, name: str, key: tuple[int, ...]) -> dict[str, Any]:
        """The parameters of a relation with the values that 64 bits stand for."""
        if not key or name not in self.session.registry.rules:
            return {}
        rules = self.session.registry.rules[name]
        columns = np.array(key, np.int64).reshape(-1, 1)
        [row] = all_rows(answer_of(self.session, Relation(name, rules.relation.attributes[: len(key)]), lambda: columns))
        return dict(zip(rules.parameters, row, strict=True))

    def acknowledge(self, request: ClientRequest) -> dict:
        """POST /subscriptions/name."""
        request.check_json()
        example = 'expected {"acknowledge": 41}, with an epoch'
        body = parse_body(request.body, example)
        epoch = body.get("acknowledge") if isinstance(body, dict) else None
        if type(epoch) is not int:
            raise BadRequest(f"the body acknowledges no epoch: {example}")
        with self.session.in_turn():
            self.session.registry.subscribers.acknowledge(self._durable(request), epoch)
        return {"acknowledged": epoch}

    def end(self, request: ClientRequest) -> dict:
        """DELETE /subscriptions/name."""
        called = self._durable(request)
        if called in self.durable:
            self.durable[called]()
        self.session.end_subscription(called)
        return {}

    def _durable(self, asked: ClientRequest) -> str:
        """The name that the session has for a durable subscription of the client. NotFound if it has none."""
        prefix, known = asked.client.prefix, list(self.session.registry.subscribers.histories)
        if prefix + asked.name not in known:
            own = sorted(each.removeprefix(prefix) for each in known if each.startswith(prefix))
            raise NotFound(f"there is no durable subscription {asked.name!r}: there are {', '.join(own) or 'none'}")
        return prefix + asked.name

    # -- names and values

    def _readable(self, client: Client, name: str) -> str:
        """The name of a relation that the client may read, at least in part. NotFound for one that is not there."""
        registry = self.session.registry
        client.check_asks(name, registry)
        registry.check_waiting(name)
        if name not in self.session.declared and name not in registry.rules and not registry.is_system(name):
            raise NotFound(unknown("relation", name, [*self.session.declared, *registry.rules]))
        return name

    def _values(self, client: Client, name: str, texts: dict[str, str]) -> dict:
        """Return the values of parameters, given as text, converted to their types. A $ before a name distinguishes it from an
        option."""
        rules, types = self.session.registry.rules.get(name), {}
        if rules is not None and rules.parameters:
            types = {
                parameter: READ.get(kind, str) for parameter, kind in zip(rules.parameters, rules.relation.kinds, strict=False)
            }
        values: dict[str, Any] = {}
        for parameter, text in texts.items():
            parameter = parameter.removeprefix("$")
            if parameter in values:
                raise BadRequest(f"{parameter} is given twice")
            values[parameter] = _number(text, types.get(parameter, str), parameter)
            if parameter in types:
                client.check_value(parameter, text, types[parameter])
        return values


def _relation_of_query(text: str) -> str | None:
    """The relation of a query that is one atom; None for a body, and for a text that is neither, or long. It is called where
    no other request can go on meanwhile."""
    try:
        if len(text) > MOST_OF_ATOM:
            return None
        asked = parse_query(text)
    except (BadInput, ProgramError):
        return None
    return asked.relation if isinstance(asked, Atom) else None


def _schema_of(relation: Relation) -> dict:
    attributes = [[attribute, type_.name] for attribute, type_ in relation.attributes]
    return {"attributes": attributes, "kinds": [kind.value for kind in relation.kinds]}


def _number(text: str | None, kind: type, what: str):
    """Convert a text to a number of the given type. what: the option, for errors."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise BadRequest(f"{what} is {abbreviated(text)}: expected a number") from None


def _limit(given: dict) -> int:
    """Remove the option `limit`, and return its value."""
    limit = _number(given.pop("limit", str(USUAL)), int, "limit")
    if not 0 <= limit <= MOST_TUPLES:
        raise BadRequest(f"limit is {abbreviated(limit)}: expected a number from 0 to {MOST_TUPLES:,}")
    return limit
