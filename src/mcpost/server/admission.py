"""How many calls run at once, how many wait for a place, and who is sent away.

Spec: ours (T-25); RFC 9110, 10.2.3 and 15.6.4.
"""

from __future__ import annotations

import asyncio
from collections import deque

from mcpost.errors import Refused
from mcpost.limits import ServerLimits

__all__ = ("Admission", "busy")


def busy(limits: ServerLimits, reason: str) -> Refused:
    """Make the refusal of a call that has to come later: 503 with `Retry-After`."""
    return Refused(503, reason, ((b"retry-after", b"%d" % limits.retry_after),))


class Admission:
    """The places for calls on one event loop.

    Args:
        loop: The event loop.
        limits: Calls at once, calls in the queue, and the time in it.

    Next: whoever got a place from `enter`, `enter_nowait` or `wait_place` calls `leave` once.
    """

    __slots__ = ("_limits", "_loop", "_queue", "running")

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ServerLimits) -> None:
        self._loop = loop
        self._limits = limits
        self._queue: deque[asyncio.Future[None]] = deque()
        self.running = 0
        """Calls that have a place."""

    @property
    def waiting(self) -> int:
        """Calls that wait for a place."""
        return len(self._queue)

    def enter_nowait(self) -> bool:
        """Take a place if one is free."""
        if self.running >= self._limits.max_calls:
            return False
        self.running += 1
        return True

    @property
    def is_free(self) -> bool:
        """Whether a place is free."""
        return self.running < self._limits.max_calls

    def enter(self) -> None:
        """Take a place for a call that runs already."""
        self.running += 1

    def check_queue(self) -> Refused | None:
        """Tell whether one more may wait: `None`, or what to answer instead."""
        if len(self._queue) >= self._limits.max_queued:
            return busy(self._limits, "the server is busy: its queue is full; try again later")
        return None

    async def wait_place(self) -> None:
        """Wait for a place, in the order of arrival.

        Raises:
            Refused: 503 with `Retry-After`; no place became free in time.
        """
        if self.enter_nowait():
            return
        place: asyncio.Future[None] = self._loop.create_future()
        self._queue.append(place)
        try:
            async with asyncio.timeout(self._limits.queue_timeout):
                await place
        except TimeoutError:
            self._give_up(place)
            raise busy(
                self._limits, "the server is busy: no place became free in time; try again later"
            ) from None
        except asyncio.CancelledError:
            self._give_up(place)
            raise

    def leave(self) -> None:
        """Give a place back: the longest waiting call gets it."""
        while self._queue:
            place = self._queue.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.running -= 1

    def _give_up(self, place: asyncio.Future[None]) -> None:
        if place in self._queue:
            self._queue.remove(place)
        elif place.done() and not place.cancelled():
            # The place was given in the same turn in which its taker stopped waiting.
            self.leave()
