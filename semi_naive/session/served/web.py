"""A session over HTTP: transactions and queries as JSON, changes as server-sent events, and a page that shows it all.

GET  /relations                                its relations: name, attributes, tuples, whether facts may be changed
GET  /relations/path?limit=100                 tuples of one
POST /transactions                             [{"insert": "edge", "rows": [[1, 2]]}, {"delete": …}, {"clear": "edge"},
                                               {"upsert": "edge", "rows": …, "key": ["x"]}]: one transaction
GET  /query?atom=path(1,y)                     the values of the variables
GET  /rules, GET /rules/near                   registered rules; what one is
PUT  /rules/near, DELETE /rules/near           PUT has their text as its body
GET  /changes/path?snapshot=1                  server-sent events: id is the epoch, data {"epoch", "changes": [[…, diff]]};
                                               since=41 or Last-Event-ID goes on after an epoch that is retained
GET  /changes/path?name=billing                the same, of a durable subscription: it begins with what is not acknowledged
GET  /subscriptions                            the durable subscriptions of the client
POST /subscriptions/billing                    {"acknowledge": 41}
DELETE /subscriptions/billing                  keep nothing more for it
GET  /differences/path?since=3&until=7         the change between two epochs that are retained
GET  /epochs                                   the last epochs: when, how long, and how many tuples came and went

Parameters of registered rules are given as &town=Ulm, or as &$town=Ulm where there is an option of that name.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
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
from semi_naive.io.values.bits import abbreviated
from semi_naive.plots.pages.page import style
from semi_naive.ra.ir import Kind, Relation
from semi_naive.session.contents import Changes
from semi_naive.session.query import answer_of, answers, atom_of, everything
from semi_naive.session.registered.rules import Registered
from semi_naive.session.registered.subscriptions import Granularity, Subscription
from semi_naive.session.served.as_json import MOST_TUPLES, NOT_SHOWN, all_rows, operations, parse_body, relation_as_json
from semi_naive.session.served.clients import Client, Clients, NotAllowed
from semi_naive.session.served.events import Events, Stream, left
from semi_naive.session.served.requests import BadRequest, BodyTooLarge, ClientRequest, Door, NotFound, answered, not_routed

USUAL = 1000  # tuples of a relation, or of an answer, where no limit is asked for
SHOWN = 200  # epochs that the page has
EVALUATING = 8  # requests that evaluate, or wait for each other; readers have threads of their own
MOST_OF_BODY = {"POST": 64 << 20, "PUT": 64 << 20}  # bytes, by the method of a request
MOST_OF_RULES = 1 << 20  # bytes of a text of rules: parsing takes 1.4 s for each 100 KB
MOST_WAITING = 1_000_000  # tuples that are kept for a durable subscription before it lapses
READ = {Kind.NUMBER: int, Kind.UNSIGNED: int, Kind.FLOAT: float}


class Web:
    """The answers. Code that touches the session runs in threads: `evaluating` are those of requests that change the session or
    evaluate rules, which wait for each other; others only read, and never wait for these."""

    def __init__(self, session, name: str):
        self.session, self.name = session, name
        session.registry.most_waiting = MOST_WAITING
        self.evaluating = ThreadPoolExecutor(EVALUATING, "semi-naive-evaluating")
        self.durable: dict[str, Callable[[], None]] = {}  # by their names in the session, what ends the streams

    def app(self, names: set[str], clients: Clients | None = None) -> Starlette:
        """names: of this host, by which requests may call it. clients: those with tokens; None: everyone may do everything."""
        calls: dict[str, dict[str, Callable[[ClientRequest], Any]]] = {
            "/": {"GET": self.page},
            "/relations": {"GET": self.relations},
            "/relations/{name}": {"GET": self.relation},
            "/query": {"GET": self.query},
            "/differences/{name}": {"GET": self.differences},
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
        door = Middleware(Door, clients=clients or Clients(), names=names)
        app = Starlette(routes=routes, middleware=[door], exception_handlers={HTTPException: not_routed})
        app.router.redirect_slashes = False
        return app

    async def run(self, request: Request, call: Callable, *given: Any) -> Any:
        """Call in a thread. Its evaluation ends when the client leaves, or the server ends. The body has been read."""
        with limits.within() as limit:
            here = copy_context()
        threads = self.evaluating if self._evaluates(request) else None
        work = asyncio.get_running_loop().run_in_executor(threads, here.run, call, *given)
        leaving = asyncio.ensure_future(left(request.receive))
        try:
            await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            limit.cancel("its client has left")  # which has no effect on work that is done
        return await work

    def _evaluates(self, request: Request) -> bool:
        """True if a request changes the session, or may evaluate rules; others are for the threads of readers."""
        kind = request.url.path.split("/")[1]
        if request.method == "GET" and kind not in ("changes", "differences", "query", "relations"):
            return False
        name = request.path_params.get("name") or request.query_params.get("atom", "").partition("(")[0].strip()
        known = name in self.session.declared or name in self.session.registry.rules
        return request.method != "GET" or kind == "changes" or bool(name) and not (known and self.session.is_there(name))

    # -- relations

    def page(self, asked: ClientRequest) -> Response:
        text = files("semi_naive.session.served").joinpath("page.html").read_text("utf-8")
        return HTMLResponse(text.replace("{{style}}", style()))

    def relations(self, asked: ClientRequest) -> dict:
        now, found = self.session.at(self.session.epoch), []
        for name, relation in self.session.declared.items():
            if name in now.tables and asked.client.reads_whole(name, self.session.registry):
                known = {"tuples": now[name].count(), "changeable": name in self.session.changeable}
                found.append({"name": name} | _schema_of(relation) | known)
        return {"program": self.name, "epoch": now.number, "relations": found}

    def relation(self, asked: ClientRequest) -> dict:
        given = asked.options()
        limit, name = _limit(given), self._readable(asked.client, asked.name)
        values = self._values(asked.client, name, given)
        return relation_as_json(everything(self.session, name, values, asked.client.viewer), limit)

    def query(self, asked: ClientRequest) -> dict:
        given = asked.options()
        text, limit = given.pop("atom", None), _limit(given)
        if text is None:
            raise BadRequest("a query has an atom: /query?atom=path(1,y)")
        atom = atom_of(text)
        values = self._values(asked.client, self._readable(asked.client, atom.relation), given)
        return relation_as_json(answers(self.session, atom, values, asked.client.viewer), limit)

    def differences(self, asked: ClientRequest) -> dict:
        """since=-1: from when nothing was there. Without until: up to now."""
        given, name = asked.options(), self._readable(asked.client, asked.name)
        since, until = _number(given.pop("since", "-1"), int, "since"), _number(given.pop("until", None), int, "until")
        until = self.session.epoch if until is None else until
        values = self._values(asked.client, name, given)
        self.session.registry.check_given(name, values)  # which may not be left out here
        return {"epoch": until, "changes": all_rows(self.session.between(name, since, until, **values))}

    def last_epochs(self, asked: ClientRequest) -> list:
        reads, registry = asked.client.reads_whole, self.session.registry
        return [{"epoch": each.epoch, "at": each.at, "seconds": each.seconds,
                 "changes": {name: counts for name, counts in each.changes.items() if reads(name, registry)}}
                for each in list(self.session.system.epochs)[-SHOWN:]]  # fmt: skip

    # -- what changes it

    def transactions(self, asked: ClientRequest) -> dict:
        asked.check_json()
        wanted = operations(asked.body)
        for _, relation, _, _ in wanted:
            asked.client.check_writes(relation)
            if relation not in self.session.declared:
                may = ", ".join(sorted(self.session.changeable))
                raise NotFound(f"the program has no relation {relation!r}: facts may be changed of {may or 'none'}")
        with self.session.transaction() as transaction:
            for operation, relation, rows, key in wanted:
                more = {"clear": (), "upsert": (rows, key)}.get(operation, (rows,))
                getattr(transaction, operation)(relation, *more)
        told, left_out = {}, {}
        for name, change in transaction.changes.items():
            if (own := self._own(asked.client, change)) is not None:
                try:
                    told[name] = all_rows(own)
                except NOT_SHOWN as error:  # the transaction stands
                    left_out[name] = str(error)
        answer = {"epoch": transaction.epoch, "ignored": transaction.ignored, "changes": told}
        return answer | ({"left_out": left_out} if left_out else {})

    def _own(self, client: Client, change: Changes) -> Changes | None:
        """What a client is told of a transaction's changes: of outputs, and of relations that it subscribes to itself, with the
        values of parameters that it has given."""
        name, registry = change.name, self.session.registry
        keys = {each.key for each in registry.subscriptions if each.relation == name and each.owner == client.name}
        if not client.asks(name, registry) or not keys and name not in self.session.program.outputs:
            return None
        found = change.beginning(keys) if keys and all(keys) else change
        return found if found.count() else None

    # -- rules

    def rules(self, asked: ClientRequest) -> list:
        registry, client, found = self.session.registry, asked.client, []
        for each in list(registry.rules.values()):
            if client.asks(each.name, registry):
                own = sum(one.relation == each.name for one in registry.subscriptions if one.owner == client.name)
                users = each.users if client.owner else own
                found.append({"name": each.name, "parameters": list(each.parameters), "subscriptions": users})
        return found

    def rule(self, asked: ClientRequest) -> dict:
        rules = self._registered(self._readable(asked.client, asked.name))
        attributes = rules.relation.attributes[len(rules.parameters) :]
        shape = {"name": rules.name, "parameters": list(rules.parameters)} | _schema_of(Relation(rules.name, attributes))
        return shape | ({"text": rules.text} if asked.client.owns(rules.name) else {})

    def register(self, asked: ClientRequest) -> dict:
        client, registry = asked.client, self.session.registry
        client.check_name(asked.name)
        if len(asked.body) > MOST_OF_RULES:
            raise BodyTooLarge(f"the rules have more than {MOST_OF_RULES:,} bytes: register them as several relations")
        try:
            text = asked.body.decode()
        except UnicodeDecodeError as error:
            raise BadRequest(f"the rules are not UTF-8: {error.reason} at byte {error.start}") from None
        with self.session.limited(), self.session.alone():
            registry.register(asked.name, text, lambda rules: client.check_rules(rules, registry))
        return {"name": asked.name}

    def unregister(self, asked: ClientRequest) -> dict:
        asked.client.check_name(asked.name)
        self.session.unregister(self._registered(asked.name).name)
        return {}

    def _registered(self, name: str) -> Registered:
        if name not in self.session.registry.rules:
            raise NotFound(f"{name!r} is not registered")
        return self.session.registry.rules[name]

    # -- who is told

    def changes(self, asked: ClientRequest) -> Response:
        """Begin a stream. Its thread waits until the client has been sent the last message: what comes meanwhile becomes one
        sum."""
        given, client, name = asked.options(), asked.client, self._readable(asked.client, asked.name)
        options = {option: given.pop(option, None) for option in ("snapshot", "since", "epochs", "seconds", "name")}
        if self.session.registry.is_system(name) and not client.owner:
            raise NotAllowed(f"{client.name} may not subscribe to {name}: read /relations/{name}")
        since = _number(asked.request.headers.get("last-event-id") or options["since"], int, "since")
        epochs, seconds = _number(options["epochs"] or "1", int, "epochs"), _number(options["seconds"] or "0", float, "seconds")
        if not seconds <= threading.TIMEOUT_MAX:
            raise BadRequest(f"seconds is {seconds}: expected {threading.TIMEOUT_MAX:.0f} at most")
        values, when = self._values(client, name, given), Granularity(epochs, seconds, background=True)
        called = client.prefix + options["name"] if options["name"] else None
        return self._begun(
            Stream(asked.loop), called,
            lambda put: self.session.registry.subscribe(
                name, put, values, when, options["snapshot"] in ("1", "true"), since, called, client.name
            ),
        )  # fmt: skip

    def _begun(self, stream: Stream, called: str | None, subscribe: Callable[[Callable], Subscription]) -> Events:
        """The events of a subscription, which ends with them."""
        if called in self.durable:
            self.durable[called]()  # the client has come back before its old stream was seen to end
        with self.session.limited(), self.session.alone():
            subscription = subscribe(stream.put)

        def end() -> None:
            stream.close()
            subscription.cancel()
            if called and self.durable.get(called) is end:
                del self.durable[called]

        if called:
            self.durable[called] = end
        return Events(stream, end)

    def subscriptions(self, asked: ClientRequest) -> list:
        registry, prefix = self.session.registry, asked.client.prefix
        connected = {each.name for each in registry.subscriptions}
        return [{"name": called.removeprefix(prefix), "relation": history.relation,
                 "parameters": self._parameters(history.relation, history.key), "acknowledged": history.acknowledged,
                 "waiting": history.waiting, "lapsed": history.lapsed, "connected": called in connected}
                for called, history in list(registry.histories.items()) if called.startswith(prefix)]  # fmt: skip

    def _parameters(self, name: str, key: tuple[int, ...]) -> dict[str, Any]:
        """The parameters of a relation with the values that 64 bits stand for."""
        if not key or name not in self.session.registry.rules:
            return {}
        rules = self.session.registry.rules[name]
        columns = np.array(key, np.int64).reshape(-1, 1)
        [row] = all_rows(answer_of(self.session, Relation(name, rules.relation.attributes[: len(key)]), lambda: columns))
        return dict(zip(rules.parameters, row, strict=True))

    def acknowledge(self, asked: ClientRequest) -> dict:
        asked.check_json()
        example = 'expected {"acknowledge": 41}, with an epoch'
        body = parse_body(asked.body, example)
        epoch = body.get("acknowledge") if isinstance(body, dict) else None
        if type(epoch) is not int:
            raise BadRequest(f"the body acknowledges no epoch: {example}")
        with self.session.alone():
            self.session.registry.acknowledge(self._durable(asked), epoch)
        return {"acknowledged": epoch}

    def end(self, asked: ClientRequest) -> dict:
        called = self._durable(asked)
        if called in self.durable:
            self.durable[called]()
        self.session.end_subscription(called)
        return {}

    def _durable(self, asked: ClientRequest) -> str:
        """The name that the session has for a durable subscription of the client. NotFound if it has none."""
        prefix, known = asked.client.prefix, list(self.session.registry.histories)
        if prefix + asked.name not in known:
            own = sorted(each.removeprefix(prefix) for each in known if each.startswith(prefix))
            raise NotFound(f"there is no durable subscription {asked.name!r}: there are {', '.join(own) or 'none'}")
        return prefix + asked.name

    # -- names and values

    def _readable(self, client: Client, name: str) -> str:
        """The name of a relation that the client may read, at least in part. NotFound for one that is not there."""
        registry = self.session.registry
        client.check_asks(name, registry)
        if name not in self.session.declared and name not in registry.rules and not registry.is_system(name):
            known = ", ".join([*self.session.declared, *registry.rules])
            raise NotFound(f"there is no relation {name!r}: there are {known}")
        return name

    def _values(self, client: Client, name: str, given: dict[str, str]) -> dict:
        """The values of parameters, which are text, by their types. A $ before a name tells it from an option."""
        rules, reading = self.session.registry.rules.get(name), {}
        if rules is not None and rules.parameters:
            reading = {each: READ.get(kind, str) for each, kind in zip(rules.parameters, rules.relation.kinds, strict=False)}
        values: dict[str, Any] = {}
        for each, text in given.items():
            each = each.removeprefix("$")
            if each in values:
                raise BadRequest(f"{each} is given twice")
            values[each] = _number(text, reading.get(each, str), each)
            if each in reading:
                client.check_value(each, text, reading[each])
        return values


def _schema_of(relation: Relation) -> dict:
    attributes = [[attribute, type_.name] for attribute, type_ in relation.attributes]
    return {"attributes": attributes, "kinds": [kind.value for kind in relation.kinds]}


def _number(text: str | None, kind: type, what: str):
    try:
        return None if text is None else kind(text)
    except ValueError:
        raise BadRequest(f"{what} is {abbreviated(text)}: expected a number") from None


def _limit(given: dict) -> int:
    limit = _number(given.pop("limit", str(USUAL)), int, "limit")
    if not 0 <= limit <= MOST_TUPLES:
        raise BadRequest(f"limit is {abbreviated(limit)}: expected a number from 0 to {MOST_TUPLES:,}")
    return limit
