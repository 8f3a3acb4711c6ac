"""The page of a run while it runs: what it serves and when, to whom, and how it ends."""

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import threading
import time

import pytest

from semi_naive import Program, graphs, transitive_closure
from semi_naive.balance.trace import VERSION, Trace
from semi_naive.plots.pages.live import Live, version_of
from semi_naive.plots.pages.rendering import Renderer, answer
from semi_naive.plots.pages.serving import BEGINNING, known_host

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATHS = """
.decl edge(x: number, y: number)
.input edge
.decl half(x: number, y: number)
half(x, y) :- edge(x, y), x < 50.
.decl path(x: number, y: number)
.output path
path(x, y) :- half(x, y).
path(x, z) :- path(x, y), half(y, z), x < 100.
"""


def entry(number: int) -> dict:
    ratios = {"partitions": 1.2, "buckets": 1.2, "subbuckets": 1.2}
    return {"delta": 5, "born": 5, "births": [5], "full": 5 * number, "steps": 1, "phases": [], "seconds": 0.1, "driver": 0.1,
            "loads": [3, 2], "sizes": [[3], [2]], "imbalance": ratios}  # fmt: skip


@pytest.fixture
def trace():
    """The record of a closure that has made one iteration."""
    found = Trace(plan="balanced", reason="asked for", config={}, input={"nodes": 3})
    found.iteration(1, **entry(1))
    return found


@pytest.fixture(scope="module")
def drawing():
    """A process that draws for several tests: starting one takes two seconds."""
    renderer = Renderer()
    end, renderer.close = renderer.close, lambda: None
    yield renderer
    end()


@pytest.fixture
def drawn(monkeypatch, drawing):
    """Whoever is live has its pages drawn by that process."""
    monkeypatch.setattr("semi_naive.plots.pages.live.Renderer", lambda: drawing)


class Client:
    """Somebody who looks."""

    def __init__(self, live: Live, name: str = "me"):
        self.at, self.name = live.server.server_address[:2], name

    def ask(self, path: str, method: str = "GET", **headers):
        """(status, headers, text)."""
        connection = http.client.HTTPConnection(*self.at, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            found = connection.getresponse()
            return found.status, dict(found.getheaders()), found.read().decode()

    def state(self) -> dict:
        return json.loads(self.ask(f"/state?viewer={self.name}")[2])

    def report(self, **headers):
        return self.ask(f"/report?viewer={self.name}", **headers)


def test_a_closure_is_seen_while_it_runs_and_when_it_has_ended(here):
    seen, ended = [], []
    with Live(name="tree.tsv") as live:
        client = Client(live)
        assert client.state() == {"version": "0", "status": "reading", "over": False}
        assert client.report()[2] == BEGINNING

        def progress(iteration, delta, tuples):
            live.say(f"iteration {iteration}")
            if iteration in (1, 4):  # the second is so soon after the first that it may be shown as that was
                seen.append((client.state(), client.report()))

        def look():
            other = Client(live, "another")
            while not ended:
                if other.state()["over"]:
                    ended.append(other.report()[2])
                time.sleep(0.1)

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        options = {"run_ahead": 0, "partitions": 2}
        with transitive_closure(graphs.tree(5), here, "balanced", None, progress, live.watch, **options) as closure:
            pass
    looking.join()
    (state, (status, headers, text)), (later, _) = seen
    assert status == 200 and state["status"] == "iteration 1" and later["status"] == "iteration 4"
    assert later["version"] != state["version"] and headers["ETag"] == f'"{state["version"]}"'
    assert "Transitive closure of tree.tsv" in text and "so far" in text and text.count("<svg") == 7
    assert f"{closure.trace['result']['tuples']:,} pairs" in ended[0] and "so far" not in ended[0]
    with pytest.raises(OSError):
        client.state()


def test_a_program_is_seen_stratum_by_stratum(here):
    looks, records = [], []

    def progress(stratum, number, of, iteration, delta, tuples):
        records.append(looks[0]())

    edges = [(x, x + 1) for x in range(9)]
    options = {"local_tuples": 0, "run_ahead": 0, "plan": "balanced"}
    with Program(PATHS).run({"edge": edges}, here, progress=progress, watch=looks.append, **options) as result:
        last = looks[0]()
    assert len(looks) == 1 and [s["relations"] for s in last["strata"]] == [["half"], ["path"]]
    running = [record["strata"][-1] for record in records if len(record["strata"]) == 2]
    assert [each["plan"] for each in running] == ["running"] * len(running) and len(running) >= 5
    assert [len(each["trace"]["iterations"]) for each in running] == list(range(1, len(running) + 1))
    assert len({version_of(record) for record in [*records, last, result.trace]}) == len(records) + 2
    assert last["strata"] == result.trace["strata"]
    assert all("body" in answer({"record": each, "name": ""}) for each in (records[0], last))


def test_a_program_in_the_driver_is_seen_by_its_iterations():
    looks, records = [], []
    progress = lambda *_: records.append(looks[0]())  # noqa: E731
    edges, blocks = {"edge": [(x, x + 1) for x in range(9)]}, {"small_delta": 0}  # a tuple at a time all would be seen at once
    Program(PATHS).run(edges, progress=progress, watch=looks.append, **blocks).close()
    running = [record["strata"][-1] for record in records if record["strata"][-1]["relations"] == ["path"]]
    assert [each["iteration"] for each in running] == list(range(1, len(running) + 1)) and running[-1]["tuples"] == 45


def waits_for_nobody(*_):
    pytest.fail("The end of the run waits for somebody, and nobody looks.")


def test_nothing_is_drawn_while_nobody_looks(trace, monkeypatch):
    with Live() as live:
        live.watch(trace.so_far)
        monkeypatch.setattr(live.changed, "wait", waits_for_nobody)
    assert live.renderer.process is None


def test_what_has_not_changed_is_not_sent_again(trace, drawn):
    with Live() as live:
        client = Client(live)
        live.watch(trace.so_far)
        _, headers, text = client.report()
        assert client.report(**{"If-None-Match": headers["ETag"]})[::2] == (304, "")
        assert client.report(**{"If-None-Match": '"0"'})[2] == text
        trace.iteration(2, **entry(2))
        live.next_rendering = time.monotonic() + 60
        assert client.report()[2] == text and client.state()["version"] == "2.0"  # too soon to draw it
        live.next_rendering = 0.0
        assert client.report()[1]["ETag"] == '"2.0"'
        client.name = "somebody who has left"
        live.viewers.clear()


def test_the_end_waits_for_those_who_look(trace, drawn):
    with Live() as live:
        client = Client(live)
        live.watch(trace.so_far)
        client.report()
        trace.finish(tuples=77, iterations=1, disk_bytes=0)
        last: list = []
        leaving = threading.Timer(0.7, lambda: last.extend(client.report()))
        leaving.start()
    leaving.join()
    assert last[0] == 200 and "77 pairs" in last[2] and live.over == "The run has ended."


def test_the_end_does_not_wait_for_those_who_left(trace, monkeypatch):
    with Live() as live:
        live.watch(trace.so_far)
        Client(live).state()
        live.viewers = {"me": (time.monotonic() - 60, "0")}
        monkeypatch.setattr(live.changed, "wait", waits_for_nobody)


def test_a_run_that_failed_says_so(trace):
    with pytest.raises(ZeroDivisionError), Live() as live:
        live.watch(trace.so_far)
        raise ZeroDivisionError("division by zero")
    assert live.over == "The run has failed: division by zero" and live.state()["over"]


def test_what_is_served_and_what_is_not(trace):
    with Live(name="<b>") as live:
        client = Client(live)
        status, headers, text = client.ask("/")
        assert 'rel="icon" href="data:' in text and "<h1>" in text, "nothing else is asked for; and it has a heading"
        assert status == 200 and '<script src="live.js"' in text and "&lt;b&gt;: live" in text and "<style>" in text
        assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["Cache-Control"] == "no-store"
        assert client.ask("/live.js")[1]["Content-Type"].startswith("text/javascript")
        assert client.ask("/", "HEAD")[::2] == (200, "")
        for path in ("/etc/passwd", "/../setup.cfg", "/state/"):
            assert client.ask(path)[0] == 404
        assert client.ask("/", "POST")[0] == 501
        live.viewers.clear()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "a b", "127.0.0.1.evil"])
def test_a_page_of_another_name_is_refused(host):
    with Live() as live:
        for path in ("/", "/state", "/report"):
            assert Client(live).ask(path, Host=host)[0] == 403
        assert not live.viewers


def test_names_of_this_machine_are_not():
    for host in ("localhost:1", "ME:80", "127.0.0.1", "[::1]:5", "192.0.2.7:80"):
        assert known_host(host, {"localhost", "me"})


def test_served_on_loopback_unless_told_otherwise():
    with Live() as live:
        assert live.server.server_address[0] == "127.0.0.1" and live.url == f"http://127.0.0.1:{live.server.server_address[1]}/"
    with Live(host="0.0.0.0") as live:
        assert socket.gethostname() in live.url


def test_a_port_that_is_not_to_be_had():
    with Live() as live:
        port = live.server.server_address[1]
        with pytest.raises(ValueError, match=f"cannot serve on 127.0.0.1, port {port}: .*another program listens there"):
            Live(port)
    Live(port).server.server_close()  # free again
    for wrong, host, why in ((70000, "127.0.0.1", "to 65535"), (0, "192.0.2.1", "no such address")):
        with pytest.raises(ValueError, match=why):
            Live(wrong, host)


def test_refused_on_the_command_line_before_any_work(run, tmp_path):
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "e.tsv").write_text("not an edge at all\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments in (["tc", "e.tsv"], ["run", "p.dl"]):
            status, _, errors = run(*arguments, "--live", port)
            assert status == 2 and "another program listens there" in errors and "e.tsv" not in errors
    for port in ("x", "-1", "e.tsv"):
        assert run("tc", "e.tsv", f"--live={port}")[0] == 2


def test_from_the_command_line(run, tmp_path, monkeypatch, drawn):
    (tmp_path / "p.dl").write_text(PATHS)
    (tmp_path / "edge.facts").write_text("1\t2\n2\t3\n")
    found = []

    def watch(live, look):
        found.append(live.url)
        assert Client(live).report()[0] == 200

    monkeypatch.setattr(Live, "watch", watch)
    status, _, errors = run("run", "p.dl", "--live")
    assert status == 0 and f"live: {found[0]}\n" == errors


def test_a_state_that_cannot_be_drawn_is_said_and_the_next_one_is_tried(trace, drawn):
    with Live() as live:
        client, wrong = Client(live), {"version": VERSION, "iterations": [{"iteration": 1}], "events": []}
        live.watch(lambda: wrong)
        assert "This state cannot be shown" in client.report()[2]
        live.watch(trace.so_far)
        trace.iteration(2, **entry(2))
        live.next_rendering = 0.0
        assert "<svg" in client.report()[2]
        live.viewers.clear()


def test_a_process_that_died_is_started_again(trace):
    renderer = Renderer()
    try:
        assert "<svg" in renderer(trace.so_far(), "")
        renderer.process.kill()
        renderer.process.wait()
        assert "<svg" in renderer(trace.so_far(), "")
    finally:
        renderer.close()
    assert renderer.process.poll() is not None


def test_a_copy_of_the_record_stays_as_it_was(trace):
    before, over, wrong = trace.so_far(), threading.Event(), []

    def look():
        while not over.is_set():
            record = trace.so_far()
            wrong.extend(n for n, each in enumerate(record["iterations"], 1) if each["iteration"] != n)
            json.dumps(record)

    watcher = threading.Thread(target=look)
    watcher.start()
    for number in range(2, 400):
        trace.iteration(number, **entry(number))
        trace.event("roll-over", number)
    over.set()
    watcher.join()
    assert not wrong and len(before["iterations"]) == 1 and not before["events"] and len(trace.so_far()["iterations"]) == 399


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_in_a_browser_the_page_renews_itself_and_stays(trace, tmp_path):
    """The run ends once the page has been there for a while: it shows the end, and says that it is one."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
               "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path}",
               "--timeout=20000", "--virtual-time-budget=60000", "--dump-dom"]  # fmt: skip
    with Live(name="seen") as live:
        live.watch(trace.so_far)
        browser = subprocess.Popen([*command, live.url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while not any(version == "1.0" for _, version in live.viewers.values()) and browser.poll() is None:
            time.sleep(0.05)
        trace.finish(tuples=77, iterations=1, disk_bytes=0)
    text = browser.communicate(timeout=60)[0]
    assert "77 pairs" in text and "The run has ended. This page stays as it is." in text and text.count("<svg") == 7
