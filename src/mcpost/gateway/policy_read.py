"""From a TOML file to a `Policy`, with every mistake told by line and key.

Spec: streamable-http, "Server Validation" for intermediaries (H-11, H-13).
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import urlsplit

from mcpost.errors import PolicyError
from mcpost.gateway.policy import Legacy, Listener, Policy, Rule, Upstream
from mcpost.gateway.policy_aggregate import check_shards, read_aggregates
from mcpost.gateway.policy_cache import read_cache
from mcpost.gateway.policy_callers import read_callers
from mcpost.gateway.policy_lines import Lines
from mcpost.gateway.policy_reach import find_unreachable
from mcpost.gateway.policy_rule import read_rule
from mcpost.gateway.policy_table import Table

__all__ = ("read_policy",)

_LEGACY: Final = ("refuse", "inspect")
_NO_UPSTREAM: Final = "is needed: an allowed call has nowhere to go; name one of [upstreams]"


def read_policy(text: str, file: str = "policy.toml") -> Policy:
    """Read and check a policy.

    Args:
        text: The TOML text.
        file: Its path, for messages.

    Returns:
        The policy; `warnings` says what works but is hardly meant.

    Raises:
        PolicyError: The first mistake, with its line and key and what would be right.
    """
    lines = Lines(text)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"this is no TOML: {error}", file=file) from None
    top = Table(raw, "", lines, file)
    upstreams = _read_upstreams(top)
    listeners = _read_listeners(top)
    aggregates = read_aggregates(top, upstreams)
    targets = {**upstreams, **aggregates}
    first = next(iter(targets)) if len(targets) == 1 else None
    upstream = top.text("upstream", first)
    if upstream is not None:
        check_upstream(top, "upstream", upstream, targets)
    default: Any = top.choice("default", ("deny", "allow"), "deny")
    legacy: Any = top.choice("legacy", _LEGACY, "refuse")
    verify: Any = top.choice("verify", ("headers", "body"), "headers")
    rules = _read_rules(top, targets)
    check_shards(top, rules, upstream, aggregates)
    cache = read_cache(top, upstreams)
    callers = read_callers(top)
    top.finish()
    _require_upstreams(top, rules, upstream, default)
    _require_compared(top, rules, verify)
    return Policy(
        listeners,
        upstreams,
        rules,
        default,
        upstream,
        legacy,
        verify,
        frozenset().union(*(rule.reads for rule in rules)),
        tuple(find_unreachable(rules)),
        file,
        cache,
        aggregates,
        callers,
    )


def check_upstream(table: Table, key: str, name: str, upstreams: Collection[str]) -> None:
    """Refuse a name that no upstream and no aggregate has."""
    if name not in upstreams:
        table.fail(key, f"names no upstream; there is {table.hint(name, upstreams)}")


def _read_upstreams(top: Table) -> dict[str, Upstream]:
    found: dict[str, Upstream] = {}
    for name, table in top.named_tables("upstreams"):
        endpoints = table.texts("endpoints")
        if not endpoints:
            table.fail("endpoints", 'is needed: ["http://host:port/path"]')
        for endpoint in endpoints:
            _check_url(table, endpoint)
        if len(set(endpoints)) != len(endpoints):
            table.fail("endpoints", "names one URL twice")
        health = table.text("health")
        if health is not None and not health.startswith("/"):
            table.fail("health", "is a path, as in '/healthz'")
        found[name] = Upstream(name, endpoints, table.flag("audience"), health, table.flag("cache"))
        table.finish()
    return found


def _check_url(table: Table, endpoint: str) -> None:
    try:
        url = urlsplit(endpoint)
        right = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        right = False
    if not right:
        table.fail("endpoints", f"has {endpoint!r}, which is no http:// or https:// URL")


def _read_listeners(top: Table) -> tuple[Listener, ...]:
    found: list[Listener] = []
    for index, table in enumerate(top.tables("listeners")):
        bind = table.text("bind")
        _, colon, port = (bind or "").rpartition(":")
        if bind is None or not colon or not port.isdecimal() or int(port) > 65_535:
            raise table.error("bind", "is needed: 'host:port', as in '127.0.0.1:8080'")
        path = table.text("path", "/mcp") or ""
        if not path.startswith("/"):
            table.fail("path", "begins with '/'")
        legacy: Legacy | None = table.choice("legacy", _LEGACY, None)  # type: ignore[assignment]
        found.append(Listener(table.text("name", f"listener-{index}") or "", bind, path, legacy))
        table.finish()
    return tuple(found)


def _read_rules(top: Table, upstreams: Collection[str]) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    ids: set[str] = {"default"}
    for index, table in enumerate(top.tables("rules")):
        rule = read_rule(table, index)
        if rule.id in ids:
            table.fail("id", f"{rule.id!r} is taken; each rule has its own")
        ids.add(rule.id)
        if rule.upstream is not None:
            check_upstream(table, "upstream", rule.upstream, upstreams)
        rules.append(rule)
    return tuple(rules)


def _require_compared(top: Table, rules: tuple[Rule, ...], verify: str) -> None:
    """Refuse a rule that would trust a header that nobody compares with the body."""
    for rule in rules:
        if verify == "body" and rule.reads:
            top.fail(
                f"rules[{rule.index}]",
                f'{rule.id!r} reads a parameter, which nobody would compare: with verify = "body"'
                " the gateway knows no schemas. Ask for the name alone, or let a server that"
                ' compares be the judge: verify = "headers"',
            )


def _require_upstreams(
    top: Table, rules: tuple[Rule, ...], upstream: str | None, default: str
) -> None:
    if upstream is not None:
        return
    for rule in rules:
        if rule.action == "allow" and rule.upstream is None:
            top.fail(f"rules[{rule.index}].upstream", _NO_UPSTREAM)
    if default == "allow":
        top.fail("upstream", _NO_UPSTREAM)
