"""What the live page is told: the requests of each moment, and the pace of the last minute.

Nothing is kept while nobody watches. With watchers, requests are gathered for one tick and leave as
one snapshot for all: some rows as they came, the number of the others, and figures of all of them.
Everything is bounded: rows of a snapshot, names that are told apart, ticks of the minute, watchers,
and bytes that wait for a slow one, which then loses snapshots and is told how many.

Spec: WHATWG HTML, 9.2 "Server-sent events".
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from mcpost.gateway.access_log import Note

__all__ = ("BOUNDS", "MAX_WATCHERS", "TICK", "Live", "Watcher")

TICK: Final = 0.5
"""Seconds between two snapshots."""

WINDOW: Final = 120
"""Ticks of which rates and latencies are made: a minute."""

MAX_WATCHERS: Final = 16
"""Pages that are open at once; 503 above it."""

MAX_BEHIND: Final = 256 * 1024
"""Bytes that may wait for one page; it loses snapshots above it."""

MAX_ROWS: Final = 40
"""Requests, and refused ones, of one snapshot."""

MAX_NAMES: Final = 100
"""Names that are told apart; the others count together."""

MAX_TEXT: Final = 160
"""Characters of one value."""

BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 60000)
"""Milliseconds up to which a request counts for a latency; above the last there is no bound."""

_OTHERS: Final = "(others)"


class Out(Protocol):
    """Where a page's stream goes; `mcpost.http11.exchange.Exchange` is one."""

    def write(self, data: bytes) -> None:
        """Send a piece."""

    def pending(self) -> int:
        """Bytes that wait for the reader."""
        ...


class Watcher:
    """One open page.

    Args:
        out: Its stream.
    """

    __slots__ = ("_lost", "_out")

    def __init__(self, out: Out) -> None:
        self._out = out
        self._lost = 0

    def tell(self, event: bytes) -> None:
        """Send a snapshot, if the page keeps up."""
        if self._out.pending() > MAX_BEHIND:
            self._lost += 1
            return
        if self._lost:
            event = b"event: lost\ndata: %d\n\n%b" % (self._lost, event)
            self._lost = 0
        self._out.write(event)


class _Pace:
    """How often one name was called in the window, and how long that took."""

    __slots__ = ("_ticks", "count", "failed", "spread")

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.spread = [0] * (len(BOUNDS) + 1)
        self._ticks: deque[tuple[int, int, int, int]] = deque()
        """Tick, place in `spread`, count, failed; one entry for each place of a tick."""

    def add(self, tick: int, milliseconds: float, *, failed: bool) -> None:
        """Count a request."""
        place = bisect_left(BOUNDS, milliseconds)
        self.count += 1
        self.failed += failed
        self.spread[place] += 1
        ticks = self._ticks
        for back in range(1, min(len(ticks), len(BOUNDS) + 1) + 1):
            before = ticks[-back]
            if before[0] != tick:
                break
            if before[1] == place:
                ticks[-back] = (tick, place, before[2] + 1, before[3] + failed)
                return
        ticks.append((tick, place, 1, int(failed)))

    def forget(self, until: int) -> None:
        """Forget the ticks before one."""
        ticks = self._ticks
        while ticks and ticks[0][0] < until:
            _, place, count, failed = ticks.popleft()
            self.count -= count
            self.failed -= failed
            self.spread[place] -= count

    def within(self, part: float) -> int | None:
        """Milliseconds within which that part of the requests were; `None` above all bounds."""
        left = part * self.count
        for bound, count in zip(BOUNDS, self.spread, strict=False):
            left -= count
            if left <= 0:
                return bound
        return None


class Live:
    """What is seen of a gateway's requests while somebody watches.

    Args:
        gauges: Gives what is at this moment, by name.

    Next: who adds a watcher calls `tick` every `TICK` seconds while there are any (`is_watched`).
    """

    __slots__ = ("_failed", "_gauges", "_more", "_paces", "_refused", "_rows", "_tick", "_watchers")

    def __init__(self, gauges: Callable[[], dict[str, int]]) -> None:
        self._gauges = gauges
        self._watchers: set[Watcher] = set()
        self._rows: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        self._refused: deque[dict[str, Any]] = deque(maxlen=MAX_ROWS)
        self._more = 0
        self._tick = 0
        self._paces: dict[str, _Pace] = {}

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches; asked before `add`, so that nothing is done if nobody does."""
        return bool(self._watchers)

    def enter(self, out: Out) -> Watcher | None:
        """Take one more page; `None` where there are too many."""
        if len(self._watchers) >= MAX_WATCHERS:
            return None
        watcher = Watcher(out)
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """A page was closed; with the last one everything is forgotten."""
        self._watchers.discard(watcher)
        if not self._watchers:
            self._paces.clear()
            self._rows.clear()
            self._refused.clear()
            self._more = 0

    def add(self, note: Note, status: int, at: float) -> None:
        """Take note of a request that has ended.

        Args:
            note: The request.
            status: What the client was told; 0 where it left before.
            at: Seconds since 1970.
        """
        facts, verdict = note.facts, note.verdict
        milliseconds = note.seconds() * 1000
        row = {
            "at": round(at * 1000),
            "method": _clip(facts.method),
            "name": _clip(facts.name),
            "verdict": verdict.action,
            "rule": _clip(verdict.rule),
            "reason": _clip(verdict.reason),
            "upstream": verdict.upstream,
            "status": status,
            "cache": note.cache,
            "client": facts.peer,
            "ms": round(milliseconds, 2),
        }
        if verdict.action == "refuse":
            self._refused.append(row)
        if len(self._rows) == MAX_ROWS:
            self._more += 1
        self._rows.append(row)
        if verdict.action != "allow":
            return
        name = f"{facts.method or ''} {facts.name or ''}".strip()[:MAX_TEXT]
        pace = self._paces.get(name)
        if pace is None:
            if len(self._paces) >= MAX_NAMES:
                name = _OTHERS
            pace = self._paces.setdefault(name, _Pace())
        pace.add(self._tick, milliseconds, failed=status >= 500 or not status)

    def tick(self, at: float) -> None:
        """Tell all watchers what has been since the tick before.

        Args:
            at: Seconds since 1970.
        """
        self._tick += 1
        for name, pace in list(self._paces.items()):
            pace.forget(self._tick - WINDOW)
            if not pace.count:
                del self._paces[name]
        busiest = sorted(self._paces.items(), key=lambda item: -item[1].count)
        snapshot = {
            "at": round(at * 1000),
            "gauges": self._gauges(),
            "requests": list(self._rows),
            "more": self._more,
            "refused": list(self._refused),
            "tools": [
                {
                    "name": name,
                    "minute": pace.count,
                    "failed": pace.failed,
                    "p50": pace.within(0.5),
                    "p95": pace.within(0.95),
                }
                for name, pace in busiest
            ],
        }
        self._rows.clear()
        self._refused.clear()
        self._more = 0
        event = b"data: %b\n\n" % msgspec.json.encode(snapshot)
        for watcher in list(self._watchers):
            watcher.tell(event)


def _clip(text: str | None) -> str | None:
    if not text:
        return None
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
