"""Which results may be kept, and what they say about it.

Spec: server/utilities/caching, "Cacheable Results", "Cacheable Model" (F-05).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

__all__ = ("CACHEABLE", "Hints", "read_hints")

CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""Methods whose results may be kept."""


class Hints(NamedTuple):
    """How long, and for whom."""

    ttl_ms: int
    """Milliseconds for which the result is fresh; 0 where it is stale at once."""
    scope: Literal["public", "private"]
    """Whether it may be given to others than the one who asked."""


def read_hints(result: Mapping[str, Any]) -> Hints:
    """Read the hints of a result.

    Args:
        result: A result of one of the `CACHEABLE` methods.

    Returns:
        Its hints. A time that is missing, negative or none reads as 0, and what does not say that
        all may have it is private; so is, and stale at once, what asks for input.

    Spec: server/utilities/caching, "Time-to-Live (TTL) Field", "Cache Scope Field" (F-05).
    """
    ttl = result.get("ttlMs")
    if type(ttl) is not int or ttl <= 0 or result.get("resultType", "complete") != "complete":
        ttl = 0
    return Hints(ttl, "public" if ttl and result.get("cacheScope") == "public" else "private")
