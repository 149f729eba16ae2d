"""`subscriptions/listen`: streams that tell of changes.

Each stream hears only what it asked for and the server offers; its first message says which that
is, and every message carries the id of its request. A notice is encoded once for all streams of
one id. An idle stream costs no task and no timer of its own.

Spec: patterns/subscriptions (P-04, P-05); schema, `SubscriptionFilter`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mcpost.errors import InvalidParams, Refused
from mcpost.limits import ServerLimits
from mcpost.server.admission import busy
from mcpost.server.bus import Bus, Missed, Notice
from mcpost.server.head import Door, Head
from mcpost.server.reply import Reply, Terms
from mcpost.types import (
    Change,
    Implementation,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
)
from mcpost.wire import meta
from mcpost.wire.jsonrpc import Request, encode

__all__ = ("METHOD", "Listen", "Listens", "can_listen", "read_filter")

METHOD: Final = "subscriptions/listen"

FLAGS: Final[dict[str, tuple[str, Change]]] = {
    "toolsListChanged": ("tools", ToolsChanged()),
    "promptsListChanged": ("prompts", PromptsChanged()),
    "resourcesListChanged": ("resources", ResourcesChanged()),
}
"""The yes-or-no members of a filter, with the capability and the change they stand for."""

_METHODS: Final[dict[type, bytes]] = {
    ToolsChanged: b"notifications/tools/list_changed",
    PromptsChanged: b"notifications/prompts/list_changed",
    ResourcesChanged: b"notifications/resources/list_changed",
    ResourceUpdated: b"notifications/resources/updated",
}
_KEY: Final = meta.SUBSCRIPTION_ID.encode()


def can_listen(capabilities: Mapping[str, Any]) -> bool:
    """Whether a server that declares these capabilities has anything to tell."""
    return any(
        each.get("listChanged") or each.get("subscribe")
        for each in capabilities.values()
        if isinstance(each, dict)
    )


def read_filter(
    params: Mapping[str, Any], capabilities: Mapping[str, Any], limits: ServerLimits
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


def _changes(honoured: Mapping[str, Any]) -> tuple[Change, ...]:
    """The changes that a stream with this filter hears of."""
    flags = [change for flag, (_, change) in FLAGS.items() if flag in honoured]
    return (*flags, *map(ResourceUpdated, honoured.get("resourceSubscriptions", ())))


def _encode_change(change: Change, id_json: bytes) -> bytes:
    uri = b',"uri":%b' % encode(change.uri) if isinstance(change, ResourceUpdated) else b""
    return b'{"jsonrpc":"2.0","method":"%b","params":{"_meta":{"%b":%b}%b}}' % (
        _METHODS[type(change)],
        _KEY,
        id_json,
        uri,
    )


class Listen(Reply):
    """One open stream.

    Args:
        door: Where it goes.
        request: The request that opened it.
        head: The head it came with.
        terms: What holds for all replies.
        honoured: The honoured filter.
        listens: All streams of this loop.
    """

    __slots__ = ("_listens", "changes", "id_json")

    def __init__(
        self,
        door: Door,
        request: Request,
        head: Head,
        terms: Terms,
        *,
        honoured: Mapping[str, Any],
        listens: Listens,
    ) -> None:
        super().__init__(door, request.id, head, terms)
        self._listens = listens
        self.id_json = encode(request.id)
        self.changes = _changes(honoured)
        """What it hears of."""

    def acknowledge(self, honoured: Mapping[str, Any]) -> None:
        """Send the first message: which of the wishes are honoured."""
        self.note(
            b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",'
            b'"params":{"_meta":{"%b":%b},"notifications":%b}}'
            % (_KEY, self.id_json, encode(honoured))
        )

    def cancel(self) -> None:
        """Forget the stream: nobody reads it any more."""
        self._listens.forget(self)


class Listens:
    """The open streams of one event loop.

    Args:
        loop: The loop.
        bus: Where changes come from.
        limits: The number of streams.
        info: Who the server is, for the closing result.
    """

    __slots__ = (
        "_bus",
        "_by_change",
        "_heard",
        "_info",
        "_limits",
        "_loop",
        "_open",
        "_unsubscribe",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bus: Bus,
        limits: ServerLimits,
        info: Implementation,
    ) -> None:
        self._loop = loop
        self._bus = bus
        self._limits = limits
        self._info = info
        self._open: dict[Door, Listen] = {}
        self._by_change: dict[Change, dict[Listen, None]] = {}
        self._heard: dict[Notice, None] = {}
        """What was heard in this turn of the loop; what is said twice in it is told once."""
        self._unsubscribe: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def check_room(self) -> Refused | None:
        """Tell whether one more may be opened: `None`, or what to answer instead."""
        if len(self._open) >= self._limits.max_listens:
            return busy(self._limits, "the server has all the listens it can take; try again later")
        return None

    def open(self, listen: Listen, honoured: Mapping[str, Any]) -> None:
        """Open a stream: its first message says what it will hear of."""
        # Subscribed first: what changes from now on comes after the acknowledgement.
        if self._unsubscribe is None:
            self._unsubscribe = self._bus.subscribe(self._hear)
        self._open[listen.door] = listen
        for change in listen.changes:
            self._by_change.setdefault(change, {})[listen] = None
        listen.acknowledge(honoured)

    def forget(self, listen: Listen) -> None:
        """Take a stream off the lists."""
        if self._open.pop(listen.door, None) is None:
            return
        for change in listen.changes:
            those = self._by_change[change]
            del those[listen]
            if not those:
                del self._by_change[change]
        if not self._open and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def close(self) -> None:
        """End all streams, each with its result (P-05)."""
        for door in list(self._open):
            self.end(door)

    def end(self, door: Door) -> bool:
        """End the stream that goes to a door, with its result; false where there is none (P-05)."""
        listen = self._open.get(door)
        if listen is None:
            return False
        self.forget(listen)
        listen.result(
            {
                "resultType": "complete",
                "_meta": {meta.SUBSCRIPTION_ID: listen.id, meta.SERVER_INFO: self._info},
            }
        )
        return True

    def _hear(self, notice: Notice) -> None:
        # Always by the loop: a bus calls from any thread, and an author in the midst of a change.
        try:
            self._loop.call_soon_threadsafe(self._collect, notice)
        except RuntimeError:
            # The loop is closed, and with it all its streams.
            if self._unsubscribe is not None:
                self._unsubscribe()

    def _collect(self, notice: Notice) -> None:
        if not self._heard:
            self._loop.call_soon(self._tell_all)
        self._heard[notice] = None

    def _tell_all(self) -> None:
        notices, self._heard = self._heard, {}
        changes: Iterable[Notice] = notices
        if Missed() in notices:
            # Whatever may have been missed is told as changed: to look again is always right.
            changes = list(self._by_change)
        for change in changes:
            self._tell(change)

    def _tell(self, change: Any) -> None:
        encoded: dict[bytes, bytes] = {}
        for listen in list(self._by_change.get(change, ())):
            message = encoded.get(listen.id_json)
            if message is None:
                message = encoded[listen.id_json] = _encode_change(change, listen.id_json)
            listen.note(message)
