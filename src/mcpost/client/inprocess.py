"""A server in this process, called without a socket and under the same rules.

A request is written as bytes and headers and given to the server's ASGI application; what it sends
is read like any other answer. ASGI is the seam, so this room needs nothing of the server's.

Spec: streamable-http; ASGI 3.0, "HTTP".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from inspect import isawaitable
from typing import Any, Final, Protocol, runtime_checkable

from mcpost.client.answer import AnswerReader
from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.errors import ConnectFailed
from mcpost.limits import ClientLimits
from mcpost.wire.jsonrpc import encode_request

__all__ = ("AsgiApp", "InProcess", "Servable")

_CLOSE_TIME: Final = 5.0

Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


@runtime_checkable
class Servable(Protocol):
    """A server object: it makes an ASGI application of itself."""

    def asgi(self) -> Any:
        """Make the application."""
        ...


class InProcess:
    """The transport to an ASGI application in this process.

    Args:
        app: The application.
        headers: Header lines of every request.
        limits: Bounds.
    """

    mirrors = True

    def __init__(self, app: AsgiApp, *, headers: Mapping[str, str], limits: ClientLimits) -> None:
        self._app = app
        self._limits = limits
        self._open: set[_Visit] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._headers = [
            (b"host", b"localhost"),
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
            *((name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()),
        ]

    @property
    def name(self) -> str:
        """What it leads to: an application is known by its identity."""
        return f"in-process:{id(self._app)}"

    @property
    def open_connections(self) -> int:
        """How many answers are open."""
        return len(self._open)

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Give a request to the application and wait for its response.

        Raises and cancels as `HttpTransport.send`.
        """
        if self._is_closed:
            raise ConnectFailed("the client is closed")
        body = encode_request(out.id, out.method, out.params)
        visit = _Visit(AnswerReader(out.id, self._limits), attempt, body)
        attempt.sending(asyncio.get_running_loop().time())
        self._open.add(visit)
        task = asyncio.ensure_future(self._serve(self._scope(out, body), visit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await visit.wait()
        finally:
            self._open.discard(visit)
            visit.leave()
        reply = visit.reader.result()
        attempt.finish()
        return reply

    async def close(self) -> None:
        """Leave all answers, and wait until the server's work on them has ended."""
        self._is_closed = True
        for visit in list(self._open):
            visit.leave()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=_CLOSE_TIME)
            for task in left:
                task.cancel()

    def _scope(self, out: Outgoing, body: bytes) -> Message:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "root_path": "",
            "headers": [
                *self._headers,
                *((name.lower().encode(), value.encode("latin-1")) for name, value in out.lines),
                (b"content-length", b"%d" % len(body)),
            ],
            "client": None,
            "server": None,
        }

    async def _serve(self, scope: Message, visit: _Visit) -> None:
        try:
            await self._app(scope, visit.receive, visit.send)
        finally:
            visit.end()


class _Visit:
    """One request to an application, and its answer."""

    def __init__(self, reader: AnswerReader, attempt: Attempt, body: bytes) -> None:
        self.reader = reader
        self._attempt = attempt
        self._body: bytes | None = body
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._left = asyncio.Event()

    # The caller's side.

    async def wait(self) -> None:
        """Wait for the outcome; notifications are given to the attempt's hearer meanwhile."""
        reader, hear = self.reader, self._attempt.hear
        while True:
            while reader.notes:
                note = reader.notes.popleft()
                heard = hear(note) if hear is not None else None
                if heard is not None and isawaitable(heard):
                    await heard
            if reader.is_done:
                return
            self._waiter = self._loop.create_future()
            await self._waiter

    def leave(self) -> None:
        """Go away; an application that has not ended hears of it."""
        self.reader.lost("the client was closed")
        self._left.set()
        self._wake()

    def end(self) -> None:
        """The application has returned, or failed."""
        self.reader.lost("the application ended")
        self._wake()

    # The application's side.

    async def receive(self) -> Message:
        """Give the request, then wait until its caller goes away."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a piece of the answer."""
        if self._left.is_set():
            return
        self._attempt.heard(self._loop.time())
        if message["type"] == "http.response.start":
            headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            self.reader.head(message["status"], headers)
            return
        self.reader.body(message.get("body", b""))
        self._attempt.comments = self.reader.comments
        if not message.get("more_body"):
            self.reader.end()
        if self.reader.notes or self.reader.is_done:
            self._wake()
        if len(self.reader.notes) > self.reader.limits.max_notes:
            # As a full socket does: the sender waits for the reader.
            await asyncio.sleep(0)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
