"""What tests of served sessions share: a server in this process, and a client that asks it."""

import contextlib
import http.client
import json
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

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


def until(holds) -> None:
    waiting = threading.Event()
    for _ in range(PATIENCE * 100):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not come to that")


def until_nobody_listens(session) -> None:
    until(lambda: not session.registry.subscribers.active)
