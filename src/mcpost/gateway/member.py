"""One request that the gateway itself sends to a member of an aggregate.

As for what is forwarded: another endpoint is tried only where the last has certainly seen nothing.

Spec: RFC 9110, 9.2.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from mcpost.errors import TooLarge, WireError
from mcpost.gateway import refusals
from mcpost.gateway.access_log import Note
from mcpost.gateway.merging import say_missing
from mcpost.gateway.upstreams import Endpoint, Group
from mcpost.http11.call import Call, Outgoing
from mcpost.http11.encode import HeaderLines
from mcpost.http11.errors import CallFailed, ConnectFailed, PoolFull
from mcpost.http11.head import Response
from mcpost.limits import WireLimits
from mcpost.wire import jsonrpc
from mcpost.wire.accept import is_json
from mcpost.wire.sse import Parser

__all__ = ("MemberCall", "note_missing")

_EVENTS: Final = b"text/event-stream"


def note_missing(note: Note, missing: Mapping[str, str]) -> None:
    """Let the log say which members have no part in an answer, and why."""
    if missing:
        note.verdict = note.verdict._replace(reason=say_missing(missing))


class MemberCall(ABC):
    """One request, and what of its answer is JSON-RPC; to be filled by those who use it.

    Args:
        member: The member that is asked.
        group: Its upstream.
        max_answer: Bytes of the answer that are read; those of a stream only until `opened`.
    """

    __slots__ = (
        "_call",
        "_candidates",
        "_endpoint",
        "_group",
        "_max_answer",
        "_outgoing",
        "_parser",
        "_pieces",
        "_size",
        "is_over",
        "member",
        "opened",
        "response",
    )

    def __init__(self, member: str, group: Group, max_answer: int) -> None:
        self.member = member
        self.is_over = False
        """Whether nothing more comes."""
        self.opened = False
        """Whether a stream has begun that may be of any length."""
        self.response: Response | None = None
        """The head of the answer."""
        self._group = group
        self._max_answer = max_answer
        self._candidates = group.order()
        self._endpoint: Endpoint | None = None
        self._call: Call | None = None
        self._outgoing: Outgoing | None = None
        self._parser: Parser | None = None
        self._pieces: list[bytes] = []
        self._size = 0

    # What those who use it fill in.

    @abstractmethod
    def on_message(self, message: jsonrpc.Response | jsonrpc.Notification) -> None:
        """A message has come."""

    @abstractmethod
    def on_comment(self) -> None:
        """The member has shown that it is there."""

    @abstractmethod
    def on_over(self, problem: str | None) -> None:
        """Nothing more comes.

        Args:
            problem: What is wrong with the answer; `None` for one that is whole.
        """

    # What they call.

    def start(self, lines: HeaderLines, body: bytes) -> None:
        """Send the request; `on_over` may be told at once."""
        self._outgoing = Outgoing(b"POST", b"/", lines, body)
        self._try_next()

    def cancel(self) -> None:
        """Want nothing more; nothing is told any more."""
        if not self.is_over:
            self.is_over = True
            if self._call is not None:
                self._call.cancel()
            self._leave()

    def pause(self) -> None:
        """Let the member wait."""
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        """Let the member go on."""
        if self._call is not None:
            self._call.resume()

    # What the pool tells: `Receiver`.

    def on_head(self, response: Response) -> None:
        """An answer begins."""
        assert self._endpoint is not None
        self._endpoint.reached()
        self.response = response
        kind = response.fields.get(b"content-type", b"")
        if kind.partition(b";")[0].strip().lower() == _EVENTS and response.status == 200:
            most = self._max_answer
            self._parser = Parser(WireLimits(max_sse_line=most, max_sse_event=most))

    def on_data(self, data: bytes) -> None:
        """Read on."""
        if self.is_over:
            return
        if not self.opened:
            self._size += len(data)
            if self._size > self._max_answer:
                self._fail("its answer is too long")
                return
        parser = self._parser
        if parser is None:
            self._pieces.append(data)
            return
        comments = parser.comments
        try:
            events = parser.feed(data)
        except TooLarge:
            self._fail("an event of its stream is too long")
            return
        for event in events:
            if not self.is_over:
                self._read(event.data)
        if parser.comments > comments and not self.is_over:
            self.on_comment()

    def on_end(self) -> None:
        """The answer is whole."""
        if self.is_over:
            return
        response = self.response
        assert response is not None
        if self._parser is None:
            body = b"".join(self._pieces)
            if not is_json(response.fields.get(b"content-type")) or not self._read(body):
                self._end(f"it answers with HTTP {response.status}")
                return
        self._end(None)

    def on_failed(self, error: CallFailed) -> None:
        """There is no answer, or no whole one."""
        if self.is_over:
            return
        if isinstance(error, ConnectFailed) and self._endpoint is not None:
            self._endpoint.missed()
            self._leave()
            self._try_next(error)
            return
        self._end(refusals.reason_of(error))

    # Steps.

    def _try_next(self, error: CallFailed | None = None) -> None:
        endpoint = next(self._candidates, None)
        outgoing = self._outgoing
        if endpoint is None or outgoing is None:
            self._end(refusals.reason_of(error or ConnectFailed("there is no endpoint")))
            return
        self._endpoint = endpoint
        endpoint.running += 1
        sent = Outgoing(outgoing.method, endpoint.target, outgoing.headers, outgoing.body)
        try:
            self._call = endpoint.pool.send(sent, self)
        except PoolFull as full:
            self._end(refusals.reason_of(full))

    def _read(self, data: bytes) -> bool:
        try:
            message = jsonrpc.decode_answer(data)
        except WireError:
            return False
        if isinstance(message, jsonrpc.Request):
            # A server has nothing to ask on such a stream (T-11).
            return False
        self.on_message(message)
        return True

    def _fail(self, problem: str) -> None:
        if self._call is not None:
            self._call.cancel()
        self._end(problem)

    def _end(self, problem: str | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._leave()
            self.on_over(problem)

    def _leave(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.running -= 1
            self._group.leave(endpoint)
