"""What the exports share: what no engine can say, and how names become regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NoReturn
from urllib.parse import SplitResult, urlsplit

from mcpost.errors import PolicyError, UsageError
from mcpost.gateway.export.known import check_known
from mcpost.gateway.policy import Listener, Policy, Rule, Upstream
from mcpost.wire.fields import encode_value
from mcpost.wire.mirror import NAMED
from mcpost.wire.versions import CURRENT

__all__ = (
    "cannot",
    "check_rule",
    "check_whole",
    "methods_of",
    "numbers_of",
    "path_of",
    "reaches",
    "reads_names",
    "split_bind",
    "tls_name",
    "to_regex",
    "upstream_of",
    "urls_of",
)

_PLAIN: Final = "letters, digits and . _ ~ : @ / -"
_PATH: Final = re.compile(r"/[A-Za-z0-9._~:@/-]*")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")


def cannot(policy: Policy, rule: Rule, engine: str, what: str) -> NoReturn:
    """Raise the error that names the rule that an engine cannot express."""
    key = f"rules[{rule.index}] {rule.id!r}"
    raise PolicyError(
        f"cannot be said to {engine}: {what}", file=policy.file, line=rule.line, key=key
    )


def check_whole(policy: Policy, engine: str) -> None:
    """Refuse what no rule is to blame for, and each key that no export has considered."""
    check_known(policy, engine)
    if not policy.listeners:
        raise PolicyError("is needed: where to listen", file=policy.file, key="listeners")
    for index, listener in enumerate(policy.listeners):
        if not _PATH.fullmatch(listener.path):
            said = f"cannot be said to {engine}: {listener.path!r} has more than {_PLAIN}"
            raise PolicyError(said, file=policy.file, key=f"listeners[{index}].path")
    inspects = policy.legacy == "inspect" or any(
        one.legacy == "inspect" for one in policy.listeners
    )
    if inspects:
        said = f"'inspect' cannot be said to {engine}: it does not read bodies"
        raise PolicyError(said, file=policy.file, key="legacy")
    for name in policy.aggregates:
        said = f"cannot be said to {engine}: it does not read bodies, and merges no answers"
        raise PolicyError(said, file=policy.file, key=f"aggregates.{name}")
    for name, upstream in policy.upstreams.items():
        if upstream.cache:
            said = f"cannot be said to {engine}: it does not know whose answers all may have"
            raise PolicyError(said, file=policy.file, key=f"upstreams.{name}.cache")
    if policy.verify == "body":
        said = f"'body' cannot be said to {engine}: it does not read bodies"
        raise PolicyError(said, file=policy.file, key="verify")


def check_rule(policy: Policy, rule: Rule, engine: str) -> None:
    """Refuse conditions and values that no engine compares."""
    if rule.legacy == "inspect":
        cannot(policy, rule, engine, "it does not read bodies (legacy)")
    if rule.principals or rule.claims:
        cannot(policy, rule, engine, "it does not know the caller (principal, claim)")
    if rule.api_keys:
        cannot(policy, rule, engine, "it compares no digests (api_key)")
    if rule.clients:
        cannot(policy, rule, engine, "its routes do not ask for the client's address (client)")
    if rule.action == "limit":
        cannot(policy, rule, engine, "no rule charges and goes on (action 'limit')")
    if rule.cap is not None:
        cannot(policy, rule, engine, "calls at once are not counted (concurrent)")
    if rule.rate is not None and rule.rate.key != "all":
        cannot(policy, rule, engine, f"rates are not counted by {rule.rate.key!r}")
    values = [pattern.text for pattern in rule.names]
    for test in rule.params:
        values += test.values
    for value in values:
        if not _is_plain(value):
            said = f"it does not decode, and {value!r} comes encoded only"
            cannot(policy, rule, engine, said)


def _is_plain(value: str) -> bool:
    try:
        # Beside other characters a part of a pattern may begin or end with a blank.
        return encode_value(f"x{value}x") == f"x{value}x" and encode_value(value) == value
    except UsageError:
        return False


def reaches(rule: Rule) -> bool:
    """Whether the rule can match a request of this revision, the only one let through."""
    return not rule.versions or CURRENT in rule.versions


def methods_of(rule: Rule) -> frozenset[str]:
    """The methods that a rule matches, empty for all: only some carry names or parameters."""
    methods = rule.methods
    if rule.names:
        methods = methods & NAMED.keys() if methods else frozenset(NAMED)
    return frozenset({"tools/call"}) if rule.params else methods


def reads_names(policy: Policy) -> bool:
    """Whether some rule compares or hashes `Mcp-Name`."""
    return any(rule.names or rule.shard == "name" for rule in policy.rules)


def numbers_of(policy: Policy) -> frozenset[bytes]:
    """Headers that some rule compares as numbers."""
    return frozenset(t.header for rule in policy.rules for t in rule.params if t.numbers)


def to_regex(patterns: Iterable[str], *, stars: bool) -> str:
    """The regular expression, to be matched as a whole, of texts or of patterns with `*`."""
    parts = (
        ".*".join(re.escape(part) for part in (text.split("*") if stars else [text]))
        for text in sorted(patterns)
    )
    return "|".join(parts)


def upstream_of(policy: Policy, rule: Rule) -> str:
    """The upstream of an allowance."""
    name = rule.upstream or policy.upstream
    assert name is not None, "an allowance without an upstream is refused when it is read"
    return name


def path_of(listener: Listener) -> str:
    """The path of an endpoint without the slash that may follow it."""
    return listener.path.rstrip("/") or "/"


def split_bind(listener: Listener) -> tuple[str, int]:
    """The address, empty for all, and the port where a listener listens."""
    host, _, port = listener.bind.rpartition(":")
    return host.strip("[]"), int(port)


def tls_name(policy: Policy, upstream: Upstream, engine: str) -> str:
    """The one name that the certificates of an upstream are for."""
    names = {url.hostname or "" for url in urls_of(policy, upstream, engine)}
    if len(names) != 1:
        said = f"cannot be said to {engine}: endpoints with TLS have one host name"
        raise PolicyError(said, file=policy.file, key=f"upstreams.{upstream.name}.endpoints")
    return names.pop()


def urls_of(policy: Policy, upstream: Upstream, engine: str) -> tuple[SplitResult, ...]:
    """The endpoints of an upstream, which have one scheme and one path."""
    urls = tuple(urlsplit(endpoint) for endpoint in upstream.endpoints)
    if len({(url.scheme, url.path, url.query) for url in urls}) != 1 or urls[0].query:
        said = f"cannot be said to {engine}: all have one scheme and one path, without a query"
        raise PolicyError(said, file=policy.file, key=f"upstreams.{upstream.name}.endpoints")
    for url in urls:
        if not _HOST.fullmatch(url.netloc) or not _PATH.fullmatch(url.path or "/"):
            said = f"cannot be said to {engine}: {url.geturl()!r} has more than {_PLAIN}"
            raise PolicyError(said, file=policy.file, key=f"upstreams.{upstream.name}.endpoints")
    return urls
