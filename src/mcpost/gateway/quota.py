"""Token buckets and bounds of calls at once, for a bounded number of keys.

A verdict says what to charge; the clock comes in as an argument, in seconds.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from mcpost.gateway.policy import Cap, Rate

__all__ = ("Charge", "Exceeded", "Quotas", "Ticket")


class Charge(NamedTuple):
    """One quota that a call uses."""

    rule: str
    """Id of the rule that asks for it."""
    key: str
    """Whose quota it is."""
    quota: Rate | Cap


class Exceeded(NamedTuple):
    """A call that is over a quota: 429."""

    rule: str
    retry_after: int
    """Whole seconds after which to come back, at least 1."""


class Ticket(NamedTuple):
    """A call that was let in; give it back to `Quotas.release` when the call ends."""

    held: tuple[tuple[str, str], ...] = ()


_FREE = Ticket()


class Quotas:
    """What every key has used.

    Args:
        max_keys: Keys whose buckets are kept; the one used least recently is forgotten, which
            gives it a full bucket. Calls that run are never forgotten.
    """

    def __init__(self, max_keys: int = 10_000) -> None:
        self._max_keys = max_keys
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._running: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._buckets) + len(self._running)

    def charge(self, charges: Sequence[Charge], now: float) -> Ticket | Exceeded:
        """Charge a call to all its quotas, or to none if one is used up.

        Args:
            charges: What its verdict says.
            now: A monotonic clock, in seconds.
        """
        if not charges:
            return _FREE
        levels: list[tuple[tuple[str, str], float]] = []
        held: list[tuple[str, str]] = []
        for rule, key, quota in charges:
            place = (rule, key)
            if isinstance(quota, Cap):
                if self._running.get(place, 0) >= quota.limit:
                    return Exceeded(rule, 1)
                held.append(place)
                continue
            level = self._level(place, quota, now)
            if level < 1:
                return Exceeded(rule, max(1, math.ceil((1 - level) * quota.per / quota.requests)))
            levels.append((place, level - 1))
        for place, level in levels:
            self._buckets[place] = (level, now)
            self._buckets.move_to_end(place)
        while len(self._buckets) > self._max_keys:
            self._buckets.popitem(last=False)
        for place in held:
            self._running[place] = self._running.get(place, 0) + 1
        return Ticket(tuple(held)) if held else _FREE

    def release(self, ticket: Ticket) -> None:
        """Say that a call has ended; once for each ticket."""
        for place in ticket.held:
            left = self._running.get(place, 0) - 1
            if left > 0:
                self._running[place] = left
            else:
                self._running.pop(place, None)

    def _level(self, place: tuple[str, str], rate: Rate, now: float) -> float:
        level, then = self._buckets.get(place, (rate.burst, now))
        # A clock that steps back adds nothing.
        return min(rate.burst, level + max(now - then, 0.0) * rate.requests / rate.per)
