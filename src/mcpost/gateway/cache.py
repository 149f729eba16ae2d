"""Answers that all may have, and the requests that wait for one: a store without clock and socket.

Of identical requests for what is not kept one goes to the upstream, the others wait for it. What
it brings is theirs too if it may be kept; if not, they are told so, and each goes on its own.

Spec: server/utilities/caching (F-05); RFC 9111, 4 (collapsed requests).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

from mcpost.gateway.cacheable import Kept
from mcpost.limits import CacheLimits

__all__ = ("Flight", "Found", "SharedCache")

W = TypeVar("W")

_OVERHEAD = 512
"""Bytes that an entry costs besides what it says."""


class Found(NamedTuple):
    """An answer that is fresh."""

    kept: Kept
    age: float
    """Seconds since it came."""


class _Entry(NamedTuple):
    kept: Kept
    came: float
    until: float


class Flight(Generic[W]):
    """A request that is on its way for all who ask the same.

    Args:
        key: What they ask.
        epoch: How often all was forgotten before it began.
    """

    __slots__ = ("epoch", "key", "waiting")

    def __init__(self, key: bytes, epoch: int) -> None:
        self.key = key
        self.epoch = epoch
        self.waiting: dict[W, None] = {}
        """Who waits, in the order in which they came."""


class SharedCache(Generic[W]):
    """Keeps answers, and knows who waits for which.

    Args:
        limits: Bounds.

    Times are seconds of a clock that does not jump.
    """

    def __init__(self, limits: CacheLimits = CacheLimits()) -> None:
        self.limits = limits
        self.bytes = 0
        """Bytes of all entries."""
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._flights: dict[bytes, Flight[W]] = {}
        self._epoch = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: bytes, now: float) -> Found | None:
        """Give a fresh answer, or `None`."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now >= entry.until:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return Found(entry.kept, max(now - entry.came, 0.0))

    def join(self, key: bytes, waiter: W) -> Flight[W] | None:
        """Wait with others; `None` where nobody is on the way, or too many wait."""
        flight = self._flights.get(key)
        if flight is None or len(flight.waiting) >= self.limits.max_waiting:
            return None
        flight.waiting[waiter] = None
        return flight

    def begin(self, key: bytes) -> Flight[W]:
        """Be the one who goes; whoever asks from now on may wait."""
        flight: Flight[W] = Flight(key, self._epoch)
        self._flights.setdefault(key, flight)
        return flight

    def release(self, flight: Flight[W]) -> tuple[W, ...]:
        """Let nobody wait any longer.

        Returns:
            Those who did. What the flight brings may still be kept.
        """
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
        waiting, flight.waiting = tuple(flight.waiting), {}
        return waiting

    def land(self, flight: Flight[W], kept: Kept | None, now: float) -> tuple[W, ...]:
        """Say what a flight has brought.

        Args:
            flight: The flight, which is over.
            kept: The answer, `None` where there is none that may be kept.
            now: When it came.

        Returns:
            Those who have waited for it.
        """
        if kept is not None and flight.epoch == self._epoch:
            self._put(flight.key, kept, now)
        return self.release(flight)

    def clear(self) -> None:
        """Forget all answers, those too that are on their way."""
        self._entries.clear()
        self.bytes = 0
        self._epoch += 1

    def _put(self, key: bytes, kept: Kept, now: float) -> None:
        size = kept.size + _OVERHEAD
        if key in self._entries:
            self._drop(key)
        if kept.size > self.limits.max_entry or size > self.limits.max_bytes:
            return
        until = now + min(kept.ttl_ms / 1000, self.limits.max_ttl)
        self._entries[key] = _Entry(kept, now, until)
        self.bytes += size
        while len(self._entries) > self.limits.max_entries or self.bytes > self.limits.max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: bytes) -> None:
        self.bytes -= self._entries.pop(key).kept.size + _OVERHEAD
