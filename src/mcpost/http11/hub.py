"""What the connections of one event loop share: deadlines, the end of a turn, the date.

**Deadlines.** Every connection has one `deadline` and stands in one slot of a ring, which one timer
turns. To move a deadline further away is to set an attribute: when its slot comes, whoever has time
left is put into a later one. So a request on a kept connection costs no timer and no bookkeeping.

**Turns.** What a stream writes first in a turn of the loop goes out at once; what it writes after
that is kept until the turn is over, and goes out as one. One callback serves all streams.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from mcpost.http11.encode import DateLine

__all__ = ("NEVER", "Hub", "Timed", "Turned")

NEVER: Final = float("inf")
"""The deadline of what may take as long as it likes."""

_SLOTS: Final = 256


class Timed(Protocol):
    """What has a deadline."""

    deadline: float
    """Loop time; may be moved further away without telling anybody."""
    slot: int
    """The hub's own: where in the ring this stands, -1 for nowhere."""

    def expire(self, now: float) -> None:
        """The deadline has passed: do what has to be done, and set another or `forget` this."""
        ...


class Turned(Protocol):
    """What may have kept something back until the turn is over."""

    def turn_over(self) -> None:
        """Send it."""
        ...


class Hub:
    """The shared part of the connections of one loop.

    Args:
        loop: The loop that runs them.
        tick: Seconds between two looks at the deadlines. A deadline further away than 255 of them
            is looked at in between, which costs next to nothing.
    """

    __slots__ = ("_at", "_dirty", "_ring", "_size", "_timer", "dates", "loop", "tick")

    def __init__(self, loop: asyncio.AbstractEventLoop, tick: float) -> None:
        self.loop = loop
        self.tick = tick
        self.dates = DateLine()
        self._ring: list[set[Timed]] = [set() for _ in range(_SLOTS)]
        self._at = 0
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._dirty: list[Turned] = []

    def watch(self, timed: Timed) -> None:
        """Look after a deadline; call it again when one has moved nearer."""
        if timed.slot >= 0:
            self._ring[timed.slot].discard(timed)
        else:
            self._size += 1
        ticks = (timed.deadline - self.loop.time()) / self.tick
        ahead = _SLOTS - 1 if ticks >= _SLOTS - 2 else max(int(ticks), 0) + 1
        timed.slot = (self._at + ahead) % _SLOTS
        self._ring[timed.slot].add(timed)
        if self._timer is None:
            self._timer = self.loop.call_later(self.tick, self._turn_ring)

    def forget(self, timed: Timed) -> None:
        """Look after a deadline no longer."""
        if timed.slot < 0:
            return
        self._ring[timed.slot].discard(timed)
        timed.slot = -1
        self._size -= 1
        if not self._size and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def after_turn(self, turned: Turned) -> None:
        """Call `turn_over` once, when this turn of the loop is over."""
        if not self._dirty:
            self.loop.call_soon(self._end_turn)
        self._dirty.append(turned)

    def _turn_ring(self) -> None:
        self._timer = self.loop.call_later(self.tick, self._turn_ring)
        self._at = (self._at + 1) % _SLOTS
        due = self._ring[self._at]
        if not due:
            return
        self._ring[self._at] = set()
        now = self.loop.time()
        for timed in due:
            if timed.slot != self._at:
                # What expired before it in this slot has closed it.
                continue
            if timed.deadline <= now:
                timed.expire(now)
            if timed.slot == self._at:
                self.watch(timed)

    def _end_turn(self) -> None:
        dirty, self._dirty = self._dirty, []
        for turned in dirty:
            turned.turn_over()
