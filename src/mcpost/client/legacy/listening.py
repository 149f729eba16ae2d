"""Listens on the earlier revisions: changes that the session is told, shared out to who wants them.

These revisions tell every session of changed lists, and of a resource only after
`resources/subscribe`. A listen here is a filter on that; it is acknowledged with what the server's
capabilities promise.

Spec: 2025-11-25, server/resources, "Subscriptions"; server/tools, "List Changed Notification"
(L-04).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.client.channel import Waiting
from mcpost.errors import ConnectionLost, McpostError
from mcpost.wire.jsonrpc import ErrorBody, Notification, Response

__all__ = ("Listening",)

_log = logging.getLogger("mcpost.client")

_LISTS: Final = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
_MAX_WAITING: Final = 1_000
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_UPDATED: Final = "notifications/resources/updated"

Ask = Callable[[str, dict[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


class Listening:
    """The listens of one session.

    Args:
        ask: Makes a request of the session.
        hear: Sees to it that changes can be heard.
    """

    def __init__(self, ask: Ask, hear: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask
        self._hear = hear
        self._open: dict[Waiting, frozenset[str]] = {}
        self._uris: collections.Counter[str] = collections.Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, out: Outgoing, attempt: Attempt, capabilities: Mapping[str, Any]) -> Reply:
        """Listen until cancelled.

        Raises:
            ConnectionLost: Changes may have been missed.
        """
        loop = asyncio.get_running_loop()
        attempt.sending(loop.time())
        attempt.heard(loop.time())
        wanted: Mapping[str, Any] = out.params["notifications"]
        honoured: dict[str, Any] = {
            name: True
            for name, room in _LISTS.items()
            if wanted.get(name) and _promises(capabilities, room, "listChanged")
        }
        uris = list(wanted.get("resourceSubscriptions", ()))
        if not _promises(capabilities, "resources", "subscribe"):
            uris = []
        if not await self._hear():
            error = ErrorBody(-32601, "this server has no stream that tells of changes")
            attempt.finish()
            return Reply(Response(out.id, error=error))
        waiting = Waiting(out, attempt)
        self._open[waiting] = frozenset(
            {f"notifications/{_LISTS[name]}/list_changed" for name in honoured} | set(uris)
        )
        try:
            # The first of a resource subscribes, whoever comes next shares it.
            self._uris.update(uris)
            for uri in uris:
                if self._uris[uri] == 1:
                    await self._ask("resources/subscribe", {"uri": uri})
            if uris:
                honoured["resourceSubscriptions"] = uris
            # Before whatever was heard already.
            waiting.notes.appendleft(Notification(_ACKNOWLEDGED, {"notifications": honoured}))
            response = await waiting.wait()
        finally:
            del self._open[waiting]
            self._uris.subtract(uris)
            left = [uri for uri in uris if not self._uris[uri]]
            if left and waiting.error is None:
                self._spawn(self._unsubscribe(left))
        return Reply(response)

    def take(self, note: Notification) -> None:
        """Take a change, and give it to whoever wants it."""
        subject = note.params.get("uri") if note.method == _UPDATED else note.method
        for waiting, wanted in self._open.items():
            if subject in wanted:
                waiting.note(note, _MAX_WAITING)

    def lose(self, reason: str) -> None:
        """Changes may have been missed."""
        for waiting in self._open:
            waiting.fail(ConnectionLost(reason, sent="yes"))

    async def close(self) -> None:
        """End what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _unsubscribe(self, uris: list[str]) -> None:
        for uri in uris:
            with contextlib.suppress(McpostError):
                await self._ask("resources/unsubscribe", {"uri": uri})

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _promises(capabilities: Mapping[str, Any], room: str, what: str) -> bool:
    offered = capabilities.get(room)
    return isinstance(offered, dict) and bool(offered.get(what))
