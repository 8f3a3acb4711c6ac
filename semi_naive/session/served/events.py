"""Server-sent events: the changes of one subscription are sent until its client disconnects or an error occurs."""

import asyncio
import contextlib
import json
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from semi_naive.session.served.as_json import NOT_SHOWN, all_rows

ALIVE = 15.0  # seconds without a message after which the progress is sent, so that the connection stays open
LOOK = 0.2  # seconds after which a waiting thread checks again whether its stream has ended


class Stream:
    """Passes messages from the thread of a subscription to the server's event loop, one at a time: changes that come while the
    client is slow are summed up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.loop, self.closed, self.over = loop, False, asyncio.Event()
        self.queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)

    def put(self, changes, epoch: int) -> None:
        """Called by the thread of the subscription; returns when the client has been sent the message before."""
        try:
            self._message(f"id: {epoch}", {"epoch": epoch, "changes": all_rows(changes)})
        except NOT_SHOWN as error:
            self._message("event: error", {"epoch": epoch, "error": str(error)})
            self.close()

    def _message(self, head: str, data: dict) -> None:
        """Queue a message, and wait until it has been taken or the stream is closed."""
        message = asyncio.run_coroutine_threadsafe(self.queue.put(f"{head}\ndata: {json.dumps(data)}\n\n"), self.loop)
        while not self.closed:
            with contextlib.suppress(TimeoutError):
                return message.result(LOOK)
        message.cancel()
        return None

    def close(self) -> None:
        """End the stream after the messages that it has; from any thread."""
        self.closed = True
        self.loop.call_soon_threadsafe(self.over.set)


class Events(Response):
    """The response that sends the messages of a stream. However it ends, `ended` is then called in a thread. reached: returns
    the epoch up to which all changes have been passed to the stream; None if some wait."""

    media_type = "text/event-stream"

    def __init__(self, stream: Stream, ended: Callable[[], None], reached: Callable[[], int | None]):
        super().__init__(headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self.stream, self.ended, self.reached = stream, ended, reached

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the messages until the client disconnects or the stream is over."""
        ends = [asyncio.create_task(left(receive)), asyncio.create_task(self.stream.over.wait())]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send(send, ": these are the changes\n\n")
            while (text := await self._next(ends)) is not None:
                await _send(send, text)
            await send({"type": "http.response.body", "body": b""})
        except (OSError, asyncio.CancelledError):
            pass  # the client has left, or the server is being ended
        finally:
            self.stream.closed = True
            for each in ends:
                each.cancel()
            self.stream.loop.run_in_executor(None, self.ended)  # not waited for: a server that is ended cancels that

    async def _next(self, ends: list[asyncio.Task]) -> str | None:
        """The next message, or the progress after some time without one; None at the end."""
        getting = asyncio.ensure_future(self.stream.queue.get())
        try:
            done, _ = await asyncio.wait([getting, *ends], timeout=ALIVE, return_when=asyncio.FIRST_COMPLETED)
            return getting.result() if getting in done else None if done else self._progress()
        finally:
            getting.cancel()

    def _progress(self) -> str:
        """Return a message with the last epoch, so that a client that comes back asks for what is after it; a comment if
        changes wait."""
        epoch = self.reached()
        if epoch is None or not self.stream.queue.empty():
            return ": still here\n\n"
        return f"event: progress\nid: {epoch}\ndata: {json.dumps({'epoch': epoch})}\n\n"


async def left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
