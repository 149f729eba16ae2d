"""The shared cache under any order of events: bounded, fresh, and nobody is forgotten."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcpost.gateway.cache import Flight, SharedCache
from mcpost.gateway.cacheable import Kept, key_of
from mcpost.limits import CacheLimits
from mcpost.wire.jsonrpc import Request, decode_message
from tests.helpers.http import META, body, lines

LIMITS = CacheLimits(max_entries=3, max_bytes=4000, max_entry=2000, max_ttl=60, max_waiting=2)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])


class Caches(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cache: SharedCache[int] = SharedCache(LIMITS)
        self.now = 0.0
        self.count = 0
        self.flights: list[Flight[int]] = []
        self.waiting: set[int] = set()
        self.until: dict[Kept, float] = {}
        self.of: dict[Kept, bytes] = {}

    @rule(seconds=st.floats(0, 90))
    def time_goes_on(self, seconds: float) -> None:
        self.now += seconds

    @rule(key=KEYS)
    def somebody_asks(self, key: bytes) -> None:
        found = self.cache.find(key, self.now)
        if found is not None:
            assert self.of[found.kept] == key
            assert self.now < self.until[found.kept]
            return
        self.count += 1
        if self.cache.join(key, self.count) is None:
            self.flights.append(self.cache.begin(key))
        else:
            self.waiting.add(self.count)

    @rule(data=st.data(), size=st.integers(0, 2500), ttl=st.integers(1, 120_000))
    def one_comes_back(self, data: st.DataObject, size: int, ttl: int) -> None:
        if not self.flights:
            return
        flight = data.draw(st.sampled_from(self.flights))
        self.flights.remove(flight)
        self.count += 1
        kept = Kept(ttl, b"%d" % self.count + b"x" * size, ())
        self.of[kept] = flight.key
        self.until[kept] = self.now + min(ttl / 1000, 60)
        self.waiting -= set(self.cache.land(flight, kept, self.now))

    @rule(data=st.data())
    def one_fails(self, data: st.DataObject) -> None:
        if self.flights:
            flight = data.draw(st.sampled_from(self.flights))
            self.flights.remove(flight)
            self.waiting -= set(self.cache.land(flight, None, self.now))

    @rule()
    def all_is_forgotten(self) -> None:
        self.cache.clear()
        # What was asked for before is not kept after it either.
        for flight in self.flights:
            self.waiting -= set(self.cache.land(flight, Kept(1000, b"old", ()), self.now))
        self.flights.clear()
        assert len(self.cache) == 0

    @invariant()
    def it_is_bounded_and_waiters_have_somebody_to_wait_for(self) -> None:
        assert len(self.cache) <= LIMITS.max_entries
        assert 0 <= self.cache.bytes <= LIMITS.max_bytes
        assert (self.cache.bytes == 0) == (len(self.cache) == 0)
        awaited = [waiter for flight in self.flights for waiter in flight.waiting]
        assert sorted(awaited) == sorted(self.waiting)
        assert all(len(flight.waiting) <= LIMITS.max_waiting for flight in self.flights)


TestCaches = Caches.TestCase

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
PARAMS = st.dictionaries(st.sampled_from(["uri", "cursor", "x", "y"]), VALUES)
METAS = st.dictionaries(st.sampled_from(["a/b", "clientInfo", "progress"]), VALUES)


def key(params: dict[str, Any], meta: dict[str, Any], **trace: str) -> bytes | None:
    whole = {**meta, **trace}
    sent = body("resources/read", params, **{name: whole[name] for name in whole})
    message = decode_message(sent)
    assert isinstance(message, Request)
    return key_of(message, sent, lines("resources/read", "x"), place=("here",))


@given(PARAMS, METAS, PARAMS, METAS)
def test_two_requests_have_one_key_if_and_only_if_they_say_the_same(
    one: dict[str, Any], meta: dict[str, Any], other: dict[str, Any], also: dict[str, Any]
) -> None:
    first, second = key(one, meta), key(other, also, traceparent="x")
    if first is None or second is None:
        # A text with an escaped colon is not asked for.
        return

    said, too = ({**META, **{k: v for k, v in m.items() if v is not None}} for m in (meta, also))
    same = json.dumps([one, said], sort_keys=True) == json.dumps([other, too], sort_keys=True)

    assert (first == second) == same
    assert first == key(one, meta, tracestate="a=b")
