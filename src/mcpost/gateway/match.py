"""The facts of a request that rules ask about, and which rules they match.

Only what some server compares with the body is a fact: a name counts where the method carries one,
a parameter counts for `tools/call`. Whatever else a caller writes into these headers is nothing.

Spec: streamable-http, "Server Validation" (T-19, T-22, H-07, H-09 to H-11).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from mcpost.errors import HeaderMismatch
from mcpost.gateway.policy import PARAM_PREFIX, ParamTest, Policy, Principal, Rule
from mcpost.limits import WireLimits
from mcpost.wire.fields import decode_value, is_token, parse_integer
from mcpost.wire.mirror import NAMED

__all__ = (
    "Facts",
    "Principal",
    "candidates",
    "is_remembered",
    "matches",
    "read_facts",
    "why_not",
    "with_caller",
)

_VERSION: Final = b"mcp-protocol-version"
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"
_ROUTING: Final = frozenset({_VERSION, _METHOD, _NAME})
_SHORT: Final = 256
_OURS: Final = (b"mcp-", b"x-api-key")
_LIMIT: Final = WireLimits().max_header_value
_REMEMBERED: Final = 4096


@dataclass(frozen=True)
class Facts:
    """What the rules are asked with.

    Attributes:
        version: Value of `MCP-Protocol-Version`, `None` where there is none.
        method: Value of `Mcp-Method`.
        name: Decoded value of `Mcp-Name` where the method carries one.
        params: Values of `Mcp-Param-*` as received, by lower-case header name.
        doubled: Names of parameter headers that stand twice.
        peer: The client's address.
        principal: Who calls.
        problem: What is wrong with the routing headers; nothing is decided on them then.
        inspected: Whether method and name were taken from the body (an earlier revision).
        key: Value of `X-Api-Key`, empty where there is none.
    """

    version: str | None = None
    method: str | None = None
    name: str | None = None
    params: Mapping[bytes, bytes] = field(default_factory=dict)
    doubled: frozenset[bytes] = frozenset()
    peer: str | None = None
    principal: Principal | None = None
    problem: HeaderMismatch | None = None
    inspected: bool = False
    key: bytes = b""

    @cached_property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The client's address; an IPv4 address inside an IPv6 one is taken out."""
        try:
            address = ip_address(self.peer or "")
        except ValueError:
            return None
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            return address.ipv4_mapped
        return address

    @cached_property
    def api_key(self) -> str:
        """SHA-256 of the API key in hex; empty where there is none."""
        return hashlib.sha256(self.key).hexdigest() if self.key else ""

    def param(self, header: bytes) -> str | None:
        """The decoded value of a parameter, `None` where it is absent or the method has none.

        Raises:
            HeaderMismatch: It stands twice, is too long or cannot be decoded (H-09, T-22).
        """
        if self.method != "tools/call":
            return None
        raw = self.params.get(header)
        if raw is None:
            return None
        if header in self.doubled:
            raise _mismatch(f"{header.decode('latin-1')} stands twice")
        return _decode(header, raw)

    def with_body(self, method: str, name: str | None) -> Facts:
        """The facts of a request of an earlier revision, whose body was read.

        Its mirrored headers are compared by nobody, so none of them is kept (R06).
        """
        kept = name if method in NAMED else None
        return replace(
            self, method=method, name=kept, params={}, doubled=frozenset(), inspected=True
        )


def read_facts(
    headers: Sequence[tuple[bytes, bytes]],
    peer: str | None = None,
    principal: Principal | None = None,
) -> Facts:
    """Read the facts from the head of a request.

    Args:
        headers: Header lines, names in lower case.
        peer: The client's address as text.
        principal: Who calls, where that was established.

    Returns:
        The facts; `problem` says what is wrong with the routing headers.

    Spec: streamable-http, "Server Validation" (T-22, H-07, H-09).
    """
    if principal is None:
        ours = tuple([line for line in headers if line[0].startswith(_OURS)])
        # Without parameters and keys few heads differ in what counts, whatever else is in them.
        if _are_short(ours):
            return _remembered(ours, peer)
    return _read(headers, peer, principal)


def with_caller(facts: Facts, principals: Mapping[str, Principal]) -> Facts:
    """Find out who calls, by the API key.

    Args:
        facts: The facts of a head.
        principals: As in `Policy.principals`.

    Returns:
        The facts, with the principal whose key it is; as they were where the key is nobody's.
    """
    if not facts.key or facts.principal is not None:
        return facts
    found = principals.get(facts.api_key)
    return facts if found is None else replace(facts, principal=found)


def _are_short(lines: tuple[tuple[bytes, bytes], ...]) -> bool:
    """Whether these are routing headers alone, and short enough to be kept."""
    if len(lines) > len(_ROUTING):
        return False
    for name, value in lines:  # noqa: SIM110 - a generator costs more than all of this
        if name not in _ROUTING or len(value) > _SHORT:
            return False
    return True


def is_remembered(facts: Facts) -> bool:
    """Whether these facts are given again, as the same object, for a head that says the same."""
    return not facts.params and not facts.key and facts.principal is None and not facts.inspected


def _read(
    headers: Sequence[tuple[bytes, bytes]], peer: str | None, principal: Principal | None = None
) -> Facts:
    routing: dict[bytes, bytes] = {}
    params: dict[bytes, bytes] = {}
    doubled: set[bytes] = set()
    problem = None
    keys: list[bytes] = []
    for header, value in headers:
        if not header.startswith(b"mcp-"):
            if header == b"x-api-key":
                keys.append(value)
            continue
        if header in _ROUTING:
            if header in routing:
                problem = problem or _mismatch(f"{header.decode()} stands twice")
            routing[header] = value.strip(b" \t")
        elif header.startswith(PARAM_PREFIX):
            if header in params:
                doubled.add(header)
            params[header] = value.strip(b" \t")
    version = method = name = None
    try:
        version = _token(_VERSION, routing.get(_VERSION))
        method = _token(_METHOD, routing.get(_METHOD))
        if _NAME in routing:
            name = _decode(_NAME, routing[_NAME])
    except HeaderMismatch as error:
        problem = problem or error
    return Facts(
        version,
        method,
        name if method in NAMED else None,
        params,
        frozenset(doubled),
        peer,
        principal,
        problem,
        # Of two keys none counts: two readers may take either.
        key=keys[0] if len(keys) == 1 else b"",
    )


_remembered = functools.lru_cache(maxsize=1024)(_read)


def _token(header: bytes, value: bytes | None) -> str | None:
    if value is None:
        return None
    text = value.decode("latin-1")
    # A method is a token with `/` between its parts; nothing else is ever sent.
    if len(value) > _LIMIT or not is_token(text.replace("/", "-")):
        raise _mismatch(f"{header.decode()} is malformed")
    return text


def _decode(header: bytes, value: bytes) -> str:
    if len(value) > _LIMIT:
        raise _mismatch(f"{header.decode('latin-1')} is longer than {_LIMIT} bytes")
    try:
        return decode_value(value)
    except HeaderMismatch as error:
        raise _mismatch(f"{header.decode('latin-1')} is malformed: {error.message}") from None


def _mismatch(problem: str) -> HeaderMismatch:
    return HeaderMismatch(f"Header mismatch: {problem}")


def candidates(policy: Policy, method: str, name: str | None) -> tuple[Rule, ...]:
    """The rules that a method and a name leave, in order, up to one that surely decides.

    What was found is remembered, for a bounded number of pairs.
    """
    memory = policy.memory
    found = memory.get((method, name))
    if found is None:
        left: list[Rule] = []
        for rule in policy.rules:
            if _is_called(rule, method, name):
                left.append(rule)
                if rule.is_final and rule.is_plain:
                    break
        found = tuple(left)
        if len(memory) >= _REMEMBERED:
            memory.clear()
        memory[method, name] = found
    return found


def _is_called(rule: Rule, method: str, name: str | None) -> bool:
    if rule.methods and method not in rule.methods:
        return False
    if rule.params and method != "tools/call":
        return False
    if not rule.names:
        return True
    return name is not None and any(pattern.matches(name) for pattern in rule.names)


def matches(rule: Rule, facts: Facts) -> bool:
    """Whether the conditions of a candidate, other than method and name, hold.

    Raises:
        HeaderMismatch: A parameter that it reads is malformed.
    """
    return rule.is_plain or _find_unmet(rule, facts) is None


def why_not(rule: Rule, facts: Facts) -> str | None:
    """The first condition of a rule that does not hold, in words; `None` where all do.

    Raises:
        HeaderMismatch: A parameter that it reads is malformed.
    """
    if rule.methods and facts.method not in rule.methods:
        return f"method is {facts.method!r}, not {_either(rule.methods)}"
    if rule.params and facts.method != "tools/call":
        return f"method is {facts.method!r}, and only tools/call has parameters"
    if rule.names:
        if facts.name is None:
            return f"method {facts.method!r} carries no name"
        if not any(pattern.matches(facts.name) for pattern in rule.names):
            return f"name is {facts.name!r}, not {_either(p.text for p in rule.names)}"
    return _find_unmet(rule, facts)


def _find_unmet(rule: Rule, facts: Facts) -> str | None:
    if rule.versions and facts.version not in rule.versions:
        return f"version is {facts.version!r}, not {_either(rule.versions)}"
    for test in rule.params:
        unmet = _find_unmet_param(test, facts.param(test.header))
        if unmet is not None:
            return unmet
    return _find_unmet_caller(rule, facts)


def _find_unmet_caller(rule: Rule, facts: Facts) -> str | None:
    caller = facts.principal
    if rule.principals and (caller is None or caller.name not in rule.principals):
        return f"principal is {caller.name if caller else None!r}"
    for claim, values in rule.claims:
        value = caller.claims.get(claim) if caller else None
        if value not in values:
            return f"claim {claim} is {value!r}, not {_either(values)}"
    if rule.api_keys and facts.api_key not in rule.api_keys:
        return "the API key is another" if facts.key else "there is no API key"
    if rule.clients:
        address = facts.address
        if address is None or not any(address in network for network in rule.clients):
            return f"client {facts.peer} is in none of {_either(map(str, rule.clients))}"
    return None


def _find_unmet_param(test: ParamTest, value: str | None) -> str | None:
    if value is None:
        return f"param.{test.name} is absent" if test.present else None
    if not test.present:
        return f"param.{test.name} is present"
    if not test.values or value in test.values:
        return None
    if test.numbers and parse_integer(value) in test.numbers:
        return None
    return f"param.{test.name} is {value!r}, not {_either(test.values)}"


def _either(values: Iterable[str]) -> str:
    return " or ".join(sorted(repr(value) for value in values))
