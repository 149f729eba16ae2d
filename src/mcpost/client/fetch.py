"""Reading what a server offers: lists over all their pages, and answers that were kept.

Spec: server/utilities/pagination, server/utilities/caching (F-04, F-05).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from mcpost.client.cache import CACHEABLE, Cache
from mcpost.client.call import Caller, Options
from mcpost.client.credentials import Credentials
from mcpost.errors import BadReply
from mcpost.types import Change

__all__ = ("Fetcher", "read_result")

_log = logging.getLogger("mcpost.client")

T = TypeVar("T")


class Fetcher:
    """Fetches what may be kept.

    Args:
        caller: Makes the calls.
        cache: Where answers are kept, `None` to keep none.
        credentials: Who calls; private answers are kept under it.
    """

    def __init__(self, caller: Caller, cache: Cache | None, credentials: Credentials) -> None:
        self._caller = caller
        self._cache = cache
        self._credentials = credentials

    async def fetch(
        self, method: str, params: Mapping[str, Any], options: Options, *, fresh: bool = False
    ) -> dict[str, Any]:
        """Make a request whose result may be kept.

        Args:
            method: The method.
            params: Its parameters.
            options: How the call is made.
            fresh: Whether to ask the server whatever is kept.
        """
        cache, server = self._cache, self._caller.transport.name
        if cache is None or method not in CACHEABLE:
            return await self._caller.call(method, params, options)
        now = asyncio.get_running_loop().time
        principal = self._credentials.context
        if not fresh:
            kept = cache.get(server, method, params, principal or "", now())
            if kept is not None:
                return kept
        generation = cache.generation(server, method)
        asked = self._caller.rounds
        result = await self._caller.call(method, params, options)
        principal = self._credentials.context
        # What took a round trip for input depends on more than the parameters.
        if principal is not None and self._caller.rounds == asked:
            cache.put(
                server,
                method,
                params,
                result,
                principal=principal,
                now=now(),
                generation=generation,
            )
        return result

    async def list(
        self, method: str, member: str, kind: type[T], options: Options, *, fresh: bool = False
    ) -> list[T]:
        """Walk all pages of a list; an entry that is malformed is left out, with a warning.

        Args:
            method: The method.
            member: Name of the list in its result.
            kind: The type of its entries.
            options: How each page is asked for.
            fresh: Whether to ask the server whatever is kept.

        Raises:
            BadReply: A page has no list, or the pages do not end.
        """
        entries: list[T] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        limit = self._caller.limits.max_pages
        for _ in range(limit):
            page = await self.fetch(method, params, options, fresh=fresh)
            found: list[Any] | None = page.get(member)
            if not isinstance(found, list):
                raise BadReply(f'the result of {method} has no list "{member}"')
            entries.extend(_read_entries(found, kind, method))
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return entries
            if cursor in cursors:
                raise BadReply(f"{method} gives the cursor {cursor!r} twice: its pages are a ring")
            cursors.add(cursor)
            params = {"cursor": cursor}
        raise BadReply(f"{method} has more than {limit} pages; see ClientLimits.max_pages")

    def hear(self, change: Change | None) -> None:
        """Drop what a change makes stale; `None` is any change that may have been missed."""
        if self._cache is None:
            return
        if change is None:
            self._cache.clear(self._caller.transport.name)
        else:
            self._cache.hear(self._caller.transport.name, change)


def _read_entries(found: list[Any], kind: type[T], method: str) -> list[T]:
    entries: list[T] = []
    for entry in found:
        try:
            entries.append(msgspec.convert(entry, kind))
        except msgspec.ValidationError as error:
            _log.warning("an entry of %s is left out: %s", method, error)
    return entries


def read_result(value: Any, kind: type[T]) -> T:
    """Read a result as its type.

    Raises:
        BadReply: It is of another form.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadReply(f"the result is malformed: {error}") from error
