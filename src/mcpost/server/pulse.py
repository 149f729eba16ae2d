"""One timer for all that waits.

Most calls are over before anything has to be done about their age. So a call costs no timer: it is
put on a list, and only what is still there when a short while is over gets its place in a heap of
due times, which one timer serves: keep-alives, deadlines, and the watch for a caller who leaves.

Spec: streamable-http (T-13, T-15); patterns/cancellation, "Timeouts" (P-03).
"""

from __future__ import annotations

import asyncio
import heapq
from typing import Final, Protocol

__all__ = ("YOUNG", "Pulse", "Waiting")

YOUNG: Final = 0.01
"""Seconds for which a call is young: nothing is done about its age."""


class Waiting(Protocol):
    """What a pulse looks after."""

    over: bool
    """Whether nothing more has to be done; what is over is forgotten."""

    def beat(self, now: float) -> float | None:
        """Do what is due; gives the loop time of the next look, or `None` for no more."""
        ...


class Pulse:
    """The timer of one event loop.

    Args:
        loop: The loop.
    """

    __slots__ = ("_count", "_heap", "_loop", "_timer", "_young", "_young_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._young: list[Waiting] = []
        self._young_timer: asyncio.TimerHandle | None = None
        self._heap: list[tuple[float, int, Waiting]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._count = 0

    def look_after(self, waiting: Waiting) -> None:
        """Begin to look after something, once it is no longer young."""
        self._young.append(waiting)
        if self._young_timer is None:
            self._young_timer = self._loop.call_later(YOUNG, self._grow)

    def _grow(self) -> None:
        self._young_timer = None
        young, self._young = self._young, []
        now = self._loop.time()
        for waiting in young:
            self._look(waiting, now)
        self._set_timer()

    def _look(self, waiting: Waiting, now: float) -> None:
        if waiting.over:
            return
        due = waiting.beat(now)
        if due is not None and not waiting.over:
            self._count += 1
            heapq.heappush(self._heap, (due, self._count, waiting))

    def _set_timer(self) -> None:
        while self._heap and self._heap[0][2].over:
            heapq.heappop(self._heap)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer = self._loop.call_at(self._heap[0][0], self._beat)

    def _beat(self) -> None:
        self._timer = None
        # What is due within the same moment is done in one go.
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now + 0.001:
            self._look(heapq.heappop(self._heap)[2], now)
        self._set_timer()
