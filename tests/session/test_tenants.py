"""Clients of a server with tokens: each may do what its table says, and sees its own tuples only, whatever others do."""

import contextlib
import json
import os
import re
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import PATIENCE, Client, served
from session_cases import SETTINGS

from semi_naive import BadInput, Program

pytest.importorskip("uvicorn")

from semi_naive.session.served.clients import read_clients  # noqa: E402

TOKENS = {name: f"{name}-0123456789abcdef" for name in ("ann", "bob", "operator")}
TABLES = f"""
[ann]
token = "{TOKENS["ann"]}"
parameters = {{who = [1000], most = "any"}}
reads = ["public"]
writes = ["edge", "public"]
rules = true

[bob]
token = "{TOKENS["bob"]}"
parameters = {{who = [2000]}}
reads = ["public"]
writes = ["edge"]
rules = true

[operator]
token = "{TOKENS["operator"]}"
owner = true
"""
PROGRAM = """
.decl edge(who: number, x: number, y: number)
.input edge
.decl public(x: number)
.input public
.decl seen(x: number)
.output seen
seen(x) :- public(x).
.decl path(who: number, x: number, y: number)
.output path
path(who, x, y) :- edge(who, x, y).
path(who, x, z) :- path(who, x, y), edge(who, y, z).
"""
NEAR = ".decl near(x: number, y: number)\nnear(x, y) :- path($who, x, y)."
RULES = {  # of the operator: each with the parameter who
    "near": NEAR,
    "ends": ".decl ends(y: number)\nends(y) :- path($who, _, y), !edge($who, y, _).",
    "degree": ".decl degree(x: number, n: number)\ndegree(x, n) :- edge($who, x, _), n = count : { path($who, x, _) }.",
    "least": ".decl least(x: number, y: number)\nleast(x, min(y)) :- edge($who, x, y).\nleast(x, min(z)) :- edge($who, x, y), "
             "least(y, z).",
}  # fmt: skip
OWN = {  # of a client: what it may read
    "copy": ".decl {0}(x: number)\n{0}(x) :- public(x).",
    "many": ".decl {0}(x: number, y: number)\n{0}(x, y) :- public(x), public(y), x != $who.\n{0}($who, 1) :- public($who).",
}


@pytest.fixture
def tokens(tmp_path):
    return written(tmp_path / "tokens", TABLES)


def written(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


@contextlib.contextmanager
def tenants(tokens, **more):
    """(the session, a `Client` for each name)"""
    with Program(PROGRAM).session({"edge": [(1000, 1001, 1002), (2000, 2001, 2002)]}, retain=5, **more) as session:
        with served(session, read_clients(str(tokens))) as call:
            yield session, {name: Client(call.port, token) for name, token in TOKENS.items()} | {"nobody": call}


def test_each_client_has_what_its_table_says(tokens):
    with tenants(tokens) as (session, calls):
        ann, bob, operator, nobody = (calls[name] for name in ("ann", "bob", "operator", "nobody"))
        for path in ("/relations", "/query?atom=path(x,y,z)", "/changes/path", "/nothing", "/subscriptions"):
            assert nobody(path)[0] == 401 and Client(ann.port, TOKENS["ann"] + "x")(path)[0] == 401
        assert nobody("/")[0] == 200  # the page, which has no data
        assert operator("/rules/near", NEAR.encode(), "PUT")[0] == 200
        assert [each["name"] for each in ann("/relations")[1]["relations"]] == ["public"]
        assert len(operator("/relations")[1]["relations"]) == 4
        assert ann("/relations/ann__new", b"(x: number)", "PUT")[1] == {"error": "ann may not add relations: an owner may"}
        assert ann("/query?atom=near(x,y)&who=1000")[1]["rows"] == [[1001, 1002]]
        assert ann("/relations/near?who=1000")[1] == {"columns": ["x", "y"], "rows": [[1001, 1002]], "tuples": 1}
        for call, told in {
            "/why/public?row=[1]": "ann may not ask for proofs, which show facts and rules of all clients",
            "/why_not/near?row=[1,2]&who=1000": "ann may not ask for proofs",
            "/explain/public": "ann may not ask for plans",
            "/query?atom=near(x,y)&who=2000": "ann may not give who='2000': it may give 1000",
            "/query?atom=edge(w,x,y)": "ann may not read edge: it may read near, public",
            "/query?atom=/**/edge(w,x,y)": "ann may not read edge",
            "/query?atom=sys.rule(a,b,c)": "ann may not read sys.rule",
            "/relations/path": "ann may not read path", "/differences/edge": "ann may not read edge",
            "/changes/path": "ann may not read path", "/changes/near?who=2000": "ann may not give who='2000'",
            "/relations/no_such_thing": "ann may not read no_such_thing",
            "/changes/sys.subscription": "read /relations/sys.subscription",
        }.items():  # fmt: skip
            status, answer = ann(call)
            assert status == 403 and told in answer["error"], answer
        assert "has the parameters who=…, and none are given" in ann("/relations/near")[1]["error"]
        status, answer = bob("/transactions", [{"insert": "public", "rows": [[1]]}])
        assert status == 403 and "bob may not change facts of public: it may change those of edge" in answer["error"]
        assert session.epoch == 0


def test_a_transaction_tells_its_client_what_is_its_own(tokens):
    with tenants(tokens) as (session, calls):
        ann, bob, operator = calls["ann"], calls["bob"], calls["operator"]
        operator("/rules/near", NEAR.encode(), "PUT")
        insert = [{"insert": "edge", "rows": [[1000, 1002, 1003], [2000, 2002, 2003]]}]
        with bob.events("/changes/near?who=2000") as told, ann.events("/changes/near?who=1000&name=mine") as heard:
            answer = ann("/transactions", insert)[1]
            assert sorted(answer["changes"].pop("near")) == [[1000, 1001, 1003, 1], [1000, 1002, 1003, 1]]
            assert answer == {"epoch": 1, "ignored": 0, "changes": {}}
            assert sorted(told()[1]) == [[2001, 2003, 1], [2002, 2003, 1]] and sorted(heard()[1])[0] == [1001, 1003, 1]
            assert ann("/query?atom=sys.subscription(r,n,p,c)")[1]["rows"] == [["near", "mine", "who=1000", 1]]
            assert ann("/relations/sys.subscription")[1]["rows"] == [["near", "mine", "who=1000", 1]]
            assert operator("/relations/sys.subscription")[1]["tuples"] == 2
            assert ann("/rules")[1] == [{"name": "near", "parameters": ["who"], "subscriptions": 1}]
            assert operator("/rules")[1][0]["subscriptions"] == 3  # ann has a stream, and what is kept for her
            assert "2003" not in json.dumps(ann("/epochs")) and ann("/epochs")[1][0]["changes"] == {}
        until(lambda: not session.registry.subscribers.active)
        answer = operator("/transactions", [{"delete": "edge", "rows": [[2000, 2002, 2003]]}])[1]
        assert set(answer["changes"]) == {"path"}  # an output, whoever subscribes
        assert ann("/differences/near?since=1&until=2&who=1000") == (200, {"epoch": 2, "changes": []})
        told = "near was not evaluated for these parameters at epoch 2: its first use was later"
        assert told in bob("/differences/near?since=0&until=2&who=2000")[1]["error"]


def test_a_durable_subscription_is_its_owners(tokens, tmp_path):
    with tenants(tokens, path=tmp_path / "s") as (session, calls):
        ann, bob, operator = calls["ann"], calls["bob"], calls["operator"]
        operator("/rules/near", NEAR.encode(), "PUT")
        with ann.events("/changes/near?who=1000&name=mine") as told:
            ann("/transactions", [{"insert": "edge", "rows": [[1000, 1, 2]]}])
            assert told() == (1, [[1, 2, 1]])
        ann("/transactions", [{"insert": "edge", "rows": [[1000, 2, 1]]}])
        with ann.events("/changes/near?who=1000&name=mine") as told, ann.events("/changes/near?who=1000&name=mine") as again:
            epoch, rows = again()  # the second stream takes the place of the first, and begins with all that waits
            assert epoch == 2 and sorted(rows) == [[1, 1, 1], [1, 2, 1], [2, 1, 1], [2, 2, 1]]
            with pytest.raises(AssertionError):
                for _ in range(3):
                    told()
        kept = {"name": "mine", "relation": "near", "parameters": {"who": 1000}, "acknowledged": 0, "waiting": 4}
        until(lambda: ann("/subscriptions")[1] == [kept | {"lapsed": False, "connected": False}])
        assert bob("/subscriptions") == (200, [])
        for name, body, method in (
            ("mine", {"acknowledge": 1}, "POST"),
            ("mine", None, "DELETE"),
            ("ann/mine", None, "DELETE"),
        ):
            status, answer = bob(f"/subscriptions/{name}", body, method)
            assert status == 404 and "there are none" in answer["error"]
        for body in (b"{", {"acknowledge": "1"}, {"acknowledge": 9}, [1], {"acknowledge": True}):
            assert ann("/subscriptions/mine", body)[0] == 400
        assert ann("/subscriptions/mine", {"acknowledge": 1})[0] == 200
        assert ann("/subscriptions")[1][0]["waiting"] == 3
        assert "needed by 1 subscription:" in operator("/rules/near", method="DELETE")[1]["error"]
    with tenants(tokens, path=tmp_path / "s") as (session, calls):
        ann, operator = calls["ann"], calls["operator"]
        with ann.events("/changes/near?who=1000&name=mine") as told:
            assert told()[0] == 2
            assert ann("/subscriptions/mine", method="DELETE")[0] == 200
        assert ann("/subscriptions") == (200, []) and not session.registry.subscribers.histories
        assert operator("/rules/near", method="DELETE")[0] == 200


def until(true):
    for _ in range(PATIENCE * 50):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it does not become so")


def test_a_durable_subscription_that_nobody_acknowledges_lapses(tokens, tmp_path, monkeypatch):
    monkeypatch.setattr("semi_naive.session.served.web.MAX_WAITING_TUPLES", 3)
    with tenants(tokens, path=tmp_path / "s") as (session, calls):
        ann, operator = calls["ann"], calls["operator"]
        operator("/rules/near", NEAR.encode(), "PUT")
        with ann.events("/changes/near?who=1000&name=mine"):
            pass
        for x in range(1, 6):
            ann("/transactions", [{"insert": "edge", "rows": [[1000, 10 * x, 10 * x + 1]]}])
        assert not session.registry.subscribers.histories["ann/mine"].epochs
        until(lambda: not session.registry.rules["near"].users)
    with tenants(tokens, path=tmp_path / "s") as (session, calls):
        ann, operator = calls["ann"], calls["operator"]
        status, answer = ann("/changes/near?who=1000&name=mine")
        assert status == 400 and "has lapsed: more than 3 tuples waited" in answer["error"]
        assert ann("/subscriptions")[1][0]["lapsed"]
        assert operator("/rules/near", method="DELETE")[0] == 200
        assert operator("/subscriptions/ann/mine", method="DELETE")[0] == 200


def test_rules_of_clients_read_what_their_clients_may(tokens):
    with tenants(tokens) as (session, calls):
        ann, bob, operator = calls["ann"], calls["bob"], calls["operator"]
        assert ann("/rules/ann__copy", OWN["copy"].format("ann__copy").encode(), "PUT")[0] == 200
        operator("/transactions", [{"insert": "public", "rows": [[7]]}])
        assert ann("/query?atom=ann__copy(x)")[1]["rows"] == [[7]] and "text" in ann("/rules/ann__copy")[1]
        assert bob("/query?atom=ann__copy(x)")[0] == bob("/rules/ann__copy")[0] == 403
        assert bob("/rules/ann__copy", method="DELETE")[0] == 403 and bob("/rules")[1] == []
        operator("/rules/near", b".decl near(x: number)\nnear(x) :- edge($who, x, _).", "PUT")
        for name, text, told in [
            ("copy", OWN["copy"].format("copy"), "copy is no name for rules of ann: these begin with ann__"),
            ("bob__x", OWN["copy"].format("bob__x"), "these begin with ann__"),
            ("ann__x", ".decl ann__x(x: number)\nann__x(x) :- edge(_, x, _).", "ann may not read edge"),
            ("ann__x", ".decl ann__x(x: number)\nann__x(x) :- near(2000, x).", "may not read near, which has parameters"),
            ("ann__x", ".decl ann__x(x: symbol)\nann__x(as(x, symbol)) :- public(x).", "rules of ann may have `as` for float"),
            ("ann__x", ".type P = [x: symbol]\n.comp C { .decl r(p: P)\nr([s]) :- x = 1, as(x, symbol) = s. }\n.init c = C\n"
                       ".decl ann__x(x: symbol)\nann__x(x) :- c.r([x]).", "rules of ann may have `as`"),
        ]:  # fmt: skip
            status, answer = ann(f"/rules/{name}", text.encode(), "PUT")
            assert status == 403 and told in answer["error"], answer
        assert operator("/rules/near", method="DELETE")[0] == 200
        text = ".decl bob__x(x: number) inline\nbob__x(x) :- public(x), x = 4711."
        assert bob("/rules/bob__x", text.encode(), "PUT")[0] == 200
        text = ".decl ann__x(x: number)\nann__x(x) :- bob__x(x)."
        status, answer = ann("/rules/ann__x", text.encode(), "PUT")
        assert status == 403 and "ann may not read bob__x" in answer["error"]
        assert bob("/rules/bob__x", method="DELETE")[0] == 200
        assert sorted(session.registry.rules) == ["ann__copy"]
        for name, field in (("ann__p", "number"), ("ann__q", "symbol")):  # a type has one meaning in a session
            text = f".type P = [x: {field}]\n.decl {name}(p: P)\n{name}(nil) :- public(_)."
            status, answer = ann(f"/rules/{name}", text.encode(), "PUT")
        assert status == 400 and "the rules for ann__p declare another type P" in answer["error"]
        assert ann("/rules/ann__copy", method="DELETE")[0] == 200


def test_an_error_of_a_rule_shows_a_client_no_values(tokens):
    with tenants(tokens) as (session, calls):
        calls["operator"]("/rules/bad", b".decl bad(x: number)\nbad(10 / (x - 2003)) :- edge($who, x, _).", "PUT")
        with calls["bob"].events("/changes/bad?who=2000"):
            status, answer = calls["ann"]("/transactions", [{"insert": "edge", "rows": [[2000, 2003, 1]]}])
            assert status == 400 and "2003" not in answer["error"] and session.epoch == 0
            status, answer = calls["operator"]("/transactions", [{"insert": "edge", "rows": [[2000, 2003, 1]]}])
            assert status == 400 and "division by zero" in answer["error"]


def test_a_stream_of_spark_reads_as_a_client(tokens):
    """Without Spark: what its readers ask of the server."""
    pytest.importorskip("pyspark")
    from semi_naive.session.served.source import ChangesSource

    with tenants(tokens) as (_, calls):
        calls["operator"]("/rules/near", NEAR.encode(), "PUT")
        options = {"url": f"http://127.0.0.1:{calls['ann'].port}", "token": TOKENS["ann"], "relation": "near"}
        source = ChangesSource(options | {"parameters": "who=1000"})
        assert source.schema() == "`x` bigint, `y` bigint, diff int"
        with calls["ann"].events("/changes/near?who=1000"):
            rows, end = source.simpleStreamReader(None).read({"epoch": -1})
            assert (list(rows), end) == ([(1001, 1002, 1)], {"epoch": 0})
        for more, told in (({"parameters": "who=2000"}, "may not give who='2000'"), ({"token": "x"}, "asks for a token")):
            with pytest.raises(ValueError, match=told):
                ChangesSource(options | more).simpleStreamReader(None).read({"epoch": -1})


class Listener:
    """Folds the events of a stream in a thread."""

    def __init__(self, call, path):
        self.rows: set = set()
        self.ended = threading.Event()
        self.context = call.events(path)
        self.next = self.context.__enter__()
        self.seen: list = []
        self.thread = threading.Thread(target=self._fold)
        self.thread.start()

    def _fold(self):
        with contextlib.suppress(Exception):  # the end
            while True:
                _, changes = self.next()
                self.seen.append(changes)
                for *row, _ in changes:
                    self.rows ^= {tuple(row)}

    def close(self):
        self.context.__exit__(None, None, None)
        self.thread.join(PATIENCE)


def foreign(found, own: int) -> list:
    """The numbers of the other client in what was answered."""
    numbers = [int(each) for each in re.findall(r"(?<![\d.])\d{4}(?![\d.])", json.dumps(found))]
    return [each for each in numbers if 1000 <= each < 3000 and each // 1000 != own // 1000]


@settings(max_examples=10, **SETTINGS)
@given(data=st.data())
def test_two_tenants_with_random_rules_never_see_a_row_of_the_other(data, tmp_path_factory):
    tokens = written(tmp_path_factory.mktemp("t") / "tokens", TABLES)
    edges = {1000: {(1001, 1002)}, 2000: {(2001, 2002)}}
    owns, names, listening = {"ann": 1000, "bob": 2000}, ["near", "ends", "degree", "least"], []
    with tenants(tokens) as (session, calls):
        for name in names:
            calls["operator"](f"/rules/{name}", RULES[name].encode(), "PUT")

        def ask(client, *given, **more):
            status, answer = calls[client](*given, **more)
            assert status in (200, 400, 403, 404), answer
            assert status != 200 or not foreign(answer, owns[client]), (client, given, answer)
            return status, answer

        both = data.draw(st.sampled_from(names))
        for client, own in owns.items():
            listening.append((client, both, Listener(calls[client], f"/changes/{both}?snapshot=1&who={own}"), ""))
        for _ in range(data.draw(st.integers(4, 12))):
            client = data.draw(st.sampled_from(["ann", "bob"]))
            own, rule = owns[client], data.draw(st.sampled_from(names))
            variables = ",".join(each for each, _ in session.registry.relation(rule).attributes[1:])
            match data.draw(st.sampled_from(["write", "write", "ask", "look", "listen", "name", "rules", "leave"])):
                case "write":
                    operation, rows = data.draw(st.sampled_from(["insert", "insert", "delete"])), []
                    for who in data.draw(st.sampled_from([[own], [1000, 2000]])):  # a relation may be written as a whole
                        row = (who + data.draw(st.integers(1, 4)), who + data.draw(st.integers(1, 4)))
                        (edges[who].add if operation == "insert" else edges[who].discard)(row)
                        rows.append([who, *row])
                    assert ask(client, "/transactions", [{operation: "edge", "rows": rows}])[0] == 200
                case "ask":
                    assert ask(client, f"/query?atom={rule}({variables})&who={own}")[0] == 200
                    assert ask(client, f"/query?atom={rule}({variables})&who={3000 - own}")[0] == 403
                    assert ask(client, f"/relations/{rule}?who={3000 - own}")[0] == 403
                case "look":
                    for path in (
                        "relations", "rules", "epochs", "subscriptions", "relations/sys.subscription", "relations/path",
                        f"rules/{rule}", f"differences/{rule}?since=-1&who={own}", f"relations/{rule}", "relations/edge",
                        "query?atom=sys.memory(a,b,c)",
                    ):  # fmt: skip
                        ask(client, f"/{path}")
                    assert not any(each["changes"] for each in ask(client, "/epochs")[1])
                case "listen":
                    called = data.draw(st.sampled_from(["", "&name=n"]))
                    with contextlib.suppress(AssertionError):  # the name is one of another relation
                        path = f"/changes/{rule}?snapshot=1&who={own}{called}"
                        listening.append((client, rule, Listener(calls[client], path), called))
                case "name":
                    for method, body in (("DELETE", None), ("POST", {"acknowledge": 0})):
                        ask(
                            client, f"/subscriptions/{data.draw(st.sampled_from(['n', 'ann/n', 'bob/n']))}", body, method=method
                        )
                case "rules":
                    name = f"{data.draw(st.sampled_from(['ann', 'bob']))}__{data.draw(st.sampled_from(sorted(OWN)))}"
                    ask(client, f"/rules/{name}", OWN[name[5:]].format(name).encode(), "PUT")
                    ask(client, f"/query?atom={name}(x)")
                    ask(client, f"/relations/{name}?who={own}")
                case "leave" if listening:
                    listening.pop()[2].close()
        for client, rule, listener, called in listening:
            variables = ",".join(each for each, _ in session.registry.relation(rule).attributes[1:])
            if not called:
                wanted = session.query(f"{rule}({variables})", who=owns[client]).to_set()
                until(lambda listener=listener, wanted=wanted: listener.rows == wanted)
            assert not foreign(listener.seen, owns[client])
        for _, _, listener, _ in listening:
            listener.close()
        for who, rows in edges.items():
            assert session.query(f"edge({who}, x, y)").to_set() == rows


@pytest.mark.parametrize(
    "text, told",
    {
        "": "the token file is empty", "short": "the token has 5 characters: expected 16", "x" * 20 + "ä": "is no bearer token",
        "two words": "neither one token nor TOML", "a = 1\nb = 2\n": "a is no table of a client",
        "[a__b]\ntoken = 'x'\n": "client a__b: expected a name of letters and digits",
        "[a]\nreads = ['e']\n": "the token of a is no bearer token",
        "[a]\ntoken = '0123456789abcdef'\nread = ['e']\n": "there is no key read: expected token, owner, parameters, reads",
        "[a]\ntoken = '0123456789abcdef'\nreads = [1]\n": "reads is [1]: expected a list of names, or \"any\"",
        "[a]\ntoken = '0123456789abcdef'\nparameters = {x = 1}\n": "the parameter x has 1: expected a list",
        "[a]\ntoken = '0123456789abcdef'\nowner = true\nreads = []\n": "an owner may do everything: leave its other keys out",
        "[a]\ntoken = '0123456789abcdef'\n[b]\ntoken = '0123456789abcdef'\n": "two clients have the same token",
    }.items(),
)  # fmt: skip
def test_token_files_that_are_wrong(tmp_path, text, told):
    with pytest.raises(BadInput, match=re.escape(told)):
        read_clients(str(written(tmp_path / "t", text)))


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_a_token_file_is_its_users_alone(tmp_path):
    path = written(tmp_path / "t", "0123456789abcdef0123\n", 0o640)
    with pytest.raises(BadInput, match=r"other users may use the token file \(its mode is 0640\)\n  chmod 600"):
        read_clients(str(path))
    path.chmod(0o400)
    assert read_clients(str(path)).of("Bearer 0123456789abcdef0123").owner
    assert read_clients(str(path)).of("Basic 0123456789abcdef0123") is None
    with pytest.raises(BadInput, match="No such file"):
        read_clients(str(tmp_path / "none"))
