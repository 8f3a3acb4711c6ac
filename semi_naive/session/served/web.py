"""A session over HTTP: transactions and queries as JSON, changes as server-sent events, and a page that shows it all.

GET  /relations                                its relations: name, attributes, tuples, whether facts may be changed
GET  /relations/path?limit=100                 tuples of a relation
PUT  /relations/color                          add a relation of facts; the body is its attributes: (x: number, c: symbol)
POST /transactions                             [{"insert": "edge", "rows": [[1, 2]]}, {"delete": …}, {"clear": "edge"},
                                               {"upsert": "edge", "rows": …, "key": ["x"]}]: one transaction
GET  /query?atom=path(1,y)                     the values of the variables of an atom or a body
GET  /rules, GET /rules/near                   the registered relations; the attributes and rules of one
PUT  /rules/near, DELETE /rules/near           register rules, whose text is the body; unregister them; ?share=true, ?add=true
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
from semi_naive.session.query import all_tuples, answer_of, answers_to_atom, answers_to_rules
from semi_naive.session.registered.bodies import parse_query
from semi_naive.session.registered.rules import Registered
from semi_naive.session.registered.subscriptions import Granularity, Subscription
from semi_naive.session.served.as_json import NOT_SHOWN, all_rows, operations, parse_body, relation_as_json, row_of, schema_of
from semi_naive.session.served.clients import Client, Clients, NotAllowed
from semi_naive.session.served.events import Events, Stream, disconnected
from semi_naive.session.served.requests import (
    Authentication,
    BadRequest,
    BodyTooLarge,
    ClientRequest,
    NotFound,
    parsed,
    pop_limit,
    request_handler,
    routing_error,
)

EPOCHS_ON_PAGE = 200
EVALUATING_THREADS = 8  # for requests that evaluate rules or change the session; those that only read have other threads
MAX_BODY_BYTES = {"POST": 64 << 20, "PUT": 64 << 20}  # by the method of the request
MAX_RULES_BYTES = 1 << 20  # of a text of rules: parsing takes 1.4 s for each 100 KB
RULES_OPTIONS = ("share", "add")  # of `Session.register`
MAX_ATOM_CHARACTERS = 1000  # of a query that is parsed on the event loop, in 10 ms; longer ones count as bodies
MAX_WAITING_TUPLES = 1_000_000  # stored for a durable subscription; with more it lapses
PARSERS = {Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: float}


class Web:
    """The handlers of requests. They run in threads: requests that change the session or evaluate rules run in `evaluating`,
    and wait for each other; others only read, and never wait for these."""

    def __init__(self, session, name: str):
        """name: that of the program."""
        self.session, self.name = session, name
        session.registry.subscribers.max_waiting = MAX_WAITING_TUPLES
        self.evaluating = ThreadPoolExecutor(EVALUATING_THREADS, "semi-naive-evaluating")
        self.end_streams: dict[str, Callable[[], None]] = {}  # functions that end the streams of durable subscriptions, by name

    def app(self, names: set[str], clients: Clients | None = None) -> Starlette:
        """Return the application. names: the names of this host that requests may use. clients: those with tokens; if None,
        every request is treated as one of the owner."""
        handlers: dict[str, dict[str, Callable[[ClientRequest], Any]]] = {
            "/": {"GET": self.page},
            "/relations": {"GET": self.relations},
            "/relations/{name}": {"GET": self.relation, "PUT": self.declare},
            "/query": {"GET": self.query},
            "/differences/{name}": {"GET": self.differences},
            "/why/{name}": {"GET": partial(self.explain_tuple, self.session.why)},
            "/why_not/{name}": {"GET": partial(self.explain_tuple, self.session.why_not)},
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
            Route(path, request_handler(handler, MAX_BODY_BYTES.get(method, 0), self.run_in_thread), methods=[method])
            for path, by_method in handlers.items()
            for method, handler in by_method.items()
        ]
        authentication = Middleware(Authentication, clients=clients or Clients(), names=names)
        app = Starlette(routes=routes, middleware=[authentication], exception_handlers={HTTPException: routing_error})
        app.router.redirect_slashes = False
        return app

    async def run_in_thread(self, request: Request, handler: Callable, *arguments: Any) -> Any:
        """Call the handler of a request in a thread, and return its result. Its evaluation is cancelled when the client
        disconnects, or the server ends. The body of the request must have been read."""
        threads = self.evaluating if self._evaluates(request) else None
        with limits.within() as limit:
            work = asyncio.get_running_loop().run_in_executor(threads, copy_context().run, handler, *arguments)
            disconnect = asyncio.ensure_future(disconnected(request.receive))
            try:
                await asyncio.wait({work, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                disconnect.cancel()
                limit.cancel("its client has left")  # without an effect on work that is done
            return await work

    def _evaluates(self, request: Request) -> bool:
        """True if a request changes the session, or may evaluate rules."""
        _, kind, *_ = request.url.path.split("/")
        if request.method != "GET" or kind in ("changes", "why", "why_not", "explain"):
            return True
        if kind not in ("differences", "query", "relations"):
            return False
        if kind == "query":
            name = _relation_of_query(request.query_params.get("atom", ""))
        else:
            name = request.path_params.get("name")
            if name is None:  # GET /relations, which only lists them
                return False
        known = name in self.session.declared or name in self.session.registry.rules
        return not (name and known and self.session.is_there(name))

    # -- relations

    def page(self, request: ClientRequest) -> Response:
        """GET /: the page that shows the session."""
        text = files("semi_naive.session.served").joinpath("page.html").read_text("utf-8")
        return HTMLResponse(text.replace("{{style}}", style()))

    def relations(self, request: ClientRequest) -> dict:
        """GET /relations."""
        epoch, entries = self.session.at(self.session.epoch), []
        for name, relation in self.session.declared.items():
            if request.client.may_read_all(name, self.session.registry):
                tuples = epoch[name].count() if name in epoch.tables else None  # before its first use
                state = {"tuples": tuples, "changeable": name in self.session.changeable}
                entries.append({"name": name} | schema_of(relation) | state)
        return {"program": self.name, "epoch": epoch.number, "relations": entries}

    def relation(self, request: ClientRequest) -> dict:
        """GET /relations/name."""
        options = request.options()
        limit, name = pop_limit(options), self._check_readable(request.client, request.name)
        values = self._parameter_values(request.client, name, options)
        return relation_as_json(all_tuples(self.session, name, values, request.client.viewer), limit)

    def declare(self, request: ClientRequest) -> dict:
        """PUT /relations/name: the body is the attributes, as (x: number, c: symbol)."""
        if not request.client.owner:
            raise NotAllowed(f"{request.client.name} may not add relations: an owner may")
        self.session.declare(f"{request.name}{_rules_text(request.body)}")
        return {"name": request.name}

    def query(self, request: ClientRequest) -> dict:
        """GET /query."""
        options = request.options()
        text, limit = options.pop("atom", None), pop_limit(options)
        if text is None:
            raise BadRequest("a query has an atom or a body: /query?atom=path(1,y)")
        session, client, query = self.session, request.client, parse_query(text)
        if isinstance(query, Atom):
            values = self._parameter_values(client, self._check_readable(client, query.relation), options)
            return relation_as_json(answers_to_atom(session, query, text, values, client.viewer), limit)
        check = partial(client.check_rules, registry=session.registry)
        with session.limited(), session.in_turn(), session.registry.registered_body(text, check) as name:
            return relation_as_json(answers_to_rules(session, name, self._parameter_values(client, name, options)), limit)

    def differences(self, request: ClientRequest) -> dict:
        """GET /differences/name. Without `since`, the change from an empty relation; without `until`, up to the last epoch."""
        options, name = request.options(), self._check_readable(request.client, request.name)
        since = parsed(options.pop("since", "-1"), int, "since")
        until = parsed(options.pop("until", None), int, "until")
        until = self.session.epoch if until is None else until
        values = self._parameter_values(request.client, name, options)
        self.session.registry.check_given(name, values)  # `between` accepts a relation without values of its parameters
        return {"epoch": until, "changes": all_rows(self.session.between(name, since, until, **values))}

    def explain_tuple(self, method: Callable[..., Any], request: ClientRequest) -> dict:
        """GET /why/name?row=[…] and /why_not/name?row=[…]. method: `Session.why` or `Session.why_not`."""
        request.client.check_owner("proofs")
        options, name = request.options(), self._check_readable(request.client, request.name)
        row = row_of(options.pop("row", ""))
        return {"text": str(method(name, row, **self._parameter_values(request.client, name, options)))}

    def explain(self, request: ClientRequest) -> dict:
        """GET /explain and /explain/name."""
        request.client.check_owner("plans")
        name, options = request.request.path_params.get("name"), request.options()
        changes = options.pop("changes", "") in ("1", "true")
        if options:
            raise BadRequest(f"{next(iter(options))} is no option of a plan: there is changes=1")
        checked = None if name is None else self._check_readable(request.client, name)
        return {"text": self.session.explain(checked, changes)}

    def last_epochs(self, request: ClientRequest) -> list:
        """GET /epochs."""
        may_read, registry, entries = request.client.may_read_all, self.session.registry, []
        for epoch in list(self.session.system.epochs)[-EPOCHS_ON_PAGE:]:
            changes = {name: counts for name, counts in epoch.changes.items() if may_read(name, registry)}
            entries.append({"epoch": epoch.epoch, "at": epoch.at, "seconds": epoch.seconds, "changes": changes})
        return entries

    # -- transactions

    def transactions(self, request: ClientRequest) -> dict:
        """POST /transactions."""
        request.check_json()
        requested = operations(request.body)
        for operation in requested:
            request.client.check_may_write(operation.relation)
            if operation.relation not in self.session.declared:
                may = ", ".join(sorted(self.session.changeable))
                raise NotFound(f"the program has no relation {operation.relation!r}: facts may be changed of {may or 'none'}")
        with self.session.transaction() as transaction:
            for name, relation, rows, key in requested:
                arguments = {"clear": (), "upsert": (rows, key)}.get(name, (rows,))
                getattr(transaction, name)(relation, *arguments)
        sent, left_out = {}, {}
        for name, change in transaction.changes.items():
            if (visible := self._visible_part(request.client, change)) is not None:
                try:
                    sent[name] = all_rows(visible)
                except NOT_SHOWN as error:  # the transaction is committed all the same
                    left_out[name] = str(error)
        answer = {"epoch": transaction.epoch, "ignored": transaction.ignored, "changes": sent}
        return answer | ({"left_out": left_out} if left_out else {})

    def _visible_part(self, client: Client, change: Changes) -> Changes | None:
        """Return the part of a transaction's change that a client may see: that of an output, or of a relation to which it has
        subscribed, with the parameter values of its subscriptions. None if the part is empty."""
        name, registry = change.name, self.session.registry
        subscriptions = [active for active in registry.subscribers.active if active.owner == client.name]
        keys = {subscription.key for subscription in subscriptions if subscription.relation == name}
        if not client.may_read_part(name, registry) or not keys and name not in self.session.program.outputs:
            return None
        of_some_values = keys and () not in keys  # () is the key of a subscription to a relation without parameters
        part = change.with_keys(keys) if of_some_values else change
        return part if part.count() else None

    # -- rules

    def rules(self, request: ClientRequest) -> list:
        """GET /rules."""
        registry, client, entries = self.session.registry, request.client, []
        own = [subscription.relation for subscription in registry.subscribers.active if subscription.owner == client.name]
        for rules in list(registry.rules.values()):
            if client.may_read_part(rules.name, registry):
                users = rules.users if client.owner else own.count(rules.name)
                entries.append({"name": rules.name, "parameters": list(rules.parameters), "subscriptions": users})
        return entries

    def rule(self, request: ClientRequest) -> dict:
        """GET /rules/name."""
        rules = self._registered(self._check_readable(request.client, request.name))
        attributes = rules.relation.attributes[len(rules.parameters) :]
        shape = {"name": rules.name, "parameters": list(rules.parameters)} | schema_of(Relation(rules.name, attributes))
        return shape | ({"text": rules.text} if request.client.owns(rules.name) else {})

    def register(self, request: ClientRequest) -> dict:
        """PUT /rules/name."""
        client, registry = request.client, self.session.registry
        client.check_may_register(request.name)
        known = registry.rules.get(request.name) or registry.waiting.get(request.name)
        text, options = _rules_text(request.body, known.text if known else ""), {}
        for option, value in request.options().items():
            if option not in RULES_OPTIONS or value not in ("true", "false"):
                expected = " and ".join(f"{name}=true or {name}=false" for name in RULES_OPTIONS)
                raise BadRequest(f"the option {option}={abbreviated(value)} of rules is unknown: there is {expected}")
            options[option] = value == "true"
        with self.session.limited(), self.session.in_turn():
            check = None if client.owner else partial(client.check_rules, registry=registry)
            registry.register(request.name, text, check, **options)
        waiting = registry.waiting.get(request.name)
        return {"name": request.name} | ({"waits_for": sorted(waiting.missing)} if waiting else {})

    def unregister(self, request: ClientRequest) -> dict:
        """DELETE /rules/name."""
        request.client.check_may_register(request.name)
        if request.name not in self.session.registry.waiting:
            self._registered(request.name)
        self.session.unregister(request.name)
        return {}

    def _registered(self, name: str) -> Registered:
        """Return registered rules. Raises NotFound if there are none of this name."""
        if name not in self.session.registry.rules:
            raise NotFound(f"{name!r} is not registered")
        return self.session.registry.rules[name]

    # -- subscriptions

    def changes(self, request: ClientRequest) -> Response:
        """GET /changes/name: begin a stream. Its thread waits until the last message has been sent; the changes that are
        committed meanwhile are summed up."""
        parameters, client, name = request.options(), request.client, self._check_readable(request.client, request.name)
        options = {option: parameters.pop(option, None) for option in ("snapshot", "since", "epochs", "seconds", "name")}
        if name in self.session.registry.system_rules and not client.owner:
            raise NotAllowed(f"{client.name} may not subscribe to {name}: read /relations/{name}")
        since = parsed(request.request.headers.get("last-event-id") or options["since"], int, "since")
        epochs, seconds = parsed(options["epochs"] or "1", int, "epochs"), parsed(options["seconds"] or "0", float, "seconds")
        if not seconds <= threading.TIMEOUT_MAX:  # which is not so of NaN either
            raise BadRequest(f"seconds is {seconds}: expected {threading.TIMEOUT_MAX:.0f} at most")
        values, when = self._parameter_values(client, name, parameters), Granularity(epochs, seconds, background=True)
        durable_name = client.prefix + options["name"] if options["name"] else None
        snapshot = options["snapshot"] in ("1", "true")
        subscribe = partial(
            self.session.registry.subscribers.subscribe,
            name, given=values, when=when, snapshot=snapshot, since=since, durable_name=durable_name, owner=client.name,
        )  # fmt: skip
        return self._open_stream(Stream(request.loop), durable_name, subscribe)

    def _open_stream(self, stream: Stream, durable_name: str | None, subscribe: Callable[..., Subscription]) -> Events:
        """Subscribe the stream, and return its events, at whose end the subscription is cancelled. durable_name: the name of a
        durable subscription. subscribe: subscribes a callback."""
        if durable_name in self.end_streams:
            self.end_streams[durable_name]()  # the client has reconnected before the server noticed the end of its old stream
        with self.session.limited(), self.session.in_turn():
            subscription = subscribe(callback=stream.put)

        def end() -> None:
            stream.close()
            subscription.cancel()
            if durable_name and self.end_streams.get(durable_name) is end:
                del self.end_streams[durable_name]

        def delivered_epoch() -> int | None:
            epoch = self.session.epoch  # read first: its changes are passed to subscriptions before it is shown
            return epoch if subscription.idle else None

        if durable_name:
            self.end_streams[durable_name] = end
        return Events(stream, end, delivered_epoch)

    def subscriptions(self, request: ClientRequest) -> list:
        """GET /subscriptions."""
        registry, prefix = self.session.registry, request.client.prefix
        connected = {subscription.name for subscription in registry.subscribers.active}
        histories = list(registry.subscribers.histories.items())
        return [{"name": name.removeprefix(prefix), "relation": history.relation,
                 "parameters": self._parameters(history.relation, history.key), "acknowledged": history.acknowledged,
                 "waiting": history.waiting, "lapsed": history.lapsed, "connected": name in connected}
                for name, history in histories if name.startswith(prefix)]  # fmt: skip

    def _parameters(self, name: str, key: tuple[int, ...]) -> dict[str, Any]:
        """Return the values of a relation's parameters by name. key: the values in 64 bits."""
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
            self.session.registry.subscribers.acknowledge(self._subscription_name(request), epoch)
        return {"acknowledged": epoch}

    def end(self, request: ClientRequest) -> dict:
        """DELETE /subscriptions/name."""
        durable_name = self._subscription_name(request)
        if durable_name in self.end_streams:
            self.end_streams[durable_name]()
        self.session.end_subscription(durable_name)
        return {}

    def _subscription_name(self, request: ClientRequest) -> str:
        """Return the name of the client's durable subscription in the session. Raises NotFound if there is none."""
        prefix, known = request.client.prefix, list(self.session.registry.subscribers.histories)
        if prefix + request.name not in known:
            own = sorted(name.removeprefix(prefix) for name in known if name.startswith(prefix))
            raise NotFound(f"there is no durable subscription {request.name!r}: there are {', '.join(own) or 'none'}")
        return prefix + request.name

    # -- names and values

    def _check_readable(self, client: Client, name: str) -> str:
        """Return the name of a relation. Raises NotAllowed if the client may read no part of it, NotFound if it is unknown."""
        registry = self.session.registry
        client.check_may_read(name, registry)
        registry.check_waiting(name)
        if name not in self.session.declared and name not in registry.rules and name not in registry.system_rules:
            raise NotFound(unknown("relation", name, [*self.session.declared, *registry.rules]))
        return name

    def _parameter_values(self, client: Client, name: str, texts: dict[str, str]) -> dict[str, Any]:
        """Convert the values of a relation's parameters, given as texts, to their types. The keys of `texts` may begin with $,
        which distinguishes them from options. Raises NotAllowed if the client may not give a value."""
        rules, parsers = self.session.registry.rules.get(name), {}
        if rules is not None and rules.parameters:
            typed = zip(rules.parameters, rules.relation.attributes, strict=False)
            parsers = {parameter: PARSERS.get(type_.kind, str) for parameter, (_, type_) in typed}
        values: dict[str, Any] = {}
        for parameter, text in texts.items():
            parameter = parameter.removeprefix("$")
            if parameter in values:
                raise BadRequest(f"{parameter} is given twice")
            values[parameter] = parsed(text, parsers.get(parameter, str), parameter)
            if parameter in parsers:  # `Registry.check_given` refuses any other name for all clients, before it is used
                client.check_value(parameter, text, parsers[parameter])
        return values


def _relation_of_query(text: str) -> str | None:
    """Return the relation of a query that is one atom; None for others, and long ones, as this runs on the event loop."""
    if len(text) > MAX_ATOM_CHARACTERS:
        return None
    try:
        query = parse_query(text)
    except (BadInput, ProgramError):
        return None
    return query.relation if isinstance(query, Atom) else None


def _rules_text(body: bytes, known: str = "") -> str:
    """Return the text of a body. Raises BadRequest if it is no text, or too long together with the rules that are known."""
    if len(body) + len(known) > MAX_RULES_BYTES:
        raise BodyTooLarge(f"the rules have more than {MAX_RULES_BYTES:,} bytes: register them as several relations")
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the rules are not UTF-8: {error.reason} at byte {error.start}") from None
