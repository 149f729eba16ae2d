"""Every bound of this engine, with its default, unit and precedent.

Sizes are bytes, times are seconds, counts are counts. Times are coarse: a deadline is met within
one `tick` after it. `dataclasses.replace` makes another set.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("ConnectionLimits", "MessageLimits", "PoolLimits")

KIB = 1024
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """Bounds of one message, for either end."""

    max_head: int = 64 * KIB
    """Bytes of a head, blank line included; 431 above it. Envoy 60 KiB, nginx 32, node 16."""

    max_target: int = 8 * KIB
    """Bytes of a request target; 414 above it. nginx and Apache 8 KiB."""

    max_fields: int = 100
    """Header lines of a head; 431 above it. Envoy and Apache 100."""

    max_body: int = 4 * MIB
    """Bytes of a body, after its framing is removed; 413 above it."""

    max_chunk_line: int = 256
    """Bytes of one chunk-size line, extensions included; 400 above it."""

    max_chunk_extensions: int = 4 * KIB
    """Bytes of all chunk extensions of one body; 400 above it. Go 16 KiB."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of a server's connection."""

    message: MessageLimits = MessageLimits()
    """Bounds of one request."""

    max_connections: int = 20_000
    """Connections open at once; one more is answered 503 and closed."""

    head_timeout: float = 10.0
    """Seconds for a request head, from its first byte (or from the connection) to its last; 408
    after it. Apache 20 to 40, Go's advice 5 to 10."""

    body_timeout: float = 30.0
    """Seconds for a request body, once its head has come; 408 after it."""

    idle_timeout: float = 75.0
    """Seconds between two requests; the connection is closed after it. nginx 75, and longer than
    the 60 for which nginx keeps a connection to an upstream, so that it closes first."""

    write_timeout: float = 30.0
    """Seconds in which a slow reader must take `min_write` bytes of what waits for it, or all of
    it; the connection is cut after it. nginx `send_timeout` 60, Kestrel 240 bytes/s after 5 s."""

    min_write: int = 8 * KIB
    """Bytes that a slow reader must take in each `write_timeout`."""

    max_pipelined: int = 64 * KIB
    """Bytes kept of requests that came before the answer to an earlier one; above it nothing is
    read until that answer is complete."""

    max_discard: int = 64 * KIB
    """Bytes of the body of a refused request that are read and thrown away so that the connection
    can be kept; a longer one is answered with `Connection: close`."""

    linger: float = 2.0
    """Seconds for which a refused sender is heard after the answer, so that the answer is not lost
    in a reset. nginx `lingering_timeout` 5, Apache 2."""

    max_linger: int = 1 * MIB
    """Bytes thrown away while lingering; the connection is cut above it."""

    half_close: bool = False
    """Whether a client that ends its sending side still gets the answers that run. When false it
    has left, as for nginx: an answer that runs is told so."""

    tick: float = 0.5
    """Seconds between two looks at the deadlines."""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Bounds of a client's connections to one upstream."""

    message: MessageLimits = MessageLimits()
    """Bounds of one response. Its body comes piece by piece and is bounded by whoever takes it, so
    `max_body` is not looked at, nor is `max_target`."""

    max_connections: int = 256
    """Connections open at once, those being made included."""

    max_idle: int = 64
    """Connections kept while they have nothing to do. nginx's examples 16 to 64."""

    max_waiting: int = 1_000
    """Requests that wait for a connection; one more fails at once."""

    max_interim: int = 8
    """Interim (1xx) responses before a final one; the connection is cut above it."""

    max_early_request: int = 256 * KIB
    """Bytes of a request body kept while a connection is being made; more is the caller's mistake
    (see `Call.pending`)."""

    connect_timeout: float = 5.0
    """Seconds for a connection to stand, TLS and the wait for a free place included."""

    head_timeout: float = 60.0
    """Seconds from the end of the request to the head of the response, and between two pieces of a
    request body that the upstream does not take. nginx `proxy_read_timeout` 60."""

    idle_timeout: float = 60.0
    """Seconds between two pieces of a response body."""

    total_timeout: float | None = None
    """Seconds for one request in all, `None` for no bound: a stream may last for days."""

    keep_timeout: float = 30.0
    """Seconds that an idle connection is kept; shorter than servers keep theirs, so that few
    requests meet a connection that has just been closed."""

    tick: float = 0.5
    """Seconds between two looks at the deadlines."""
