"""Where the events of resumable streams are kept, for clients that come back for them.

Spec: 2025-11-25, basic/transports, "Resumability and Redelivery" (L-02).
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, Protocol

from mcpost.limits import ServerLimits

__all__ = ("EventStore", "MemoryStore")

_OVERHEAD: Final = 160
"""Bytes that an event costs besides its message."""


class EventStore(Protocol):
    """What a server needs of a store. It is called on the loop, and does not block."""

    def append(self, session: str, stream: str, number: int, message: bytes) -> None:
        """Keep an event.

        Args:
            session: Id of the session.
            stream: Name of the stream within the session.
            number: Its number in the stream; the first is 1, and each is one more.
            message: One encoded message.
        """

    def after(self, session: str, stream: str, number: int) -> list[tuple[int, bytes]] | None:
        """Give the events of a stream that came after a number, in order.

        Returns:
            Their numbers and messages; `None` where no event of such a stream is kept.
        """
        ...

    def drop(self, session: str) -> None:
        """Forget a session's events."""


class _Event(NamedTuple):
    stream: str
    number: int
    message: bytes


class _Shelf:
    """The events of one session, in the order in which they came."""

    __slots__ = ("events", "size")

    def __init__(self) -> None:
        self.events: deque[_Event] = deque()
        self.size = 0


class MemoryStore:
    """Keeps events in memory.

    Args:
        limits: How many events and bytes of one session, and bytes in all. A session over its
            bound loses its own oldest events; over the bound of all, those that have had nothing
            new for longest lose theirs. What is lost cannot be had again, and everything else can.
    """

    __slots__ = ("_limits", "_shelves", "size")

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._shelves: dict[str, _Shelf] = {}
        self.size = 0
        """Bytes that are kept, of all sessions."""

    def append(self, session: str, stream: str, number: int, message: bytes) -> None:
        """Keep an event; older ones may have to go for it."""
        # The order of the shelves is that of their newest events.
        shelf = self._shelves.pop(session, None)
        if shelf is None:
            shelf = _Shelf()
        self._shelves[session] = shelf
        shelf.events.append(_Event(stream, number, message))
        self._count(shelf, len(message) + _OVERHEAD)
        limits = self._limits
        while (
            len(shelf.events) > limits.max_session_events or shelf.size > limits.max_session_bytes
        ):
            self._forget_oldest(shelf)
        while self.size > limits.max_stored_bytes:
            name, longest_idle = next(iter(self._shelves.items()))
            self._forget_oldest(longest_idle)
            if not longest_idle.events:
                del self._shelves[name]

    def _forget_oldest(self, shelf: _Shelf) -> None:
        oldest = shelf.events.popleft()
        self._count(shelf, -len(oldest.message) - _OVERHEAD)

    def _count(self, shelf: _Shelf, size: int) -> None:
        shelf.size += size
        self.size += size

    def after(self, session: str, stream: str, number: int) -> list[tuple[int, bytes]] | None:
        """Give the events of a stream after a number; `None` where none of it is kept."""
        shelf = self._shelves.get(session)
        found = [each for each in shelf.events if each.stream == stream] if shelf else []
        if not found:
            return None
        return [(each.number, each.message) for each in found if each.number > number]

    def drop(self, session: str) -> None:
        """Forget a session's events."""
        shelf = self._shelves.pop(session, None)
        if shelf is not None:
            self.size -= shelf.size
