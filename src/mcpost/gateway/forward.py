"""One request through the gateway, streamed both ways.

| state | request's body | response's head | response's data | upstream fails | client leaves |
| --- | --- | --- | --- | --- | --- |
| before | sent on | kept, or stream opened | - | 502 to 504 | upstream is cut |
| held | sent on | - | answered whole, or stream opened | 502 to 504 | upstream is cut |
| open | sent on | - | sent on | client is cut | upstream is cut |
| over | nothing | - | - | - | - |

A request is given to a second endpoint only where it is certain that the first has seen nothing of
it, not even a connection: so nothing ever runs twice.

Spec: streamable-http, "Cancellation" (T-15); RFC 9110, 7.6 and 9.2.2.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Final

from mcpost.gateway import refusals
from mcpost.gateway.access_log import Note
from mcpost.gateway.door import Door
from mcpost.gateway.hops import forward_response
from mcpost.gateway.upstreams import Endpoint, Group
from mcpost.http11.call import Call, CallState, Outgoing
from mcpost.http11.encode import Encoded, HeaderLines, encode_passed_on, encode_response
from mcpost.http11.errors import CallFailed, ConnectFailed, PoolFull
from mcpost.http11.exchange import Exchange
from mcpost.http11.exchange import State as AnswerState
from mcpost.http11.head import Request, Response

__all__ = ("End", "Forward", "Upload")

_HIGH: Final = 64 * 1024
"""Bytes that wait for a slow reader from which on the sender has to wait, too."""


class End(enum.Enum):
    """How a forwarded request came to its end."""

    WHOLE = "whole"
    LEFT = "client left"
    FAILED = "upstream failed"
    CUT = "upstream cut the stream"


class _State(enum.Enum):
    """What has been told to the client; the table at the head of this file."""

    BEFORE = "before"
    HELD = "held"
    OPEN = "open"
    OVER = "over"


_BEFORE, _HELD, _OPEN, _OVER = _State.BEFORE, _State.HELD, _State.OPEN, _State.OVER


class Forward:
    """One request to an upstream, and the receiver of the response.

    Args:
        exchange: Where the answer goes.
        request: The head that came.
        group: The upstream it is for.
        lines: The header lines that go there.
        note: What the log will say of it.
        ended: Told once, at the end.
        shard: The endpoint to begin with; `None` lets them take turns.
        heads: What was made of `lines` before, by target; more is added. Where it is given, the
            lines are those of a head that was read, and `forward_request` has made them.
    """

    __slots__ = (
        "_call",
        "_candidates",
        "_ended",
        "_exchange",
        "_heads",
        "_held",
        "_lines",
        "_request",
        "_shard",
        "_state",
        "end",
        "endpoint",
        "error",
        "group",
        "note",
        "received",
        "status",
    )

    def __init__(
        self,
        exchange: Door,
        request: Request,
        group: Group,
        *,
        lines: HeaderLines,
        note: Note,
        ended: Callable[[Forward], None],
        shard: int | None = None,
        heads: dict[bytes, Encoded] | None = None,
    ) -> None:
        self._exchange = exchange
        self._request: Request | None = request
        self._lines = lines
        self._heads = heads
        self._shard = shard
        self._candidates: Iterator[Endpoint] | None = None
        self._ended = ended
        self._call: Call | None = None
        self._held: Response | None = None
        self._state = _BEFORE
        self.group = group
        self.note = note
        self.end: End | None = None
        """How it ended, `None` while it runs."""
        self.endpoint: Endpoint | None = None
        """The endpoint that was asked last."""
        self.error: CallFailed | None = None
        """Why there is no response, or no whole one."""
        self.received = 0
        """Bytes of the response's body."""
        self.status = 0
        """The status that the client was told, 0 for none."""
        exchange.watch(self._on_gone)

    @property
    def is_open(self) -> bool:
        """Whether a stream runs."""
        return self._state is _OPEN

    def send(self, body: bytes | None, length: int | None = None) -> Call | None:
        """Send the request.

        Args:
            body: The body; `None` if it comes piece by piece.
            length: Its bytes where they are known before.

        Returns:
            The call, to send the pieces by; `None` if there is none.
        """
        request = self._request
        if request is None:
            return None
        endpoint = self.endpoint = self._choose()
        target = endpoint.target
        if b"?" in request.target:
            target += b"?" + request.query
        method = request.method.encode("ascii")
        head = None
        if self._heads is not None:
            head = self._heads.get(target)
            if head is None:
                head = self._heads[target] = encode_passed_on(method, target, self._lines)
        outgoing = Outgoing(method, target, self._lines, body, length, head)
        endpoint.running += 1
        try:
            call = self._call = endpoint.pool.send(outgoing, self)
        except PoolFull as error:
            self.on_failed(error)
            return None
        return call

    # What the call tells: `Receiver`.

    def on_head(self, response: Response) -> None:
        """Keep the head of a short response until its body is there, or open a stream."""
        assert self.endpoint is not None
        self.endpoint.reached()
        if response.length >= 0 and not self._is_head_only(response):
            self._held = response
            self._state = _HELD
            return
        length = response.fields.get(b"content-length")
        self._open(response, int(length) if length else None)

    def on_data(self, data: bytes) -> None:
        """Send on a piece of the response."""
        self.received += len(data)
        held = self._held
        exchange = self._exchange
        if held is not None:
            if len(data) == held.length:
                self._answer(held, data)
                return
            self._open(held, held.length)
        exchange.write(data)
        if exchange.pending() > _HIGH and self._call is not None:
            self._call.pause()

    def on_end(self) -> None:
        """The response is whole."""
        if self._state is _HELD and self._held is not None:
            self._answer(self._held, b"")
        elif self._state is _OPEN:
            self._state = _OVER
            self._exchange.end()
        self._finish(End.WHOLE)

    def on_failed(self, error: CallFailed) -> None:
        """Answer that there is no response; or cut the client, so that it sees the end is none."""
        self.error = error
        endpoint = self.endpoint
        call = self._call
        if endpoint is not None and isinstance(error, ConnectFailed):
            endpoint.missed()
            if call is not None and call.outgoing.body is not None and self._try_next(call):
                return
        if self._state is _OPEN:
            self._state = _OVER
            self._exchange.abort()
            self._finish(End.CUT)
            return
        if self._state is not _OVER:
            answer = refusals.failed(error)
            self._state = _OVER
            self.status = answer.status
            self._exchange.respond(*answer)
        self._finish(End.FAILED)

    def cut(self) -> None:
        """End it now, for both sides."""
        if self.end is None:
            self._exchange.abort()
            self._on_gone()

    # Steps.

    def _choose(self) -> Endpoint:
        """Choose the endpoint to begin with."""
        endpoints = self.group.endpoints
        if len(endpoints) == 1:
            return endpoints[0]
        self._candidates = self.group.order(self._shard)
        return next(self._candidates)

    def _try_next(self, call: Call) -> bool:
        """Send to another endpoint what the last has seen nothing of."""
        assert self.endpoint is not None
        following = next(self._candidates, None) if self._candidates is not None else None
        if following is None or self._state is not _BEFORE:
            return False
        self._leave_endpoint()
        self.endpoint = following
        following.running += 1
        try:
            self._call = following.pool.send(call.outgoing, self)
        except PoolFull:
            return False
        return True

    def _is_head_only(self, response: Response) -> bool:
        # A response to HEAD, and a 304, may name the length of a body that does not come.
        return response.length == 0 and response.fields.get(b"content-length", b"0") != b"0"

    def _answer(self, response: Response, body: bytes) -> None:
        self._held = None
        self._state = _OVER
        self.status = response.status
        if body:
            self._exchange.pass_on(_encode(response), body)
        else:
            self._exchange.respond(response.status, forward_response(response), body)

    def _open(self, response: Response, length: int | None) -> None:
        self._held = None
        self._request = None
        self._state = _OPEN
        self.status = response.status
        exchange, call = self._exchange, self._call
        exchange.start(response.status, forward_response(response), length)
        if call is not None:
            exchange.on_drained(call.resume)

    def _on_gone(self) -> None:
        """The client has left: the upstream's work is for nobody."""
        self._state = _OVER
        if self._call is not None:
            self._call.cancel()
        self._finish(End.LEFT)

    def _leave_endpoint(self) -> None:
        if self.endpoint is not None:
            self.endpoint.running -= 1
            self.group.leave(self.endpoint)

    def _finish(self, end: End) -> None:
        if self.end is not None:
            return
        self.end = end
        self._leave_endpoint()
        self._call = self._held = self._request = None
        self._exchange.unwatch()
        self._ended(self)


def _encode(response: Response) -> Encoded:
    """Encode a head for the client, once for all that are the same."""
    noted: tuple[object, Encoded] | None = response.note
    # What is no longer the head that was noted about, as a copy with another line, is another.
    if noted is not None and noted[0] is response.headers:
        return noted[1]
    head = encode_response(response.status, forward_response(response))
    response.note = response.headers, head
    return head


class Upload:
    """The sink of a request's body: hands it to a `Forward` as it comes.

    Args:
        exchange: Whose body it is, and whose sender may have to wait.
        length: As of the request.
        forward: Where it goes.
    """

    __slots__ = ("_call", "_exchange", "_forward", "_length")

    def __init__(self, exchange: Exchange, length: int, forward: Forward) -> None:
        self._exchange = exchange
        self._length = length
        self._forward = forward
        self._call: Call | None = None

    def on_data(self, data: bytes) -> None:
        """Send on a piece; the first takes the head with it."""
        call = self._call
        if call is None:
            if len(data) == self._length:
                self._call = self._forward.send(data)
                return
            call = self._forward.send(None, self._length if self._length >= 0 else None)
            if call is None:
                return
            self._call = call
            call.on_drained(self._exchange.resume)
        call.write(data)
        if call.state is CallState.WAITING or call.pending() > _HIGH:
            self._exchange.pause()

    def on_end(self) -> None:
        """The body is whole."""
        call = self._call
        if call is None:
            if self._exchange.state is AnswerState.WAITING:
                self._forward.send(b"")
        elif not call.ended:
            call.end()
