r"""The client's side of a connection: one request at a time, and the response to it.

| reading \ event | bytes | response whole | connection ends | time over |
| --- | --- | --- | --- | --- |
| idle | cut: nobody asked | - | forgotten | close |
| head | interim: head; final: body | idle, or close | failed | failed |
| body | payload | idle, or close | whole if it ends so, else failed | failed |

A connection is used again only after a clean end: the request whole, the response whole by its own
framing, both sides willing, and not a byte behind it. Then nothing can be taken for the response to
a request that it does not belong to.
"""

from __future__ import annotations

import asyncio
import enum
from typing import TYPE_CHECKING

from mcpost.http11.body import BodyReader, ClosingReader, reader_for
from mcpost.http11.call import Call
from mcpost.http11.connection import Connection
from mcpost.http11.encode import LAST_CHUNK, encode_chunk
from mcpost.http11.errors import (
    BadResponse,
    CallFailed,
    ConnectionLost,
    Malformed,
    Phase,
    Sent,
    TimedOut,
)
from mcpost.http11.grammar import RESPONSE_HEAD, check_unfinished, explain_response
from mcpost.http11.head import Response, parse_response
from mcpost.http11.hub import NEVER

if TYPE_CHECKING:
    from mcpost.http11.pool import Pool

__all__ = ("ClientConnection",)

_END = b"\r\n\r\n"

# RFC 9110, 8.6: these say a length even of an empty body.
_WITH_BODY = frozenset({b"POST", b"PUT", b"PATCH"})


class _Reading(enum.Enum):
    """What the next byte belongs to; the table at the head of this file."""

    IDLE = "idle"
    HEAD = "head"
    BODY = "body"


_IDLE, _HEAD, _BODY = _Reading.IDLE, _Reading.HEAD, _Reading.BODY


class ClientConnection(Connection):
    """One connection to an upstream.

    Args:
        pool: Where it comes from, and goes back to.
    """

    __slots__ = (
        "_call",
        "_chunked",
        "_heard",
        "_held_body",
        "_interim",
        "_keep",
        "_limits",
        "_phase",
        "_pool",
        "_reader",
        "_rest",
        "_scanned",
        "_seconds",
        "_state",
    )

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool.hub, pool.limits.head_timeout, 1)
        self._pool = pool
        self._limits = pool.limits
        self._call: Call | None = None
        self._state = _IDLE
        self._chunked = False
        self._heard = False
        self._held_body = False
        self._interim = 0
        self._keep = False
        self._reader: BodyReader | None = None
        self._rest = b""
        self._scanned = 0
        self._phase: Phase = "head"
        self._seconds = 0.0

    # What the pool calls.

    def begin(self, call: Call) -> None:
        """Send a request."""
        outgoing, head = call.outgoing, call.head
        lines = head.lines if head.hosted else head.lines + self._pool.host_line
        self._keep = not head.closes
        if head.closes:
            lines += b"connection: close\r\n"
        self._call = call
        self._state = _HEAD
        self._heard = False
        self._interim = 0
        early = call.begin(self)
        body = outgoing.body
        if body is None:
            self._begin_pieces(call, lines, early)
        elif body or outgoing.method in _WITH_BODY:
            self.send(b"%bcontent-length: %d\r\n\r\n%b" % (lines, len(body), body))
        else:
            self.send(lines + b"\r\n")
        self._wait("head", self._limits.head_timeout)
        if early and not self.blocked:
            call.drained()

    def _begin_pieces(self, call: Call, lines: bytes, early: list[bytes] | None) -> None:
        """Send a head whose body comes piece by piece, and what has come of that."""
        length = call.outgoing.length
        self._chunked = length is None
        if length is None:
            self.send(lines + b"transfer-encoding: chunked\r\n\r\n")
        else:
            self.send(b"%bcontent-length: %d\r\n\r\n" % (lines, length))
        for piece in early or ():
            self.send_body(piece)
        if call.ended:
            self.end_body()

    def rest(self) -> None:
        """Wait for the next request."""
        self._read_by = due = self._hub.loop.time() + self._limits.keep_timeout
        if due < self.deadline:
            self._keep_deadline()

    def is_usable(self) -> bool:
        """Whether a request may be sent on it now."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._state is _IDLE

    def cut(self) -> None:
        """Cut the connection, and let a call that runs fail."""
        self._fail(ConnectionLost("the pool is closed", self._sent()))
        self.abort()

    # What the call calls.

    def send_body(self, data: bytes) -> None:
        """Send a piece of the request's body."""
        self.send(b"".join(encode_chunk([data], len(data))) if self._chunked else data)
        if self._state is _HEAD:
            self._wait("head", self._limits.head_timeout)

    def end_body(self) -> None:
        """End the request's body."""
        if self._chunked:
            self.send(LAST_CHUNK)

    def hold(self, *, held: bool) -> None:
        """Stop or go on reading; an upstream that has to wait is not slow."""
        if held is self._held_body:
            return
        self._held_body = held
        self._set_reading(wanted=not held)
        if held:
            self._wait(self._phase, None)
        else:
            self._wait(self._phase, self._seconds)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        super().connection_made(transport)
        self._pool.made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over, and with it a call that runs."""
        super().connection_lost(exc)
        self._pool.lost(self)
        if self._call is None:
            return
        if exc is None and isinstance(self._reader, ClosingReader):
            self._finish(b"")
        else:
            reason = f": {exc}" if exc else ""
            self._fail(ConnectionLost(f"the upstream ended the connection{reason}", self._sent()))

    def resume_writing(self) -> None:
        """All that was written has been taken."""
        super().resume_writing()
        if self._call is not None:
            self._call.drained()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the upstream."""
        if self._state is _IDLE:
            # Nobody has asked for it; it would be taken for the answer to what is sent next.
            self.abort()
            return
        self._heard = True
        if self._rest:
            data, self._rest = self._rest + data, b""
        elif self._state is _HEAD and self._take_known(data):
            return
        try:
            self._run(data)
        except Malformed as problem:
            self._fail(BadResponse(f"the response is no HTTP/1.1: {problem.reason}"))
            self.abort()

    # The loop over what has come.

    def _take_known(self, data: bytes) -> bool:
        """Use a whole response whose head was read before; gives whether it is one."""
        after = data.find(_END) + 4
        response = self._pool.heads.get(data[:after])
        call = self._call
        # That of a body is known only where the method has one, see `KnownHeads`.
        if response is None or response.length != len(data) - after or call is None:
            return False
        if call.outgoing.method == b"HEAD":
            return False
        if not response.keep_alive:
            self._keep = False
        receiver = call.receiver
        receiver.on_head(response)
        if self._call is call:
            receiver.on_data(data[after:])
        if self._call is call:
            self._finish(b"")
        return True

    def _run(self, data: bytes) -> None:
        start, end = 0, len(data)
        while start < end and self._call is not None:
            if self._state is _HEAD:
                after = self._take_head(data, start)
                if after == start:
                    self._rest = data[start:]
                    return
                start = after
                continue
            reader = self._reader
            assert reader is not None
            payload, start = reader.feed(data, start)
            call = self._call
            if payload:
                self._wait("idle", self._limits.idle_timeout)
                call.receiver.on_data(payload)
            if reader.done and self._call is call:
                self._finish(data[start:])
                return

    def _take_head(self, data: bytes, start: int) -> int:
        """Use one head; the start itself means: not whole yet."""
        call = self._call
        assert call is not None
        match = None if self._scanned else RESPONSE_HEAD.match(data, start)
        if match is None:
            end = data.find(_END, max(start, start + self._scanned - 3))
            if end < 0:
                head = data[start:]
                check_unfinished(head, self._scanned, self._limits.message, request=False)
                self._scanned = len(head)
                return start
            match = RESPONSE_HEAD.match(data, start)
            if match is None:
                raise explain_response(data[start : end + 4])
        self._scanned = 0
        method = call.outgoing.method
        response = parse_response(data, match, method, self._limits.message)
        start = match.end()
        if response.length > 0 and method != b"HEAD":
            self._pool.heads.put(match[0], response)
        if response.status < 200:
            self._take_interim(response)
        elif response.length:
            self._keep = self._keep and response.keep_alive
            self._reader = reader_for(response.length, self._limits.message)
            self._state = _BODY
            self._wait("idle", self._limits.idle_timeout)
            call.receiver.on_head(response)
        else:
            self._keep = self._keep and response.keep_alive
            call.receiver.on_head(response)
            if self._call is call:
                self._finish(data[start:])
        return start

    def _take_interim(self, response: Response) -> None:
        # Nobody asked for another protocol, so nobody could speak it.
        if response.status == 101:
            raise Malformed(400, "it changes the protocol")
        self._interim += 1
        if self._interim > self._limits.max_interim:
            raise Malformed(400, f"more than {self._limits.max_interim} interim responses")

    # The end of a call.

    def _finish(self, left: bytes) -> None:
        """The response is whole: give the connection back, or close it."""
        call = self._call
        assert call is not None
        whole = call.ended and not left
        self._forget_call()
        if self._held_body:
            self._held_body = False
            self._set_reading(wanted=True)
        call.finish()
        if whole and self._keep and self._transport is not None:
            self._pool.release(self)
        else:
            self.close()
        call.receiver.on_end()

    def _fail(self, error: CallFailed) -> None:
        call = self._call
        if call is None:
            return
        self._forget_call()
        call.finish()
        call.receiver.on_failed(error)

    def _forget_call(self) -> None:
        self._call = self._reader = None
        self._state = _IDLE
        self._rest = b""
        self._scanned = 0
        self._read_by = NEVER
        self._chunked = False

    def abort(self) -> None:
        """Cut the connection; nothing more is told."""
        self._forget_call()
        super().abort()

    def _sent(self) -> Sent:
        return "yes" if self._heard else "maybe"

    # Time.

    def _wait(self, phase: Phase, seconds: float | None) -> None:
        """Set what is waited for, and how long."""
        self._phase = phase
        if seconds is not None:
            self._seconds = seconds
        due = NEVER if seconds is None or self._held_body else self._hub.loop.time() + seconds
        call = self._call
        if call is not None and call.total_by < due:
            due = call.total_by
        self._read_by = due
        if due < self.deadline:
            self._keep_deadline()

    def _read_expired(self) -> None:
        call = self._call
        if call is None:
            self.close()
            return
        total = self._limits.total_timeout
        if total is not None and call.total_by <= self._hub.loop.time():
            self._fail(TimedOut("total", total, self._sent()))
        else:
            self._fail(TimedOut(self._phase, self._seconds, self._sent()))
        self.abort()

    def _write_expired(self) -> None:
        self._fail(TimedOut("head", self._limits.head_timeout, self._sent()))
        self.abort()
