"""The connections to one server: dialled, kept, used again.

A connection that was idle is looked at before it is used: if its peer has closed it, another is
taken, and since nothing was written yet, nothing can have run. That is the only case in which a
request moves to another connection by itself.

Spec: RFC 9112, 9.3 (persistence), 9.3.1 (retrying).
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from mcpost.client.connection import Connection, is_readable
from mcpost.client.network import Address, Network, Proxy
from mcpost.errors import ConnectFailed
from mcpost.limits import ClientLimits

__all__ = ("Pool",)

_EYEBALLS: Final = 0.25
_MAX_CONNECT_HEAD: Final = 16 * 1024
_CONNECTED: Final = re.compile(rb"HTTP/1\.[01] 2\d\d[ \r]")

_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"})
"""Reasons that OpenSSL gives where the other side's first bytes are none of TLS."""


class Pool:
    """Connections to one server.

    Args:
        address: The server.
        network: TLS and proxies.
        limits: How many connections are kept, and for how long.
    """

    def __init__(self, address: Address, network: Network, limits: ClientLimits) -> None:
        self._address = address
        self._network = network
        self._limits = limits
        self._proxy = network.proxy_for(address)
        self._tls: ssl.SSLContext | None = None
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._reaper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def forward(self) -> Proxy | None:
        """The proxy that forwards requests in the clear, which need the absolute form."""
        return self._proxy if self._address.scheme == "http" else None

    @property
    def open_connections(self) -> int:
        """How many connections are open, used or not."""
        return len(self._open)

    async def acquire(self) -> Connection:
        """Give a connection on which nothing is under way.

        Raises:
            ConnectFailed: None could be made.
        """
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_usable:
                continue
            # The loop may not have had a turn in which to see the end; asking costs half a
            # microsecond.
            is_old = now - connection.idle_since > self._limits.idle_connection
            if is_old or is_readable(connection.descriptor):
                connection.abort()
                continue
            return connection
        return await self._dial()

    async def close(self) -> None:
        """Close all connections; calls on them lose their answers."""
        self._closed = True
        self._idle.clear()
        if self._reaper is not None:
            self._reaper.cancel()
        for connection in list(self._open):
            connection.abort()
        # The sockets are closed by the loop's next turn; TLS takes one more.
        for _ in range(10):
            if not self._open:
                break
            await asyncio.sleep(0)

    # Dialling.

    async def _dial(self) -> Connection:
        if self._closed:
            raise ConnectFailed("the client is closed")
        connection = Connection(self._limits.max_head, self._release, self._open.discard)
        where = self._proxy.address if self._proxy is not None else self._address
        try:
            if self._proxy is not None and self._address.scheme == "https":
                await self._dial_through(connection, self._proxy)
            else:
                await self._open_socket(lambda: connection, where)
        except ssl.SSLCertVerificationError as error:
            raise ConnectFailed(
                f"the certificate of {where.authority} is not trusted: {error.verify_message}"
            ) from error
        except (OSError, ValueError) as error:
            raise ConnectFailed(f"cannot connect to {where.authority}: {_reason(error)}") from error
        if self._closed:
            connection.abort()
            raise ConnectFailed("the client is closed")
        self._open.add(connection)
        return connection

    async def _open_socket(
        self, factory: Callable[[], asyncio.Protocol], where: Address
    ) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        tls = self._context() if where.scheme == "https" else None
        # uvloop dials one address after the other and has no such parameter.
        eyeballs: dict[str, Any] = {"happy_eyeballs_delay": _EYEBALLS} if _is_stdlib(loop) else {}
        made = await loop.create_connection(
            factory,
            where.host,
            where.port,
            ssl=tls,
            server_hostname=where.host if tls is not None else None,
            **eyeballs,
        )
        transport: asyncio.Transport = made[0]
        raw = transport.get_extra_info("socket")
        if raw is not None:
            _keep_alive(raw)
        return transport

    async def _dial_through(self, connection: Connection, proxy: Proxy) -> None:
        """Dial a proxy, ask it for a tunnel, and speak TLS to the server in it."""
        loop = asyncio.get_running_loop()
        tunnel = _Tunnel()
        transport = await self._open_socket(lambda: tunnel, proxy.address)
        try:
            host = self._address.host
            name = f"[{host}]" if ":" in host else host
            lines = [f"CONNECT {name}:{self._address.port} HTTP/1.1"]
            lines.append(f"Host: {name}:{self._address.port}")
            if proxy.authorization is not None:
                lines.append(f"Proxy-Authorization: {proxy.authorization}")
            transport.write(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
            head = await tunnel.answer
            if not _CONNECTED.match(head):
                status = head.partition(b"\r\n")[0].decode("latin-1")
                raise ConnectFailed(
                    f"the proxy {proxy.address.authority} refuses the way to"
                    f" {self._address.authority}: {status[:100]}"
                )
            upgraded = await loop.start_tls(
                transport, connection, self._context(), server_hostname=host
            )
        except BaseException:
            transport.abort()
            raise
        if upgraded is None:
            raise ConnectFailed(f"the proxy {proxy.address.authority} closed the tunnel")
        connection.connection_made(upgraded)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = self._network.context()
        return self._tls

    # Keeping.

    def _release(self, connection: Connection) -> None:
        if self._closed or len(self._idle) >= self._limits.max_idle_connections:
            connection.abort()
            return
        self._idle.append(connection)
        if self._reaper is None:
            loop = asyncio.get_running_loop()
            self._reaper = loop.call_later(self._limits.idle_connection, self._reap)

    def _reap(self) -> None:
        """Close what has been idle for too long; those used last stand at the end."""
        self._reaper = None
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._limits.idle_connection
        kept: list[Connection] = []
        for connection in self._idle:
            if connection.is_usable and connection.idle_since > oldest:
                kept.append(connection)
            else:
                connection.abort()
        self._idle = kept
        if kept and not self._closed:
            wait = min(connection.idle_since for connection in kept) - oldest
            self._reaper = loop.call_later(max(wait, 0.05), self._reap)


class _Tunnel(asyncio.Protocol):
    """Takes a proxy's answer to CONNECT: its head, and nothing after it."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._head = bytearray()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the head ends with a blank line, and nothing may follow it."""
        if self.answer.done():
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end >= 0 or len(self._head) > _MAX_CONNECT_HEAD:
            self.answer.set_result(bytes(self._head[: max(end, 0)]))

    def connection_lost(self, exc: Exception | None) -> None:
        """The proxy hung up."""
        if not self.answer.done():
            self.answer.set_exception(exc or ConnectionResetError("the proxy hung up"))


def _is_stdlib(loop: asyncio.AbstractEventLoop) -> bool:
    return isinstance(loop, asyncio.BaseEventLoop)


def _keep_alive(raw: socket.socket) -> None:
    """Let the kernel ask after a silent peer, so that one that vanished is noticed."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return "what answers there does not speak TLS; is it http:// and not https://?"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
