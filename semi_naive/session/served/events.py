"""Server-sent events: the changes of one subscription are sent until its client disconnects or an error occurs."""

import asyncio
import contextlib
import json
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from semi_naive.session.served.as_json import NOT_SHOWN, all_rows

PROGRESS_SECONDS = 15.0  # without a message, after which the progress is sent, so that the connection stays open
CHECK_SECONDS = 0.2  # after which a waiting thread checks again whether its stream has ended


class Stream:
    """A queue of messages from the thread of a subscription to the server's event loop. It has one place: while the client is
    slow, the thread waits, and the subscription sums up the changes."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.loop, self.closed, self.over = loop, False, asyncio.Event()
        self.queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)

    def put(self, changes, epoch: int) -> None:
        """Queue the message of changes: the callback of the subscription. Waits until the message before has been sent."""
        try:
            self._queue_message(f"id: {epoch}", {"epoch": epoch, "changes": all_rows(changes)})
        except NOT_SHOWN as error:
            self._queue_message("event: error", {"epoch": epoch, "error": str(error)})
            self.close()

    def _queue_message(self, head: str, data: dict) -> None:
        """Queue a message. Waits until there is a place in the queue, or the stream is closed."""
        queued = asyncio.run_coroutine_threadsafe(self.queue.put(f"{head}\ndata: {json.dumps(data)}\n\n"), self.loop)
        while not self.closed:
            with contextlib.suppress(TimeoutError):
                return queued.result(CHECK_SECONDS)
        queued.cancel()
        return None

    def close(self) -> None:
        """End the stream after the queued message. Any thread may call it."""
        self.closed = True
        self.loop.call_soon_threadsafe(self.over.set)


class Events(Response):
    """The response that sends the messages of a stream.
    on_end: is called in a thread when the response has ended, also after an error. delivered_epoch: returns the epoch up to
    which all changes have been passed to the stream; None if changes are waiting."""

    media_type = "text/event-stream"

    def __init__(self, stream: Stream, on_end: Callable[[], None], delivered_epoch: Callable[[], int | None]):
        super().__init__(headers={"cache-control": "no-store"})
        del self.headers["content-length"]  # which is not known
        self.stream, self.on_end, self.delivered_epoch = stream, on_end, delivered_epoch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the messages until the client disconnects or the stream is over (the interface of ASGI)."""
        ends = [asyncio.create_task(disconnected(receive)), asyncio.create_task(self.stream.over.wait())]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send(send, ": these are the changes\n\n")
            while (message := await self._next_message(ends)) is not None:
                await _send(send, message)
            await send({"type": "http.response.body", "body": b""})
        except (OSError, asyncio.CancelledError):
            pass  # the client has disconnected, or the server is ending
        finally:
            self.stream.closed = True
            for task in ends:
                task.cancel()
            self.stream.loop.run_in_executor(None, self.on_end)  # not awaited, as a server that ends would cancel it

    async def _next_message(self, ends: list[asyncio.Task]) -> str | None:
        """Return the next message, or the progress if there is none for some time. None when one of `ends` is done."""
        message = asyncio.ensure_future(self.stream.queue.get())
        try:
            done, _ = await asyncio.wait([message, *ends], timeout=PROGRESS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if message in done:
                return message.result()
            return None if done else self._progress()
        finally:
            message.cancel()

    def _progress(self) -> str:
        """Return a message with the last epoch, after which a client that reconnects begins; a comment if changes wait."""
        epoch = self.delivered_epoch()
        if epoch is None or not self.stream.queue.empty():
            return ": still here\n\n"
        return f"event: progress\nid: {epoch}\ndata: {json.dumps({'epoch': epoch})}\n\n"


async def disconnected(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
