"""The live report of a run: a page on a local port that refreshes itself and ends with the run.

    with Live() as live:
        print(live.url)
        transitive_closure(edges, watch=live.watch)

Without a viewer it costs the run nothing. A viewer's page polls every second: the record is copied (0.1 ms for 2,000
iterations), and if it has grown, a page is rendered by a low-priority process (`plots.pages.rendering`), which takes a third of
one core at most.
"""

import contextlib
import socket
import threading
import time

from semi_naive.plots.pages.page import paragraph
from semi_naive.plots.pages.rendering import Renderer
from semi_naive.plots.pages.serving import BEGINNING, bound_server

LOOPBACK = "127.0.0.1"
MIN_SECONDS_BETWEEN_RENDERINGS = 1.0  # least seconds between renderings; also at least twice the time of the last one
VIEWER_TIMEOUT_SECONDS = 3.0  # seconds after which a viewer that asked every second counts as gone
MAX_SECONDS_WAITING_FOR_VIEWERS = 15.0  # most seconds that the end of the run waits for viewers


class Live:
    """Serves the report of one run. Pass `watch` to the run; `say` shows a line immediately.

    port: 0 for a free one.
    host: the address to serve on; by default only this machine can open the page; at any other address all hosts can, without a
    password.
    name: the run's name.

    Raises ValueError if the address cannot be bound.
    """

    def __init__(self, port: int = 0, host: str = LOOPBACK, name: str = ""):
        self.name, self.status, self.get_record = name, "reading", None  # of the run; see `say` and `watch`
        self.over = ""  # how the run ended, once it has
        self.viewers: dict[str, tuple[float, str]] = {}  # (time of the last request, version) of each viewer
        self.waiting = 0  # viewers whose page is being rendered
        self.body, self.version = BEGINNING, "0"  # the newest rendering
        self.next_rendering = 0.0  # the earliest time of the next one
        # rendering: held while a page is rendered; changed: notified when a viewer has been served, or asks.
        self.rendering, self.changed, self.renderer = threading.Lock(), threading.Condition(), Renderer()
        self.server = bound_server(host, port, self)

    @property
    def url(self) -> str:
        """The page's address. If the server listens on all addresses, it has the machine's name."""
        host, port = self.server.server_address[:2]
        host = socket.gethostname() if host in ("0.0.0.0", "::") else host
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    # -- called by the run

    def watch(self, get_record) -> None:
        """Register a function that returns the record so far; called once by the run."""
        self.get_record = get_record

    def say(self, status: str) -> None:
        """Set the status line of the page."""
        self.status = status

    def __enter__(self) -> "Live":
        """Start the server in a thread."""
        serve, options = self.server.serve_forever, {"poll_interval": 0.1}
        threading.Thread(target=serve, name="live page", kwargs=options, daemon=True).start()
        return self

    def __exit__(self, kind, error, _) -> None:
        """Wait until viewers have seen the end, then stop serving; without viewers, stop at once."""
        self.over = "The run has ended." if kind is None else f"The run has failed: {error or kind.__name__}"
        try:
            deadline = time.monotonic() + MAX_SECONDS_WAITING_FOR_VIEWERS
            with self.changed:
                while self._is_awaited() and time.monotonic() < deadline:
                    self.changed.wait(0.2)
        finally:
            self.server.shutdown()
            self.server.server_close()
            self.renderer.close()

    # -- requests of the page

    def state(self) -> dict:
        """Return the version of the record, the status line, and True if the run is over, without rendering."""
        version = self._version_now(self._record())
        return {"version": version, "status": self.over or self.status, "over": bool(self.over)}

    def report(self) -> tuple[str, str]:
        """Return (version, HTML) of the newest rendering, which is at most about a second old."""
        with self.rendering:
            record, over = self._record(), self.over
            version = self._version_now(record)
            if record is not None and version != self.version and (over or time.monotonic() >= self.next_rendering):
                begun = time.monotonic()
                self.body, self.version = self._rendered(record), version
                self.next_rendering = time.monotonic() + max(MIN_SECONDS_BETWEEN_RENDERINGS, 2 * (time.monotonic() - begun))
            elif record is None:  # the body is still BEGINNING, but the version may tell that the run has ended
                self.version = version
            return self.version, self.body

    def _rendered(self, record: dict) -> str:
        """Return the body of the page of a record. If it cannot be drawn, it shows the error."""
        try:
            return self.renderer(record, self.name)
        except RuntimeError as failed:
            return f'<main id="report">\n{paragraph(f"This state cannot be shown: {failed}")}\n</main>'

    def _record(self) -> dict | None:
        """Return the record of the run so far; None before its first iteration."""
        return self.get_record() if self.get_record else None

    def _version_now(self, record: dict | None) -> str:
        """Return the version of a record, which differs once the run has ended."""
        return version_of(record) + "-end" * bool(self.over)

    def seen(self, viewer: str, version: str | None = None) -> None:
        """Note a request of a viewer, and the version that it has, if any."""
        with self.changed:
            _, last_version = self.viewers.pop(viewer, (0.0, ""))
            recent = time.monotonic() - VIEWER_TIMEOUT_SECONDS
            self.viewers = {name: (seen, had) for name, (seen, had) in self.viewers.items() if seen > recent}
            self.viewers[viewer] = time.monotonic(), last_version if version is None else version
            self.changed.notify_all()

    @contextlib.contextmanager
    def served(self, viewer: str):
        """Yield (version, body) of the report while the block sends it to a viewer, who counts as present until then."""
        with self.changed:
            self.waiting += 1
        try:
            version, body = self.report()
            yield version, body
            self.seen(viewer, version)
        finally:
            with self.changed:
                self.waiting -= 1
                self.changed.notify_all()

    def _is_awaited(self) -> bool:
        """True if a present viewer has not seen the end of the run."""
        recent = time.monotonic() - VIEWER_TIMEOUT_SECONDS
        late = [version for seen, version in self.viewers.values() if seen > recent and not version.endswith("-end")]
        return self.waiting > 0 or bool(late)


def version_of(record: dict | None) -> str:
    """Return a version string that differs for each state of a growing record.

    >>> version_of({"iterations": [{}, {}], "events": []}), version_of({"strata": [{}, {"plan": "running", "iteration": 3}]})
    ('2.0', '2.3')
    """
    if not record:
        return "0"
    if "strata" not in record:
        parts: list[int | str] = [len(record["iterations"]), len(record["events"])]
    else:
        last = record["strata"][-1] if record["strata"] else {}
        parts = [len(record["strata"]), last.get("iteration", "done")]
        parts += [version_of(last["trace"])] if "trace" in last else []
    return ".".join(map(str, parts)) + ".result" * ("result" in record)
