"""Notices of change, on their way from the bus to the sessions of one event loop.

Spec: 2025-11-25, server/tools, server/prompts, "List Changed Notification"; server/resources,
"Subscriptions" (L-04).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mcpost.server.bus import Bus, Missed, Notice
from mcpost.server.legacy.session import Session
from mcpost.types import PromptsChanged, ResourcesChanged, ResourceUpdated, ToolsChanged
from mcpost.wire.jsonrpc import encode_notification

__all__ = ("Hearing", "notes_for")

_METHODS: Final[dict[type, str]] = {
    ToolsChanged: "notifications/tools/list_changed",
    PromptsChanged: "notifications/prompts/list_changed",
    ResourcesChanged: "notifications/resources/list_changed",
}
_LISTS: Final = {kind: encode_notification(method) for kind, method in _METHODS.items()}


def notes_for(session: Session, notice: Notice) -> list[bytes]:
    """Give what a session has to be told of a change, encoded; often nothing.

    Args:
        session: The session.
        notice: The change. Where changes may have been missed, everything is told as changed.
    """
    if session.version is None:
        return []
    if isinstance(notice, ResourceUpdated):
        return [_updated(notice.uri)] if notice.uri in session.uris else []
    if isinstance(notice, Missed):
        return [*_LISTS.values(), *map(_updated, sorted(session.uris))]
    return [_LISTS[type(notice)]]


def _updated(uri: str) -> bytes:
    return encode_notification("notifications/resources/updated", {"uri": uri})


class Hearing:
    """Hears of changes, and tells them on the loop, each once in a turn of it.

    Args:
        bus: Where changes come from.
        tell: Called on the loop with each change.
    """

    __slots__ = ("_bus", "_heard", "_loop", "_tell", "_unsubscribe")

    def __init__(self, bus: Bus, tell: Callable[[Notice], None]) -> None:
        self._bus = bus
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._heard: dict[Notice, None] = {}
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Hear from now on."""
        if self._unsubscribe is None:
            self._unsubscribe = self._bus.subscribe(self._hear)

    def stop(self) -> None:
        """Hear no more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _hear(self, notice: Notice) -> None:
        # Always by the loop: a bus calls from any thread, and an author in the midst of a change.
        try:
            self._loop.call_soon_threadsafe(self._collect, notice)
        except RuntimeError:
            # The loop is closed, and with it all its sessions.
            self.stop()

    def _collect(self, notice: Notice) -> None:
        if not self._heard:
            self._loop.call_soon(self._tell_all)
        self._heard[notice] = None

    def _tell_all(self) -> None:
        notices, self._heard = self._heard, {}
        for notice in notices:
            self._tell(notice)
