"""The `[cache]` table of a policy file."""

from __future__ import annotations

from collections.abc import Mapping

from mcpost.gateway.policy import Upstream
from mcpost.gateway.policy_table import Table
from mcpost.limits import CacheLimits

__all__ = ("read_cache",)

_DEFAULTS = CacheLimits()
_MANY = 1_000_000
_MOST = 1 << 40


def read_cache(top: Table, upstreams: Mapping[str, Upstream]) -> CacheLimits:
    """Read the bounds of the shared cache; what is left out has its default.

    Raises:
        PolicyError: A key that is unknown or out of range, or a table that means nothing because no
            upstream has `cache = true`.
    """
    table = top.table("cache")
    if table is None:
        return _DEFAULTS
    if not any(each.cache for each in upstreams.values()):
        top.fail("cache", "means nothing: no upstream has cache = true")
    found = CacheLimits(
        table.whole("max_entries", 1, _MANY, _DEFAULTS.max_entries),
        table.whole("max_bytes", 1, _MOST, _DEFAULTS.max_bytes),
        table.whole("max_entry", 1, _MOST, _DEFAULTS.max_entry),
        table.number("max_ttl", _DEFAULTS.max_ttl),
        table.whole("max_waiting", 1, _MANY, _DEFAULTS.max_waiting),
        table.number("wait", _DEFAULTS.wait),
    )
    table.finish()
    return found
