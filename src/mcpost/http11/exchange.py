"""The server's side of one answer: whole, or as a stream.

| state | `respond` | `start` | `write` | `end` | peer leaves |
| --- | --- | --- | --- | --- | --- |
| waiting | over | open | misuse | misuse | gone |
| open | misuse | misuse | open | over | gone |
| over | misuse | misuse | misuse | misuse | over |
| gone | gone | gone | gone | gone | gone |

Whoever answers cannot know that the peer has just left, so nothing is wrong in the last row.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from mcpost.http11.encode import LAST_CHUNK, Encoded, HeaderLines, encode_chunk, encode_response
from mcpost.http11.errors import Misuse
from mcpost.http11.head import Request

if TYPE_CHECKING:
    from mcpost.http11.server import ServerConnection

__all__ = ("Exchange", "Sink", "State")


class State(enum.Enum):
    """Where an answer stands; the table at the head of this file."""

    WAITING = "waiting"
    OPEN = "open"
    OVER = "over"
    GONE = "gone"


_WAITING, _OPEN, _OVER, _GONE = State.WAITING, State.OPEN, State.OVER, State.GONE

# RFC 9110, 6.4.1: these have no content, and say no length of it.
_BODILESS = frozenset({204, 304})


class Sink(Protocol):
    """What takes the body of a request piece by piece; see `Exchange.receive`."""

    def on_data(self, data: bytes) -> None:
        """Take a piece of the payload, never an empty one."""
        ...

    def on_end(self) -> None:
        """The body is whole. It is not called when the peer leaves before that."""
        ...


class Exchange:
    """One request's answer.

    Args:
        connection: Where it goes.
        request: What is answered.
    """

    __slots__ = (
        "_bare",
        "_connection",
        "_fresh",
        "_held",
        "_left",
        "_on_drained",
        "_on_gone",
        "_prefix",
        "_queued",
        "_raw",
        "_size",
        "state",
    )

    # Written when a stream is opened: most exchanges are none.
    _held: list[bytes]
    _size: int
    _prefix: bytes
    _raw: bool
    _left: int | None
    _fresh: bool
    _queued: bool

    def __init__(self, connection: ServerConnection[Any], request: Request) -> None:
        self._connection = connection
        self._bare = request.method == "HEAD"
        self._on_gone: Callable[[], None] | None = None
        self._on_drained: Callable[[], None] | None = None
        self.state = _WAITING
        """Where the answer stands."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the connection; the one that runs, which takes longer to ask for."""
        return self._connection.loop

    # A whole answer.

    def respond(self, status: int, headers: HeaderLines, body: bytes = b"") -> None:
        """Send a whole answer.

        It may come before the request's body: then the rest of the body is thrown away, or the
        connection ends with the answer.

        Args:
            status: 200 to 599.
            headers: Header lines, names in lower case; see `encode_response`.
            body: The content; for HEAD only its length is told.

        Raises:
            Misuse: There is an answer already.
        """
        if self.state is not _WAITING:
            self._check_gone()
            return
        connection = self._connection
        lines = self._head_lines(encode_response(status, headers))
        if status in _BODILESS:
            data = lines + b"\r\n"
        elif self._bare:
            data = b"%bcontent-length: %d\r\n\r\n" % (lines, len(body))
        else:
            data = b"%bcontent-length: %d\r\n\r\n%b" % (lines, len(body), body)
        self.state = _OVER
        connection.send(data)
        connection.finish()

    def respond_with(self, head: Encoded, body: bytes) -> None:
        """Send a whole answer, with a head that was encoded before.

        Args:
            head: Made by `encode_response`; its status has content, and it has no `date` and no
                `connection`.
            body: The content.

        Raises:
            Misuse: There is an answer already.
        """
        if self.state is not _WAITING:
            self._check_gone()
            return
        connection = self._connection
        date = connection.date_line()
        more = b"" if connection.keeps() else b"connection: close\r\n"
        self.state = _OVER
        connection.send(
            b"%b%b%bcontent-length: %d\r\n\r\n%b"
            % (head.lines, date, more, len(body), b"" if self._bare else body)
        )
        connection.finish()

    # A stream.

    def start(self, status: int, headers: HeaderLines, length: int | None = None) -> None:
        """Open a stream.

        Args:
            status: 200 to 599.
            headers: Header lines, names in lower case; see `encode_response`.
            length: Bytes of all that will be written, where they are known; else it is chunked.

        Raises:
            Misuse: There is an answer already.
        """
        if self.state is not _WAITING:
            self._check_gone()
            return
        head = encode_response(status, headers)
        if status in _BODILESS:
            self._bare, length = True, None
        self._raw = length is not None or self._bare or self._connection.minor == 0
        if self._raw and length is None and not self._bare:
            # HTTP/1.0 knows no chunks: the stream ends with its connection.
            self._connection.keep = False
        lines = self._head_lines(head)
        if length is not None:
            lines += b"content-length: %d\r\n" % length
        elif status not in _BODILESS and self._connection.minor:
            lines += b"transfer-encoding: chunked\r\n"
        self._left = None if self._bare else length
        self._prefix = lines + b"\r\n"
        self._held = []
        self._size = 0
        self._fresh = True
        self.state = _OPEN
        self._queue()

    def write(self, data: bytes) -> None:
        """Send a piece of the stream.

        The first piece in a turn of the loop leaves at once, the others of that turn together.

        Raises:
            Misuse: No stream is open, or the piece does not fit into the length.
        """
        if self.state is not _OPEN:
            self._check_gone()
            return
        if not data or self._bare:
            return
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise Misuse("more is written than the length says")
        self._held.append(data)
        self._size += len(data)
        if self._fresh:
            self._fresh = False
            self._connection.send_now(self._take())
            self._queue()

    def end(self) -> None:
        """End the stream. One that is shorter than its length cuts the connection.

        Raises:
            Misuse: No stream is open.
        """
        if self.state is not _OPEN:
            self._check_gone()
            return
        if self._left:
            self.abort()
            return
        self.state = _OVER
        data = self._take()
        if not self._raw:
            data += LAST_CHUNK
        if data:
            self._connection.send(data)
        self._connection.finish()

    def abort(self) -> None:
        """Cut the connection: the peer sees that the answer is not whole."""
        if self.state in {_WAITING, _OPEN}:
            self.state = _GONE
            self._connection.abort()

    def turn_over(self) -> None:
        """Send what was kept during the turn; the hub calls it."""
        self._queued = False
        if self.state is not _OPEN:
            return
        if self._held or self._prefix:
            self._connection.send(self._take())
            self._queue()
            # What was kept counted as pending; if the peer's side took it, nobody else will say so.
            if not self._connection.blocked:
                self.drained()
        else:
            self._fresh = True

    # The peer's pace.

    def pending(self) -> int:
        """Bytes that are not taken by the peer's side yet."""
        kept = self._size if self.state is _OPEN else 0
        # While the peer is not slow the transport holds nothing: see Connection.
        return kept + self._connection.unsent() if self._connection.blocked else kept

    def on_drained(self, drained: Callable[[], None]) -> None:
        """Call a function each time when all that was pending has been taken."""
        self._on_drained = drained

    def watch(self, gone: Callable[[], None]) -> None:
        """Call a function if the peer leaves before the answer is over; at once if it has."""
        if self.state is _GONE:
            gone()
        else:
            self._on_gone = gone

    # The request's body.

    def receive(self, sink: Sink) -> None:
        """Take the request's body piece by piece, instead of whole.

        To be called while the application's `open` runs; its `handle` is not called then.
        """
        self._connection.sink = sink

    def pause(self) -> None:
        """Let the sender of the body wait; some pieces may still come."""
        if self.state in {_WAITING, _OPEN}:
            self._connection.hold_body(held=True)

    def resume(self) -> None:
        """Let the sender of the body go on."""
        if self.state in {_WAITING, _OPEN}:
            self._connection.hold_body(held=False)

    # What the connection calls.

    @property
    def is_open(self) -> bool:
        """Whether a part of the answer is out."""
        return self.state is _OPEN

    def leave(self) -> None:
        """The peer has left."""
        if self.state not in {_WAITING, _OPEN}:
            return
        self.state = _GONE
        gone, self._on_gone = self._on_gone, None
        if gone is not None:
            gone()

    def drained(self) -> None:
        """All that was pending has been taken."""
        if self._on_drained is not None and self.state in {_WAITING, _OPEN}:
            self._on_drained()

    def _check_gone(self) -> None:
        if self.state is not _GONE:
            raise Misuse(f"not allowed in an answer that is {self.state.value}")

    def _head_lines(self, head: Encoded) -> bytes:
        connection = self._connection
        lines = head.lines if head.dated else head.lines + connection.date_line()
        if head.closes:
            connection.keep = False
        if not connection.keeps():
            return lines + b"connection: close\r\n"
        return lines

    def _take(self) -> bytes:
        """Take what is kept, framed."""
        prefix, self._prefix = self._prefix, b""
        held = self._held
        if not held:
            return prefix
        if not self._raw:
            held = encode_chunk(held, self._size)
        self._held = []
        self._size = 0
        return b"".join((prefix, *held))

    def _queue(self) -> None:
        if not getattr(self, "_queued", False):
            self._queued = True
            self._connection.after_turn(self)
