"""What a gateway is told to do, as plain frozen values.

`policy_read.read_policy` makes a `Policy` from a TOML file, once; nothing here changes after it.
The rules stand in the order of the file and the first that matches decides.

Spec: streamable-http, "Server Validation" for intermediaries (H-11, H-13).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import Final, Literal

from mcpost.limits import AggregateLimits, CacheLimits

__all__ = (
    "Action",
    "Aggregate",
    "Cap",
    "Legacy",
    "Listener",
    "Network",
    "ParamTest",
    "Pattern",
    "Policy",
    "Principal",
    "Rate",
    "Rule",
    "Upstream",
    "Warned",
)

Action = Literal["allow", "deny", "route", "limit"]
Legacy = Literal["refuse", "inspect"]
Verify = Literal["headers", "body"]
Network = IPv4Network | IPv6Network

_AGGREGATE: Final = AggregateLimits()

PARAM_PREFIX: Final = b"mcp-param-"
"""What the name of a mirrored parameter's header begins with, in lower case."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, as the gateway found out by an API key."""

    name: str
    claims: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the gateway takes requests.

    Attributes:
        name: What the policy calls it.
        bind: `host:port`.
        path: Path of the endpoint.
        legacy: What becomes of requests of an earlier revision; `None` takes the policy's word.
    """

    name: str
    bind: str
    path: str = "/mcp"
    legacy: Legacy | None = None


@dataclass(frozen=True, slots=True)
class Upstream:
    """Servers that serve the same.

    Attributes:
        name: What rules call it.
        endpoints: Their URLs, in the order of the file.
        audience: Whether `Authorization` is meant for them and so is passed on.
        health: Path that is asked for with GET to see whether an endpoint is up, or `None`.
        cache: Whether answers that it says are for all are kept in the shared cache.
    """

    name: str
    endpoints: tuple[str, ...]
    audience: bool = False
    health: str | None = None
    cache: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Several upstreams behind one endpoint.

    Attributes:
        name: What rules call it, as if it were an upstream.
        members: The upstream of each member, by the member's prefix, in the order of the file.
        strict: Whether a list fails, and a listen is refused, where a member is missing.
        wait: Seconds that a member has for its part of a list, or to acknowledge a listen.
        max_answer: Bytes of a member's part, and of an answer or event that is held to prefix the
            URIs in it; a longer one is passed on as it is.
    """

    name: str
    members: Mapping[str, str]
    strict: bool = False
    wait: float = _AGGREGATE.wait
    max_answer: int = _AGGREGATE.max_answer


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name, exact or with `*` for any characters."""

    text: str

    @property
    def is_exact(self) -> bool:
        """Whether it stands for one name alone."""
        return "*" not in self.text

    def matches(self, name: str) -> bool:
        """Whether a name is one of those meant; case counts."""
        head, *rest = self.text.split("*")
        if not rest:
            return name == head
        *middle, tail = rest
        if not name.startswith(head) or not name.endswith(tail):
            return False
        end = len(name) - len(tail)
        place = len(head)
        # The leftmost fit of each part leaves most room for the next, so none is tried twice.
        for part in middle:
            found = name.find(part, place, end)
            if found < 0:
                return False
            place = found + len(part)
        return place <= end


@dataclass(frozen=True, slots=True)
class ParamTest:
    """A test of one mirrored parameter.

    Attributes:
        name: The parameter's name as in `Mcp-Param-<name>`.
        header: Name of its header, in lower case.
        values: The values that it may have; empty where only its presence is asked.
        present: Whether it has to be there (`True`) or may not be there (`False`).
        numbers: The integers among the values, which are compared as numbers (H-10).
    """

    name: str
    header: bytes
    values: frozenset[str] = frozenset()
    present: bool = True
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Rate:
    """A token bucket: `requests` in `per` seconds, `burst` at once, one bucket for each key."""

    requests: float
    per: float
    burst: float
    key: str = "all"


@dataclass(frozen=True, slots=True)
class Cap:
    """How many calls may run at once, counted for each key."""

    limit: int
    key: str = "all"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A condition that is empty or `None` asks nothing.

    Attributes:
        index: Place in the file, from 0.
        id: What it is called in verdicts and logs.
        line: Line of the file where it begins.
        action: `limit` charges its quotas and lets the next rules decide.
        methods: JSON-RPC methods.
        names: Patterns of `Mcp-Name`; they match only methods that carry a name.
        params: Tests of mirrored parameters; they match only `tools/call`.
        versions: Protocol versions.
        principals: Names of callers.
        claims: Claims of the caller and the values they may have.
        api_keys: SHA-256 digests, in hex, of the keys in `X-Api-Key`.
        clients: Networks of the client's address.
        upstream: Where an allowed request goes.
        shard: What is hashed to choose the endpoint: `name`, `principal`, `client`, `param.<name>`
            or `claim.<name>`; empty for any endpoint.
        rate: Its token bucket.
        cap: Its bound of calls at once.
        status: HTTP status of a denial.
        message: Words of a denial.
        legacy: What becomes of earlier revisions here; `None` takes the listener's word.
    """

    index: int
    id: str
    line: int
    action: Action
    methods: frozenset[str] = frozenset()
    names: tuple[Pattern, ...] = ()
    params: tuple[ParamTest, ...] = ()
    versions: frozenset[str] = frozenset()
    principals: frozenset[str] = frozenset()
    claims: tuple[tuple[str, frozenset[str]], ...] = ()
    api_keys: frozenset[str] = frozenset()
    clients: tuple[Network, ...] = ()
    upstream: str | None = None
    shard: str = ""
    rate: Rate | None = None
    cap: Cap | None = None
    status: int = 403
    message: str = "this call is not allowed here"
    legacy: Legacy | None = None

    @property
    def is_final(self) -> bool:
        """Whether it decides when it matches."""
        return self.action != "limit"

    @property
    def reads(self) -> frozenset[bytes]:
        """Headers of the parameters that it reads, to match, to shard or to count."""
        found = {test.header for test in self.params}
        for source in (self.shard, *(quota.key for quota in (self.rate, self.cap) if quota)):
            kind, _, name = source.partition(".")
            if kind == "param":
                found.add(PARAM_PREFIX + name.lower().encode())
        return frozenset(found)

    @property
    def is_plain(self) -> bool:
        """Whether method and name alone tell if it matches."""
        return not (
            self.params
            or self.versions
            or self.principals
            or self.claims
            or self.api_keys
            or self.clients
        )


@dataclass(frozen=True, slots=True)
class Warned:
    """Something in the file that works, and hardly as meant."""

    line: int
    key: str
    message: str


@dataclass(frozen=True, slots=True)
class Policy:
    """The whole file.

    Attributes:
        listeners: At least one.
        upstreams: By name.
        rules: In order.
        default: What becomes of a request that no rule decides.
        upstream: Where allowed requests go whose rule names no upstream.
        legacy: What becomes of requests of earlier revisions.
        verify: Who compares headers and body: the upstream, or the gateway itself.
        reads: Headers of the parameters that some rule reads; the others are only forwarded.
        warnings: What `check` should say.
        file: Path of the file.
        cache: Bounds of the shared cache.
        aggregates: By name; no upstream has one of these names.
        principals: Who holds which API key, by the key's SHA-256 digest in hex.
    """

    listeners: tuple[Listener, ...]
    upstreams: Mapping[str, Upstream]
    rules: tuple[Rule, ...] = ()
    default: Literal["deny", "allow"] = "deny"
    upstream: str | None = None
    legacy: Legacy = "refuse"
    verify: Verify = "headers"
    reads: frozenset[bytes] = frozenset()
    warnings: tuple[Warned, ...] = ()
    file: str = ""
    cache: CacheLimits = field(default_factory=CacheLimits)
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    principals: Mapping[str, Principal] = field(default_factory=dict)
    memory: dict[tuple[str, str | None], tuple[Rule, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Candidates by method and name, filled and bounded by `match.candidates`."""
