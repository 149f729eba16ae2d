"""A policy as the configuration of nginx, with the same verdicts where nginx can tell.

Each condition is a `map`, each rule a `map` of its conditions, and one `map` finds the first rule.
nginx cannot count the lines of a header: it decides on what its variable says (the first line until
1.22, all joined since 1.23). So what a rule may read is sent on from that same variable, as one
line: the upstream compares with its body what was decided on, and nothing else.

Spec: streamable-http, "Server Validation" for intermediaries (H-07, H-09, H-11, H-13).
"""

from __future__ import annotations

import json
import math
import re
from typing import Final

from mcpost.errors import HeaderMismatch, InvalidRequest, PolicyError
from mcpost.gateway.export.common import (
    cannot,
    check_rule,
    check_whole,
    methods_of,
    numbers_of,
    reaches,
    reads_names,
    to_regex,
    urls_of,
)
from mcpost.gateway.policy import Listener, Policy, Rule, Upstream
from mcpost.limits import WireLimits
from mcpost.wire.mirror import NAMED
from mcpost.wire.versions import MODERN

__all__ = ("to_nginx",)

_CA: Final = "/etc/ssl/certs/ca-certificates.crt"
_SENTINEL: Final = r"=\?base64\?(?:.*\?)?="
_TOKEN: Final = rf"[A-Za-z0-9!#$%&'*+.^_`|~/-]{{1,{WireLimits().max_header_value}}}"
_VALUE: Final = rf"[\x20-\x7e\x09]{{0,{WireLimits().max_header_value}}}"
_HEADER: Final = re.compile(rb"mcp-param-[a-z0-9-]+")
_ROUTING: Final = ("mcp-protocol-version", "mcp-method", "mcp-name")


def to_nginx(policy: Policy) -> str:
    """Write a policy as what stands inside `http { }`.

    Raises:
        PolicyError: nginx cannot say a rule, which is named.

    Spec: streamable-http, "Server Validation" for intermediaries (H-13).
    """
    check_whole(policy, "nginx")
    for rule in policy.rules:
        _check_rule(policy, rule)
    rules = [rule for rule in policy.rules if reaches(rule)]
    lines = [*_write_guards(policy)]
    for rule in rules:
        lines += _write_rule(rule)
    lines += _write_choice(rules)
    rings = {rule.upstream or policy.upstream: rule.shard for rule in rules if rule.shard}
    for upstream in policy.upstreams.values():
        lines += _write_upstream(policy, upstream, rings.get(upstream.name))
    for rule in rules:
        lines += _write_zone(rule)
    for listener in policy.listeners:
        lines += _write_server(policy, listener, rules)
    return "\n".join(lines) + "\n"


def _check_rule(policy: Policy, rule: Rule) -> None:
    check_rule(policy, rule, "nginx")
    for header in rule.reads:
        if not _HEADER.fullmatch(header):
            cannot(policy, rule, "nginx", f"it has no variable for {header.decode()!r}")
    for test in rule.params:
        if not test.values or "" in test.values:
            cannot(policy, rule, "nginx", "it cannot tell an absent header from an empty one")
    if any(pattern.text == "" for pattern in rule.names):
        cannot(policy, rule, "nginx", "it cannot tell an absent header from an empty one")
    if rule.shard.partition(".")[0] in ("principal", "claim"):
        cannot(policy, rule, "nginx", f"it does not know the caller (shard {rule.shard!r})")
    if rule.rate is not None and rule.rate.requests * 60 < rule.rate.per:
        cannot(policy, rule, "nginx", "a rate is at least one a minute")
    target = rule.upstream or policy.upstream
    sharded = [r for r in policy.rules if r.shard and (r.upstream or policy.upstream) == target]
    if rule.shard and any(other.shard != rule.shard for other in sharded):
        cannot(policy, rule, "nginx", "an upstream is sharded by one value (shard)")


def _variable(header: str) -> str:
    return "$http_" + header.lower().replace("-", "_")


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _regex(regex: str) -> str:
    return _quote(f"~^(?:{regex})$")


def _write_map(source: str, name: str, *cases: tuple[str, str], default: str = '""') -> list[str]:
    body = [f"    {case} {value};" for case, value in cases]
    return [f"map {source} {name} {{", f"    default {default};", *body, "}"]


def _write_guards(policy: Policy) -> list[str]:
    """What is refused before any rule: each map is empty where all is well."""
    versions = ((_regex(to_regex(MODERN, stars=False)), '""'),)
    lines = _write_map(_variable(_ROUTING[0]), "$mcpost_bad_version", *versions, default="1")
    method = ((_regex(_TOKEN), '""'),)
    lines += _write_map(_variable(_ROUTING[1]), "$mcpost_bad_method", *method, default="1")
    # An empty value is matched by no regular expression.
    bad = [('""', '""'), (_regex(_VALUE), '""')]
    encoded = (_regex(_SENTINEL), "1")
    name = [encoded, *bad] if reads_names(policy) else bad
    lines += _write_map(_variable(_ROUTING[2]), "$mcpost_bad_name", *name, default="1")
    named = _regex(f"(?:{to_regex(NAMED, stars=False)}):")
    source = f'"{_variable(_ROUTING[1])}:{_variable(_ROUTING[2])}"'
    lines += _write_map(source, "$mcpost_no_name", (named, "1"))
    flags = "$mcpost_bad_version$mcpost_bad_method$mcpost_bad_name$mcpost_no_name"
    for index, header in enumerate(sorted(policy.reads)):
        number = (_regex(r"-0|-?0[0-9].*|-?[0-9]+[^0-9].*"), "1")
        cases = [encoded, *bad]
        if header in numbers_of(policy):
            cases.insert(1, number)
        each = f"$mcpost_param_{index}"
        lines += _write_map(_variable(header.decode()), each, *cases, default="1")
        call = (_regex("tools/call:1"), "1")
        lines += _write_map(f'"{_variable(_ROUTING[1])}:{each}"', f"$mcpost_bad_{index}", call)
        flags += f"$mcpost_bad_{index}"
    return [*lines, *_write_map(f'"{flags}"', "$mcpost_refused", ('""', '""'), default="1")]


def _write_rule(rule: Rule) -> list[str]:
    lines: list[str] = []
    flags: list[str] = []

    def ask(source: str, regex: str) -> None:
        flag = f"$mcpost_rule_{rule.index}_{len(flags)}"
        flags.append(flag)
        lines.extend(_write_map(source, flag, (_regex(regex), "1"), default="0"))

    methods = methods_of(rule)
    if methods:
        ask(_variable("mcp-method"), to_regex(methods, stars=False))
    if rule.names:
        ask(_variable("mcp-name"), to_regex((p.text for p in rule.names), stars=True))
    for test in rule.params:
        ask(_variable(test.header.decode()), to_regex(test.values, stars=False))
    whole = f'"x{"".join(flags)}"'
    matched = (f'"x{"1" * len(flags)}"', "1")
    return [*lines, *_write_map(whole, f"$mcpost_rule_{rule.index}", matched, default="0")]


def _write_choice(rules: list[Rule]) -> list[str]:
    """The first rule that matches, by its index."""
    source = '"' + "".join(f"${{mcpost_rule_{rule.index}}}" for rule in rules) + 'x"'
    cases = [(f'"~^0{{{place}}}1"', str(rule.index)) for place, rule in enumerate(rules)]
    return _write_map(source, "$mcpost_choice", *cases, default="default")


def _write_upstream(policy: Policy, upstream: Upstream, shard: str | None) -> list[str]:
    urls = urls_of(policy, upstream, "nginx")
    if upstream.health is not None:
        said = "cannot be said to nginx: it asks no endpoint for its health"
        raise PolicyError(said, file=policy.file, key=f"upstreams.{upstream.name}.health")
    if urls[0].scheme == "https" and len({url.hostname for url in urls}) != 1:
        said = "cannot be said to nginx: endpoints with TLS have one host name"
        raise PolicyError(said, file=policy.file, key=f"upstreams.{upstream.name}.endpoints")
    port = 443 if urls[0].scheme == "https" else 80
    servers = [f"    server {url.hostname}:{url.port or port};" for url in urls]
    sets: list[tuple[str, list[str]]] = [("", [])]
    if shard:
        sets.append(("_ring", [f"    hash {_source_of(shard)} consistent;"]))
    lines: list[str] = []
    for suffix, ways in sets:
        head = f"upstream mcpost_{upstream.name}{suffix} {{"
        lines += [head, *ways, *servers, "    keepalive 64;", "}"]
    return lines


def _source_of(shard: str) -> str:
    kind, _, name = shard.partition(".")
    if kind == "client":
        return "$remote_addr"
    return _variable("mcp-name" if kind == "name" else f"mcp-param-{name}")


def _write_zone(rule: Rule) -> list[str]:
    if rule.rate is None:
        return []
    a_minute = math.floor(rule.rate.requests * 60 / rule.rate.per)
    zone = f"zone=mcpost_{rule.index}:1m rate={a_minute}r/m"
    return [f'limit_req_zone "all" {zone};']


def _write_server(policy: Policy, listener: Listener, rules: list[Rule]) -> list[str]:
    mismatch = _body(HeaderMismatch.code, "Header mismatch: nothing can be decided on this head")
    lines = [
        "server {",
        f"    listen {listener.bind};",
        "    default_type application/json;",
        "    large_client_header_buffers 4 32k;",
        "    client_max_body_size 4m;",
        f"    location = {listener.path} {{",
        "        add_header mcpost-gateway refused always;",
        "        if ($request_method != POST) { return 405; }",
        f"        if ($mcpost_refused) {{ return 400 {mismatch}; }}",
        "        rewrite ^ /mcpost-rule-$mcpost_choice last;",
        "    }",
    ]
    for rule in rules:
        lines += _write_location(policy, rule, str(rule.index))
    last = Rule(0, "default", 0, policy.default, message="no rule allows this call")
    return [*lines, *_write_location(policy, last, "default"), "}"]


def _write_location(policy: Policy, rule: Rule, name: str) -> list[str]:
    lines = [f"    location = /mcpost-rule-{name} {{", "        internal;"]
    if rule.rate is not None:
        wait = max(1, math.ceil(rule.rate.per / rule.rate.requests))
        lines = [*_write_busy(rule, wait), *lines]
    if rule.action == "deny":
        lines.append("        add_header mcpost-gateway refused always;")
        said = _body(InvalidRequest.code, rule.message)
        return [*lines, f"        return {rule.status} {said};", "    }"]
    upstream_name = rule.upstream or policy.upstream
    assert upstream_name is not None, "an allowance without an upstream is refused when it is read"
    upstream = policy.upstreams[upstream_name]
    url = urls_of(policy, upstream, "nginx")[0]
    if rule.rate is not None:
        burst = max(int(rule.rate.burst) - 1, 0)
        many = f" burst={burst} nodelay" if burst else ""
        lines.append(f"        limit_req zone=mcpost_{rule.index}{many};")
        lines.append("        limit_req_status 429;")
        lines.append(f"        error_page 429 @mcpost_busy_{rule.index};")
    ring = "_ring" if rule.shard else ""
    lines.append(
        f"        proxy_pass {url.scheme}://mcpost_{upstream.name}{ring}{url.path or '/'};"
    )
    if url.scheme == "https":
        lines += [
            "        proxy_ssl_server_name on;",
            f"        proxy_ssl_name {url.hostname};",
            "        proxy_ssl_verify on;",
            f"        proxy_ssl_trusted_certificate {_CA};",
        ]
    return [*lines, *_write_proxying(policy, upstream), "    }"]


def _write_busy(rule: Rule, wait: int) -> list[str]:
    return [
        f"    location @mcpost_busy_{rule.index} {{",
        "        add_header mcpost-gateway refused always;",
        f"        add_header Retry-After {wait} always;",
        f"        return 429 {_body(InvalidRequest.code, 'too many calls')};",
        "    }",
    ]


def _write_proxying(policy: Policy, upstream: Upstream) -> list[str]:
    """Settings for streams, and the one line of each header that was decided on."""
    read = [*_ROUTING, *(header.decode() for header in sorted(policy.reads))]
    host = urls_of(policy, upstream, "nginx")[0].netloc
    settings = [
        "proxy_http_version 1.1;",
        'proxy_set_header Connection "";',
        f"proxy_set_header Host {host};",
        *(f"proxy_set_header {header} {_variable(header)};" for header in read),
        "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        "proxy_buffering off;",
        "proxy_request_buffering off;",
        "proxy_next_upstream off;",
        "proxy_connect_timeout 5s;",
        "proxy_read_timeout 300s;",
        "proxy_send_timeout 300s;",
        "gzip off;",
    ]
    if not upstream.audience:
        settings.append('proxy_set_header Authorization "";')
    return [f"        {setting}" for setting in settings]


def _body(code: int, message: str) -> str:
    text = json.dumps({"jsonrpc": "2.0", "error": {"code": code, "message": message}})
    # nginx has no escape for `$`; JSON has one.
    return _quote(re.sub(r"\$", r"\\u0024", text))
