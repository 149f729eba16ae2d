"""Timers for many: one timer of the loop serves everything that waits equally long.

All entries of a `Lane` wait the same time, so the order in which they came is the order in which
they are due. That makes entering, leaving and starting again one dictionary operation each, and
ten thousand idle streams cost one timer.

A lane belongs to one event loop and is used from it alone.

Spec: streamable-http (T-13, T-15); patterns/cancellation, "Timeouts".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ("Lane",)

Entry = TypeVar("Entry")

# Entries that are due within this part of the interval are taken along, so that streams that were
# opened one after another do not each wake the loop.
_SLACK: Final = 0.05


class Lane(Generic[Entry]):
    """A queue of entries that each become due a fixed time after they came.

    Args:
        loop: The event loop.
        interval: Seconds until an entry is due; 0 or less means never.
        due: Called with each entry that is due, which has then left the lane. It may enter again.
    """

    __slots__ = ("_due", "_entries", "_interval", "_loop", "_timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, interval: float, due: Callable[[Entry], None]
    ) -> None:
        self._loop = loop
        self._interval = interval
        self._due = due
        self._entries: dict[Entry, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def touch(self, entry: Entry) -> None:
        """Let an entry wait the whole interval from now on, whether it was in the lane or not."""
        if self._interval <= 0:
            return
        due = self._loop.time() + self._interval
        if self._entries.get(entry) == due:
            # Again in the same turn of a loop that looks at the clock once in each.
            return
        self._entries.pop(entry, None)
        self._entries[entry] = due
        if self._timer is None:
            self._timer = self._loop.call_later(self._interval, self._beat)

    def discard(self, entry: Entry) -> None:
        """Take an entry out; nothing happens if it is not in."""
        # The timer stays: calls come and go faster than it, and a beat with nothing due is cheap.
        self._entries.pop(entry, None)

    def _beat(self) -> None:
        self._timer = None
        limit = self._loop.time() + self._interval * _SLACK
        ready: list[Entry] = []
        for entry, time in self._entries.items():
            if time > limit:
                break
            ready.append(entry)
        for entry in ready:
            # One that was due may have ended another.
            if self._entries.pop(entry, None) is not None:
                self._due(entry)
        self._arm()

    def _arm(self) -> None:
        if self._timer is None and self._entries:
            first = next(iter(self._entries.values()))
            self._timer = self._loop.call_at(first, self._beat)
