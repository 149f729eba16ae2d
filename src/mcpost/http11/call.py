"""The client's side of one request: what is sent, who takes the response, and the hold on both.

| state | `write`, `end` | connection given | response whole | failed, or `cancel` |
| --- | --- | --- | --- | --- |
| waiting | kept, bounded | sending | - | over |
| sending | sent | - | over | over |
| over | nothing | - | - | over |

A request is given to one connection and never to a second: whether to send it again is for those
to decide who know what it does.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from mcpost.http11.encode import Encoded, HeaderLines, encode_request
from mcpost.http11.errors import CallFailed, Misuse, TimedOut
from mcpost.http11.head import Response
from mcpost.http11.hub import NEVER

if TYPE_CHECKING:
    from mcpost.http11.client import ClientConnection
    from mcpost.http11.pool import Pool

__all__ = ("Call", "CallState", "Outgoing", "Receiver")


class Outgoing(NamedTuple):
    """A request to send."""

    method: bytes
    """A token, mostly in capitals."""
    target: bytes
    """Path and query: visible ASCII without a fragment."""
    headers: HeaderLines
    """Header lines, names in lower case. A `host` is added where there is none; what frames the
    body is left out, because the connection writes it."""
    body: bytes | None = b""
    """The body; `None` when it comes by `Call.write` and `Call.end`."""
    length: int | None = None
    """Bytes of a body that comes piece by piece; `None` where they are not known: chunked."""
    head: Encoded | None = None
    """What `encode_request` made of method, target and headers, where that was done before."""


class Receiver(Protocol):
    """What takes a response. After `on_end` or `on_failed`, or `Call.cancel`, nothing comes."""

    def on_head(self, response: Response) -> None:
        """The head of the final response has come."""
        ...

    def on_data(self, data: bytes) -> None:
        """Take a piece of the payload, never an empty one."""
        ...

    def on_end(self) -> None:
        """The response is whole."""
        ...

    def on_failed(self, error: CallFailed) -> None:
        """There will be no response, or no more of it."""
        ...


class CallState(enum.Enum):
    """Where a request stands; the table at the head of this file."""

    WAITING = "waiting"
    SENDING = "sending"
    OVER = "over"


_WAITING, _SENDING, _OVER = CallState.WAITING, CallState.SENDING, CallState.OVER


class Call:
    """One request on its way; made by `Pool.send`.

    Args:
        pool: Where it waits for a connection.
        outgoing: What is sent.
        receiver: Who takes the response.

    Raises:
        Misuse: There are bytes in the request that none has.
    """

    __slots__ = (
        "_connection",
        "_early",
        "_early_size",
        "_on_drained",
        "_paused",
        "_pool",
        "_wait",
        "deadline",
        "ended",
        "head",
        "left",
        "outgoing",
        "receiver",
        "slot",
        "state",
        "total_by",
    )

    def __init__(self, pool: Pool, outgoing: Outgoing, receiver: Receiver) -> None:
        self._pool = pool
        self._connection: ClientConnection | None = None
        self._early: list[bytes] | None = None
        self._early_size = 0
        self._on_drained: Callable[[], None] | None = None
        self._paused = False
        self._wait = 0.0
        self.outgoing = outgoing
        self.head = outgoing.head or encode_request(
            outgoing.method, outgoing.target, outgoing.headers
        )
        """The beginning of the request's head."""
        self.receiver = receiver
        self.state = _WAITING
        self.ended = outgoing.body is not None
        """Whether the request is whole."""
        self.left = outgoing.length if outgoing.body is None else None
        """Bytes of a sized body that are still to be written."""
        self.total_by = NEVER
        """Loop time at which the request is given up, whatever it does."""
        self.deadline = NEVER
        self.slot = -1

    # The request's body.

    def write(self, data: bytes) -> None:
        """Send a piece of the request's body.

        Raises:
            Misuse: The body came with the request, is ended, is longer than its length, or more
                is written before there is a connection than is kept.
        """
        if self.state is _OVER or not data:
            return
        if self.ended:
            raise Misuse("the request is whole already")
        if self.left is not None:
            self.left -= len(data)
            if self.left < 0:
                raise Misuse("more is written than the length says")
        if self._connection is not None:
            self._connection.send_body(data)
            return
        self._early_size += len(data)
        if self._early_size > self._pool.limits.max_early_request:
            raise Misuse("the request waits for a connection; look at pending() before writing")
        if self._early is None:
            self._early = []
        self._early.append(data)

    def end(self) -> None:
        """End the request's body.

        Raises:
            Misuse: It is ended already, or shorter than its length.
        """
        if self.state is _OVER:
            return
        if self.ended:
            raise Misuse("the request is whole already")
        if self.left:
            raise Misuse("less is written than the length says")
        self.ended = True
        if self._connection is not None:
            self._connection.end_body()

    def pending(self) -> int:
        """Bytes of the request that the upstream's side has not taken yet."""
        if self._connection is not None:
            return self._connection.unsent()
        return self._early_size

    def on_drained(self, drained: Callable[[], None]) -> None:
        """Call a function each time when all that was pending has been taken."""
        self._on_drained = drained

    # The response.

    def pause(self) -> None:
        """Let the upstream wait with the response; some pieces may still come."""
        self._paused = True
        if self._connection is not None:
            self._connection.hold(held=True)

    def resume(self) -> None:
        """Let the upstream go on with the response."""
        self._paused = False
        if self._connection is not None:
            self._connection.hold(held=False)

    def cancel(self) -> None:
        """Want no response any more: HTTP/1.1 can say so only by the end of the connection."""
        if self.state is _OVER:
            return
        connection = self._connection
        self.finish()
        if connection is not None:
            connection.abort()

    # What the pool and the connection call.

    def wait(self, seconds: float) -> None:
        """Begin to wait for a connection."""
        self._wait = seconds
        self.deadline = min(self._pool.hub.loop.time() + seconds, self.total_by)
        self._pool.hub.watch(self)

    def expire(self, now: float) -> None:
        """No connection could be had in time."""
        self.finish()
        self.receiver.on_failed(TimedOut("connect", self._wait, "no"))

    def begin(self, connection: ClientConnection) -> list[bytes] | None:
        """Take a connection.

        Returns:
            What has been written of the body so far.
        """
        if self.slot >= 0:
            self._pool.hub.forget(self)
        self.state = _SENDING
        self._connection = connection
        early = self._early
        if early is not None:
            self._early = None
            self._early_size = 0
        if self._paused:
            connection.hold(held=True)
        return early

    def drained(self) -> None:
        """All that was pending has been taken."""
        if self._on_drained is not None and self.state is _SENDING:
            self._on_drained()

    def finish(self) -> None:
        """Nothing more is sent, and nothing more comes."""
        if self.state is _WAITING:
            self._pool.hub.forget(self)
            self._pool.leave(self)
        self.state = _OVER
        self._connection = self._early = None
