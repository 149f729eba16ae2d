"""Rules that no request can reach, because an earlier one decides all that they match."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mcpost.gateway.policy import ParamTest, Rule, Warned
from mcpost.wire.mirror import NAMED

__all__ = ("find_unreachable",)


def find_unreachable(rules: tuple[Rule, ...]) -> Iterator[Warned]:
    """Warn of rules that do nothing, and of an allowance that a caller can talk itself into."""
    for rule in rules:
        key = f"rules[{rule.index}]"
        above = next((r for r in rules[: rule.index] if r.is_final and _covers(r, rule)), None)
        if above is not None:
            said = f"is never reached: {above.id!r} in line {above.line} decides all it matches"
            yield Warned(rule.line, key, f"{said}; move it above that one")
        elif rule.action in ("allow", "route") and rule.params and not rule.names:
            said = "allows by a parameter and by no name: a tool that does not mirror it"
            yield Warned(rule.line, key, f"{said} is allowed by a header that nobody compares")


def _covers(one: Rule, other: Rule) -> bool:
    """Whether all that the other matches, the one matches."""
    return (
        _admits(one.methods, _methods(other))
        and _covers_names(one, other)
        and all(any(_is_in(p, test) for p in other.params) for test in one.params)
        and _admits(one.versions, other.versions)
        and _admits(one.principals, other.principals)
        and _admits(one.api_keys, other.api_keys)
        and all(any(c == k and v <= s for c, v in other.claims) for k, s in one.claims)
        and _covers_clients(one, other)
    )


def _methods(rule: Rule) -> frozenset[str]:
    if rule.params:
        return frozenset({"tools/call"})
    named = frozenset(NAMED)
    if not rule.names:
        return rule.methods
    return rule.methods & named if rule.methods else named


def _admits(one: Collection[str], other: Collection[str]) -> bool:
    return not one or (bool(other) and set(other) <= set(one))


def _covers_names(one: Rule, other: Rule) -> bool:
    if not one.names:
        return True
    if any(pattern.text == "*" for pattern in one.names):
        methods = _methods(other)
        return bool(methods) and methods <= NAMED.keys()
    return bool(other.names) and all(
        any(p == q or (q.is_exact and p.matches(q.text)) for p in one.names) for q in other.names
    )


def _is_in(narrow: ParamTest, wide: ParamTest) -> bool:
    if narrow.header != wide.header or narrow.present != wide.present:
        return False
    if not wide.values:
        return True
    within = narrow.values <= wide.values and narrow.numbers <= wide.numbers
    return bool(narrow.values) and within


def _covers_clients(one: Rule, other: Rule) -> bool:
    if not one.clients:
        return True
    return bool(other.clients) and all(
        any(
            net.version == wide.version and net.subnet_of(wide)  # type: ignore[arg-type]
            for wide in one.clients
        )
        for net in other.clients
    )
