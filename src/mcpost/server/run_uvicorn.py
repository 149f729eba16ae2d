"""Serving under uvicorn, on uvloop and httptools.

Spec: ours; patterns/subscriptions, "Graceful Closure" (P-05).
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mcpost.server.asgi import AsgiApp
from mcpost.server.joining import JoiningTransport

__all__ = ("UvicornProcess",)

_BACKLOG: Final = 2048
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_IDLE: Final = 75
"""Seconds that a connection may idle between requests; longer than clients keep theirs, so that
it is the client who closes (nginx: 75)."""

_LAST_WRITES: Final = 1
"""Seconds that answers get to reach slow readers once all work is done."""

_STUBBORN: Final = 1.6
"""Seconds after the grace at which the process ends, whatever still runs."""


class _JoiningProtocol(HttpToolsProtocol):
    """uvicorn's protocol, whose head and body leave together."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put ourselves before the transport."""
        super().connection_made(transport)
        self.transport = JoiningTransport(transport, self.loop)


class UvicornProcess(uvicorn.Server):
    """One serving process.

    Args:
        app: What to serve.
        sockets: Bound sockets.
        access_log: Whether each request is logged.
    """

    def __init__(
        self, app: AsgiApp, sockets: tuple[socket.socket, ...], *, access_log: bool = False
    ) -> None:
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
        self._sockets = sockets
        self._ready: Callable[[], None] = lambda: None

    def serve_until_signal(self, ready: Callable[[], None]) -> None:
        """Serve; `ready` is called once connections are accepted."""
        self._ready = ready
        self.run(sockets=list(self._sockets))

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
