"""Where notices of change travel: from whoever changed something to all who listen.

The bus of this module reaches the listeners of this process. A bus that reaches those of other
processes and machines has the same two methods (`mcpost.server.bus_redis`).

Spec: patterns/subscriptions (P-04).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from mcpost.types import Change

__all__ = ("Bus", "Listener", "MemoryBus", "Missed", "Notice")


class Missed(msgspec.Struct, frozen=True, tag="missed"):
    """The bus was cut off for a while: any change may have happened unheard."""


Notice = Change | Missed
Listener = Callable[[Notice], None]


class Bus(Protocol):
    """What a server needs of a bus."""

    def publish(self, change: Change) -> None:
        """Tell all listeners of a change; may be called from any thread, and does not block."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear of changes.

        Args:
            listener: Called once a change, from any thread; it has to return at once. A bus that
                may lose changes on the way calls it with `Missed` where it may have.

        Returns:
            A function that ends it.
        """
        ...


class MemoryBus:
    """A bus within this process."""

    __slots__ = ("_listeners", "_lock")

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self._lock = threading.Lock()

    def publish(self, change: Notice) -> None:
        """Tell all listeners of a change; may be called from any thread."""
        for listener in self._listeners:
            listener(change)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear of changes; the function that is returned ends it."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def unsubscribe() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return unsubscribe
