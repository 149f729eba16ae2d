"""The door for ASGI servers: one application, mounted anywhere, with nothing to wire up.

It needs no lifespan (and answers that protocol where it is the root), takes its path with and
without a slash at the end and never redirects. A call costs no task: the server's own task of the
request runs it. What a stream has to say is sent by a task that lives while there is something to
send; an idle stream has none.

Spec: ASGI 3.0 "HTTP & WebSocket"; streamable-http (T-01, T-07, T-10, T-15).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from types import CoroutineType
from typing import Any, Final, Protocol

from mcpost.errors import UsageError
from mcpost.server import refusals
from mcpost.server.endpoint import Endpoint
from mcpost.server.head import JSON, Answer, Head, HeaderLines
from mcpost.server.work import resume

__all__ = ("AsgiApp", "mount")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_ONE_AT_A_TIME: Final = ("1.0", "1.1")
"""Versions of HTTP with one exchange at a time on a connection."""


class AsgiApp:
    """An endpoint as an ASGI application.

    Args:
        endpoint: The rules.
        path: Where it answers, below `root_path`; `None` answers at every path.

    Raises:
        UsageError: The path does not start with a slash.
    """

    def __init__(self, endpoint: Endpoint, path: str | None = None) -> None:
        if path is not None and not path.startswith("/"):
            raise UsageError(f'a path starts with a slash: "/{path}"')
        self.endpoint = endpoint
        self._paths = (
            None if path is None else frozenset({path.rstrip("/"), f"{path.rstrip('/')}/"})
        )

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._serve_other(scope["type"], receive, send)
            return
        door = AsgiDoor(receive, send)
        rest = self._begin(scope, door)
        if rest is not None:
            await rest
        answer = door.close()
        if answer is None:
            await self._finish(door)
            return
        status, headers, body = answer
        if status >= 400 and scope.get("http_version", "1.1") not in _ONE_AT_A_TIME:
            # HTTP/2 forbids lines about the connection (RFC 9113, 8.2.2).
            headers = tuple(line for line in headers if line[0] != b"connection")
        try:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        except OSError:
            # Servers may say so when the peer has left (ASGI 2.4).
            return

    async def _finish(self, door: AsgiDoor) -> None:
        """Send what is left of a stream, or hold it as long as it lasts."""
        try:
            await door.finish()
        except asyncio.CancelledError:
            # A server that shuts down takes its tasks back. A listen can still end well.
            if not self.endpoint.end_listen(door):
                door.leave()
                raise
            await door.finish()

    async def drain(self, grace: float | None = None) -> None:
        """End what is open on this loop, as at a shutdown.

        Args:
            grace: Seconds that running calls get; `ServerLimits.drain_grace` if `None`.
        """
        await self.endpoint.drain(
            self.endpoint.settings.limits.drain_grace if grace is None else grace
        )

    def _begin(
        self, scope: MutableMapping[str, Any], door: AsgiDoor
    ) -> Coroutine[Any, Any, None] | None:
        """Do what can be done without waiting: where the whole body is there, that is all."""
        path = scope["path"]
        if (self._paths is not None and path not in self._paths) or scope.get("root_path"):
            path = _route_path(scope)
            if self._paths is not None and path not in self._paths:
                door.answer(refusals.NOT_FOUND)
                return None
        client = scope.get("client")
        head = Head(scope["method"], path, scope["headers"], client[0] if client else None)
        endpoint = self.endpoint
        if endpoint.authenticates:
            return self._begin_known(head, door)
        refusal = endpoint.check_head(head)
        if refusal is not None:
            door.answer(refusal)
            return None
        message = door.receive()
        if type(message) is not CoroutineType:
            return self._begin_slowly(head, message, door)
        try:
            waited_for = message.send(None)
        except StopIteration as stop:
            first: Message = stop.value
            if not first.get("more_body") and first["type"] == "http.request":
                body: bytes = first.get("body", b"")
                if len(body) <= endpoint.settings.limits.max_body:
                    return endpoint.begin(head, body, door)
            return self._begin_slowly(head, _given(first), door)
        return self._begin_slowly(head, resume(message, waited_for), door)

    async def _begin_known(self, head: Head, door: AsgiDoor) -> None:
        """Begin where callers have to say who they are."""
        refusal = await self.endpoint.check_caller(head)
        if refusal is not None:
            door.answer(refusal)
            return
        await self._begin_slowly(head, door.receive(), door)

    async def _begin_slowly(self, head: Head, first: Awaitable[Message], door: AsgiDoor) -> None:
        """Read a body that comes in its time, and begin."""
        body = await self._read_body(head, first, door.receive)
        if isinstance(body, bytes):
            rest = self.endpoint.begin(head, body, door)
            if rest is not None:
                await rest
        elif body is not None:
            door.answer(body)

    async def _read_body(
        self, head: Head, first: Awaitable[Message], receive: Receive
    ) -> bytes | Answer | None:
        """Read the body, or tell what to answer instead; `None` if the peer left meanwhile."""
        limits = self.endpoint.settings.limits
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(limits.body_timeout):
                message = await first
                while message["type"] == "http.request":
                    part: bytes = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > limits.max_body:
                        return _with_lines(self.endpoint.too_large, head)
                    if not message.get("more_body", False):
                        return b"".join(parts)
                    message = await receive()
        except TimeoutError:
            return _with_lines(refusals.SLOW_BODY, head)
        return None

    async def _serve_other(self, kind: str, receive: Receive, send: Send) -> None:
        if kind == "lifespan":
            while True:
                message = await receive()
                if message["type"] == "lifespan.startup":
                    await send({"type": "lifespan.startup.complete"})
                elif message["type"] == "lifespan.shutdown":
                    await self.drain()
                    await send({"type": "lifespan.shutdown.complete"})
                    return
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000, "reason": "POST is spoken here"})


class AsgiDoor:
    """What one ASGI request can do for its answer.

    Args:
        receive: The request's `receive`.
        send: Its `send`.
    """

    # Without slots, since most of this is for streams, and most answers are none.
    _answer: tuple[int, HeaderLines, bytes] | None = None
    _start: Message | None = None
    _streams = False
    _chunks: list[bytes]
    _size = 0
    _ended = False
    _closed = False
    """Whether the peer has left, or is cut off: nothing more is sent."""
    _gone: Callable[[], None] | None = None
    _holder: asyncio.Task[Any] | None = None
    _pump: asyncio.Task[None] | None = None
    _watcher: asyncio.Task[None] | asyncio.Handle | None = None

    in_task = True

    def __init__(self, receive: Receive, send: Send) -> None:
        self.receive = receive
        self._send = send

    def answer(self, answer: Answer) -> None:
        """Take the whole answer; `finish` sends it."""
        self._answer = answer

    def answer_json(self, status: int, body: bytes, lines: HeaderLines) -> None:
        """Take the whole answer, an object of JSON."""
        # A plain tuple: making another kind of it for every answer costs more than it says.
        self._answer = status, (JSON, (b"content-length", b"%d" % len(body)), *lines), body

    def start(self, status: int, headers: HeaderLines) -> None:
        """Take the head of a stream; it goes out with the first piece."""
        self._streams = True
        self._chunks = []
        self._start = {"type": "http.response.start", "status": status, "headers": headers}

    def write(self, chunk: bytes) -> None:
        """Take a piece of the stream; what comes in one turn of the loop is sent as one."""
        if self._closed:
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        if self._pump is not None or self._ended:
            return
        pump = self._send_waiting()
        if self._start is not None and asyncio.current_task() is not None:
            # The first word is not kept until the handler waits: most servers take it at once.
            try:
                waited_for = pump.send(None)
            except StopIteration:
                return
            pump = _go_on(pump, waited_for)
        self._pump = asyncio.get_running_loop().create_task(pump)

    def end(self) -> None:
        """Take the end of the stream; `finish` sends it."""
        self._ended = True
        self._release()

    def abort(self) -> None:
        """Throw away what waits; a server cuts a response that its application leaves undone."""
        self._closed = True
        if self._streams:
            self._chunks.clear()
        self._size = 0
        if self._pump is not None:
            self._pump.cancel()
        self._release()

    def pending(self) -> int:
        """Tell how many bytes the server has not taken yet."""
        return self._size

    def watch(self, gone: Callable[[], None]) -> None:
        """Call `gone` when the peer leaves."""
        self._gone = gone
        # A listen is held by the request's own task, which comes to that before the next turn of
        # the loop; only a call that goes on needs a task for it.
        self._watcher = asyncio.get_running_loop().call_soon(self._start_watcher)

    def close(self) -> tuple[int, HeaderLines, bytes] | None:
        """Take back a whole answer, if that is what it came to; else `finish` has to go on."""
        if self._answer is not None and self._watcher is not None:
            self._stop_watcher()
        return self._answer

    async def finish(self) -> None:
        """Send what is left of a stream; hold one that has not ended until it has."""
        if self._streams and not self._ended and not self._closed:
            await self._hold()
        self._stop_watcher()
        if self._streams and not self._closed:
            try:
                await self._send_end()
            except OSError:
                self.leave()

    async def _send_end(self) -> None:
        if self._pump is not None:
            await self._pump
        if self._closed:
            return
        if self._start is not None:
            await self._send(self._start)
        await self._send({"type": "http.response.body", "body": b"".join(self._chunks)})

    async def _send_waiting(self) -> None:
        """Send what waits until nothing does."""
        try:
            while self._chunks:
                if self._start is not None:
                    start, self._start = self._start, None
                    await self._send(start)
                body = b"".join(self._chunks)
                self._chunks.clear()
                await self._send({"type": "http.response.body", "body": body, "more_body": True})
                self._size -= len(body)
        except OSError:
            self.leave()
        finally:
            self._pump = None

    async def _hold(self) -> None:
        """Wait, in the request's own task, until the peer leaves or the stream is ended."""
        self._stop_watcher()
        self._holder = asyncio.current_task()
        try:
            await self._wait_gone()
        except asyncio.CancelledError:
            if not self._ended and not self._closed:
                raise
            if self._holder is not None:
                self._holder.uncancel()
        finally:
            self._holder = None

    async def _wait_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.leave()

    def leave(self) -> None:
        """Take note that nobody reads any more."""
        self._closed = True
        if self._gone is not None:
            gone, self._gone = self._gone, None
            gone()

    def _release(self) -> None:
        if self._holder is not None:
            self._holder.cancel()

    def _start_watcher(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._wait_gone())

    def _stop_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None


class Routes(Protocol):
    """What `mount` needs of an application: Starlette's and FastAPI's have it."""

    def add_route(self, path: str, route: Any) -> None:
        """Serve a path by an ASGI application."""


def mount(app: Routes, path: str, served: AsgiApp) -> None:
    """Serve an application at a path of a Starlette or FastAPI application.

    Both spellings of the path are served as they are: `app.mount` answers the one without a slash
    with a redirect, on which clients lose the body or the credentials.

    Args:
        app: The application.
        path: As in `/mcp`.
        served: What to serve, made with the same path.
    """
    bare = path.rstrip("/")
    for each in (bare, f"{bare}/"):
        if each:
            app.add_route(each, served)


def _route_path(scope: MutableMapping[str, Any]) -> str:
    """The path below where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    # Servers differ in whether `path` starts with `root_path`; ASGI says that it does.
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        return path[len(root) :]
    return path


async def _go_on(work: Coroutine[Any, Any, None], waited_for: Any) -> None:
    await resume(work, waited_for)


async def _given(message: Message) -> Message:
    return message


def _with_lines(answer: Answer, head: Head) -> Answer:
    return Answer(answer.status, answer.headers + head.lines, answer.body)
