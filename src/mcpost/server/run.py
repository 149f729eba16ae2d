"""`serve`: an HTTP server for one `Server`, from the bound socket to the last answer.

A signal drains: no new connections, each listen gets its closing result, running calls get their
grace; a second signal ends at once. With several workers the first process only watches them.

Spec: streamable-http, "Security & Endpoint" (T-04); patterns/subscriptions, "Graceful Closure"
(P-05).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mcpost.errors import UsageError
from mcpost.limits import ServerLimits
from mcpost.server.asgi import AsgiApp
from mcpost.server.bus import Bus, MemoryBus
from mcpost.server.joining import JoiningTransport
from mcpost.server.workers import supervise
from mcpost.wire.origin import is_loopback

if TYPE_CHECKING:
    from mcpost.server.settings import Authenticate

__all__ = ("Binding", "serve")

_log = logging.getLogger("mcpost.server")

_BACKLOG: Final = 2048
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_IDLE: Final = 75
"""Seconds that a connection may idle between requests; longer than clients keep theirs, so that
it is the client who closes (nginx: 75)."""

_LAST_WRITES: Final = 1
"""Seconds that answers get to reach slow readers once all work is done."""

_STUBBORN: Final = 1.6
"""Seconds after the grace at which the process ends, whatever still runs."""


class Servable(Protocol):
    """What `serve` needs of a `Server`."""

    limits: ServerLimits
    bus: Bus

    def asgi(
        self,
        path: str | None,
        *,
        origins: Sequence[str],
        hosts: Sequence[str] | None,
        authenticate: Authenticate | None,
        limits: ServerLimits,
        legacy: bool,
    ) -> AsgiApp:
        """Make the application to serve."""
        ...


def serve(
    server: Servable,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    origins: Sequence[str] = (),
    hosts: Sequence[str] | None = None,
    authenticate: Authenticate | None = None,
    limits: ServerLimits | None = None,
    keep_alive: float | None = None,
    max_body: int | None = None,
    workers: int = 1,
    legacy: bool | None = None,
    access_log: bool = False,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal comes.

    Args:
        server: What to serve.
        host: Address to bind: a name or an IP address; loopback by default.
        port: TCP port, 0 for one that the system chooses.
        path: The path of the endpoint.
        origins: Origins of web pages that may call, besides those of this machine.
        hosts: Names that `Host` may have. `None` means those of this machine where that is what
            is bound, and does not look at `Host` otherwise.
        authenticate: Finds out who calls; see docs/server.md.
        limits: Bounds, by default those of the server.
        keep_alive: Seconds of silence after which a comment is sent, in place of the limit; 0 for
            never.
        max_body: Bytes of a request body, in place of the limit.
        workers: Processes. Notices reach only listeners of the same process unless the server has
            a shared bus.
        legacy: Whether earlier revisions are served too. Their sessions live in one process, so
            by default they are where there is one.
        access_log: Whether each request is logged.
        ready: Called with the URL once connections are accepted; writes it to standard output by
            default.

    Raises:
        UsageError: An option that cannot be, or an address that cannot be bound.
    """
    if workers < 1:
        raise UsageError("there is at least one worker")
    if legacy and workers > 1:
        raise UsageError("sessions of earlier revisions live in one process: use one worker")
    limits = limits or server.limits
    if keep_alive is not None:
        limits = replace(limits, keep_alive=keep_alive)
    if max_body is not None:
        limits = replace(limits, max_body=max_body)
    binding = Binding.make(host, port)
    if hosts is None and binding.is_loopback:
        hosts = ()
    try:
        app = server.asgi(
            path,
            origins=origins,
            hosts=hosts,
            authenticate=authenticate,
            limits=limits,
            legacy=workers == 1 if legacy is None else legacy,
        )
        if not binding.is_loopback and authenticate is None:
            _log.warning(
                "%s is open to the network, and nobody has to say who they are: bind 127.0.0.1,"
                " or set authenticate",
                binding.url(path),
            )
        process = _Process(app, binding, access_log=access_log)
        announce = partial(ready or _write_line, binding.url(path))
        if workers == 1:
            process.serve_until_signal(announce)
            return
        if isinstance(server.bus, MemoryBus):
            _log.warning(
                "with several workers a notice of change reaches the listens of one of them: give"
                " the server a shared bus (mcpost.server.bus_redis)"
            )
        for made in binding.sockets:
            made.listen(_BACKLOG)
        announce()
        supervise(workers, lambda: process.serve_until_signal(lambda: None), limits.drain_grace)
    finally:
        binding.close()


def _write_line(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Binding:
    """Bound sockets, and what to call them."""

    host: str
    """As it was asked for."""
    port: int
    sockets: tuple[socket.socket, ...]

    @classmethod
    def make(cls, host: str, port: int) -> Binding:
        """Bind an address; a name may have several.

        Raises:
            UsageError: It cannot be bound.
        """
        sockets: list[socket.socket] = []
        try:
            found = socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, address in dict.fromkeys(found):
                # A name with several addresses gets the one port that the first was given.
                where = (address[0], port, *address[2:])
                made = socket.socket(family, kind, protocol)
                sockets.append(made)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.bind(where)
                port = made.getsockname()[1]
        except (OSError, OverflowError) as error:
            for made in sockets:
                made.close()
            raise UsageError(f"{host}:{port} cannot be bound: {error}") from error
        return cls(host, port, tuple(sockets))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return all(is_loopback(made.getsockname()[0]) for made in self.sockets)

    def url(self, path: str) -> str:
        """The URL by which this machine reaches it."""
        host = self.host or "localhost"
        if host in ("0.0.0.0", "::"):
            host = "localhost"
        if ":" in host:
            host = f"[{host}]"
        return f"http://{host}:{self.port}{path}"

    def close(self) -> None:
        """Close the sockets."""
        for made in self.sockets:
            made.close()


class _JoiningProtocol(HttpToolsProtocol):
    """uvicorn's protocol, whose head and body leave together."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put ourselves before the transport."""
        super().connection_made(transport)
        self.transport = JoiningTransport(transport, self.loop)


class _Process(uvicorn.Server):
    """One serving process.

    Args:
        app: What to serve.
        binding: The bound sockets.
        access_log: Whether each request is logged.
    """

    def __init__(self, app: AsgiApp, binding: Binding, *, access_log: bool) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                loop="asyncio" if sys.platform == "win32" else "uvloop",
                http=_JoiningProtocol,
                ws="none",
                lifespan="off",
                # Both cost time on every request, and nobody asked for them.
                proxy_headers=False,
                access_log=access_log,
                log_config=uvicorn.config.LOGGING_CONFIG if access_log else None,
                server_header=False,
                backlog=_BACKLOG,
                timeout_keep_alive=_IDLE,
                timeout_graceful_shutdown=_LAST_WRITES,
            )
        )
        self._app = app
        self._binding = binding
        self._ready: Callable[[], None] = lambda: None

    def serve_until_signal(self, ready: Callable[[], None]) -> None:
        """Serve; `ready` is called once connections are accepted."""
        self._ready = ready
        self.run(sockets=list(self._binding.sockets))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, and say so."""
        await super().startup(sockets=sockets)
        # What is there now stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, drain, then close what is left."""
        for listening in self.servers:
            listening.close()
        await self._app.drain()
        await super().shutdown(sockets=sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, end at once at the second."""
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        # A function in a thread, or one that minds no cancellation, keeps no process alive.
        limit = self._app.endpoint.settings.limits.drain_grace + _STUBBORN
        watchdog = threading.Timer(limit, os._exit, (128 + sig,))
        watchdog.daemon = True
        watchdog.start()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while serving; afterwards they do what they did before."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
