"""Answers are given again as long as they say, to whom they may, until a change is heard."""

from __future__ import annotations

from typing import Any

import pytest

from mcpost.client import Cache
from mcpost.limits import ClientLimits
from mcpost.types import ResourcesChanged, ResourceUpdated, ToolsChanged

pytestmark = pytest.mark.req("F-05/C")

SERVER = "https://example.com/mcp"


def keep(
    cache: Cache,
    method: str = "tools/list",
    params: dict[str, Any] | None = None,
    *,
    principal: str = "ann",
    now: float = 0.0,
    **result: Any,
) -> None:
    whole = {"ttlMs": 1000, "cacheScope": "private", **result}
    generation = cache.generation(SERVER, method)
    cache.put(
        SERVER, method, params or {}, whole, principal=principal, now=now, generation=generation
    )


def look(
    cache: Cache,
    method: str = "tools/list",
    params: dict[str, Any] | None = None,
    *,
    principal: str = "ann",
    now: float = 0.0,
) -> dict[str, Any] | None:
    return cache.get(SERVER, method, params or {}, principal, now)


def test_an_answer_is_fresh_for_its_time_and_not_longer() -> None:
    cache = Cache()
    keep(cache)

    assert look(cache, now=0.999) is not None
    assert look(cache, now=1.0) is None


@pytest.mark.parametrize("ttl", [0, -5, None, 1.5, "9", True])
def test_a_time_that_is_none_keeps_nothing(ttl: object) -> None:
    cache = Cache()
    keep(cache, ttlMs=ttl)

    assert len(cache) == 0


def test_no_time_is_longer_than_the_limit() -> None:
    cache = Cache(ClientLimits(max_ttl=10.0))
    keep(cache, ttlMs=10**9)

    assert look(cache, now=9.9) is not None
    assert look(cache, now=10.0) is None


def test_other_parameters_are_another_answer_and_meta_is_none_of_them() -> None:
    cache = Cache()
    keep(cache, "resources/read", {"uri": "a:b", "_meta": {"x": 1}})

    assert look(cache, "resources/read", {"uri": "a:b"}) is not None
    assert look(cache, "resources/read", {"uri": "a:c"}) is None


@pytest.mark.parametrize("scope", ["private", None, "PUBLIC"])
def test_a_private_answer_is_given_to_nobody_else(scope: str | None) -> None:
    cache = Cache()
    keep(cache, cacheScope=scope)

    assert look(cache, principal="bob") is None
    assert look(cache, principal="ann") is not None


def test_a_public_answer_is_given_to_all() -> None:
    cache = Cache()
    keep(cache, cacheScope="public")

    assert look(cache, principal="bob") is not None


def test_who_changes_an_answer_changes_it_for_nobody_else() -> None:
    cache = Cache()
    keep(cache, tools=[])
    first = look(cache)
    assert first is not None
    first["tools"].append("x")

    second = look(cache)
    assert second is not None
    assert second["tools"] == []


def test_a_change_drops_what_it_is_about_and_nothing_else() -> None:
    cache = Cache()
    keep(cache, "tools/list")
    keep(cache, "resources/list")
    keep(cache, "resources/templates/list")
    keep(cache, "resources/read", {"uri": "a:b"})
    keep(cache, "resources/read", {"uri": "a:c"})

    cache.hear(SERVER, ResourcesChanged())
    cache.hear(SERVER, ResourceUpdated("a:b"))

    assert look(cache, "tools/list") is not None
    assert look(cache, "resources/list") is None
    assert look(cache, "resources/templates/list") is None
    assert look(cache, "resources/read", {"uri": "a:b"}) is None
    assert look(cache, "resources/read", {"uri": "a:c"}) is not None
    cache.clear(SERVER)
    assert len(cache) == 0


def test_an_answer_that_a_change_overtook_is_not_kept() -> None:
    cache = Cache()
    generation = cache.generation(SERVER, "tools/list")
    cache.hear(SERVER, ToolsChanged())

    cache.put(
        SERVER,
        "tools/list",
        {},
        {"ttlMs": 1000},
        principal="ann",
        now=0.0,
        generation=generation,
    )

    assert len(cache) == 0


def test_the_least_recently_used_goes_first() -> None:
    cache = Cache(ClientLimits(max_cache_entries=2))
    for name in "abc":
        keep(cache, "resources/read", {"uri": name})
        look(cache, "resources/read", {"uri": "a"})

    kept = [look(cache, "resources/read", {"uri": name}) is not None for name in "abc"]
    assert kept == [True, False, True]
