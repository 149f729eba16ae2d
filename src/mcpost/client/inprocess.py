"""A server object in this process, called without a socket and under the same rules.

A request is written as bytes and headers and goes through the server's endpoint; the answer comes
back as bytes and is read like any other. What the endpoint looks like is said here as far as it is
needed, so that this room needs none of the server's.

Spec: streamable-http.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from mcpost.client.answer import AnswerReader
from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.limits import ClientLimits
from mcpost.wire.jsonrpc import encode_request

__all__ = ("InProcess", "Servable")

Lines = Sequence[tuple[bytes, bytes]]


class _Answer(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Lines: ...
    @property
    def body(self) -> bytes: ...


class _Endpoint(Protocol):
    def check_head(self, head: Any) -> _Answer | None: ...
    def begin(self, head: Any, body: bytes, door: Any) -> Coroutine[Any, Any, None] | None: ...


@runtime_checkable
class Servable(Protocol):
    """A server object: it makes an endpoint."""

    name: Any
    limits: Any

    def endpoint(self, settings: Any) -> Any:
        """Make the endpoint."""
        ...


class _Anyone:
    """Allows every origin: there is no web page between two objects of one program."""

    def allows(self, value: bytes) -> bool:
        return True


class _Settings:
    def __init__(self, limits: Any) -> None:
        self.limits = limits
        self.origins = _Anyone()
        self.hosts = None
        self.authenticate = None


class _Head:
    __slots__ = ("headers", "method", "path", "peer", "principal")

    def __init__(self, headers: Lines) -> None:
        self.method = "POST"
        self.path = "/"
        self.headers = headers
        self.peer = None
        self.principal = None

    def values(self, name: bytes) -> list[bytes]:
        return [value for each, value in self.headers if each == name]


class InProcess:
    """The transport to a server object.

    Args:
        server: The server.
        headers: Header lines of every request.
        limits: Bounds.
    """

    mirrors = True

    def __init__(
        self, server: Servable, *, headers: Mapping[str, str], limits: ClientLimits
    ) -> None:
        self._endpoint: _Endpoint = server.endpoint(_Settings(server.limits))
        self._name = f"in-process:{server.name}"
        self._limits = limits
        self._doors: set[_Door] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._headers = [
            (b"host", b"localhost"),
            (b"accept", b"application/json, text/event-stream"),
            (b"content-type", b"application/json"),
            *((name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()),
        ]

    @property
    def name(self) -> str:
        """What it leads to."""
        return self._name

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Give a request to the endpoint and wait for its response; see `HttpTransport.send`."""
        body = encode_request(out.id, out.method, out.params)
        head = _Head(
            [
                *self._headers,
                *((name.lower().encode(), value.encode("latin-1")) for name, value in out.lines),
                (b"content-length", b"%d" % len(body)),
            ]
        )
        reader = AnswerReader(out.id, self._limits)
        loop = asyncio.get_running_loop()
        door = _Door(reader, attempt, loop)
        attempt.sending(loop.time())
        self._doors.add(door)
        task: asyncio.Task[None] | None = None
        try:
            refusal = self._endpoint.check_head(head)
            if refusal is not None:
                door.answer(refusal)
            else:
                rest = self._endpoint.begin(head, body, door)
                if rest is not None:
                    task = asyncio.ensure_future(rest)
                    self._tasks.add(task)
                    task.add_done_callback(self._ended)
            await door.wait()
        finally:
            self._doors.discard(door)
            door.leave()
        reply = reader.result()
        attempt.finish()
        return reply

    async def close(self) -> None:
        """Leave all answers, and wait until the server's work on them has ended."""
        for door in list(self._doors):
            door.leave()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a server in process failed", "exception": task.exception()}
            )


class _Door:
    """Takes what the endpoint says, and gives it to the reader in the loop's next turn."""

    def __init__(
        self, reader: AnswerReader, attempt: Attempt, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._reader = reader
        self._attempt = attempt
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._gone: Callable[[], None] | None = None
        self._has_left = False
        self._is_over = False

    # The caller's side.

    async def wait(self) -> None:
        """Wait for the outcome; notifications are given to the attempt's hearer meanwhile."""
        reader, hear = self._reader, self._attempt.hear
        while True:
            while reader.notes:
                note = reader.notes.popleft()
                heard = hear(note) if hear is not None else None
                if heard is not None:
                    await heard
            if reader.is_done:
                return
            self._waiter = self._loop.create_future()
            await self._waiter

    def leave(self) -> None:
        """Go away; a server that has not ended hears of it."""
        if self._has_left:
            return
        self._has_left = True
        self._reader.lost("the client was closed")
        self._wake()
        if not self._is_over and self._gone is not None:
            self._gone()

    # The endpoint's side.

    def answer(self, answer: _Answer) -> None:
        """Take a whole answer."""
        self.start(answer.status, answer.headers)
        self.write(answer.body)
        self.end()

    def start(self, status: int, headers: Lines) -> None:
        """Take the head."""
        self._heard()
        self._reader.head(status, list(headers))

    def write(self, chunk: bytes) -> None:
        """Take a piece of the body."""
        if self._has_left:
            return
        self._heard()
        self._reader.body(chunk)
        self._attempt.comments = self._reader.comments
        if self._reader.notes or self._reader.is_done:
            self._wake()

    def end(self) -> None:
        """Take the end."""
        self._is_over = True
        self._reader.end()
        self._wake()

    def abort(self) -> None:
        """Take the loss of the answer."""
        self._is_over = True
        self._reader.lost("the server cut the answer")
        self._wake()

    def pending(self) -> int:
        """Bytes that wait to be taken: about one notification each is all that can wait."""
        return 256 * len(self._reader.notes)

    def watch(self, gone: Callable[[], None]) -> None:
        """Call when the caller has left."""
        self._gone = gone
        if self._has_left:
            gone()

    def _heard(self) -> None:
        if not self._has_left:
            self._attempt.heard(self._loop.time())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
