"""Bounds of a gateway, and how it reaches its upstreams."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from mcpost.gateway.upstreams import MAX_EARLY
from mcpost.http11.limits import ConnectionLimits, MessageLimits, PoolLimits
from mcpost.limits import MIB

__all__ = ("GatewaySettings",)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Sizes are bytes, times are seconds."""

    connect_timeout: float = 5.0
    """Seconds for a connection to an upstream; 502 or 504 after it."""
    head_timeout: float = 300.0
    """Seconds from the end of a request to the head of its answer; 504 after it. A call that
    answers with JSON says nothing before it is done."""
    idle_timeout: float = 300.0
    """Seconds of silence in a stream of an upstream; the client's stream is cut after it. Servers
    of this revision send a comment each 15 to 30 s, many others nothing."""
    total_timeout: float | None = None
    """Seconds for one request in all; `None` for no bound."""
    write_timeout: float = 30.0
    """Seconds in which a slow reader has to take something."""
    max_body: int = 4 * MIB
    """Bytes of a request body; 413 above it."""
    max_connections: int = 20_000
    """Connections of clients, and of each endpoint; a stream has one of each."""
    max_waiting: int = 1_000
    """Requests that wait for a connection to one endpoint; 503 above it."""
    grace: float = 10.0
    """Seconds that running requests get after SIGTERM."""
    watch: float = 1.0
    """Seconds between two looks at the policy's file; it is read again once it has changed and then
    stayed the same for one look. 0 never looks."""
    trusts_forwarded: bool = False
    """Whether `X-Forwarded-*` and `Forwarded` of clients are kept and added to."""
    upstream_tls: ssl.SSLContext | None = None
    """For upstreams with `https`; the system's authorities where `None`."""

    def connection_limits(self) -> ConnectionLimits:
        """Bounds of the clients' connections."""
        return ConnectionLimits(
            message=MessageLimits(max_body=self.max_body),
            max_connections=self.max_connections,
            write_timeout=self.write_timeout,
        )

    def pool_limits(self) -> PoolLimits:
        """Bounds of the connections to one endpoint."""
        return PoolLimits(
            max_connections=self.max_connections,
            max_waiting=self.max_waiting,
            max_early_request=MAX_EARLY,
            connect_timeout=self.connect_timeout,
            head_timeout=self.head_timeout,
            idle_timeout=self.idle_timeout,
            total_timeout=self.total_timeout,
        )
