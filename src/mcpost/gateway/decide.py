"""From a policy and the head of a request to a verdict.

Pure and the same every time: no clock, no state. What the verdict asks to be charged is charged
by `quota.Quotas`.

Spec: streamable-http, "Server Validation" (H-07, H-09, H-11, H-13, T-22).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from mcpost.errors import HeaderMismatch, UnsupportedVersion, WireError
from mcpost.gateway.match import Facts, Principal, candidates, matches, read_facts
from mcpost.gateway.policy import Legacy, Listener, Policy, Rule
from mcpost.gateway.quota import Charge
from mcpost.gateway.shard import pick
from mcpost.wire.mirror import NAMED
from mcpost.wire.versions import LEGACY, MODERN

__all__ = (
    "DEFAULT",
    "Facts",
    "Principal",
    "Verdict",
    "decide",
    "read_facts",
    "refuse_legacy",
)

DEFAULT: Final = "default"
"""What stands for the rule's id where no rule has decided."""


class Verdict(NamedTuple):
    """What becomes of a request."""

    action: Literal["allow", "deny", "refuse", "inspect"]
    """`deny`: a rule says no. `refuse`: the head cannot be decided on. `inspect`: read the body,
    and decide again with `facts.with_body(...)`."""
    rule: str = ""
    """Id of the rule that decided, `default`, or empty where no rule was asked."""
    upstream: str | None = None
    endpoint: str | None = None
    """URL of the endpoint that the key shards to; `None` for any."""
    status: int = 200
    """HTTP status of a denial or refusal."""
    reason: str = ""
    error: WireError | None = None
    """The JSON-RPC error of a refusal."""
    charges: tuple[Charge, ...] = ()
    """What to charge before the call is let through."""


def decide(
    policy: Policy,
    facts: Facts,
    *,
    listener: Listener | None = None,
    down: Collection[str] = (),
) -> Verdict:
    """Decide what becomes of a request.

    Args:
        policy: The rules.
        facts: What `read_facts` made of its head.
        listener: Where it came in, if that has a word of its own on earlier revisions.
        down: Endpoints that take no calls now.

    Returns:
        The verdict. A header that was doubled, malformed or too long is refused, and so are a
        version that predates the check of headers, and none (H-13).

    Spec: streamable-http, "Server Validation" (T-22, H-09, H-13).
    """
    if facts.problem is not None:
        return _refuse(facts.problem)
    if facts.version not in MODERN:
        early = _meet_other_version(policy, facts, listener)
        if early is not None:
            return early
    elif facts.inspected:
        return _refuse(HeaderMismatch("this version is decided from its headers"))
    method, name = facts.method, facts.name
    if method is None:
        return _refuse(HeaderMismatch("Header mismatch: Mcp-Method is missing"))
    if name is None and method in NAMED:
        return _refuse(HeaderMismatch("Header mismatch: Mcp-Name is missing"))
    try:
        if facts.params:
            _read_params(policy, facts)
        return _walk(policy, facts, candidates(policy, method, name), listener, down)
    except HeaderMismatch as error:
        return _refuse(error)


def _read_params(policy: Policy, facts: Facts) -> None:
    """Refuse what is malformed whether or not the rule that reads it is reached (T-22)."""
    for header in policy.reads:
        facts.param(header)


def _meet_other_version(policy: Policy, facts: Facts, listener: Listener | None) -> Verdict | None:
    version = facts.version
    if version is not None and version not in LEGACY:
        return _refuse(UnsupportedVersion(version, MODERN))
    if facts.inspected:
        return None
    word = _word(policy, listener)
    if word == "inspect" or any(rule.legacy == "inspect" for rule in policy.rules):
        return Verdict("inspect", reason="an earlier revision: its body has to be read")
    return refuse_legacy(facts)


def _word(policy: Policy, listener: Listener | None) -> Legacy:
    return listener.legacy if listener and listener.legacy else policy.legacy


def refuse_legacy(facts: Facts) -> Verdict:
    """Refuse a request of an earlier revision, or of none."""
    if facts.version is None:
        return _refuse(HeaderMismatch("Header mismatch: MCP-Protocol-Version is missing"))
    return _refuse(UnsupportedVersion(facts.version, MODERN))


def _refuse(error: WireError) -> Verdict:
    return Verdict("refuse", status=400, reason=error.message, error=error)


def _walk(
    policy: Policy,
    facts: Facts,
    rules: tuple[Rule, ...],
    listener: Listener | None,
    down: Collection[str],
) -> Verdict:
    charges: tuple[Charge, ...] = ()
    for rule in rules:
        # The headers that a parameter rule reads mean nothing in an earlier revision, so whether
        # it matches cannot be known: neither its yes nor its no may be passed over.
        if facts.inspected and rule.params:
            return refuse_legacy(facts)
        if not matches(rule, facts):
            continue
        if rule.action == "deny":
            return Verdict("deny", rule.id, status=rule.status, reason=rule.message)
        if rule.rate is not None or rule.cap is not None:
            charges += _charge(rule, facts)
        if rule.action == "limit":
            continue
        word = rule.legacy or _word(policy, listener)
        if facts.inspected and word == "refuse":
            return refuse_legacy(facts)
        upstream = rule.upstream or policy.upstream
        endpoint = None
        if rule.shard and upstream is not None:
            endpoint = _shard(policy, rule, facts, upstream, down)
        return Verdict("allow", rule.id, upstream, endpoint, charges=charges)
    if policy.default == "deny":
        return Verdict("deny", DEFAULT, status=403, reason="no rule allows this call")
    if facts.inspected and _word(policy, listener) == "refuse":
        return refuse_legacy(facts)
    return Verdict("allow", DEFAULT, policy.upstream, charges=charges)


def _shard(
    policy: Policy, rule: Rule, facts: Facts, upstream: str, down: Collection[str]
) -> str | None:
    key = _value(rule.shard, facts)
    return None if key is None else pick(key, policy.upstreams[upstream].endpoints, down)


def _charge(rule: Rule, facts: Facts) -> tuple[Charge, ...]:
    quotas = (quota for quota in (rule.rate, rule.cap) if quota is not None)
    return tuple(Charge(rule.id, _value(quota.key, facts) or "", quota) for quota in quotas)


def _value(source: str, facts: Facts) -> str | None:
    """What a quota or a shard is keyed by; those without a value share one quota."""
    kind, _, name = source.partition(".")
    if kind == "param":
        return facts.param(f"mcp-param-{name}".lower().encode())
    caller = facts.principal
    if kind == "claim":
        return caller.claims.get(name) if caller else None
    if kind == "name":
        return facts.name
    if kind == "principal":
        return caller.name if caller else None
    if kind == "client":
        return str(facts.address) if facts.address else facts.peer
    return facts.api_key or None if kind == "api_key" else None
