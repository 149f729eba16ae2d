"""Admission: so many calls at once, so many in a queue, and no more.

Spec: T-25; RFC 9110, 15.6.4 and 10.2.3.
"""

from __future__ import annotations

import asyncio
from collections import deque

from mcpost.errors import Refused
from mcpost.limits import ServerLimits

__all__ = ("Admission", "busy")


def busy(limits: ServerLimits, reason: str) -> Refused:
    """Make the refusal of a server that has enough to do: 503 with `Retry-After`."""
    return Refused(503, reason, ((b"retry-after", b"%d" % limits.retry_after),))


class Admission:
    """The places of one event loop.

    Args:
        limits: Calls at once, calls in the queue, and the time in it.

    Next: whoever was let in by `enter` or `try_enter` calls `leave` once.
    """

    __slots__ = ("_limits", "_queue", "running")

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._queue: deque[asyncio.Future[None]] = deque()
        self.running = 0
        """Calls that have a place."""

    def try_enter(self) -> bool:
        """Take a place if one is free."""
        if self.running >= self._limits.max_calls:
            return False
        self.running += 1
        return True

    def check_queue(self) -> None:
        """Refuse where the queue is full; raises Refused (503)."""
        if len(self._queue) >= self._limits.max_queued:
            raise busy(self._limits, "the server has all the calls it can take; try again later")

    async def enter(self) -> None:
        """Wait for a place.

        Raises:
            Refused: 503; the queue is full, or the wait was too long.
        """
        if self.try_enter():
            return
        self.check_queue()
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(place)
        try:
            async with asyncio.timeout(self._limits.queue_timeout):
                await place
        except BaseException as error:
            # The place may have come in the same moment: it goes to the next one.
            if place.done() and not place.cancelled():
                self.leave()
            else:
                self._queue.remove(place)
            if isinstance(error, TimeoutError):
                raise busy(
                    self._limits, "the server had no place for the call in time"
                ) from error
            raise

    def leave(self) -> None:
        """Give a place back: to the first in the queue, if there is one."""
        while self._queue:
            place = self._queue.popleft()
            if not place.done():
                place.set_result(None)
                return
        self.running -= 1
