"""Sockets that are listened to, and the connections that came of them.

A listener serves one application on one event loop. To stop it: `drain` (no new connection, what
runs is finished, what idles is closed), then nothing is left; or `close` at once.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from socket import AF_UNIX, IPPROTO_TCP, TCP_NODELAY, socket
from typing import Any, Generic, TypeVar

from mcpost.http11.application import Application
from mcpost.http11.exchange import Exchange
from mcpost.http11.head import KnownHeads
from mcpost.http11.hub import Hub
from mcpost.http11.limits import ConnectionLimits
from mcpost.http11.server import ServerConnection

__all__ = ("Listener", "Statistics", "listen")

E = TypeVar("E", bound=Exchange)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a listener has seen."""

    open: int
    """Connections that are open."""
    accepted: int
    """Connections that were ever open."""
    refused: int
    """Requests that were refused for their form or their time, and connections too many."""


class Listener(Generic[E]):
    """What accepts connections for an application; made by `listen`.

    Args:
        application: What answers.
        exchange: The class of exchange that the application is given.
        hub: What the connections of the loop share.
        limits: Bounds of each connection, and of their number.
    """

    def __init__(
        self,
        application: Application[E],
        exchange: type[E],
        hub: Hub,
        limits: ConnectionLimits,
    ) -> None:
        self.hub = hub
        """Shared by all connections; a `Pool` may use it too."""
        self.heads = KnownHeads()
        """What clients say again and again."""
        self._application = application
        self._exchange = exchange
        self._limits = limits
        self._servers: list[asyncio.Server] = []
        self._connections: set[ServerConnection[E]] = set()
        self._accepted = 0
        self._refused = 0
        self._draining = False
        self._empty = asyncio.Event()
        self._empty.set()

    def make_connection(self) -> ServerConnection[E]:
        """Make the protocol of a new connection; for `loop.create_server` and the like."""
        return ServerConnection(self._application, self._exchange, self, self.hub, self._limits)

    def adopt(self, server: asyncio.Server) -> None:
        """Close a server together with this listener."""
        self._servers.append(server)
        for each in server.sockets:
            if each.family != AF_UNIX:
                # asyncio leaves Nagle's algorithm on for sockets that were bound by others; what
                # is accepted inherits this.
                each.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)

    @property
    def sockets(self) -> list[Any]:
        """The listening sockets; each has `getsockname()`."""
        return [each for server in self._servers for each in server.sockets]

    @property
    def port(self) -> int:
        """The TCP port that is listened to, 0 where there is none."""
        names = [each.getsockname() for each in self.sockets]
        return next((int(name[1]) for name in names if isinstance(name, tuple)), 0)

    def statistics(self) -> Statistics:
        """Count what this listener has seen."""
        return Statistics(len(self._connections), self._accepted, self._refused)

    # What a connection tells: `Owner`.

    def made(self, connection: ServerConnection[Any]) -> bool:
        """A client has connected; whether there is room for it."""
        room = len(self._connections) < self._limits.max_connections
        self._connections.add(connection)
        self._accepted += 1
        self._empty.clear()
        if not room:
            self._refused += 1
        elif self._draining:
            connection.drain()
        return room

    def lost(self, connection: ServerConnection[Any]) -> None:
        """The connection is over."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def refused(self, status: int) -> None:
        """A request was refused for its form or its time."""
        self._refused += 1

    # The end.

    def stop(self) -> None:
        """Accept nothing more, close what idles, and let no connection outlive its answer."""
        self._draining = True
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.drain()

    async def drain(self, grace: float) -> bool:
        """Stop, and let answers that run come to their end.

        Args:
            grace: Seconds for that; what is left after them is cut.

        Returns:
            Whether all came to their end in time.
        """
        self.stop()
        try:
            async with asyncio.timeout(grace):
                await self._empty.wait()
        except TimeoutError:
            await self.close()
            return False
        return True

    async def close(self) -> None:
        """Accept nothing more and cut every connection."""
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.abort()
        await self._empty.wait()


async def listen(
    application: Application[E],
    exchange: type[E],
    *,
    host: str | None = None,
    port: int = 0,
    path: str | Path | None = None,
    sockets: tuple[socket, ...] = (),
    tls: ssl.SSLContext | None = None,
    limits: ConnectionLimits | None = None,
    hub: Hub | None = None,
    backlog: int = 2048,
    reuse_port: bool = False,
) -> Listener[E]:
    """Listen on any of: a host and port, a Unix socket, sockets that are bound already.

    Args:
        application: What answers.
        exchange: The class of exchange that it is given, mostly `Exchange`.
        host: Address or name; with `port` 0 the kernel chooses, see `Listener.port`.
        port: TCP port for `host`.
        path: Path of a Unix socket; a socket file that nobody listens to is replaced.
        sockets: Bound stream sockets.
        tls: The server's side of TLS, for all of them but the Unix socket.
        limits: Bounds; the defaults where `None`.
        hub: To share with other listeners or pools of this loop; a new one where `None`.
        backlog: Connections that the kernel keeps until they are accepted.
        reuse_port: Whether other processes listen to the same port (`SO_REUSEPORT`).

    Raises:
        OSError: A socket cannot be had.
    """
    loop = asyncio.get_running_loop()
    limits = limits or ConnectionLimits()
    listener = Listener(application, exchange, hub or Hub(loop, limits.tick), limits)
    make = listener.make_connection
    try:
        if host is not None:
            server = await loop.create_server(
                make, host, port, ssl=tls, backlog=backlog, reuse_port=reuse_port or None
            )
            listener.adopt(server)
        if path is not None:
            listener.adopt(await loop.create_unix_server(make, str(path), backlog=backlog))
        for each in sockets:
            if each.family == AF_UNIX:
                server = await loop.create_unix_server(make, sock=each, backlog=backlog)
            else:
                server = await loop.create_server(make, sock=each, ssl=tls, backlog=backlog)
            listener.adopt(server)
    except OSError:
        await listener.close()
        raise
    return listener
