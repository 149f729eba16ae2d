"""`subscriptions/listen`: streams that tell of changes.

Each stream hears only what it asked for and the server offers; the first message says which that
is. A notice is encoded once and given to each stream with its own subscription id. An idle stream
costs no task and no timer of its own.

Spec: patterns/subscriptions (P-04, P-05); schema, `SubscriptionsListenRequest`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from mcpost.errors import InvalidParams
from mcpost.limits import ServerLimits
from mcpost.server.admission import busy
from mcpost.server.bus import Bus
from mcpost.server.reply import Reply
from mcpost.types import (
    Change,
    Implementation,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
)
from mcpost.wire import meta
from mcpost.wire.jsonrpc import Id, Request, encode, encode_result

__all__ = ("FLAGS", "Listeners", "read_filter")

FLAGS: Final = {
    "toolsListChanged": ("tools", ToolsChanged),
    "promptsListChanged": ("prompts", PromptsChanged),
    "resourcesListChanged": ("resources", ResourcesChanged),
}
"""The yes-or-no members of a filter, with the capability and the change they stand for."""

_METHODS: Final[dict[type, bytes]] = {
    ToolsChanged: b"notifications/tools/list_changed",
    PromptsChanged: b"notifications/prompts/list_changed",
    ResourcesChanged: b"notifications/resources/list_changed",
    ResourceUpdated: b"notifications/resources/updated",
}


def read_filter(
    params: dict[str, Any], capabilities: dict[str, Any], limits: ServerLimits
) -> dict[str, Any]:
    """Read the filter of a listen, and keep what is honoured.

    Args:
        params: The request's parameters.
        capabilities: What the server declares.
        limits: The number of URIs.

    Returns:
        The honoured filter, as the acknowledgement shows it.

    Raises:
        InvalidParams: -32602; there is no filter, a member has the wrong type, or there are too
            many URIs.

    Spec: patterns/subscriptions, "Notification Filter", "Acknowledgment" (P-04).
    """
    asked = params.get("notifications")
    if type(asked) is not dict:
        raise InvalidParams('"notifications" has to be an object: the filter of the listen')
    honoured: dict[str, Any] = {}
    for flag, (capability, _) in FLAGS.items():
        value = asked.get(flag, False)
        if type(value) is not bool:
            raise InvalidParams(f'"notifications.{flag}" has to be true or false')
        if value and capabilities.get(capability, {}).get("listChanged"):
            honoured[flag] = True
    uris = asked.get("resourceSubscriptions", [])
    if type(uris) is not list or any(type(uri) is not str for uri in uris):
        raise InvalidParams('"notifications.resourceSubscriptions" has to be a list of URIs')
    if len(uris) > limits.max_listen_uris:
        raise InvalidParams(
            f"a listen takes {limits.max_listen_uris} URIs at most; open another one for the rest"
        )
    if uris and capabilities.get("resources", {}).get("subscribe"):
        honoured["resourceSubscriptions"] = list(dict.fromkeys(uris))
    return honoured


class _Listener:
    """One open stream."""

    __slots__ = ("changes", "id", "id_json", "reply", "uris")

    def __init__(self, request_id: Id, honoured: dict[str, Any], reply: Reply) -> None:
        self.id = request_id
        self.id_json = encode(request_id)
        self.reply = reply
        self.changes = frozenset(FLAGS[flag][1] for flag in honoured if flag in FLAGS)
        self.uris = frozenset(honoured.get("resourceSubscriptions", ()))

    def wants(self, change: Change) -> bool:
        if isinstance(change, ResourceUpdated):
            return change.uri in self.uris
        return type(change) in self.changes


class Listeners:
    """The open streams of one event loop.

    Args:
        bus: Where changes come from.
        limits: The number of streams.
        info: Who the server is, for the closing result.
        loop: The loop.
    """

    __slots__ = ("_bus", "_info", "_limits", "_loop", "_open", "_thread", "_unsubscribe")

    def __init__(
        self,
        bus: Bus,
        limits: ServerLimits,
        info: Implementation,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._bus = bus
        self._limits = limits
        self._info = info
        self._loop = loop
        self._thread = threading.get_ident()
        self._open: dict[_Listener, None] = {}
        self._unsubscribe: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def open(self, request: Request, honoured: dict[str, Any], reply: Reply) -> None:
        """Open a stream: its first message says what it will hear.

        Raises:
            Refused: 503; there are as many as the server takes.
        """
        if len(self._open) >= self._limits.max_listens:
            raise busy(self._limits, "the server has all the listens it can take; try again later")
        listener = _Listener(request.id, honoured, reply)
        reply.hold()
        reply.on_gone = lambda: self._forget(listener)
        self._open[listener] = None
        if self._unsubscribe is None:
            self._unsubscribe = self._bus.subscribe(self._hear)
        reply.notify(
            b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",'
            b'"params":{"_meta":{"%b":%b},"notifications":%b}}'
            % (meta.SUBSCRIPTION_ID.encode(), listener.id_json, encode(honoured))
        )

    def _forget(self, listener: _Listener) -> None:
        self._open.pop(listener, None)
        if not self._open and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _hear(self, change: Change) -> None:
        # A bus may call from any thread, a shared one always does.
        if threading.get_ident() == self._thread:
            self._tell(change)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, change)

    def _tell(self, change: Change) -> None:
        start = b'{"jsonrpc":"2.0","method":"%b","params":{"_meta":{"%b":' % (
            _METHODS[type(change)],
            meta.SUBSCRIPTION_ID.encode(),
        )
        end = b"}}}"
        if isinstance(change, ResourceUpdated):
            end = b'},"uri":%b}}' % encode(change.uri)
        for listener in [each for each in self._open if each.wants(change)]:
            listener.reply.notify(start + listener.id_json + end)

    def close(self) -> None:
        """End all streams, each with its result (P-05)."""
        for listener in list(self._open):
            self._forget(listener)
            result = {
                "resultType": "complete",
                "_meta": {meta.SUBSCRIPTION_ID: listener.id, meta.SERVER_INFO: self._info},
            }
            listener.reply.finish(200, encode_result(listener.id, result))
