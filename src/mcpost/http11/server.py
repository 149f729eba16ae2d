r"""The server's side of a connection.

| reading \ event | bytes | request whole | answer over | time over |
| --- | --- | --- | --- | --- |
| head | head: `open` | - | - | idle: close; begun: 408, linger |
| body | body: payload | answer: `handle` | discard, or linger | 408, linger |
| answer | kept, bounded | - | head | - |
| discard | thrown away | head | - | close |
| linger | thrown away, bounded | - | - | close |

One request runs at a time; those pipelined behind it wait as bytes, so answers are in order by
construction. A broken rule is answered, told to whoever works on an answer, and ends the
connection: nothing behind it is believed.
"""

from __future__ import annotations

import asyncio
import enum
from re import Match
from typing import TYPE_CHECKING, Generic, TypeVar

from mcpost.http11.application import Application, Owner
from mcpost.http11.body import BodyReader, reader_for
from mcpost.http11.connection import Connection
from mcpost.http11.encode import CONTINUE, encode_response
from mcpost.http11.errors import Malformed
from mcpost.http11.exchange import Exchange, Sink
from mcpost.http11.grammar import REQUEST_HEAD, check_unfinished, explain_request
from mcpost.http11.head import Request, parse_request
from mcpost.http11.hub import NEVER, Hub, Turned
from mcpost.http11.limits import ConnectionLimits

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Reading", "ServerConnection")

E = TypeVar("E", bound=Exchange)

_END = b"\r\n\r\n"


class Reading(enum.Enum):
    """What the next byte belongs to; the table at the head of this file."""

    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    DISCARD = "discard"
    LINGER = "linger"


_HEAD, _BODY, _ANSWER = Reading.HEAD, Reading.BODY, Reading.ANSWER
_DISCARD, _LINGER = Reading.DISCARD, Reading.LINGER


class ServerConnection(Connection, Generic[E]):
    """One connection of a client.

    Args:
        application: What answers.
        exchange: Makes the exchange of each request: `Exchange`, or a class of it.
        owner: Whom to tell the end.
        hub: What the connections of the loop share.
        limits: Bounds.
    """

    __slots__ = (
        "_application",
        "_collected",
        "_draining",
        "_ended",
        "_exchange",
        "_heads",
        "_held_body",
        "_limits",
        "_make_exchange",
        "_owner",
        "_peer",
        "_reader",
        "_received",
        "_request",
        "_rest",
        "_running",
        "_scanned",
        "_state",
        "keep",
        "minor",
        "sink",
    )

    def __init__(
        self,
        application: Application[E],
        exchange: Callable[[ServerConnection[E], Request], E],
        owner: Owner,
        hub: Hub,
        limits: ConnectionLimits,
    ) -> None:
        super().__init__(hub, limits.write_timeout, limits.min_write)
        self._heads = owner.heads
        self._application = application
        self._make_exchange = exchange
        self._owner = owner
        self._limits = limits
        self._peer: str | None = None
        self._state = _HEAD
        self._rest = b""
        """Bytes that are not used yet: an unfinished head, or requests behind the one that runs."""
        self._scanned = 0
        """How far an unfinished head has been checked."""
        self._running = False
        self._request: Request | None = None
        self._exchange: E | None = None
        self._reader: BodyReader | None = None
        self._collected = bytearray()
        self._received = 0
        self._held_body = False
        self._ended = False
        self._draining = False
        self.sink: Sink | None = None
        """What takes the body of the request that runs, if not whole."""
        self.minor = 1
        """1 if the request that runs is of HTTP/1.1, else 0."""
        self.keep = True
        """Whether the answer that runs may leave the connection open."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, and wait for a head."""
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        # Of a Unix socket it is a string, mostly an empty one.
        self._peer = peer[0] if isinstance(peer, tuple) else None
        self._expect_by(self._hub.loop.time() + self._limits.head_timeout)
        if not self._owner.made(self):
            self.send_refusal(503, "too many connections are open")
            self._linger()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever works on an answer that nobody waits for it."""
        super().connection_lost(exc)
        exchange, self._exchange = self._exchange, None
        self._rest = b""
        self._request = self._reader = self.sink = None
        self._owner.lost(self)
        if exchange is not None:
            exchange.leave()

    def eof_received(self) -> bool:
        """The client sends nothing more: it has left, unless half a connection is allowed."""
        self._ended = True
        if self._exchange is None or self._transport is None:
            return False
        if (
            self._limits.half_close
            and self._state is _ANSWER
            and self._transport.get_extra_info("ssl_object") is None
        ):
            return True
        self._exchange.leave()
        return False

    def resume_writing(self) -> None:
        """All that was written has been taken."""
        super().resume_writing()
        if self._exchange is not None:
            self._exchange.drained()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        state = self._state
        if state is _LINGER:
            self._received += len(data)
            if self._received > self._limits.max_linger:
                self.abort()
            return
        if self._rest:
            data = self._rest + data
        if state is _ANSWER:
            self._rest = data
            self._choose_reading()
        else:
            self._run(data)

    # The loop over what has come.

    def _run(self, data: bytes) -> None:
        """Use the bytes up to the first that has to wait, and keep the rest."""
        self._running = True
        self._rest = b""
        start, end = 0, len(data)
        try:
            while start < end:
                state = self._state
                if state is _HEAD:
                    after = self._take_head(data, start)
                    if after == start:
                        break
                    start = after
                elif state is _BODY or state is _DISCARD:
                    start = self._take_body(data, start)
                else:
                    break
        except Malformed as problem:
            self._refuse(problem)
        finally:
            self._running = False
            self._uncork()
        if start < end and self._state is not _LINGER:
            self._rest = data[start:]
        if self._rest or not self._reading:
            self._choose_reading()
        if self._ended and self._state is _HEAD:
            self.close()

    def _take_head(self, data: bytes, start: int) -> int:
        """Use one head, and its body if it is there; the start itself means: not whole yet."""
        after = data.find(_END, start + self._scanned) + 4
        request = self._heads.get(data[start:after], self._peer) if after >= 4 else None
        if request is None:
            match = None if self._scanned else REQUEST_HEAD.match(data, start)
            if match is None:
                match = self._look_again(data, start)
                if match is None:
                    return start
            request = parse_request(data, match, self._limits.message)
            after = match.end()
            request.peer = self._peer
            self._heads.put(match[0], request)
        self._scanned = 0
        # What is due later than the hub believes costs nothing: see Hub.
        self._read_by = NEVER
        start = after
        length = request.length
        self._request = request
        self.keep = request.keep_alive
        self.minor = request.minor
        self._state = _BODY if length else _ANSWER
        exchange = self._exchange = self._make_exchange(self, request)
        end = start + length
        if len(data) > end:
            # The answer leaves in one write with those of the requests behind this one.
            self._corked = True
        self._application.open(request, exchange)
        if self._exchange is not exchange:
            return start
        if not length:
            return self._whole(b"", start)
        if length > self._limits.message.max_body:
            raise self._too_large()
        if length > 0 and end <= len(data) and self.sink is None:
            self._state = _ANSWER
            self._request = None
            self._application.handle(request, data[start:end], exchange)
            return end
        if start < len(data):
            request.expects = False
        if not self._held_body:
            self._await_body(request)
        return start

    def _await_body(self, request: Request) -> None:
        if request.expects:
            request.expects = False
            self.send(CONTINUE)
        self._expect_by(self._hub.loop.time() + self._limits.body_timeout)

    def _look_again(self, data: bytes, start: int) -> Match[bytes] | None:
        """Find out whether a head is unfinished or malformed."""
        # RFC 9112, 2.2: an empty line before a request should be ignored; one is.
        begin = start + 2 if data.startswith(b"\r\n", start) else start
        end = data.find(_END, max(begin, start + self._scanned - 3))
        if end >= 0:
            match = REQUEST_HEAD.match(data, begin)
            if match is None:
                raise explain_request(data[begin : max(begin, end) + 4])
            return match
        head = data[start:]
        check_unfinished(head, self._scanned, self._limits.message, request=True)
        if not self._scanned:
            due = self._hub.loop.time() + self._limits.head_timeout
            self._expect_by(min(due, self._read_by))
        self._scanned = len(head)
        return None

    def _take_body(self, data: bytes, start: int) -> int:
        """Use what there is of a body."""
        request = self._request
        assert request is not None
        reader = self._reader
        if reader is None:
            reader = self._reader = reader_for(request.length, self._limits.message)
        payload, after = reader.feed(data, start)
        if self._state is _DISCARD:
            self._received += after - start
            if self._received > self._limits.max_discard:
                self._linger()
        else:
            self._received += len(payload)
            if self._received > self._limits.message.max_body:
                raise self._too_large()
            if self.sink is not None:
                if payload:
                    self.sink.on_data(payload)
            elif self._collected or not reader.done:
                self._collected += payload
        # The sink may have answered, or cut the connection.
        if reader.done and self._state is _DISCARD:
            self._next()
        elif reader.done and self._state is _BODY:
            self._state = _ANSWER
            self._read_by = NEVER
            if self._collected:
                payload, self._collected = bytes(self._collected), bytearray()
            return self._whole(payload, after)
        return after

    def _whole(self, body: bytes, after: int) -> int:
        """The request is whole: have it answered."""
        request, exchange, sink = self._request, self._exchange, self.sink
        assert request is not None
        assert exchange is not None
        # An answer may take days; whoever gives it keeps what it needs of the request.
        self._request = self._reader = None
        if sink is None:
            self._application.handle(request, body, exchange)
        else:
            sink.on_end()
        return after

    def _too_large(self) -> Malformed:
        return Malformed(413, f"the body is longer than {self._limits.message.max_body} bytes")

    def _choose_reading(self) -> None:
        """Stop reading where more would have to be kept than is allowed."""
        if self._state is _BODY:
            self._set_reading(wanted=not self._held_body)
        elif self._state is _ANSWER:
            self._set_reading(wanted=len(self._rest) <= self._limits.max_pipelined)
        else:
            self._set_reading(wanted=True)

    # What the exchange calls.

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of this connection."""
        return self._hub.loop

    def date_line(self) -> bytes:
        """The `Date` line."""
        return self._hub.dates.line()

    def after_turn(self, exchange: Turned) -> None:
        """Call `turn_over` when this turn of the loop is over."""
        self._hub.after_turn(exchange)

    def keeps(self) -> bool:
        """Decide, with the head of an answer, whether the connection outlives it."""
        if self._draining:
            self.keep = False
        if self.keep and self._state is _BODY and self._request is not None:
            # The rest of the body has to be read first; whoever waits for 100 may not send one.
            request = self._request
            short = 0 < request.length <= self._limits.max_discard
            self.keep = short and not request.expects
        return self.keep

    def hold_body(self, *, held: bool) -> None:
        """Stop or go on reading the body; a sender that has to wait is not slow."""
        if self._state is not _BODY or held is self._held_body:
            return
        self._held_body = held
        if held:
            self._expect_by(NEVER)
        elif self._request is not None:
            self._await_body(self._request)
        self._choose_reading()

    def finish(self) -> None:
        """The answer is over: go on with the next request, or end."""
        self._exchange = None
        self._held_body = False
        unread = self._state is _BODY
        if not self.keep or self._draining:
            if unread or self._rest:
                self._linger()
            else:
                self.close()
        elif unread:
            self._state = _DISCARD
            self._received = 0
            self.sink = None
            self._expect_by(self._hub.loop.time() + self._limits.body_timeout)
            self._choose_reading()
        else:
            self._next()

    def _next(self) -> None:
        """Wait for the next request, or use what has come of it."""
        self._state = _HEAD
        self._request = self._reader = self.sink = None
        if self._received:
            self._received = 0
            self._collected = bytearray()
        self._read_by = due = self._hub.loop.time() + self._limits.idle_timeout
        if due < self.deadline:
            self._keep_deadline()
        if self._running:
            return
        if self._rest:
            # Not here: this may be the task, and the context, of the answer that is over.
            self._hub.loop.call_soon(self._go_on)
        else:
            self._choose_reading()
            if self._ended:
                self.close()

    def _go_on(self) -> None:
        """Use what waited behind an answer, unless something has come first and used it."""
        if self._rest and self._state is _HEAD and self._transport is not None:
            self._run(self._rest)

    # The end.

    def drain(self) -> None:
        """Close now if nothing runs, else with the answer that does."""
        self._draining = True
        if self._exchange is None and self._state is _HEAD and not self._rest:
            self.close()

    def close(self) -> None:
        """Close once everything written has been sent."""
        self._state = _LINGER
        self._read_by = NEVER
        super().close()

    def abort(self) -> None:
        """Cut the connection."""
        self._state = _LINGER
        self._read_by = NEVER
        super().abort()

    def _read_expired(self) -> None:
        if self._state is _BODY or (self._state is _HEAD and self._rest):
            what = "head" if self._state is _HEAD else "body"
            self._refuse(Malformed(408, f"the {what} of the request did not arrive in time"))
        else:
            self.close()

    def _refuse(self, problem: Malformed) -> None:
        """Answer a broken rule and believe nothing that follows."""
        self._owner.refused(problem.status)
        exchange, self._exchange = self._exchange, None
        answered = self._state is _DISCARD
        if exchange is not None:
            answered = exchange.is_open
            exchange.leave()
        if answered:
            self.abort()
            return
        self.send_refusal(problem.status, problem.reason)
        self._linger()

    def send_refusal(self, status: int, reason: str) -> None:
        """Send an answer after which the connection ends."""
        headers, body = self._application.word(status, reason)
        head = encode_response(status, headers).lines + self.date_line()
        self.send(b"%bconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (head, len(body), body))

    def _linger(self) -> None:
        """Hear the client out, for a while: else it may lose the answer in a reset."""
        self._uncork()
        self._state = _LINGER
        self._received = 0
        self._rest = b""
        self._request = self._reader = self.sink = None
        if self._transport is None or self._ended:
            self.close()
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._expect_by(self._hub.loop.time() + self._limits.linger)
        self._set_reading(wanted=True)
