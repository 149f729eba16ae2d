"""The `[aggregates.NAME]` tables of a policy file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mcpost.gateway.addresses import MEMBER
from mcpost.gateway.policy import Aggregate, Rule, Upstream
from mcpost.gateway.policy_table import Table
from mcpost.limits import AggregateLimits

__all__ = ("check_shards", "read_aggregates")

_LIMITS = AggregateLimits()
_MOST = 1 << 40


def read_aggregates(top: Table, upstreams: Mapping[str, Upstream]) -> dict[str, Aggregate]:
    """Read all aggregates.

    Raises:
        PolicyError: A member that is no upstream or cannot be a prefix, two members that are one
            upstream, none or too many, or a name that an upstream has.
    """
    found: dict[str, Aggregate] = {}
    for name, table in top.named_tables("aggregates"):
        if name in upstreams:
            top.fail(f"aggregates.{name}", "is the name of an upstream, too")
        found[name] = Aggregate(
            name,
            _read_members(table, upstreams),
            table.flag("strict"),
            table.number("wait", _LIMITS.wait),
            table.whole("max_answer", 1, _MOST, _LIMITS.max_answer),
        )
        table.finish()
    return found


def _read_members(table: Table, upstreams: Mapping[str, Upstream]) -> dict[str, str]:
    members = table.table("members")
    if members is None or not members.raw:
        table.fail("members", 'is needed: { prefix = "upstream" }')
    if len(members.raw) > _LIMITS.max_members:
        table.fail("members", f"has more than {_LIMITS.max_members} members")
    found: dict[str, str] = {}
    for prefix in members.raw:
        if not MEMBER.fullmatch(prefix):
            members.fail(prefix, "is no prefix: up to 32 of a-z, 0-9 and -, a letter first")
        upstream = members.text(prefix) or ""
        if upstream not in upstreams:
            members.fail(prefix, f"names no upstream; there is {table.hint(upstream, upstreams)}")
        if upstream in found.values():
            members.fail(prefix, f"is upstream {upstream!r}, which is a member already")
        found[prefix] = upstream
    return found


def check_shards(
    top: Table, rules: Iterable[Rule], upstream: str | None, aggregates: Mapping[str, Aggregate]
) -> None:
    """Refuse a shard where there is no one upstream whose endpoints could be meant."""
    for rule in rules:
        if rule.shard and (rule.upstream or upstream) in aggregates:
            top.fail(f"rules[{rule.index}].shard", "means nothing for an aggregate")
