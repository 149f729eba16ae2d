"""One request of a client that goes to several members, whose answers become one.

| a member | its part |
| --- | --- |
| answers with a result | is merged |
| does not have the method (-32601) | is empty |
| says that its cursor is none (-32602) | is the answer: -32602 |
| answers otherwise, or too late | is missing: `_meta` says so; an error if all are, or `strict` |

Spec: server/discover; server/utilities/pagination (F-04).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mcpost.errors import InternalError, InvalidParams, WireError
from mcpost.gateway import refusals
from mcpost.gateway.addresses import readdress
from mcpost.gateway.cache import Flight, Found, SharedCache
from mcpost.gateway.cacheable import Kept, key_of, read_kept
from mcpost.gateway.cached import Asked, Cached, Waits, land
from mcpost.gateway.hops import forward_response
from mcpost.gateway.member import MemberCall, note_missing
from mcpost.gateway.merging import (
    LISTS,
    Part,
    merge_discover,
    merge_list,
    read_cursor,
    say_missing,
)
from mcpost.gateway.policy import Aggregate
from mcpost.gateway.upstreams import Group
from mcpost.http11.encode import HeaderLines
from mcpost.wire import jsonrpc
from mcpost.wire.meta import LOG_LEVEL, PROGRESS_TOKEN

__all__ = ("FanOut",)

_JSON: Final = ((b"content-type", b"application/json"),)
_NOT_FOUND: Final = -32601
_INVALID: Final = -32602


class _Sent(NamedTuple):
    """What one member is asked."""

    lines: HeaderLines
    body: bytes
    key: bytes | None
    """Under which its answer may be kept."""


class FanOut:
    """One list or `server/discover`, asked of all members at once.

    Args:
        aggregate: The members.
        asked: The client's request.
        message: Its body, read.
        cached: The shared cache, for those members whose upstream has one.
        ended: Told once when it is over, with the status that the client was told.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        asked: Asked,
        message: jsonrpc.Request,
        cached: Cached,
        ended: Callable[[FanOut, int], None],
    ) -> None:
        self.asked = asked
        self._aggregate = aggregate
        self._message = message
        self._cached = cached
        self._ended = ended
        self._parts: dict[str, Part] = {}
        self._missing: dict[str, str] = {}
        self._open: dict[str, _Question] = {}
        self._members: tuple[str, ...] = tuple(aggregate.members)
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def start(self) -> None:
        """Ask.

        Raises:
            InvalidParams: -32602; the cursor is none.
        """
        cursors = None
        if self._message.method in LISTS:
            cursors = read_cursor(self._message.params, self._members)
            if cursors is not None:
                self._members = tuple(each for each in self._members if each in cursors)
        exchange = self.asked.exchange
        exchange.watch(self._gone)
        generation = self.asked.generation
        sent = {}
        for member in self._members:
            sent[member] = self._write(member, None if cursors is None else cursors[member])
            group = generation.groups[self._aggregate.members[member]]
            self._open[member] = _Question(self, member, group, self._aggregate.max_answer)
        self._timer = exchange.loop.call_later(self._aggregate.wait, self._expire)
        for member, question in tuple(self._open.items()):
            question.ask(sent[member])

    def take(self, member: str, answer: jsonrpc.Response | None, problem: str | None) -> None:
        """A member has answered, or will not."""
        if not self._is_over:
            self._open.pop(member, None)
            self._record(member, answer, problem)
            self._look()

    def _record(self, member: str, answer: jsonrpc.Response | None, problem: str | None) -> None:
        if answer is None:
            self._missing[member] = problem or "it gives no answer"
        elif answer.result is not None:
            self._parts[member] = Part(member, answer.result)
        else:
            assert answer.error is not None
            self._take_error(member, answer.error)

    def take_kept(self, member: str, found: Found) -> None:
        """A member's part was in memory, or another one has fetched it."""
        result: dict[str, Any] = msgspec.json.decode(found.kept.result + b"}")
        left = found.kept.ttl_ms - math.ceil(found.age * 1000)
        if not self._is_over:
            self._open.pop(member, None)
            self._parts[member] = Part(member, {**result, "ttlMs": max(left, 0)})
            self._look()

    @property
    def store(self) -> SharedCache[Waits]:
        """Where parts are kept."""
        return self._cached.store

    def cancel(self) -> None:
        """End it now."""
        self._gone()

    # Steps.

    def _write(self, member: str, cursor: str | None) -> _Sent:
        """Write what a member is asked."""
        asked, upstream = self.asked, self._aggregate.members[member]
        meta = dict(self._message.params["_meta"])
        # Tokens of one client mean nothing where several answer; what they say besides is dropped.
        meta.pop(PROGRESS_TOKEN, None)
        meta.pop(LOG_LEVEL, None)
        body = readdress(asked.body, {"cursor": cursor, "_meta": meta})
        generation = asked.generation
        lines = generation.lines(asked.request, upstream)
        named = generation.policy.upstreams[upstream]
        key = None
        if named.cache:
            message = jsonrpc.decode_message(body)
            assert isinstance(message, jsonrpc.Request)
            known = asked.note.facts.principal is not None
            place = (named.name, "", *named.endpoints)
            key = key_of(message, body, lines, place=place, known=known)
        return _Sent(lines, body, key)

    def _take_error(self, member: str, error: jsonrpc.ErrorBody) -> None:
        if error.code == _NOT_FOUND and self._message.method in LISTS:
            self._parts[member] = Part(member, _NOTHING)
        elif error.code == _INVALID and "cursor" in self._message.params:
            self._fail(200, InvalidParams(error.message), sent="yes")
        else:
            self._missing[member] = f"it answers with error {error.code}"

    def _look(self) -> None:
        """Answer once all have."""
        if self._is_over or self._open:
            return
        order = self._members
        parts = [self._parts[each] for each in order if each in self._parts]
        missing = {each: self._missing[each] for each in order if each in self._missing}
        note_missing(self.asked.note, missing)
        if missing and (self._aggregate.strict or not parts):
            self._fail(502, InternalError(say_missing(missing)), sent="maybe")
            return
        name = self._aggregate.name
        method = self._message.method
        result = (
            merge_list(method, parts, missing, name)
            if method in LISTS
            else merge_discover(parts, missing, name)
        )
        self._respond(200, _JSON, jsonrpc.encode_result(self._message.id, result))

    def _fail(self, status: int, error: WireError, *, sent: str) -> None:
        self._respond(*refusals.failed_by(status, error, sent=sent, request_id=self._message.id))

    def _respond(self, status: int, lines: HeaderLines, body: bytes) -> None:
        self._finish()
        self.asked.exchange.respond(status, lines, body)
        self._ended(self, status)

    def _expire(self) -> None:
        """Go on without those who have not answered in time."""
        late, self._open = self._open, {}
        for member, question in late.items():
            answer = question.answer
            question.cancel()
            # One may have answered whose stream has not ended.
            self._record(member, answer, f"no answer within {self._aggregate.wait:g} s")
        self._look()

    def _gone(self) -> None:
        if not self._is_over:
            self._finish()
            self._ended(self, 0)

    def _finish(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for question in self._open.values():
            question.cancel()
        self._open.clear()


_NOTHING: Final[Mapping[str, Any]] = {"ttlMs": 3_600_000, "cacheScope": "public"}
"""The part of a member that does not have the method: it will not have it soon, for anybody."""


class _Question(MemberCall):
    """What one member is asked; it may wait for another one's answer, as `Waits` says."""

    __slots__ = ("_fan", "_leads", "_sent", "_store", "_timer", "_waits", "answer")

    _sent: _Sent
    _store: SharedCache[Waits]
    """The one that was asked; a policy that is read again may have another."""

    def __init__(self, fan: FanOut, member: str, group: Group, max_answer: int) -> None:
        super().__init__(member, group, max_answer)
        self._fan = fan
        self._leads: Flight[Waits] | None = None
        self._waits: Flight[Waits] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.answer: jsonrpc.Response | None = None
        """What it has answered so far."""

    def ask(self, sent: _Sent) -> None:
        """Ask memory, wait for whoever asks the member now, or ask it."""
        self._sent = sent
        fan, key = self._fan, sent.key
        if key is not None:
            loop = fan.asked.exchange.loop
            store = self._store = fan.store
            found = store.find(key, loop.time())
            if found is not None:
                self.is_over = True
                fan.take_kept(self.member, found)
                return
            self._waits = store.join(key, self)
            if self._waits is not None:
                self._timer = loop.call_later(store.limits.wait, self.go_alone)
                return
            self._leads = store.begin(key)
        self.start(sent.lines, sent.body)

    # `Waits`.

    def receive(self, kept: Kept) -> None:
        """Take what another one has fetched."""
        if self._stop_waiting():
            self.is_over = True
            self._fan.take_kept(self.member, Found(kept, 0.0))

    def ask_again(self) -> None:
        """There is nobody any more who fetches it."""
        if self._stop_waiting():
            self.ask(self._sent)

    def go_alone(self) -> None:
        """Ask the member, whoever else does."""
        if self._stop_waiting():
            self.start(self._sent.lines, self._sent.body)

    def _stop_waiting(self) -> bool:
        waits, self._waits = self._waits, None
        if waits is None or self._timer is None:
            return False
        self._timer.cancel()
        waits.waiting.pop(self, None)
        return True

    # `MemberCall`.

    def cancel(self) -> None:
        """Want no answer any more; those who wait for it ask again."""
        self._stop_waiting()
        super().cancel()
        self._land(None, left=True)

    def on_message(self, message: jsonrpc.Response | jsonrpc.Notification) -> None:
        """Take the answer; what was said before it was for nobody."""
        if isinstance(message, jsonrpc.Response) and self.answer is None:
            self.answer = message

    def on_comment(self) -> None:
        """Whoever waits knows for how long."""

    def on_over(self, problem: str | None) -> None:
        """Hand the answer over."""
        self._land(self._read_kept(), left=False)
        self._fan.take(self.member, self.answer, problem)

    def _read_kept(self) -> Kept | None:
        response, answer = self.response, self.answer
        if self._leads is None or response is None or answer is None or answer.id is None:
            return None
        body = jsonrpc.encode({"jsonrpc": "2.0", "id": answer.id, "result": answer.result})
        return read_kept(response.status, forward_response(response), body, answer.id)

    def _land(self, kept: Kept | None, *, left: bool) -> None:
        flight, self._leads = self._leads, None
        if flight is not None:
            land(self._store, flight, kept, self._fan.asked.exchange.loop, left=left)
