from __future__ import annotations

import json

import pytest

from mcpost.errors import InvalidParams, UsageError
from mcpost.server.registry import Registry
from mcpost.wire.versions import Era


def registry(size: int, *names: str) -> Registry[str]:
    made: Registry[str] = Registry("tool", lambda entry, era: {"name": entry}, size)
    for name in names:
        made.add(name, name)
    return made


def walk(entries: Registry[str]) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = entries.page(cursor, Era.MODERN)
        pages.append([each["name"] for each in json.loads(bytes(page.items))])
        cursor = page.next_cursor
        if cursor is None:
            return pages


@pytest.mark.req("F-04/S", "F-01/S")
@pytest.mark.parametrize(
    ("size", "pages"),
    [
        (10, [["c", "a", "b"]]),
        (3, [["c", "a", "b"]]),
        (2, [["c", "a"], ["b"]]),
        (1, [["c"], ["a"], ["b"]]),
    ],
)
def test_a_list_keeps_the_order_of_registration_over_its_pages(
    size: int, pages: list[list[str]]
) -> None:
    assert walk(registry(size, "c", "a", "b")) == pages


def test_an_empty_list_has_one_empty_page() -> None:
    assert walk(registry(2)) == [[]]


@pytest.mark.req("F-04/S")
@pytest.mark.parametrize("cursor", ["", "2", "zzz", "é", "dG9vbDp4", "dG9v", 5, 0, True, {}, []])
def test_a_cursor_that_is_not_of_this_list_is_refused(cursor: object) -> None:
    with pytest.raises(InvalidParams, match="cursor") as caught:
        registry(1, "a", "b").page(cursor, Era.MODERN)

    assert caught.value.code == -32602


@pytest.mark.req("F-04/S")
def test_a_cursor_of_another_kind_is_refused() -> None:
    other: Registry[str] = Registry("prompt", lambda entry, era: entry, 1)
    other.add("a", "a")
    other.add("b", "b")
    cursor = registry(1, "a", "b").page(None, Era.MODERN).next_cursor

    with pytest.raises(InvalidParams):
        other.page(cursor, Era.MODERN)


@pytest.mark.req("F-04/S")
def test_a_cursor_goes_on_after_its_entry_when_the_list_has_changed_meanwhile() -> None:
    entries = registry(2, "a", "b", "c")
    cursor = entries.page(None, Era.MODERN).next_cursor
    entries.add("d", "d")
    entries.remove("a")

    page = entries.page(cursor, Era.MODERN)

    assert [each["name"] for each in json.loads(bytes(page.items))] == ["c", "d"]


@pytest.mark.req("F-04/S")
def test_the_cursor_of_an_entry_that_is_gone_is_refused() -> None:
    entries = registry(1, "a", "b")
    cursor = entries.page(None, Era.MODERN).next_cursor
    entries.remove("a")

    with pytest.raises(InvalidParams):
        entries.page(cursor, Era.MODERN)


def test_a_page_is_written_once() -> None:
    entries = registry(1, "a", "b")

    assert entries.page(None, Era.MODERN) is entries.page(None, Era.MODERN)


def test_a_name_is_registered_once() -> None:
    entries = registry(1, "a")

    with pytest.raises(UsageError, match="already"):
        entries.add("a", "a")
    with pytest.raises(UsageError, match="no tool 'b'"):
        entries.remove("b")
