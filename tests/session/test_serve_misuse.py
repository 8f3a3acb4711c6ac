"""Requests to a served session that are wrong, too large, or left in the middle."""

import contextlib
import socket

import pytest
from serving import PATIENCE, served, until, until_nobody_listens
from session_cases import PATHS

from semi_naive import Program

TYPED = """
.type List = [head: number, tail: List]
.type Text = [text: symbol, weight: float]
.decl number(x: number)
.input number
.decl list(x: List)
.input list
.output list
.decl text(x: Text)
.input text
.output text
.decl weight(x: float)
.input weight
"""
DEEP = b"[1, " * 290 + b"null" + b"]" * 290


def test_a_request_that_is_odd_is_an_error_and_no_failure(capfd):
    """The status of none is 500, no traceback is in the log, and the server goes on."""
    with Program(TYPED).session({"number": [(7_000_000,)]}, retain=1) as session, served(session) as call:
        rows = b'[{"insert": "%s", "rows": [[%s]]}]'
        for body, told in {
            b"[" * 5000 + b"]" * 5000: "nested too deeply", rows % (b"list", b"[1, " * 400 + b"1" + b"]" * 400): "300 levels",
            rows % (b"weight", b"1e400"): "1e400 is out of range of float", rows % (b"weight", b"NaN"): "NaN is no JSON",
            rows % (b"weight", b"-Infinity"): "-Infinity is no JSON", rows % (b"number", b"1" * 9999): "is no JSON",
            rows % (b"number", b"18446744073709551616"): "out of range of number", b"\xff": "is no JSON",
            b'[{"upsert": "number", "rows": [[1]], "key": {"x": 1}}]': "no list of attributes",
        }.items():  # fmt: skip
            status, answer = call("/transactions", body)
            assert status == 400 and told in answer["error"], answer
        for kind in ("symbol", "List"):
            text = f".decl made{kind}(x: {kind})\nmade{kind}(as(x, {kind})) :- number(x)."
            assert call(f"/rules/made{kind}", text.encode(), "PUT")[0] == 200
            for path in (f"/query?atom=made{kind}(x)", f"/relations/made{kind}"):
                assert "7000000 is not the id of any" in call(path)[1]["error"]
        assert "7000000 is not the id" in call("/query?atom=madeList([x,y])")[1]["error"]
        with call.events("/changes/madesymbol") as told:
            status, answer = call("/transactions", [{"insert": "number", "rows": [[8000000]]}])
            assert status == 200 and answer["left_out"] == {"madesymbol": "8000000 is not the id of any symbol here"}
            assert told() == (1, "8000000 is not the id of any symbol here")
        for path, status, told in [
            ("/relations/number?limit=100000000000000000000", 400, "limit is 100000000000000000000: expected"),
            ("/relations/number?limit=-1", 400, "from 0 to 1,000,000"), (f"/relations/number?limit={'1' * 5000}", 400, "limit"),
            ("/query?atom=number(x)&self=1", 400, "number has no parameters, and self is given"),
            ("/changes/number?callback=1", 400, "callback is given"), ("/changes/number?seconds=inf", 400, "seconds is inf"),
            ("/changes/number?seconds=nan", 400, "seconds is nan"), ("/query?atom=number(x)&limit=1&limit=2", 400, "twice"),
            ("/query?atom=" + "f(" * 3000, 400, ""), ("/differences/number?since=1&until=0", 400, "is before epoch 1"),
            ("/nothing", 404, "GET /nothing: there is no such address"), ("/subscriptions", 200, "[]"),
            ("/query?atom=nothing(x)", 404, "unknown relation 'nothing'"), ("/rules/number", 404, "is not registered"),
        ]:  # fmt: skip
            found, answer = call(path)
            assert found == status and told in str(answer), (path, answer)
        for name in ("sys.epoch", "madesymbol", "nothing"):
            status, answer = call("/transactions", [{"clear": name}])
            assert status == 404 and "facts may be changed of list, number, text, weight" in answer["error"]
        assert call("/relations/number", b"", "POST") == (405, {"error": "POST /relations/number: Method Not Allowed"})
        for address in ("/relations", "/changes/number"):
            for name, value in {"origin": "http://elsewhere.example", "sec-fetch-site": "cross-site"}.items():
                assert call(address, headers={name: value})[0] == 403
        assert call("/relations", headers={"origin": f"http://127.0.0.1:{call.port}"})[0] == 200
        assert session.epoch == 1 and call("/relations/number")[1]["tuples"] == 2
    assert "Traceback" not in capfd.readouterr().err


def test_records_are_lists_at_any_depth():
    with Program(TYPED).session() as session, served(session) as call:
        body = b'[{"insert": "list", "rows": [[%s]]}, {"insert": "text", "rows": [[["a", 0.5]]]}]' % DEEP
        answer = call("/transactions", body)[1]
        assert answer["changes"]["text"] == [[["a", 0.5], 1]] and len(answer["changes"]["list"]) == 1
        session.insert("text", [(("b", float("inf")),)])
        assert sorted(call("/relations/text")[1]["rows"]) == [[["a", 0.5]], [["b", "inf"]]]


def test_bodies_and_answers_have_limits(session, monkeypatch, capfd):
    monkeypatch.setattr("semi_naive.session.served.web.MAX_BODY_BYTES", {"POST": 200, "PUT": 3000})
    monkeypatch.setattr("semi_naive.session.served.web.MAX_RULES_BYTES", 2000)
    monkeypatch.setattr("semi_naive.session.served.as_json.MAX_TUPLES", 5)
    monkeypatch.setattr("semi_naive.session.served.as_json.MAX_CHARACTERS", 100)
    with served(session) as call:
        long = b".decl r(x: number) // " + b"x" * 2500
        for path, body, method in (
            ("/transactions", b" " * 300, "POST"),
            ("/rules/r", long, "PUT"),
            ("/rules/r", long * 2, "PUT"),
        ):
            status, answer = call(path, body, method)
            assert status == 413 and "bytes" in answer["error"], answer
        status, answer = call("/transactions", [{"insert": "edge", "rows": [[2, 3], [3, 4], [4, 5]]}])
        assert (status, answer["changes"]) == (200, {}) and session.epoch == 1
        assert answer["left_out"] == {"path": "9 tuples are more than one answer has, 5"}
        assert "more than one answer has" in call("/differences/path")[1]["error"]
        assert call("/relations/path?limit=5")[0] == 200
        status, answer = call("/relations/path?limit=7")
        assert status == 400 and "more than 100 characters: ask for fewer tuples" in answer["error"]
        with call.events("/changes/path?snapshot=1") as told:
            assert told() == (1, "10 tuples are more than one answer has, 5")
            with pytest.raises(AssertionError):
                told()
        until_nobody_listens(session)
    assert "Traceback" not in capfd.readouterr().err


def test_a_client_that_leaves_in_the_middle(session, capfd):
    """Of its body, and before its answer: nothing is changed, or all; and nothing stays subscribed."""
    with served(session) as call:
        body = b'[{"insert": "edge", "rows": [[5, 6]]}]'
        head = b"%s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        post = head % b"POST /transactions" + b"content-length: %d\r\n\r\n" % len(body)
        for text in (post + body[:9], head % b"GET /changes/path" + b"\r\n", post[:40], head % b"GET /relations" + b"\r\n"):
            with socket.create_connection(("127.0.0.1", call.port)) as leaving:
                leaving.sendall(text)
        assert call("/relations")[1]["epoch"] == 0
        until_nobody_listens(session)
    assert "Traceback" not in capfd.readouterr().err


def test_floats_that_json_has_not(tmp_path):
    with Program(".decl a(x: float)\n.input a\n").session({"a": [(float("inf"),), (1.5,)]}) as session, served(session) as call:
        assert call("/relations/a")[1]["rows"] == [[1.5], ["inf"]]


def test_requests_that_are_wrong(session):
    with served(session) as call:
        for body, told in {
            b"{": "the body is no JSON", b"3": "the body is int", b"[1]": "operation 0 names neither insert",
            b'[{"insert": "edge", "rows": 3}]': "the rows of operation 0 are no list",
            b'[{"upsert": "edge", "rows": [[1, 2]]}]': "an upsert without a key",
            b'[{"insert": "edge", "rows": [["a", 2]]}]': "is not a number",
            b'[{"insert": "path", "rows": [[1, 2]]}]': "path cannot be changed",
        }.items():  # fmt: skip
            status, answer = call("/transactions", body)
            assert status == 400 and told in answer["error"], answer
        assert call("/transactions", [{"insert": "nope", "rows": []}])[0] == 404
        assert call("/transactions", b"[]", headers={"content-type": "text/plain"})[0] == 400  # as any page could send it
        assert call("/relations", headers={"host": "elsewhere.example"})[0] == 400
        for path in ("/query", "/query?atom=path(1", "/query?atom=path(x,y)&limit=a", "/changes/edge?since=x"):
            assert call(path)[0] == 400, path
        assert call("/relations/nope")[0] == call("/changes/nope")[0] == call("/nothing")[0] == 404
        assert session.epoch == 0 and not session.registry.subscribers.active


ENDLESS = b".decl big(n: number)\nbig(x) :- edge(x, _).\nbig(n + 1) :- big(n), n < 1000000000000."


@contextlib.contextmanager
def asking(call, path: str):
    """A client that asks, and leaves at the end of the block without an answer."""
    with socket.create_connection(("127.0.0.1", call.port), timeout=PATIENCE) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        yield


def test_what_is_evaluated_ends_when_its_client_leaves_and_readers_never_wait(session):
    """Without a limit of time: more clients than there are threads ask for what never ends, and leave."""
    with served(session) as call:
        call("/rules/big", ENDLESS, "PUT")
        with contextlib.ExitStack() as clients:
            for path in ["/query?atom=big(n)", "/changes/big"] * 6:
                clients.enter_context(asking(call, path))
            until(lambda: session.turns.last is not None)
            assert call("/query?atom=path(1,y)")[1]["rows"] == [[2]]
            assert call("/relations")[0] == call("/rules")[0] == call("/relations/edge")[0] == 200
        assert call("/transactions", [{"insert": "edge", "rows": [[2, 3]]}])[1]["epoch"] == 1
        assert not session.registry.rules["big"].users


def test_limits_of_the_server():
    with Program(PATHS).session({"edge": [(1, 2)]}, query_seconds=0.3) as session, served(session) as call:
        call("/rules/big", ENDLESS, "PUT")
        for path in ("/query?atom=big(n)", "/changes/big"):
            status, told = call(path)
            assert status == 503 and "in the rule at <big>:3:1" in told["error"] and "query_seconds" in told["error"]
        assert call("/transactions", [{"insert": "edge", "rows": [[2, 3]]}])[0] == 200
