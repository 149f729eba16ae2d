"""Answers that may be given again: by `ttlMs` and `cacheScope`, until a change is heard.

An entry is what the server sent, as JSON: each time it is given, it is decoded anew, so nobody
changes what another one gets. An answer that was asked for before a change was heard, and came
after it, is not kept.

Spec: server/utilities/caching (F-05).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mcpost.limits import ClientLimits
from mcpost.types import (
    Change,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
)
from mcpost.wire import jsonrpc
from mcpost.wire.caching import CACHEABLE

__all__ = ("CACHEABLE", "Cache", "CacheKey")

_DROPPED: Final[dict[type[Change], tuple[str, ...]]] = {
    ToolsChanged: ("tools/list",),
    PromptsChanged: ("prompts/list",),
    ResourcesChanged: ("resources/list", "resources/templates/list"),
}


class CacheKey(NamedTuple):
    """What an answer depends on."""

    server: str
    method: str
    params: bytes
    """Canonical JSON of the parameters without `_meta`."""
    principal: str
    """The authorisation context; empty for an entry that all may have."""


class _Entry(NamedTuple):
    body: bytes
    until: float


class Cache:
    """Holds answers; several clients may share one.

    Args:
        limits: Number of entries and the longest time.
    """

    def __init__(self, limits: ClientLimits = ClientLimits()) -> None:
        self._limits = limits
        self._entries: OrderedDict[CacheKey, _Entry] = OrderedDict()
        self._generations: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(
        self, server: str, method: str, params: Mapping[str, Any], principal: str, now: float
    ) -> dict[str, Any] | None:
        """Give a kept result, or `None`.

        Args:
            server: Name of the server.
            method: The method.
            params: Its parameters.
            principal: The authorisation context.
            now: The time, in seconds of a clock that does not jump.
        """
        text = _canonical(params)
        for owner in (principal, ""):
            key = CacheKey(server, method, text, owner)
            entry = self._entries.get(key)
            if entry is None:
                continue
            if now < entry.until:
                self._entries.move_to_end(key)
                result: dict[str, Any] = msgspec.json.decode(entry.body)
                return result
            del self._entries[key]
        return None

    def generation(self, server: str, method: str) -> int:
        """Tell how many changes were heard; read it before asking, and give it to `put`."""
        return self._generations.get((server, method), 0)

    def put(
        self,
        server: str,
        method: str,
        params: Mapping[str, Any],
        result: Mapping[str, Any],
        *,
        principal: str,
        now: float,
        generation: int,
    ) -> None:
        """Keep a result for as long as it says.

        Args:
            server: Name of the server.
            method: The method.
            params: Its parameters.
            result: The result with its `ttlMs` and `cacheScope`.
            principal: The authorisation context.
            now: The time at which it came.
            generation: What `generation` said before it was asked for.
        """
        ttl = result.get("ttlMs")
        if type(ttl) is not int or ttl <= 0 or generation != self.generation(server, method):
            return
        # What does not say that all may have it is private.
        owner = "" if result.get("cacheScope") == "public" else principal
        key = CacheKey(server, method, _canonical(params), owner)
        until = now + min(ttl / 1000, self._limits.max_ttl)
        self._entries[key] = _Entry(jsonrpc.encode(result), until)
        self._entries.move_to_end(key)
        while len(self._entries) > self._limits.max_cache_entries:
            self._entries.popitem(last=False)

    def hear(self, server: str, change: Change) -> None:
        """Drop what a change makes stale."""
        if isinstance(change, ResourceUpdated):
            self._drop(server, "resources/read", change.uri)
            return
        for method in _DROPPED[type(change)]:
            self._drop(server, method)

    def clear(self, server: str) -> None:
        """Drop all that is kept of a server: changes may have been missed."""
        for method in CACHEABLE:
            self._drop(server, method)

    def _drop(self, server: str, method: str, uri: str | None = None) -> None:
        place = (server, method)
        self._generations[place] = self._generations.get(place, 0) + 1
        wanted = None if uri is None else _canonical({"uri": uri})
        for key in [key for key in self._entries if key[:2] == place]:
            if wanted is None or key.params == wanted:
                del self._entries[key]


def _canonical(params: Mapping[str, Any]) -> bytes:
    rest = {name: params[name] for name in sorted(params) if name != "_meta"}
    return jsonrpc.encode(rest)
