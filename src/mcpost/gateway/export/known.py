"""Keys of a policy that an export has never heard of are errors, never silent gaps.

Each export has been written with certain keys in mind; they are listed here. Whatever else the
policy comes to know is refused by its name until somebody has said how an engine expresses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from typing import Any, Final

from mcpost.errors import PolicyError
from mcpost.gateway.policy import Cap, Listener, ParamTest, Pattern, Policy, Rate, Rule, Upstream

__all__ = ("CONSIDERED", "check_known")

_WORDS: Final[dict[type, str]] = {
    Policy: "listeners upstreams rules default upstream legacy verify reads warnings file memory "
    "cache aggregates",
    Listener: "name bind path legacy",
    Upstream: "name endpoints audience health cache",
    Rule: "index id line action methods names params versions principals claims api_keys clients "
    "upstream shard rate cap status message legacy",
    Pattern: "text",
    ParamTest: "name header values present numbers",
    Rate: "requests per burst key",
    Cap: "limit key",
}
CONSIDERED: Final = {kind: frozenset(words.split()) for kind, words in _WORDS.items()}
"""What the exports express, or refuse by a reason of its own."""


def check_known(policy: Policy, engine: str) -> None:
    """Refuse a key that is set and that no export has considered.

    Raises:
        PolicyError: It names the key.
    """
    for part, place, line in _parts(policy):
        considered = next(CONSIDERED[kind] for kind in type(part).__mro__ if kind in CONSIDERED)
        for field in fields(part):
            if field.name not in considered and getattr(part, field.name) != _default(field):
                key = f"{place}.{field.name}".lstrip(".")
                said = f"cannot be said to {engine}: its export does not know this key"
                raise PolicyError(said, file=policy.file, line=line, key=key)


def _parts(policy: Policy) -> Iterator[tuple[Any, str, int]]:
    yield policy, "", 0
    for index, listener in enumerate(policy.listeners):
        yield listener, f"listeners[{index}]", 0
    for name, upstream in policy.upstreams.items():
        yield upstream, f"upstreams.{name}", 0
    for rule in policy.rules:
        place = f"rules[{rule.index}]"
        yield rule, place, rule.line
        for part in (*rule.names, *rule.params, rule.rate, rule.cap):
            if part is not None:
                yield part, place, rule.line


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING
