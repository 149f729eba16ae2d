"""One HTTP/1.1 connection, seen from the end that asks.

It knows no MCP: it writes a request that is bytes already, and tells a `Taker` what comes back.
One request at a time; the next only after the answer has ended where its framing says so. What is
wrong with an answer's framing ends the connection, because nobody can say where the next answer
would begin.

States: *idle* (may be used), *busy* (an answer is awaited), *draining* (the taker has what it
wanted; the rest is thrown away so that the connection can be used again), *closed*.

Spec: RFC 9112, 6 and 9.
"""

from __future__ import annotations

import asyncio
import enum
import select
from collections.abc import Callable
from typing import Final, Protocol, cast

import httptools

__all__ = ("Connection", "HeadTooLarge", "Malformed", "Taker", "is_readable")

_DRAIN_TIME: Final = 1.0
_DRAIN_BYTES: Final = 64 * 1024
_MAX_INTERIM: Final = 8


class Malformed(Exception):
    """The answer is no HTTP/1.1 answer."""


class HeadTooLarge(Exception):
    """The head, or what stands between two pieces of the body, is over the limit."""


class Taker(Protocol):
    """Whoever takes one answer; called by the loop, never raises."""

    def take_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Take the status and the header lines, names in lower case."""

    def take_body(self, data: bytes) -> None:
        """Take a piece of the body."""

    def take_end(self) -> None:
        """The body has ended as its framing says."""

    def take_loss(self, error: Exception | None) -> None:
        """The answer ends here, unfinished: the reason, or `None` for a plain end."""


class _State(enum.Enum):
    IDLE = "idle"
    BUSY = "busy"
    DRAINING = "draining"
    CLOSED = "closed"


class Connection(asyncio.Protocol):
    """An HTTP/1.1 client connection.

    Args:
        max_head: Bytes of a head, and of what may come without a byte of body.
        release: Called when the connection may be used again.
        forget: Called once, when it is closed.
    """

    def __init__(
        self,
        max_head: int,
        release: Callable[[Connection], None],
        forget: Callable[[Connection], None],
    ) -> None:
        self._max_head = max_head
        self._release = release
        self._forget = forget
        self._state = _State.IDLE
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._taker: Taker | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_head = True
        self._interim = 0
        self._sized = True
        self._keep = False
        self._complete = False
        self._problem: Exception | None = None
        self._quiet = 0
        self._drain: asyncio.TimerHandle | None = None
        self.idle_since = 0.0
        """Loop time at which the last answer ended."""

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent on it, as far as this end knows."""
        transport = self._transport
        return self._state is _State.IDLE and transport is not None and not transport.is_closing()

    @property
    def descriptor(self) -> int:
        """The socket's file descriptor, -1 where there is none."""
        raw = self._transport.get_extra_info("socket") if self._transport is not None else None
        return raw.fileno() if raw is not None else -1

    def send(self, request: bytes, taker: Taker) -> None:
        """Write a request; its answer goes to the taker.

        Args:
            request: Head and body.
            taker: Who takes the answer.
        """
        assert self._transport is not None
        assert self._state is _State.IDLE
        self._state = _State.BUSY
        self._taker = taker
        self._start_message()
        self._quiet = 0
        self._interim = 0
        self._transport.write(request)

    def leave(self, taker: Taker) -> None:
        """Let go of an answer whose rest is not wanted; it is read off, within bounds.

        Nothing happens where the answer has ended: the connection may serve another by now.
        """
        if self._taker is not taker:
            return
        self._taker = None
        if self._state is _State.BUSY:
            self._state = _State.DRAINING
            self._quiet = 0
            self.resume()
            self._drain = asyncio.get_running_loop().call_later(_DRAIN_TIME, self.abort)

    def cut(self, taker: Taker) -> None:
        """Close at once, so that the peer stops; nothing happens where the answer has ended."""
        if self._taker is taker:
            self.abort()

    def abort(self) -> None:
        """Close at once; what is unsent is dropped, and the peer sees the connection go."""
        self._taker = None
        self._state = _State.CLOSED
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Read no more until `resume`, so that the peer has to wait."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Go on reading."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        # uvloop's are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the answer."""
        if self._state is _State.IDLE:
            # Nothing was asked: whatever this is, it would be read as the next answer.
            self.abort()
            return
        self._quiet += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(Malformed("the server wants to switch protocols"))
            return
        except httptools.HttpParserError as error:
            self._fail(Malformed(str(error) or type(error).__name__))
            return
        if self._problem is not None:
            self._fail(self._problem)
        elif self._complete:
            self._settle()
        elif self._quiet > (_DRAIN_BYTES if self._state is _State.DRAINING else self._max_head):
            self._fail(HeadTooLarge())

    def eof_received(self) -> bool:
        """The peer sends no more: close this end as well."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        taker, self._taker = self._taker, None
        busy = self._state is _State.BUSY
        self._state = _State.CLOSED
        if self._drain is not None:
            self._drain.cancel()
        self._forget(self)
        if taker is None or not busy:
            return
        if exc is None and not self._in_head and not self._sized:
            taker.take_end()
        else:
            taker.take_loss(exc)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """A message begins; after the end of the answer that is one too many."""
        if self._complete:
            self._problem = Malformed("bytes follow the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header line; those after the body (trailers) are passed over."""
        if self._in_head:
            self._headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        status = self._parser.get_status_code()
        if status < 200:
            self._interim += 1
            if self._interim > _MAX_INTERIM:
                self._problem = Malformed("too many interim answers")
            return
        coding = [value for name, value in self._headers if name == b"transfer-encoding"]
        if coding and [value.lower() for value in coding] != [b"chunked"]:
            self._problem = Malformed("a transfer coding other than chunked")
            return
        self._in_head = False
        self._sized = bool(coding) or any(name == b"content-length" for name, _ in self._headers)
        self._sized = self._sized or status in (204, 304)
        self._keep = self._parser.should_keep_alive()
        if self._taker is not None:
            self._taker.take_head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        if self._state is not _State.DRAINING:
            self._quiet = 0
        if self._taker is not None and self._problem is None:
            self._taker.take_body(data)

    def on_message_complete(self) -> None:
        """The message has ended: the answer, or an interim one before it."""
        if self._in_head:
            self._start_message()
        else:
            self._complete = True

    # What follows from it.

    def _start_message(self) -> None:
        self._headers = []
        self._in_head = True
        self._complete = False

    def _settle(self) -> None:
        """The answer has ended cleanly: be idle again, or close where it says so."""
        taker, self._taker = self._taker, None
        transport = self._transport
        assert transport is not None
        if self._drain is not None:
            self._drain.cancel()
            self._drain = None
        # A server may answer before it has read the whole request; the rest would be read as the
        # next one.
        if self._keep and not transport.is_closing() and not transport.get_write_buffer_size():
            self._state = _State.IDLE
            self.idle_since = asyncio.get_running_loop().time()
            self.resume()
            self._release(self)
        else:
            self._state = _State.CLOSED
            transport.close()
        if taker is not None:
            taker.take_end()

    def _fail(self, error: Exception) -> None:
        taker = self._taker
        self.abort()
        if taker is not None:
            taker.take_loss(error)


def is_readable(descriptor: int) -> bool:
    """Whether a socket has something to read now: on an idle connection, that is its end."""
    if descriptor < 0:
        return False
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([descriptor], [], [], 0)[0])
