"""One `[[rules]]` table of a policy file."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Any, Final

from mcpost.errors import UsageError
from mcpost.gateway.policy import PARAM_PREFIX, Action, Cap, Network, ParamTest, Pattern, Rate, Rule
from mcpost.gateway.policy_table import Table
from mcpost.wire.fields import encode_value, is_token
from mcpost.wire.mirror import NAMED
from mcpost.wire.versions import LEGACY, MODERN

__all__ = ("read_digests", "read_rule")

_ACTIONS: Final = ("allow", "deny", "route", "limit")
_SOURCES: Final = ("all", "principal", "client", "name", "api_key")
_SHARDS: Final = ("name", "principal", "client")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def read_rule(table: Table, index: int) -> Rule:
    """Read one rule.

    Raises:
        PolicyError: A key that is unknown, of the wrong type, or of no use beside the others.
    """
    action: Any = table.choice("action", _ACTIONS, None)
    if action is None:
        table.fail("action", f"is needed: {', '.join(map(repr, _ACTIONS))}")
    methods = frozenset(table.texts("method"))
    names = tuple(Pattern(text) for text in table.texts("name"))
    if names and methods and not methods & NAMED.keys():
        table.fail("name", f"never matches: only {', '.join(sorted(NAMED))} carry a name")
    params = _read_params(table)
    if params and methods and "tools/call" not in methods:
        table.fail("param", "never matches: only tools/call has parameters")
    rule = Rule(
        index,
        table.text("id", f"rule-{index + 1}") or "",
        table.line,
        action,
        methods,
        names,
        params,
        _read_versions(table),
        frozenset(table.texts("principal")),
        _read_claims(table),
        read_digests(table),
        _read_clients(table),
        table.text("upstream"),
        _read_source(table, "shard", _SHARDS, ""),
        _read_rate(table),
        _read_cap(table),
        table.whole("status", 400, 599, 403),
        table.text("message", "this call is not allowed here") or "",
        table.choice("legacy", ("refuse", "inspect"), None),  # type: ignore[arg-type]
    )
    table.finish()
    _check_action(table, action, rule)
    return rule


def _check_action(table: Table, action: Action, rule: Rule) -> None:
    """Refuse what says nothing beside the action, as it was surely meant to say something."""
    idle: tuple[str, ...] = ()
    if action == "route" and rule.upstream is None:
        table.fail("upstream", "is needed: a route leads to an upstream")
    if action == "limit" and rule.rate is None and rule.cap is None:
        table.fail("action", "is 'limit', which needs 'rate' or 'concurrent'")
    if action == "deny":
        idle = ("upstream", "shard", "rate", "concurrent", "legacy")
    elif action == "limit":
        idle = ("upstream", "shard", "status", "message", "legacy")
    else:
        idle = ("status", "message")
    for key in idle:
        if key in table.raw:
            table.fail(key, f"means nothing in a rule whose action is {action!r}")


def _read_params(table: Table) -> tuple[ParamTest, ...]:
    params = table.table("param")
    if params is None:
        return ()
    found: list[ParamTest] = []
    for name in params.raw:
        if not is_token(name):
            params.fail(name, "is no name of a header")
        header = PARAM_PREFIX + name.lower().encode()
        if any(test.header == header for test in found):
            params.fail(name, "stands twice; case does not count in a header's name")
        found.append(_read_param(params, name, header))
    return tuple(found)


def _read_param(params: Table, name: str, header: bytes) -> ParamTest:
    value = params.take(name)
    if isinstance(value, dict):
        asked = params.table(name)
        assert asked is not None
        present = asked.take("present")
        asked.finish()
        if not isinstance(present, bool):
            params.fail(name, "is { present = true } or { present = false }, a value or a list")
        return ParamTest(name, header, present=present)
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(item, (str, bool, int)) for item in values):
        params.fail(name, "is a text, a whole number, true or false, or a list of these")
    try:
        texts = frozenset(item if isinstance(item, str) else encode_value(item) for item in values)
    except UsageError as error:
        params.fail(name, str(error))
    numbers = frozenset(item for item in values if type(item) is int)
    return ParamTest(name, header, texts, True, numbers)


def _read_versions(table: Table) -> frozenset[str]:
    versions = table.texts("version")
    known = (*MODERN, *LEGACY)
    for version in versions:
        if version not in known:
            table.fail("version", f"has {version!r}; known are {', '.join(known)}")
    return frozenset(versions)


def _read_claims(table: Table) -> tuple[tuple[str, frozenset[str]], ...]:
    claims = table.table("claim")
    if claims is None:
        return ()
    return tuple((name, frozenset(claims.texts(name))) for name in claims.raw)


def read_digests(table: Table) -> frozenset[str]:
    """Read `api_key`: the digests of keys, in hex; raises PolicyError for what is no digest."""
    keys = table.texts("api_key")
    for key in keys:
        if not _DIGEST.fullmatch(key):
            table.fail("api_key", "has no 'sha256:' and 64 hex digits; a key itself stands nowhere")
    return frozenset(key.removeprefix("sha256:") for key in keys)


def _read_clients(table: Table) -> tuple[Network, ...]:
    found: list[Network] = []
    for text in table.texts("client"):
        try:
            found.append(ip_network(text))
        except ValueError as error:
            table.fail("client", f"has {text!r}, which is no network: {error}")
    return tuple(found)


def _read_source(table: Table, key: str, words: tuple[str, ...], default: str) -> str:
    source = table.text(key, default) or ""
    kind, dot, name = source.partition(".")
    named = dot and kind in ("param", "claim") and is_token(name)
    if source and source not in words and not named:
        table.fail(key, f"is one of {', '.join(words)}, param.<name>, claim.<name>")
    return source


def _read_rate(table: Table) -> Rate | None:
    rate = table.table("rate")
    if rate is None:
        return None
    requests = rate.number("requests")
    per = rate.number("per", 1)
    burst = rate.number("burst", max(requests, 1))
    if burst < 1:
        rate.fail("burst", "is at least 1: with less no call would ever pass")
    key = _read_source(rate, "key", _SOURCES, "all")
    rate.finish()
    return Rate(requests, per, burst, key)


def _read_cap(table: Table) -> Cap | None:
    cap = table.table("concurrent")
    if cap is None:
        return None
    found = Cap(cap.whole("limit", 1, 1_000_000), _read_source(cap, "key", _SOURCES, "all"))
    cap.finish()
    return found
