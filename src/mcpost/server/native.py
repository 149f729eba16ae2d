"""The door of our own engine: an endpoint on `mcpost.http11`, as `mcpost serve` has it.

It costs a call no more than its own task, which a coroutine needs to be cancelled and to have
deadlines. An idle stream has none.

Spec: streamable-http (T-01, T-07, T-10, T-15); patterns/subscriptions, "Graceful Closure" (P-05).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import ssl
import threading
from collections.abc import Callable, Coroutine
from socket import socket
from typing import Any, Final
from urllib.parse import unquote

from mcpost.errors import UsageError
from mcpost.http11.application import Application
from mcpost.http11.encode import Encoded, HeaderLines, encode_response
from mcpost.http11.exchange import Exchange, State
from mcpost.http11.head import Request
from mcpost.http11.limits import ConnectionLimits, MessageLimits
from mcpost.http11.listener import Listener, listen
from mcpost.limits import ServerLimits
from mcpost.server import refusals
from mcpost.server.endpoint import Endpoint
from mcpost.server.head import JSON, Answer, Head
from mcpost.server.host import Host

__all__ = ("NativeApp", "NativeDoor", "NativeProcess", "connection_limits", "open_native")

_access = logging.getLogger("mcpost.access")

_LAST_WRITES: Final = 1.0
"""Seconds that answers get to reach slow readers once all work is done."""

_STUBBORN: Final = 1.9
"""Seconds after the grace at which the process ends, whatever still runs."""

_JSON_LINES: Final = (JSON,)
_JSON_HEAD: Final = encode_response(200, _JSON_LINES)


class NativeDoor(Exchange):
    """What one exchange can do for an answer; all but the words is `Exchange`'s."""

    __slots__ = ("admitted", "body", "head", "task")

    head: Head
    """The head, once it is known that there is something at its path."""
    admitted: bool
    """Whether it is known who calls."""
    body: bytes | None
    """The body, if it came before that."""
    task: asyncio.Task[None] | None
    """What runs the rest of the call; kept here because the loop alone holds tasks weakly."""

    in_task: bool = True

    def answer(self, answer: Answer) -> None:
        """Send one whole answer."""
        status, headers, body = answer
        if len(headers) == 2 and headers[0] is JSON:
            # Without the length it is the same tuple every time, and encoded once.
            headers = _JSON_LINES
        self.respond(status, headers, body)

    def answer_json(self, status: int, body: bytes, lines: HeaderLines) -> None:
        """Send one whole answer of a JSON object."""
        if status == 200 and not lines:
            self.respond_with(_JSON_HEAD, body)
        else:
            self.respond(status, (JSON, *lines), body)


class LoggedDoor(NativeDoor):
    """A door that logs each answer."""

    __slots__ = ()

    def respond(self, status: int, headers: HeaderLines, body: bytes = b"") -> None:
        """Send a whole answer."""
        self._log(status)
        super().respond(status, headers, body)

    def respond_with(self, head: Encoded, body: bytes) -> None:
        """Send a whole answer."""
        self._log(200)
        super().respond_with(head, body)

    def start(self, status: int, headers: HeaderLines, length: int | None = None) -> None:
        """Open a stream."""
        self._log(status)
        super().start(status, headers, length)

    def _log(self, status: int) -> None:
        head = getattr(self, "head", None)
        if head is not None and self.state is State.WAITING:
            _access.info('%s "%s %s" %d', head.peer or "-", head.method, head.path, status)


class NativeApp(Application[NativeDoor]):
    """An endpoint as an application of the engine.

    Args:
        endpoint: The rules.
        path: Where it answers, with or without a slash at the end; `None` answers at every path.

    Raises:
        UsageError: The path does not start with a slash.
    """

    def __init__(self, endpoint: Endpoint, path: str | None = None) -> None:
        if path is not None and not path.startswith("/"):
            raise UsageError(f'a path starts with a slash: "/{path}"')
        self.endpoint = endpoint
        bare = None if path is None else path.rstrip("/")
        # Targets as most callers spell them, so that few have to be taken apart.
        self._paths = None if bare is None else {p.encode(): p for p in (bare, f"{bare}/")}
        self._tasks: set[asyncio.Task[None]] = set()
        self._host: Host | None = None

    def open(self, request: Request, exchange: NativeDoor) -> None:
        """Refuse a request by its head, or let its body come."""
        head = request.note
        if head is None:
            self._judge(request, exchange)
        else:
            # This very head was let pass before.
            exchange.head = head
            exchange.admitted = True

    def _judge(self, request: Request, exchange: NativeDoor) -> None:
        paths = self._paths
        path = None if paths is None else paths.get(request.target)
        if path is None:
            path = unquote(request.path)
            if paths is not None and path not in paths.values():
                exchange.answer(refusals.NOT_FOUND)
                return
        head = exchange.head = Head(
            request.method, path, request.headers, request.peer, request.fields
        )
        endpoint = self.endpoint
        exchange.admitted = not endpoint.authenticates
        if not exchange.admitted:
            exchange.body = None
            exchange.pause()
            self._spawn(self._admit(head, exchange))
            return
        refusal = endpoint.check_head(head)
        if refusal is None:
            request.note = head
        else:
            exchange.answer(refusal)

    def handle(self, request: Request, body: bytes, exchange: NativeDoor) -> None:
        """Answer a request, or leave the rest to a task."""
        if not exchange.admitted:
            exchange.body = body
            return
        host = self._host
        if host is None or host.loop is not exchange.loop:
            host = self._host = Host(exchange.loop)
        # In a task from the beginning: most handlers need no second step, and then nothing has to
        # be kept of the call.
        exchange.task = host.start(self._begin, body, exchange)

    def _begin(self, body: bytes, exchange: NativeDoor) -> Coroutine[Any, Any, None] | None:
        try:
            rest = self.endpoint.begin(exchange.head, body, exchange)
        except BaseException:
            # Nobody else would tell the peer that there will be no answer.
            exchange.abort()
            raise
        return None if rest is None else self._go_on(rest, exchange)

    async def _go_on(self, rest: Coroutine[Any, Any, None], exchange: NativeDoor) -> None:
        try:
            await rest
        except BaseException:
            exchange.abort()
            raise

    def word(self, status: int, reason: str) -> tuple[HeaderLines, bytes]:
        """Say a refusal as JSON-RPC, as the endpoint does."""
        if status == 413:
            answer = self.endpoint.too_large
        elif status == 408:
            answer = refusals.SLOW_BODY
        else:
            answer = refusals.refusal(status, reason)
        return answer.headers, answer.body

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _admit(self, head: Head, exchange: NativeDoor) -> None:
        """Find out who calls while the body waits, then go on as without that."""
        refusal = await self.endpoint.check_caller(head)
        if exchange.state is not State.WAITING:
            return
        if refusal is not None:
            exchange.answer(refusal)
            return
        exchange.admitted = True
        if exchange.body is None:
            exchange.resume()
            return
        rest = self._begin(exchange.body, exchange)
        if rest is not None:
            await rest


def connection_limits(limits: ServerLimits) -> ConnectionLimits:
    """The bounds of connections that go with those of a server."""
    return ConnectionLimits(
        message=MessageLimits(max_body=limits.max_body), body_timeout=limits.body_timeout
    )


async def open_native(
    app: NativeApp, *, access_log: bool = False, **options: Any
) -> Listener[NativeDoor]:
    """Listen for an endpoint on this loop.

    Args:
        app: What answers.
        access_log: Whether each answer is logged (`mcpost.access`).
        options: As for `mcpost.http11.listener.listen`: `host` and `port`, `path` of a Unix
            socket, `sockets`, `tls`, `reuse_port`, `limits`.
    """
    options.setdefault("limits", connection_limits(app.endpoint.settings.limits))
    door = LoggedDoor if access_log else NativeDoor
    return await listen(app, door, **options)


class NativeProcess:
    """One serving process, from its bound sockets to the last answer.

    Args:
        app: What answers.
        sockets: Bound sockets.
        new_loop: Makes the event loop.
        tls: The server's side of TLS.
        access_log: Whether each answer is logged.
    """

    def __init__(
        self,
        app: NativeApp,
        sockets: tuple[socket, ...],
        new_loop: Callable[[], asyncio.AbstractEventLoop],
        *,
        tls: ssl.SSLContext | None = None,
        access_log: bool = False,
    ) -> None:
        self._app = app
        self._sockets = sockets
        self._new_loop = new_loop
        self._tls = tls
        self._access_log = access_log
        self._stop = asyncio.Event()

    def serve_until_signal(self, ready: Callable[[], None]) -> None:
        """Serve; `ready` is called once connections are accepted."""
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(self._serve(ready))

    async def _serve(self, ready: Callable[[], None]) -> None:
        listener = await open_native(
            self._app, sockets=self._sockets, tls=self._tls, access_log=self._access_log
        )
        loop = asyncio.get_running_loop()
        handled: tuple[signal.Signals, ...] = ()
        if threading.current_thread() is threading.main_thread():
            handled = (signal.SIGTERM, signal.SIGINT)
        for each in handled:
            loop.add_signal_handler(each, self._handle_signal, each)
        try:
            # What is there now stays: the collector need not look at it again.
            gc.collect()
            gc.freeze()
            ready()
            await self._stop.wait()
            listener.stop()
            await self._app.endpoint.drain(self._app.endpoint.settings.limits.drain_grace)
            await listener.drain(_LAST_WRITES)
        finally:
            for each in handled:
                loop.remove_signal_handler(each)

    def _handle_signal(self, number: int) -> None:
        """Drain at the first signal, end at once at the second."""
        if self._stop.is_set():
            os._exit(128 + number)
        self._stop.set()
        # A function in a thread, or one that minds no cancellation, keeps no process alive.
        limit = self._app.endpoint.settings.limits.drain_grace + _STUBBORN
        watchdog = threading.Timer(limit, os._exit, (128 + number,))
        watchdog.daemon = True
        watchdog.start()
