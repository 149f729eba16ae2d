"""One policy at work: its rules, its upstreams, and what was decided before.

A new policy is a new generation. Requests that run stay with the one they began with; an upstream
that both name is the same, with its connections.

Spec: streamable-http, "Server Validation" for intermediaries (H-11, H-13).
"""

from __future__ import annotations

import ssl
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from mcpost.errors import InvalidParams, UsageError
from mcpost.gateway.addresses import split_address
from mcpost.gateway.decide import Facts, Verdict, decide, read_facts, refuse_legacy
from mcpost.gateway.hops import Hop, forward_request
from mcpost.gateway.match import is_remembered, with_caller
from mcpost.gateway.policy import Aggregate, Listener, Policy
from mcpost.gateway.policy import Upstream as Named
from mcpost.gateway.settings import GatewaySettings
from mcpost.gateway.upstreams import Endpoint, Group
from mcpost.http11.encode import Encoded, HeaderLines
from mcpost.http11.head import Request
from mcpost.http11.hub import Hub
from mcpost.http11.pool import Upstream
from mcpost.wire.fields import encode_value
from mcpost.wire.mirror import NAMED

__all__ = ("Decided", "Generation", "Plan")

_REMEMBERED: Final = 1024
_SECRETS: Final = frozenset({b"authorization", b"cookie", b"proxy-authorization", b"x-api-key"})


class Plan(NamedTuple):
    """What becomes of one head."""

    facts: Facts
    verdict: Verdict
    lines: HeaderLines = ()
    """What goes to the upstream, where it is allowed."""
    heads: dict[bytes, Encoded] | None = None
    """The same as bytes, by target: filled when they are first sent."""


class Decided:
    """What is noted about a head: its plan, by which policy and for which listener."""

    __slots__ = ("generation", "is_whole", "listener", "plan")

    def __init__(self, generation: Generation, listener: Listener, plan: Plan) -> None:
        self.generation = generation
        self.listener = listener
        self.plan = plan
        self.is_whole = False
        """Whether all else about the head is known, too, and its body is to come whole."""

    def is_of(self, generation: Generation, listener: Listener) -> bool:
        """Whether it still holds, and here."""
        return self.generation is generation and self.listener is listener


class Generation:
    """One policy at work.

    Args:
        policy: The policy.
        hub: What the connections of the loop share.
        settings: Bounds.
        scheme: How clients reach this gateway: `http` or `https`.
        previous: The generation before.
    """

    def __init__(
        self,
        policy: Policy,
        hub: Hub,
        settings: GatewaySettings,
        *,
        scheme: bytes = b"http",
        previous: Generation | None = None,
    ) -> None:
        self.policy = policy
        self.groups: dict[str, Group] = {}
        self._hops: dict[str, Hop] = {}
        # A key that the rules read is a secret between the client and this gateway.
        keyed = bool(policy.principals) or any(rule.api_keys for rule in policy.rules)
        for name, named in policy.upstreams.items():
            kept = previous.kept(named) if previous is not None else None
            self.groups[name] = kept or _make_group(named, hub, settings)
            self._hops[name] = Hop(
                is_audience=named.audience,
                withheld=frozenset({b"x-api-key"} if keyed else ()),
                trusts_forwarded=settings.trusts_forwarded,
                scheme=scheme,
            )

        self._verdicts: dict[int, tuple[Facts, Listener, Verdict]] = {}

    def plan(self, request: Request, listener: Listener) -> Plan:
        """Decide what becomes of a head.

        The engine gives the same `Request` for a head that comes again to the byte from the same
        address, and forgets it in time: what was decided is noted there.
        """
        noted: Decided | None = request.note
        if noted is not None and noted.is_of(self, listener):
            return noted.plan
        plan = self.decide(request, self._facts(request), listener)
        # What depends on which endpoints are up is decided each time; no secret is kept.
        if plan.verdict.endpoint is None and _SECRETS.isdisjoint(request.fields):
            request.note = Decided(self, listener, plan)
        return plan

    def decide(self, request: Request, facts: Facts, listener: Listener) -> Plan:
        """Decide on facts, and write what goes to the upstream."""
        verdict = self._judge(facts, listener)
        if verdict.action != "allow" or verdict.upstream is None:
            return Plan(facts, verdict)
        aggregate = self.policy.aggregates.get(verdict.upstream)
        if aggregate is not None:
            # No member knows an earlier revision's session with another one.
            if facts.inspected:
                return Plan(facts, refuse_legacy(facts))
            return Plan(facts, verdict, self._routed_lines(request, facts, aggregate), {})
        return Plan(facts, verdict, self.lines(request, verdict.upstream), {})

    def _judge(self, facts: Facts, listener: Listener) -> Verdict:
        """Decide on facts, or remember what was decided on these very ones."""
        found = self._verdicts.get(id(facts))
        if found is not None and found[0] is facts and found[1] is listener:
            return found[2]
        verdict = decide(self.policy, facts, listener=listener, down=self._down())
        # As in `plan`; facts with more than method and name do not come again as the same object.
        if verdict.endpoint is None and is_remembered(facts):
            if len(self._verdicts) >= _REMEMBERED:
                self._verdicts.clear()
            self._verdicts[id(facts)] = facts, listener, verdict
        return verdict

    def forward_plainly(self, request: Request) -> Plan | None:
        """Send to the upstream of the policy what no rule is about; `None` where it names none."""
        name = self.policy.upstream
        if name is None or name in self.policy.aggregates:
            return None
        verdict = Verdict("allow", upstream=name)
        return Plan(self._facts(request), verdict, self.lines(request, name))

    def _facts(self, request: Request) -> Facts:
        facts = read_facts(request.headers, request.peer)
        return with_caller(facts, self.policy.principals) if self.policy.principals else facts

    def shard(self, verdict: Verdict) -> int | None:
        """The place of the endpoint that a verdict names in its group."""
        if verdict.endpoint is None or verdict.upstream is None:
            return None
        names = [each.name for each in self.groups[verdict.upstream].endpoints]
        return names.index(verdict.endpoint)

    def kept(self, named: Named) -> Group | None:
        """The group of an upstream whose endpoints have not changed."""
        if named.name not in self.groups:
            return None
        before = self.policy.upstreams[named.name]
        return self.groups[named.name] if before.endpoints == named.endpoints else None

    def retire(self, following: Generation) -> None:
        """Give up what the next generation does not use."""
        used = set(following.groups.values())
        for group in self.groups.values():
            if group not in used:
                group.retire()

    def is_ready(self) -> bool:
        """Whether each upstream has an endpoint that is worth asking."""
        return all(group.is_up() for group in self.groups.values())

    async def close(self) -> None:
        """Cut every connection to the upstreams."""
        for group in self.groups.values():
            await group.close()

    def lines(self, request: Request, upstream: str) -> HeaderLines:
        """Write the header lines that go to an upstream."""
        lines = forward_request(request, self._hops[upstream])
        # The engine remembers what it has encoded of a tuple; it shall keep no secret.
        return lines if _SECRETS.isdisjoint(request.fields) else [*lines]

    def _routed_lines(self, request: Request, facts: Facts, aggregate: Aggregate) -> HeaderLines:
        """Write the lines that go to the member that a head names; none where it names none."""
        if facts.method not in NAMED or facts.name is None:
            return ()
        try:
            found = split_address(facts.method, facts.name, aggregate.members)
        except InvalidParams:
            return ()
        name = (b"mcp-name", encode_value(found.local).encode("ascii"))
        lines = self.lines(request, aggregate.members[found.member])
        routed = [name if line[0] == b"mcp-name" else line for line in lines]
        return tuple(routed) if isinstance(lines, tuple) else routed

    def _down(self) -> frozenset[str]:
        return frozenset(
            each.name
            for group in self.groups.values()
            if len(group.endpoints) > 1
            for each in group.endpoints
            if not each.is_up()
        )


def _make_group(named: Named, hub: Hub, settings: GatewaySettings) -> Group:
    return Group(named.name, [_make_endpoint(url, hub, settings) for url in named.endpoints])


def _make_endpoint(url: str, hub: Hub, settings: GatewaySettings) -> Endpoint:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"an endpoint is an http or https URL: {url!r}")
    tls = None
    if parts.scheme == "https":
        tls = settings.upstream_tls or ssl.create_default_context()
    upstream = Upstream(parts.hostname, parts.port or (443 if tls else 80), tls=tls)
    target = (parts.path or "/").encode("ascii")
    return Endpoint.make(url, upstream, target, hub, settings.pool_limits())
