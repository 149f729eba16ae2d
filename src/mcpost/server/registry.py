"""What a server offers, by kind: entries in a stable order, and the pages of their list.

A page is encoded once and kept until an entry comes or goes.

Spec: utilities/pagination (F-04); server/tools, "Listing Tools" (F-01).
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from mcpost.errors import InvalidParams, UsageError
from mcpost.wire.jsonrpc import encode
from mcpost.wire.versions import Era

__all__ = ("Page", "Registry")

Entry = TypeVar("Entry")


class Page(msgspec.Struct):
    """One page of a list."""

    items: msgspec.Raw
    """The definitions, as a JSON array."""
    next_cursor: str | None


class Registry(Generic[Entry]):
    """The entries of one kind.

    Args:
        kind: Name of the kind, for errors: `tool`.
        define: Gives an entry's definition as the list of an era shows it.
        page_size: Entries in one page.
    """

    __slots__ = ("_define", "_entries", "_kind", "_page_size", "_pages")

    def __init__(self, kind: str, define: Callable[[Entry, Era], Any], page_size: int) -> None:
        self._kind = kind
        self._define = define
        self._page_size = page_size
        self._entries: dict[str, Entry] = {}
        self._pages: dict[Era, dict[str | None, Page]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def get(self, key: Any) -> Entry | None:
        """Find an entry by its name or URI."""
        return self._entries.get(key)

    def add(self, key: str, entry: Entry) -> None:
        """Add an entry; raises UsageError if there is one of that name."""
        if key in self._entries:
            raise UsageError(f"there is a {self._kind} {key!r} already; remove it first")
        self._entries[key] = entry
        self._pages = {}

    def remove(self, key: str) -> None:
        """Remove an entry; raises UsageError if there is none of that name."""
        if self._entries.pop(key, None) is None:
            raise UsageError(f"there is no {self._kind} {key!r}")
        self._pages = {}

    def page(self, cursor: Any, era: Era) -> Page:
        """Give a page of the list.

        Args:
            cursor: `None` for the first page, else what the page before named as the next.
            era: The list of which era.

        Raises:
            InvalidParams: -32602; the cursor is not one of this list, or no longer.

        Spec: utilities/pagination (F-04).
        """
        # Taken once: an entry that another thread adds meanwhile makes these pages the old ones.
        known = self._pages
        pages = known.get(era)
        if pages is None:
            pages = known[era] = self._make_pages(era)
        page = pages.get(cursor) if cursor is None or type(cursor) is str else None
        if page is None:
            # After a change the same cursor may still name an entry to go on from.
            page = self._page_after(cursor, era)
        return page

    def _make_pages(self, era: Era) -> dict[str | None, Page]:
        entries = list(self._entries.items())
        pages: dict[str | None, Page] = {}
        cursor: str | None = None
        for start in range(0, len(entries), self._page_size):
            pages[cursor], cursor = self._make_page(entries, start, era)
        if not pages:
            pages[None] = Page(msgspec.Raw(b"[]"), None)
        return pages

    def _make_page(
        self, entries: list[tuple[str, Entry]], start: int, era: Era
    ) -> tuple[Page, str | None]:
        part = entries[start : start + self._page_size]
        following = start + self._page_size < len(entries)
        cursor = _cursor(self._kind, part[-1][0]) if following else None
        items = encode([self._define(entry, era) for _, entry in part])
        return Page(msgspec.Raw(items), cursor), cursor

    def _page_after(self, cursor: Any, era: Era) -> Page:
        key = _key(self._kind, cursor)
        entries = list(self._entries.items())
        keys = list(self._entries)
        if key not in self._entries:
            raise InvalidParams("the cursor is not one of this list; start from its beginning")
        start = keys.index(key) + 1
        if start >= len(entries):
            return Page(msgspec.Raw(b"[]"), None)
        return self._make_page(entries, start, era)[0]


def _cursor(kind: str, key: str) -> str:
    return urlsafe_b64encode(f"{kind}:{key}".encode()).decode()


def _key(kind: str, cursor: Any) -> str | None:
    if type(cursor) is not str:
        return None
    try:
        text = urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (binascii.Error, ValueError):
        return None
    found, _, key = text.partition(":")
    return key if found == kind else None
