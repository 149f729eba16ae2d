"""Requests whose answers all may have: given from memory, or fetched by one for all who ask.

| what is asked | is answered |
| --- | --- |
| is kept and fresh | from memory: `x-mcpost-cache: hit` |
| is being fetched | with what that brings, if it may be kept; else as the next row |
| is neither | by the upstream: `x-mcpost-cache: miss` |
| may not be kept | by the upstream, without that header; it never comes here |

Nobody waits for another one's answer longer than the policy says. Where the one who fetches is left
by its client, the next of those who wait goes instead.

Spec: server/utilities/caching (F-05).
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from mcpost.gateway.access_log import Note
from mcpost.gateway.cache import Flight, Found, SharedCache
from mcpost.gateway.cacheable import Kept, is_for_all, key_of, read_kept, write_kept
from mcpost.gateway.door import Door
from mcpost.gateway.forward import End, Forward
from mcpost.gateway.hops import forward_response
from mcpost.http11.encode import Encoded, HeaderLines
from mcpost.http11.head import Request, Response
from mcpost.limits import CacheLimits
from mcpost.wire import jsonrpc
from mcpost.wire.caching import CACHEABLE

if TYPE_CHECKING:
    from mcpost.gateway.generation import Generation

__all__ = ("MAX_BODY", "Asked", "Cached", "Waits", "land", "may_ask")

MAX_BODY: Final = 64 * 1024
"""Bytes of a request above which it is not asked whether its answer is kept."""

_CACHE: Final = b"x-mcpost-cache"
_HIT: Final = (_CACHE, b"hit")
_MISS: Final = (_CACHE, b"miss")


class Waits(Protocol):
    """One who waits for another one's answer; each is told one of these, once."""

    def receive(self, kept: Kept) -> None:
        """Take what another one has fetched."""
        ...

    def ask_again(self) -> None:
        """There is nobody any more who fetches it."""
        ...

    def go_alone(self) -> None:
        """What was waited for is not for all."""
        ...


def land(
    store: SharedCache[Waits],
    flight: Flight[Waits],
    kept: Kept | None,
    loop: asyncio.AbstractEventLoop,
    *,
    left: bool,
) -> None:
    """Keep what a flight has brought, and tell those who have waited for it.

    Args:
        store: Where it is kept.
        flight: The flight, which is over.
        kept: The answer, `None` where there is none that may be kept.
        loop: The loop.
        left: Whether there is none only because the client of the one who went has left.
    """
    for each in store.land(flight, kept, loop.time()):
        if kept is not None:
            each.receive(kept)
        elif left:
            # Those whose clients leave in the same turn are to be heard of first.
            loop.call_soon(each.ask_again)
        else:
            each.go_alone()


class Asked(NamedTuple):
    """A request that was let through, with its body."""

    exchange: Door
    request: Request
    generation: Generation
    lines: HeaderLines
    """What goes to the upstream."""
    note: Note
    body: bytes
    heads: dict[bytes, Encoded] | None = None
    """What was made of the lines before; see `Forward`."""


def may_ask(generation: Generation, upstream: str | None, method: str | None, length: int) -> bool:
    """Whether, as far as a head tells, the answer may be kept: its body has to be read then.

    Args:
        generation: The policy at work.
        upstream: Where the request goes.
        method: Its `Mcp-Method`.
        length: Bytes of its body.
    """
    if method not in CACHEABLE or not 0 < length <= MAX_BODY:
        return False
    named = generation.policy.upstreams.get(upstream or "")
    return named is not None and named.cache


class Cached:
    """Answers from the shared cache, and fills it.

    Args:
        close: Counts and logs a request that has ended without an upstream, with its status.
        running: Where forwarded requests are noted while they run.
        ended: Told when one of those has ended.
    """

    def __init__(
        self,
        close: Callable[[Note, int], None],
        running: set[Forward],
        ended: Callable[[Forward], None],
    ) -> None:
        self.store: SharedCache[Waits] = SharedCache()
        """What is kept."""
        self._close = close
        self._running = running
        self._ended = ended

    def configure(self, limits: CacheLimits) -> None:
        """Begin anew, with these bounds; what is under way goes on."""
        if limits == self.store.limits:
            self.store.clear()
        else:
            self.store = SharedCache(limits)

    def serve(self, asked: Asked, message: jsonrpc.Request) -> bool:
        """Answer, now or later, a request whose headers and body are known to agree.

        Args:
            asked: The request.
            message: Its body, read.

        Returns:
            Whether it does; if not, the answer depends on more than the cache may know.
        """
        facts, verdict = asked.note.facts, asked.note.verdict
        named = asked.generation.policy.upstreams[verdict.upstream or ""]
        key = key_of(
            message,
            asked.body,
            asked.lines,
            place=(named.name, verdict.endpoint or "", *named.endpoints),
            query=asked.request.query,
            known=facts.principal is not None,
        )
        if key is None:
            return False
        self.ask(key, message.id, asked)
        return True

    def ask(self, key: bytes, request_id: jsonrpc.Id, asked: Asked) -> None:
        """Answer from memory; or wait for the one who fetches it; or be that one."""
        found = self.store.find(key, asked.exchange.loop.time())
        if found is not None:
            self.give(found, request_id, asked)
            return
        waiter = _Waiter(self, request_id, asked)
        flight = self.store.join(key, waiter)
        if flight is not None:
            waiter.wait(flight, self.store.limits.wait)
            return
        leader = self._make(_Leader, asked, self._landed)
        leader.set_out(self.store, self.store.begin(key), request_id)
        leader.send(asked.body)

    def go_alone(self, asked: Asked) -> None:
        """Forward a request for itself."""
        self._make(_Missed, asked, self._ended).send(asked.body)

    def give_up(self, asked: Asked) -> None:
        """The client of one who waited has left."""
        self._close(asked.note, 0)

    def give(self, found: Found, request_id: jsonrpc.Id, asked: Asked) -> None:
        """Answer with what is kept."""
        asked.note.cache = "hit"
        # Rounded up: an answer is never told to be younger than it is.
        lines = (*found.kept.lines, (b"age", b"%d" % math.ceil(found.age)), _HIT)
        body = write_kept(found.kept, request_id, math.ceil(found.age * 1000))
        asked.exchange.respond(200, lines, body)
        self._close(asked.note, 200)

    def _make(
        self, kind: type[_AnyForward], asked: Asked, ended: Callable[[Forward], None]
    ) -> _AnyForward:
        generation, verdict = asked.generation, asked.note.verdict
        asked.note.cache = "miss"
        forward = kind(
            asked.exchange,
            asked.request,
            generation.groups[verdict.upstream or ""],
            lines=asked.lines,
            note=asked.note,
            ended=ended,
            shard=generation.shard(verdict),
            heads=asked.heads,
        )
        self._running.add(forward)
        return forward

    def _landed(self, forward: Forward) -> None:
        """The one who fetched has its answer, or none."""
        if isinstance(forward, _Leader):
            forward.tell_others()
        self._ended(forward)


class _Missed(Forward):
    """One request that memory had no answer for."""

    __slots__ = ()

    def on_head(self, response: Response) -> None:
        """Say so in the answer."""
        # The engine may know this head again; it is another one's then.
        told = copy.copy(response)
        # Another gateway behind this one may have said what it knows.
        told.headers = [*(line for line in response.headers if line[0] != _CACHE), _MISS]
        super().on_head(told)


_AnyForward = TypeVar("_AnyForward", bound=_Missed)


class _Leader(_Missed):
    """The one who goes for all who ask the same."""

    __slots__ = ("_flight", "_head", "_id", "_kept", "_pieces", "_size", "_store")

    _store: SharedCache[Waits]
    _flight: Flight[Waits] | None
    _id: jsonrpc.Id
    _head: Response | None
    _pieces: list[bytes]
    _size: int
    _kept: Kept | None

    def set_out(
        self, store: SharedCache[Waits], flight: Flight[Waits], request_id: jsonrpc.Id
    ) -> None:
        """Take note of who waits."""
        self._store, self._flight, self._id = store, flight, request_id
        self._head = self._kept = None
        self._pieces, self._size = [], 0

    def on_head(self, response: Response) -> None:
        """See whether the answer can be for all at all; if not, nobody waits for its end."""
        lines = forward_response(response)
        if is_for_all(response.status, lines) and response.length <= self._store.limits.max_entry:
            self._head = response
        else:
            self._let_go()
        super().on_head(response)

    def on_data(self, data: bytes) -> None:
        """Keep a piece beside sending it on."""
        if self._head is not None:
            self._pieces.append(data)
            self._size += len(data)
            if self._size > self._store.limits.max_entry:
                self._head = None
                self._pieces.clear()
                self._let_go()
        super().on_data(data)

    def on_end(self) -> None:
        """The answer is whole: look at what it says."""
        head = self._head
        if head is not None:
            lines = forward_response(head)
            self._kept = read_kept(head.status, lines, b"".join(self._pieces), self._id)
            self._pieces.clear()
        super().on_end()

    def tell_others(self) -> None:
        """It is over: keep what came, and let those who waited have it or go themselves."""
        flight, self._flight = self._flight, None
        if flight is None:
            return
        land(self._store, flight, self._kept, self._exchange.loop, left=self.end is End.LEFT)

    def _let_go(self) -> None:
        if self._flight is not None:
            for each in self._store.land(self._flight, None, 0.0):
                each.go_alone()
            self._flight = None


class _Waiter:
    """One request that waits for another one's answer."""

    __slots__ = ("_asked", "_cached", "_flight", "_id", "_is_over", "_timer")

    _flight: Flight[Waits]
    _timer: asyncio.TimerHandle

    def __init__(self, cached: Cached, request_id: jsonrpc.Id, asked: Asked) -> None:
        self._cached = cached
        self._id = request_id
        self._asked = asked
        self._is_over = False

    def wait(self, flight: Flight[Waits], seconds: float) -> None:
        """Begin to wait."""
        self._flight = flight
        self._timer = self._asked.exchange.loop.call_later(seconds, self._expire)
        self._asked.exchange.watch(self._gone)

    def receive(self, kept: Kept) -> None:
        """Take what another one has fetched."""
        if self._end():
            self._cached.give(Found(kept, 0.0), self._id, self._asked)

    def ask_again(self) -> None:
        """There is nobody any more who fetches it."""
        if self._end():
            self._cached.ask(self._flight.key, self._id, self._asked)

    def go_alone(self) -> None:
        """What was waited for is not for all."""
        if self._end():
            self._cached.go_alone(self._asked)

    def _expire(self) -> None:
        self._flight.waiting.pop(self, None)
        self.go_alone()

    def _gone(self) -> None:
        self._flight.waiting.pop(self, None)
        if self._end():
            self._cached.give_up(self._asked)

    def _end(self) -> bool:
        was_over, self._is_over = self._is_over, True
        self._timer.cancel()
        return not was_over
