"""`semi-naive serve`: a session over HTTP, as a program and a browser call it."""

import contextlib
import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest
from session_cases import PATHS

from semi_naive import Program

uvicorn = pytest.importorskip("uvicorn")

PATIENCE = 60


@contextlib.contextmanager
def served(session, clients=None):
    """A client of the session's server, in this process."""
    from semi_naive.session.served.web import Web

    app = Web(session, "p.dl").app({"127.0.0.1"}, clients)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1, lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


class Client:
    def __init__(self, port: int, token: str | None = None):
        self.port, self.own = port, {"authorization": f"Bearer {token}"} if token else {}

    def __call__(self, path: str, body=None, method=None, headers=None):
        """(status, what the JSON says, or the text)."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content-type": "application/json"} | self.own | (headers or {})
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as wrong:
            status, text = wrong.code, wrong.read()
        with contextlib.suppress(ValueError):
            return status, json.loads(text)
        return status, text.decode()

    @contextlib.contextmanager
    def events(self, path: str, **headers):
        """A function that returns the next event's (epoch, changes); of the progress (epoch, None)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", path, headers=self.own | headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.fp.readline()  # the length of the first piece: the subscription is there

        def next_event():
            while not (line := response.fp.readline()).startswith(b"data: "):
                assert line not in (b"", b"0\r\n")  # the connection ends, or the answer does
            told = json.loads(line.removeprefix(b"data: "))
            return told["epoch"], told.get("error", told.get("changes"))

        try:
            yield next_event
        finally:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # another thread may be reading
            connection.close()


@pytest.fixture
def session():
    with Program(PATHS).session({"edge": [(1, 2)]}, retain=3) as session:
        yield session


def test_a_relation_has_no_number_of_tuples_before_its_first_use():
    text = PATHS.replace(".output path", "")
    with Program(text).session({"edge": [(1, 2), (2, 3)]}) as session, served(session) as call:

        def tuples() -> dict:
            return {each["name"]: each["tuples"] for each in call("/relations")[1]["relations"]}

        assert tuples()["path"] is None
        assert call("/query?atom=path(1,y)")[1]["rows"] == [[2], [3]] and tuples()["path"] is None
        assert len(call("/relations/path")[1]["rows"]) == 3 and tuples()["path"] == 3


def test_transactions_and_queries(session):
    with served(session) as call:
        status, told = call(
            "/transactions", [{"insert": "edge", "rows": [[2, 3], [3, 4]]}, {"delete": "edge", "rows": [[9, 9]]}]
        )
        assert status == 200 and told["epoch"] == 1 and told["ignored"] == 1
        assert sorted(told["changes"]["path"]) == [[1, 3, 1], [1, 4, 1], [2, 3, 1], [2, 4, 1], [3, 4, 1]]
        assert call("/query?atom=path(1,y)") == (200, {"columns": ["y"], "rows": [[2], [3], [4]], "tuples": 3})
        assert call("/query?atom=path(1,4)") == (200, {"columns": [], "rows": [[]], "tuples": 1})
        assert call("/query?atom=path(x,y)&limit=1")[1]["tuples"] == 6
        assert len(call("/relations/path?limit=2")[1]["rows"]) == 2
        found = call("/relations")[1]
        assert found["epoch"] == 1 and [each["tuples"] for each in found["relations"]] == [3, 6]
        assert [each["changeable"] for each in found["relations"]] == [True, False]
        call("/transactions", {"operations": [{"upsert": "edge", "rows": [[2, 7]], "key": ["x"]}]})
        assert session["edge"].to_set() == {(1, 2), (2, 7), (3, 4)}
        session.clear("edge")  # who has the session commits, too
        assert session.epoch == 3 and not session["path"].count()
        assert [(each["epoch"], each["changes"]) for each in call("/epochs")[1]] == [
            (1, {"path": [5, 0]}), (2, {"path": [2, 4]}), (3, {"path": [0, 4]})
        ]  # fmt: skip
        status, page = call("/")
        assert status == 200 and "http" not in page.replace("http://www.w3.org", "")  # nothing from elsewhere
        assert "<main>" in page and "prefers-color-scheme: dark" in page and 'createElement("button")' in page


def test_rules_and_their_parameters(session):
    with served(session) as call:
        text = b".decl near(y: number)\nnear(y) :- path($src, y)."
        assert call("/rules/near", text, "PUT") == (200, {"name": "near"})
        assert call("/query?atom=near(y)&src=1")[1]["rows"] == [[2]]
        with call.events("/changes/near?src=1&snapshot=1") as told:
            assert told() == (0, [[2, 1]])
            call("/transactions", [{"insert": "edge", "rows": [[2, 3], [7, 8]]}])
            assert told() == (1, [[3, 1]])
            assert call("/rules")[1] == [{"name": "near", "parameters": ["src"], "subscriptions": 1}]
            assert "needed by 1 subscription:" in call("/rules/near", method="DELETE")[1]["error"]
        call(
            "/transactions", [{"insert": "edge", "rows": [[3, 5]]}]
        )  # a write after which the server knows that nobody listens
        until_nobody_listens(session)
        assert call("/rules/near", method="DELETE")[0] == 200
        assert call("/rules/near", method="DELETE")[0] == 404
        assert call("/rules/two?share=true", b".decl two(y: number)\ntwo(y) :- edge(1, y).", "PUT")[0] == 200
        assert call("/rules/two?add=true", b"two(99).", "PUT")[0] == 200
        assert [99] in call("/query?atom=two(y)")[1]["rows"] and call("/rules/two")[1]["text"].endswith("two(99).")
        told = call("/rules/near2?share=1", text, "PUT")
        assert (
            told[0] == 400
            and "share='1' of rules is unknown: there is share=true or share=false and add=true or add=false"
            in told[1]["error"]
        )
        status, told = call("/rules/bad", b".decl bad(x: number)\nbad(x) :- nothing(x), y > x.", "PUT")
        assert status == 400 and "Undefined relation nothing in file <bad> at line 2" in told["error"]
        waiting = {"name": "bad", "waits_for": ["nothing"]}
        assert call("/rules/bad", b".decl bad(x: number)\nbad(x) :- nothing(x).", "PUT") == (200, waiting)
        status, told = call("/query?atom=bad(x)")
        assert status == 400 and "the rules for bad wait for nothing" in told["error"]
        assert call("/rules/bad", method="DELETE")[0] == 200
        assert call("/query?atom=path(1,y),edge(x,y)")[1]["rows"] == call("/query?atom=path(1,y),edge(x,y).")[1]["rows"] != []
        assert (
            "src is 'a': expected a number"
            in (call("/rules/near", text, "PUT"), call("/query?atom=near(y)&src=a"))[1][1]["error"]
        )


def until(holds) -> None:
    waiting = threading.Event()
    for _ in range(PATIENCE * 100):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not come to that")


def until_nobody_listens(session) -> None:
    until(lambda: not session.registry.subscribers.active)


def test_proofs_and_plans(session):
    with served(session) as client:
        client("/rules/near", b".decl near(y: number)\nnear(y) :- path($src, y).", "PUT")
        client("/transactions", [{"insert": "edge", "rows": [[1, 2], [2, 3]]}])
        assert client("/why/path?row=[1,3]")[1]["text"] == str(session.why("path", (1, 3)))
        assert client("/why_not/path?row=[3,1]")[1]["text"] == str(session.why_not("path", (3, 1)))
        assert client("/why/near?row=[3]&src=1")[1]["text"] == str(session.why("near", (3,), src=1))
        assert client("/explain")[1]["text"] == session.explain() and client("/explain/near")[1]["text"] == session.explain(
            "near"
        )
        assert client("/explain/path?changes=1")[1]["text"] == session.explain("path", changes=True)
        for path, status, told in [
            ("/why/path?row=[3,1]", 400, "is not there; why_not tells"),
            ("/why/path?row=3", 400, "the row is 3; expected ?row="),
            ("/why/path", 400, "the row is no JSON"),
            ("/why/path?row=[1]", 400, "path has 2 attributes"),
            ("/why/path?row=[NaN,1]", 400, "NaN is no JSON"),
            ("/why/no?row=[1]", 404, "'no'"),
            ("/explain/no", 404, "'no'"),
            ("/explain?src=1", 400, "src is no option"),
        ]:
            found, answer = client(path)
            assert found == status and told in answer["error"], answer


def test_a_stream_goes_on_after_an_epoch(session):
    with served(session) as call:
        call("/transactions", [{"insert": "edge", "rows": [[2, 3]]}])
        call("/transactions", [{"insert": "edge", "rows": [[3, 4]]}])
        with call.events("/changes/edge", **{"Last-Event-ID": "1"}) as told:
            assert told() == (2, [[3, 4, 1]])
        with call.events("/changes/edge?since=0") as told:
            assert told() == (2, [[2, 3, 1], [3, 4, 1]])
        assert call("/differences/edge?since=0&until=1") == (200, {"epoch": 1, "changes": [[2, 3, 1]]})
        assert call("/differences/edge")[1] == {"epoch": 2, "changes": [[1, 2, 1], [2, 3, 1], [3, 4, 1]]}
        for _ in range(4):
            call("/transactions", [])
        status, told = call("/changes/edge?since=0")
        assert status == 400 and "epoch 0 is gone: epochs 3 to 6 are kept" in told["error"]


def test_a_stream_without_changes_tells_its_progress(session, monkeypatch):
    monkeypatch.setattr("semi_naive.session.served.events.PROGRESS_SECONDS", 0.05)
    session.register("far", ".decl far(x: number)\nfar(x) :- edge(x, _), x > 100.")
    with served(session) as call:
        with call.events("/changes/far") as told, call.events("/changes/edge?epochs=3") as summed:
            for number in range(2):
                call("/transactions", [{"insert": "edge", "rows": [[number, 7]]}])
            while told() != (2, None):
                pass
            call("/transactions", [{"insert": "edge", "rows": [[200, 7]]}])
            while (said := told())[1] is None:
                assert said[0] == 2  # as long as changes wait, the progress is not beyond them
            assert said == (3, [[200, 1]]) and told() == (3, None)
            found = [summed()]
            while found[-1][1] is None:
                found.append(summed())
            assert found[-1] == (3, [[0, 7, 1], [1, 7, 1], [200, 7, 1]]) and {epoch for epoch, _ in found[:-1]} <= {0}
        for _ in range(9):
            call("/transactions", [])
        with call.events("/changes/edge", **{"Last-Event-ID": "9"}) as told:
            assert told() == (12, None)


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


def test_the_command_has_limits_by_default(run, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(
        "semi_naive.cli.serve.open_session", lambda program, state, options, retain: given.append(options["options"])
    )
    (tmp_path / "p.dl").write_text(PATHS)
    for options in ([], ["--query-seconds", "5", "--query-bytes", "none"]):
        with contextlib.suppress(TypeError, AttributeError):  # of a session that is none
            run("serve", "p.dl", "--port", "0", *options)
    assert given[0]["query_seconds"] == 60 and given[0]["query_bytes"] > 1 << 28
    assert given[1] == {"query_seconds": "5", "query_bytes": "none"}


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_ended_and_keeps_its_state(tmp_path, number):
    (tmp_path / "p.dl").write_text(PATHS)
    command = [sys.executable, "-m", "semi_naive", "serve", "p.dl", "--state", "s", "--port", "0"]
    for epoch in (1, 2):
        child = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        try:
            line = child.stderr.readline()
            assert line.startswith("serving p.dl at http://127.0.0.1:"), line
            call = Client(int(line.rpartition(":")[2]))
            with call.events("/changes/path") as told:
                assert call("/transactions", [{"insert": "edge", "rows": [[epoch, epoch + 1]]}])[1]["epoch"] == epoch
                assert told()[0] == epoch
                child.send_signal(number)
                child.wait(PATIENCE)
        finally:
            child.kill()
            rest = child.communicate()[1]
        assert "Traceback" not in rest and child.returncode in (130, 143), rest


def test_a_port_that_is_taken_and_packages_that_are_missing(run, tmp_path, monkeypatch):
    (tmp_path / "p.dl").write_text(PATHS)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, out, err = run("serve", "p.dl", "--port", taken.getsockname()[1])
        assert status == 2 and f"127.0.0.1, port {taken.getsockname()[1]}: Address already in use\n  --port names" in err
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    status, out, err = run("serve", "p.dl", "--port", 0)
    assert status == 2 and "needs the package uvicorn" in err and "pip install 'semi-naive[serve]'" in err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program and a token."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "token").write_text("0123456789abcdef0123\n")
    (tmp_path / "token").chmod(0o600)
    return tmp_path


def test_an_address_that_others_reach_needs_a_token(run, folder):
    for host in ("0.0.0.0", "::"):
        status, out, err = run("serve", "p.dl", "--port", 0, "--host", host)
        assert status == 2 and f"others can reach {host}, and would be asked for no token\n  --token FILE names" in err
    for options, told in {
        ("--token", "none"): "none: the token file cannot be read: No such file or directory",
        ("--certificate", "token"): "--certificate and --key belong together",
        ("--certificate", "token", "--key", "token"): "token and token cannot be used",
        ("--certificate", "none", "--key", "token"): "none and token cannot be used: No such file or directory",
        ("--sandbox", "none"): "sandbox none does not exist",
    }.items():
        status, out, err = run("serve", "p.dl", "--port", 0, *options)
        assert status == 2 and told in err, err


def test_the_sandbox_of_the_command(run, folder):
    (folder / "box").mkdir()
    (folder / "secret.facts").write_text("1\t2\n")
    (folder / "box" / "p.dl").write_text(PATHS.replace(".input edge", '.input edge(filename="../secret.facts")'))
    status, out, err = run("serve", "box/p.dl", "--port", 0, "-F", "box", "--sandbox", "box")
    assert status == 2 and "secret.facts is outside of the sandbox" in err
    (folder / "box" / "q.dl").write_text('.include "../p.dl"')
    status, out, err = run("session", "box/q.dl", "--sandbox", "box")
    assert status == 1 and '../p.dl" is outside of the sandbox' in err


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_the_command_serves_encrypted_and_asks_for_its_token(folder):
    subject = ["-subj", "/CN=localhost", "-days", "2", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject], check=True, capture_output=True)
    command = [sys.executable, "-m", "semi_naive", "serve", "p.dl", "--host", "0.0.0.0", "--port", "0", "--token", "token"]
    command += ["--certificate", "cert.pem", "--key", "key.pem", "--alias", "facts.example"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = child.stderr.readline()
        assert line.startswith("serving p.dl at https://0.0.0.0:"), line
        encrypted, url = ssl.create_default_context(cafile="cert.pem"), f"https://localhost:{int(line.rpartition(':')[2])}"
        for host, token, status in (
            ("localhost", "0123456789abcdef0123", 200), ("localhost", "0123456789abcdef0124", 401), ("localhost", "", 401),
            ("facts.example", "0123456789abcdef0123", 200), ("elsewhere.example", "0123456789abcdef0123", 400),
        ):  # fmt: skip
            asked = urllib.request.Request(f"{url}/relations", headers={"host": host, "authorization": f"Bearer {token}"})
            try:
                with urllib.request.urlopen(asked, timeout=PATIENCE, context=encrypted) as answer:
                    found = answer.status
            except urllib.error.HTTPError as wrong:
                found = wrong.code
            assert found == status, (host, token)
        child.send_signal(signal.SIGTERM)
        child.wait(PATIENCE)
    finally:
        child.kill()
        rest = child.communicate()[1]
    assert "Traceback" not in rest and child.returncode == 143, rest
