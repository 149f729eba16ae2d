"""The connections to one upstream: made when needed, used again, bounded.

A request goes to a connection that idles, the one used last first; else to a new one; else it
waits. It is given to one connection, once. What becomes of it is told to its receiver.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass

from mcpost.http11.call import Call, Outgoing, Receiver
from mcpost.http11.client import ClientConnection
from mcpost.http11.errors import ConnectFailed, PoolFull
from mcpost.http11.head import KnownResponses
from mcpost.http11.hub import Hub
from mcpost.http11.limits import PoolLimits

__all__ = ("Pool", "PoolStatistics", "Upstream")


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a pool connects to."""

    host: str
    """Name or address; with `path` only what the `Host` header says."""
    port: int = 80
    """TCP port."""
    path: str | None = None
    """Path of a Unix socket, instead of host and port."""
    tls: ssl.SSLContext | None = None
    """The client's side of TLS; its certificate has to be for `server_name`."""
    server_name: str | None = None
    """The name for TLS where it is not `host`."""

    @property
    def authority(self) -> str:
        """What the `Host` header says: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        own = 443 if self.tls is not None else 80
        return host if self.path is not None or self.port == own else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """What a pool has."""

    open: int
    """Connections that stand."""
    idle: int
    """Connections among them that wait for a request."""
    connecting: int
    """Connections that are being made."""
    waiting: int
    """Requests that wait for a connection."""


class Pool:
    """The connections to one upstream, on one event loop.

    Args:
        upstream: Where they go.
        hub: What the connections of the loop share.
        limits: Bounds.
    """

    def __init__(self, upstream: Upstream, hub: Hub, limits: PoolLimits | None = None) -> None:
        self.upstream = upstream
        self.hub = hub
        self.limits = limits or PoolLimits()
        self.host_line = b"host: " + upstream.authority.encode("ascii") + b"\r\n"
        self.heads = KnownResponses()
        """What the upstream says again and again."""
        self._open: set[ClientConnection] = set()
        # Dictionaries as sets that know their order.
        self._idle: dict[ClientConnection, None] = {}
        self._waiting: dict[Call, None] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        self._closed = False

    def send(self, outgoing: Outgoing, receiver: Receiver) -> Call:
        """Send a request.

        Args:
            outgoing: What to send; where its body is `None`, it comes by the call.
            receiver: Who takes the response. Nothing is told before this returns.

        Raises:
            PoolFull: Too many requests wait already, or the pool is closed.
            Misuse: There are bytes in it that no request has.
        """
        call = Call(self, outgoing, receiver)
        total = self.limits.total_timeout
        if total is not None:
            call.total_by = self.hub.loop.time() + total
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.is_usable():
                connection.begin(call)
                return call
        if self._closed or len(self._waiting) >= self.limits.max_waiting:
            raise PoolFull(len(self._waiting))
        self._waiting[call] = None
        call.wait(self.limits.connect_timeout)
        self._connect_more()
        return call

    def statistics(self) -> PoolStatistics:
        """Count what this pool has."""
        return PoolStatistics(
            len(self._open), len(self._idle), len(self._connecting), len(self._waiting)
        )

    async def close(self) -> None:
        """Cut every connection; calls that run or wait fail."""
        self._closed = True
        tasks = tuple(self._connecting)
        for task in tasks:
            task.cancel()
        for call in tuple(self._waiting):
            call.finish()
            call.receiver.on_failed(ConnectFailed("the pool is closed"))
        for connection in tuple(self._open):
            connection.cut()
        if tasks:
            await asyncio.wait(tasks)

    # What calls and connections call.

    def made(self, connection: ClientConnection) -> None:
        """A connection stands."""
        self._open.add(connection)

    def release(self, connection: ClientConnection) -> None:
        """Take a connection back after a clean end."""
        if not connection.is_usable():
            connection.close()
        elif self._waiting:
            call = next(iter(self._waiting))
            del self._waiting[call]
            connection.begin(call)
        elif self._closed or len(self._idle) >= self.limits.max_idle:
            connection.close()
        else:
            self._idle[connection] = None
            connection.rest()

    def lost(self, connection: ClientConnection) -> None:
        """A connection is over."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._connect_more()

    def leave(self, call: Call) -> None:
        """A call waits no longer."""
        self._waiting.pop(call, None)

    # Making connections.

    def _connect_more(self) -> None:
        """Make connections for those who wait, one each, as far as there is room."""
        if self._closed:
            return
        room = self.limits.max_connections - len(self._open) - len(self._connecting)
        for _ in range(min(room, len(self._waiting) - len(self._connecting))):
            task = self.hub.loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        self._connect_more()

    async def _connect(self) -> None:
        upstream, loop = self.upstream, self.hub.loop
        where = upstream.path or f"{upstream.host}:{upstream.port}"
        try:
            async with asyncio.timeout(self.limits.connect_timeout):
                if upstream.path is not None:
                    _, connection = await loop.create_unix_connection(
                        self._make_connection, upstream.path
                    )
                else:
                    _, connection = await loop.create_connection(
                        self._make_connection,
                        upstream.host,
                        upstream.port,
                        ssl=upstream.tls,
                        server_hostname=upstream.server_name if upstream.tls else None,
                    )
        except (OSError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            self._fail_one(ConnectFailed(f"no connection to {where}: {reason}"))
            return
        if connection.is_usable():
            self.release(connection)
        else:
            self._fail_one(ConnectFailed(f"no connection to {where}: it was ended at once"))

    def _make_connection(self) -> ClientConnection:
        return ClientConnection(self)

    def _fail_one(self, error: ConnectFailed) -> None:
        # One failed connection is one failed call: the others have attempts of their own.
        if self._waiting:
            call = next(iter(self._waiting))
            call.finish()
            call.receiver.on_failed(error)
