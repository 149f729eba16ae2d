"""What nginx decides by: each condition is a `map`, each rule a `map` of its conditions.

A variable of nginx from 1.23 on has all lines of a header, joined by a comma and a blank; so a
value with these two in it may have been two lines, and is refused. Before 1.23 it has the first
line alone, and nobody can tell: then nothing is served at all (`OLD`).

Spec: streamable-http, "Server Validation" (T-22, H-07, H-09, H-13).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mcpost.gateway.export.common import (
    cannot,
    methods_of,
    numbers_of,
    path_of,
    reads_names,
    to_regex,
)
from mcpost.gateway.policy import Listener, Policy, Rule
from mcpost.limits import WireLimits
from mcpost.wire.mirror import NAMED
from mcpost.wire.versions import MODERN

__all__ = (
    "CHOICE",
    "HIDES",
    "LONGEST",
    "MISMATCH",
    "OLD",
    "UNSUPPORTED",
    "quote",
    "variable",
    "write_choice",
    "write_guards",
    "write_paths",
    "write_rule",
)

CHOICE: Final = "$mcpost_choice"
"""Index of the rule that decides, or `default`."""
HIDES: Final = "$mcpost_hides"
"""Set where `Connection` names a header that a verdict rests on."""
MISMATCH: Final = "$mcpost_mismatch"
"""Set where nothing can be decided on the head."""
OLD: Final = "$mcpost_old"
"""Set where this nginx cannot tell one line of a header from two."""
UNSUPPORTED: Final = "$mcpost_unsupported"
"""Set where the version is not served."""

_LIMIT: Final = WireLimits().max_header_value
LONGEST: Final = 4000
"""Bytes of a word of the configuration: nginx reads it in pieces of 4,096."""

_SENTINEL: Final = r"=\?base64\?(?:.*\?)?="
# Canonical Base64; whether it is UTF-8 is left to the server.
_BASE64: Final = (
    r"=\?base64\?(?:[A-Za-z0-9+/]{4})*"
    r"(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?\?="
)
_TOKEN: Final = rf"[A-Za-z0-9!#$%&'*+.^_`|~/-]{{1,{_LIMIT}}}"
# A tab at either end is no part of a value, and nginx does not take it away.
_VALUE: Final = rf"(?=.{{1,{_LIMIT}}}$)[\x20-\x7e](?:[\x20-\x7e\x09]*[\x20-\x7e])?"
_JOINED: Final = r".*, .*"
_NUMBER: Final = r"-0|-?0[0-9].*|-?[0-9]+[^0-9].*"
_VERSION: Final = "mcp-protocol-version"
_METHOD: Final = "mcp-method"
_NAME: Final = "mcp-name"
_FACTS: Final = "mcp-[^ ,]*|accept|authorization|content-type|host|origin"


def variable(header: str) -> str:
    """The variable that has the value of a header."""
    return "$http_" + header.lower().replace("-", "_")


def quote(text: str) -> str:
    """Write a word of the configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_guards(policy: Policy) -> list[str]:
    """Write what is refused before any rule: each map is empty where all is well."""
    old = _regex(r"0\..*|1\.(?:[0-9]|1[0-9]|2[0-2])\..*")
    lines = _map("$nginx_version", OLD, (old, "1"))
    named = quote(rf"~*(?:^|[ ,\t])(?:{_FACTS})(?:$|[ ,\t])")
    lines += _map("$http_connection", HIDES, (named, "1"))
    # The order is that of the gateway: what is malformed, then the version, then what is missing.
    token, absent = (_regex(_TOKEN), '""'), ('""', '""')
    for routing, name in ((_VERSION, "version"), (_METHOD, "method")):
        lines += _map(variable(routing), f"$mcpost_bad_{name}", absent, token, default="1")
    values = [(_regex(_JOINED), "1"), absent, (_regex(_VALUE), '""')]
    encoded = (_regex(_SENTINEL), "1")
    # The first that matches counts; none that is over-long matches here.
    decodable = (_regex(rf"(?=.{{1,{_LIMIT}}}$){_BASE64}"), '""')
    first = [] if reads_names(policy) else [decodable]
    name_values = [*first, encoded, *values]
    lines += _map(variable(_NAME), "$mcpost_bad_name", *name_values, default="1")
    served = [(quote(version), "served") for version in MODERN]
    cases = [('""', "missing"), *served]
    lines += _map(variable(_VERSION), "$mcpost_version", *cases, default="other")
    lines += _map(variable(_METHOD), "$mcpost_no_method", ('""', "1"))
    nameless = _regex(f"(?:{to_regex(NAMED, stars=False)}):")
    lines += _map(f'"{variable(_METHOD)}:{variable(_NAME)}"', "$mcpost_no_name", (nameless, "1"))
    late = "${mcpost_no_method}${mcpost_no_name}"
    for index, header in enumerate(sorted(policy.reads)):
        number = [(_regex(_NUMBER), "1")] if header in numbers_of(policy) else []
        each, bad = f"$mcpost_param_{index}", f"mcpost_bad_param_{index}"
        cases = [encoded, *number, *values]
        lines += _map(variable(header.decode()), each, *cases, default="1")
        call = (_regex("tools/call:1"), "1")
        lines += _map(f'"{variable(_METHOD)}:{each}"', f"${bad}", call)
        late += f"${{{bad}}}"
    early = "${mcpost_bad_version}${mcpost_bad_method}${mcpost_bad_name}"
    whole = f'"{early}:${{mcpost_version}}:{late}"'
    wrong = [(_regex("1+:.*"), "1"), (_regex(":missing:.*"), "1"), (_regex(":served:1+"), "1")]
    lines += _map(whole, MISMATCH, *wrong)
    return [*lines, *_map(whole, UNSUPPORTED, (_regex(":other:.*"), "1"))]


def write_paths(index: int, listener: Listener) -> list[str]:
    """Write whether a request is for a listener's endpoint, by its target as it came."""
    target = _regex(to_regex([path_of(listener)], stars=False) + r"/?(?:\?.*)?")
    if path_of(listener) == "/":
        target = _regex(r"/(?:\?.*)?")
    return _map("$request_uri", f"$mcpost_other_{index}", (target, '""'), default="1")


def write_rule(policy: Policy, rule: Rule) -> list[str]:
    """Write whether a rule matches."""
    lines: list[str] = []
    flags: list[str] = []

    def ask(header: str, patterns: Iterable[str], *, stars: bool) -> None:
        flag = f"$mcpost_rule_{rule.index}_{len(flags)}"
        flags.append(flag)
        cases = [(_regex(to_regex([text], stars=stars)), "1") for text in sorted(set(patterns))]
        for case, _ in cases:
            if len(case.encode()) > LONGEST:
                cannot(policy, rule, "nginx", f"a value is longer than {LONGEST} bytes")
        lines.extend(_map(variable(header), flag, *cases, default="0"))

    methods = methods_of(rule)
    if methods:
        ask(_METHOD, methods, stars=False)
    if rule.names:
        ask(_NAME, (pattern.text for pattern in rule.names), stars=True)
    for test in rule.params:
        ask(test.header.decode(), test.values, stars=False)
    whole = f'"x{"".join(flags)}"'
    matched = (_regex(f"x1{{{len(flags)}}}"), "1")
    return [*lines, *_map(whole, f"$mcpost_rule_{rule.index}", matched, default="0")]


def write_choice(rules: list[Rule]) -> list[str]:
    """Write which rule is the first that matches."""
    source = '"' + "".join(f"${{mcpost_rule_{rule.index}}}" for rule in rules) + 'x"'
    cases = [(_regex(f"0{{{place}}}1.*"), str(rule.index)) for place, rule in enumerate(rules)]
    return _map(source, CHOICE, *cases, default="default")


def _regex(regex: str) -> str:
    return quote(f"~^(?:{regex})$")


def _map(source: str, name: str, *cases: tuple[str, str], default: str = '""') -> list[str]:
    body = [f"    {case} {value};" for case, value in cases]
    return [f"map {source} {name} {{", f"    default {default};", *body, "}"]
