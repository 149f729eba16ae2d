"""One listen of a client that hears several members.

| state | a member acknowledges | refuses, or fails | tells of a change | ends | client leaves |
| --- | --- | --- | --- | --- | --- |
| waiting | open, if it was the last | the same; all: an error | kept | it fails | over |
| open | - | over: cut | told | over: ended with a result, or cut | over |
| over | - | - | - | - | - |

The client is told one acknowledgement, of what all members honour together, before any notice. A
member that has not answered in time has no part in it. Once the stream is open, the end of one
member is the end of all: a client that believed to hear it would otherwise miss its changes.

Spec: patterns/subscriptions (P-04, P-05).
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from typing import Any, Final

from mcpost.errors import InternalError, WireError
from mcpost.gateway import refusals
from mcpost.gateway.addresses import readdress
from mcpost.gateway.cached import Asked
from mcpost.gateway.filters import ACKNOWLEDGED, join_filters, read_notice, split_filter
from mcpost.gateway.member import MemberCall, note_missing
from mcpost.gateway.merging import UNAVAILABLE, say_missing
from mcpost.gateway.policy import Aggregate
from mcpost.gateway.upstreams import Group
from mcpost.wire import jsonrpc
from mcpost.wire.meta import SUBSCRIPTION_ID
from mcpost.wire.sse import COMMENT, encode_event

__all__ = ("FanIn",)

_HIGH: Final = 64 * 1024
"""Bytes that wait for a slow reader from which on the members have to wait, too."""

_MAX_KEPT: Final = 256 * 1024
"""Bytes of notices that are kept until the listen is acknowledged; it is cut above that."""

_NOT_FOUND: Final = -32601
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class _State(enum.Enum):
    """The table at the head of this file."""

    WAITING = "waiting"
    OPEN = "open"
    OVER = "over"


class FanIn:
    """One open listen.

    Args:
        aggregate: The members.
        asked: The client's request.
        message: Its body, read.
        ended: Told once when it is over, with the status that the client was told.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        asked: Asked,
        message: jsonrpc.Request,
        ended: Callable[[FanIn, int], None],
    ) -> None:
        self.asked = asked
        self._aggregate = aggregate
        self._message = message
        self._ended = ended
        self._ears: dict[str, _Ear] = {}
        self._waited: set[str] = set()
        self._missing: dict[str, str] = {}
        self._refusal: jsonrpc.ErrorBody | None = None
        self._kept: dict[bytes, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._state = _State.WAITING

    @property
    def is_open(self) -> bool:
        """Whether the stream runs."""
        return self._state is _State.OPEN

    def start(self) -> None:
        """Ask the members.

        Raises:
            InvalidParams: -32602; the filter is none.
        """
        aggregate, asked = self._aggregate, self.asked
        wanted = split_filter(self._message.params, aggregate.members)
        asked.exchange.watch(self._gone)
        groups = asked.generation.groups
        for member in wanted:
            self._ears[member] = _Ear(self, member, groups[aggregate.members[member]], aggregate)
        self._waited = set(wanted)
        self._timer = asked.exchange.loop.call_later(aggregate.wait, self._expire)
        for member, ear in tuple(self._ears.items()):
            lines = asked.generation.lines(asked.request, aggregate.members[member])
            ear.start(lines, readdress(asked.body, {"notifications": wanted[member]}))

    # What the members tell.

    def acknowledged(self, ear: _Ear) -> None:
        """A member listens."""
        self._waited.discard(ear.member)
        self._look()

    def refused(self, ear: _Ear, error: jsonrpc.ErrorBody) -> None:
        """A member does not."""
        if error.code != _NOT_FOUND:
            self._missing[ear.member] = f"it answers with error {error.code}"
        self._refusal = self._refusal or error
        self._lost(ear)

    def failed(self, ear: _Ear, problem: str) -> None:
        """A member's stream is broken, or there is none."""
        if self._state is _State.OPEN:
            self._cut()
            return
        self._missing[ear.member] = problem
        self._lost(ear)

    def finished(self, ear: _Ear) -> None:
        """A member has ended its stream as it should."""
        if self._state is _State.OPEN:
            meta = {SUBSCRIPTION_ID: self._message.id}
            result = {"resultType": "complete", "_meta": meta}
            exchange = self.asked.exchange
            exchange.write(encode_event(jsonrpc.encode_result(self._message.id, result)))
            self._finish()
            exchange.end()
            self._ended(self, 200)
        elif self._state is _State.WAITING:
            self.failed(ear, "it has ended the listen")

    def heard(self, ear: _Ear, note: jsonrpc.Notification) -> None:
        """A member tells of a change."""
        params = read_notice(note.method, note.params, ear.member, ear.honoured, self._message.id)
        if params is None or self._state is _State.OVER:
            return
        event = encode_event(jsonrpc.encode_notification(note.method, params))
        if self._state is _State.OPEN:
            self._write(event)
            return
        self._kept[event] = None
        if sum(map(len, self._kept)) > _MAX_KEPT:
            self._cut()

    def alive(self) -> None:
        """A member has shown that it is there."""
        if self._state is _State.OPEN:
            self._write(COMMENT)

    def cancel(self) -> None:
        """End it now."""
        self._cut()

    # Steps.

    def _lost(self, ear: _Ear) -> None:
        if self._state is _State.WAITING:
            self._waited.discard(ear.member)
            self._ears.pop(ear.member, None)
            self._look()

    def _look(self) -> None:
        """Acknowledge once all have answered."""
        if self._waited or self._state is not _State.WAITING:
            return
        note_missing(self.asked.note, self._missing)
        if not self._ears or (self._missing and self._aggregate.strict):
            self._refuse()
            return
        honoured = join_filters({name: ear.honoured for name, ear in self._ears.items()})
        meta: dict[str, Any] = {SUBSCRIPTION_ID: self._message.id}
        if self._missing:
            meta[UNAVAILABLE] = self._missing
        params = {"_meta": meta, "notifications": honoured}
        if self._timer is not None:
            self._timer.cancel()
        self._state = _State.OPEN
        exchange = self.asked.exchange
        exchange.start(200, _STREAM)
        exchange.on_drained(self._drained)
        kept, self._kept = b"".join(self._kept), {}
        self._write(encode_event(jsonrpc.encode_notification(ACKNOWLEDGED, params)) + kept)

    def _refuse(self) -> None:
        """Nobody listens, or not all though all should: say why."""
        refusal = self._refusal
        self._finish()
        if refusal is not None and not self._missing:
            error: WireError = _Theirs(refusal)
            status = 404 if refusal.code == _NOT_FOUND else 200
        else:
            error, status = InternalError(say_missing(self._missing)), 502
        answer = refusals.failed_by(status, error, sent="yes", request_id=self._message.id)
        self.asked.exchange.respond(*answer)
        self._ended(self, answer.status)

    def _write(self, data: bytes) -> None:
        exchange = self.asked.exchange
        exchange.write(data)
        if exchange.pending() > _HIGH:
            for ear in self._ears.values():
                ear.pause()

    def _drained(self) -> None:
        for ear in self._ears.values():
            ear.resume()

    def _expire(self) -> None:
        """Go on without those who have not answered in time."""
        for member in tuple(self._waited):
            ear = self._ears[member]
            ear.cancel()
            self.failed(ear, f"no answer within {self._aggregate.wait:g} s")

    def _gone(self) -> None:
        if self._state is not _State.OVER:
            status = 200 if self._state is _State.OPEN else 0
            self._finish()
            self._ended(self, status)

    def _cut(self) -> None:
        """Let the client see that the stream is not whole: it listens again, and asks anew."""
        if self._state is not _State.OVER:
            status = 200 if self._state is _State.OPEN else 0
            self._finish()
            self.asked.exchange.abort()
            self._ended(self, status)

    def _finish(self) -> None:
        self._state = _State.OVER
        if self._timer is not None:
            self._timer.cancel()
        for ear in self._ears.values():
            ear.cancel()


class _Theirs(WireError):
    """A member's error, told as it is."""

    def __init__(self, error: jsonrpc.ErrorBody) -> None:
        super().__init__(error.message, error.data)
        self.code = error.code  # type: ignore[misc]


class _Ear(MemberCall):
    """The listen of one member."""

    __slots__ = ("_fan", "honoured")

    def __init__(self, fan: FanIn, member: str, group: Group, aggregate: Aggregate) -> None:
        super().__init__(member, group, aggregate.max_answer)
        self._fan = fan
        self.honoured: dict[str, Any] = {}
        """What it has agreed to tell."""

    def on_message(self, message: jsonrpc.Response | jsonrpc.Notification) -> None:
        """Tell the listen what the member says."""
        fan = self._fan
        if isinstance(message, jsonrpc.Response):
            self.cancel()
            if message.error is not None:
                fan.refused(self, message.error)
            else:
                fan.finished(self)
        elif message.method != ACKNOWLEDGED:
            if self.opened:
                fan.heard(self, message)
        elif not self.opened:
            self.opened = True
            found = message.params.get("notifications")
            self.honoured = found if type(found) is dict else {}
            fan.acknowledged(self)

    def on_comment(self) -> None:
        """Let the client see that the stream is alive."""
        self._fan.alive()

    def on_over(self, problem: str | None) -> None:
        """The stream has ended without a result."""
        self._fan.failed(self, problem or "its stream ended")
