"""A policy as the configuration of nginx, with the same verdicts.

Maps find the rule that decides (`nginx_maps`); each rule is an internal location. nginx decides on
less than the gateway can, and what it cannot tell it refuses: a value that may have been two lines,
an encoded value that a rule compares, an empty name. Nothing is passed that the gateway would not
pass.

Spec: streamable-http, "Server Validation" for intermediaries (H-07, H-09, H-11, H-13).
"""

from __future__ import annotations

import math
import re
from typing import Final

from mcpost.errors import PolicyError
from mcpost.gateway.export import answers
from mcpost.gateway.export.common import (
    cannot,
    check_rule,
    check_whole,
    path_of,
    reaches,
    split_bind,
    tls_name,
    upstream_of,
    urls_of,
)
from mcpost.gateway.export.nginx_maps import (
    CHOICE,
    HIDES,
    LONGEST,
    MISMATCH,
    OLD,
    UNSUPPORTED,
    quote,
    variable,
    write_choice,
    write_guards,
    write_paths,
    write_rule,
)
from mcpost.gateway.export.settings import (
    HEAD_TIMEOUT,
    KEPT_FOR,
    ExportSettings,
)
from mcpost.gateway.policy import Listener, Policy, Rule, Upstream
from mcpost.wire.versions import MODERN

__all__ = ("to_nginx",)

_HEADER: Final = re.compile(rb"mcp-param-[a-z0-9-]+")
_NOTES: Final = """\
# Made by `mcpost export`; it stands inside `http { }` of nginx 1.23 or newer.
# Stricter than the gateway, each with 400: a mirrored header with a comma and a blank in its value
# (two lines look so), one in the Base64 form that a rule reads, an empty Mcp-Name.
# An nginx older than 1.23 cannot tell two lines from one, and answers 503 to every call.
"""
_UNREACHED: Final = "mcpost_failed_502"
_UNANSWERED: Final = "mcpost_failed_504"
_TOO_LARGE: Final = "mcpost_too_large"
_NOT_FOUND: Final = "mcpost_not_found"


def to_nginx(policy: Policy, settings: ExportSettings | None = None) -> str:
    """Write a policy as what stands inside `http { }`.

    Args:
        policy: The policy.
        settings: Bounds; those of the gateway by default.

    Raises:
        PolicyError: nginx cannot say a rule, which is named.

    Spec: streamable-http, "Server Validation" for intermediaries (H-13).
    """
    settings = settings or ExportSettings()
    check_whole(policy, "nginx")
    for rule in policy.rules:
        _check_rule(policy, rule)
    rules = [rule for rule in policy.rules if reaches(rule)]
    lines = write_guards(policy)
    for rule in rules:
        lines += write_rule(policy, rule)
    lines += write_choice(rules)
    rings = {upstream_of(policy, rule): rule.shard for rule in rules if rule.shard}
    for upstream in policy.upstreams.values():
        lines += _write_upstream(policy, upstream, rings.get(upstream.name))
    for rule in rules:
        lines += _write_zone(rule)
    for index, listener in enumerate(policy.listeners):
        lines += write_paths(index, listener)
        lines += _write_server(policy, index, listener, rules, settings)
    return _NOTES + "\n".join(lines) + "\n"


def _check_rule(policy: Policy, rule: Rule) -> None:
    check_rule(policy, rule, "nginx")
    _check_conditions(policy, rule)
    if len(_body(rule.message)) > LONGEST:
        cannot(policy, rule, "nginx", f"its message is longer than {LONGEST} bytes")
    if rule.shard.partition(".")[0] in ("principal", "claim"):
        cannot(policy, rule, "nginx", f"it does not know the caller (shard {rule.shard!r})")
    if rule.rate is not None and rule.rate.requests * 60 < rule.rate.per:
        cannot(policy, rule, "nginx", "a rate is at least one a minute")
    if rule.shard:
        target = upstream_of(policy, rule)
        sharded = [r for r in policy.rules if r.shard and upstream_of(policy, r) == target]
        if any(other.shard != rule.shard for other in sharded):
            cannot(policy, rule, "nginx", "an upstream is sharded by one value (shard)")


def _check_conditions(policy: Policy, rule: Rule) -> None:
    for header in rule.reads:
        if not _HEADER.fullmatch(header):
            cannot(policy, rule, "nginx", f"it has no variable for {header.decode()!r}")
    values = [pattern.text for pattern in rule.names]
    values += [value for test in rule.params for value in test.values]
    if "" in values or not all(test.values for test in rule.params):
        cannot(policy, rule, "nginx", "it cannot tell an absent header from an empty one")
    for value in values:
        if ", " in value:
            said = f"it cannot tell {value!r} from two lines, joined by a comma and a blank"
            cannot(policy, rule, "nginx", said)


def _write_upstream(policy: Policy, upstream: Upstream, shard: str | None) -> list[str]:
    urls = urls_of(policy, upstream, "nginx")
    if upstream.health is not None:
        said = "cannot be said to nginx: it asks no endpoint for its health"
        raise PolicyError(said, file=policy.file, key=f"upstreams.{upstream.name}.health")
    port = 443 if urls[0].scheme == "https" else 80
    # nginx would count a slow call against its endpoint, and give that to nobody for a while.
    servers = [f"    server {_host(url.hostname)}:{url.port or port} max_fails=0;" for url in urls]
    sets: list[tuple[str, list[str]]] = [("", [])]
    if shard:
        sets.append(("_ring", [f"    hash {_source_of(shard)} consistent;"]))
    lines: list[str] = []
    for suffix, ways in sets:
        head = f"upstream {_name_of(policy, upstream)}{suffix} {{"
        lines += [head, *ways, *servers, "    keepalive 64;", "}"]
    return lines


def _name_of(policy: Policy, upstream: Upstream) -> str:
    """A name that nginx takes, whatever the policy calls it."""
    place = list(policy.upstreams).index(upstream.name)
    return f"mcpost_{place}_" + re.sub("[^A-Za-z0-9_-]", "_", upstream.name)


def _host(name: str | None) -> str:
    return f"[{name}]" if name and ":" in name else name or ""


def _source_of(shard: str) -> str:
    kind, _, name = shard.partition(".")
    if kind == "client":
        return "$remote_addr"
    return variable("mcp-name" if kind == "name" else f"mcp-param-{name}")


def _write_zone(rule: Rule) -> list[str]:
    if rule.rate is None:
        return []
    a_minute = math.floor(rule.rate.requests * 60 / rule.rate.per)
    zone = f"zone=mcpost_{rule.index}:1m rate={a_minute}r/m"
    return [f'limit_req_zone "all" {zone};']


def _write_server(
    policy: Policy, index: int, listener: Listener, rules: list[Rule], settings: ExportSettings
) -> list[str]:
    idle = _time(settings.idle_timeout)
    lines = [
        "server {",
        *_write_listens(listener, settings),
        "    default_type application/json;",
        "    large_client_header_buffers 4 32k;",
        f"    client_max_body_size {settings.max_body};",
        f"    client_header_timeout {_time(HEAD_TIMEOUT)};",
        f"    keepalive_timeout {_time(KEPT_FOR)};",
        f"    send_timeout {idle};",
        *(f"    {line}" for line in _FAILED),
        *_write_endpoint(policy, index, listener),
    ]
    for rule in rules:
        lines += _write_location(policy, rule, str(rule.index), settings)
    last = Rule(0, "default", 0, policy.default, message=answers.NO_RULE)
    lines += _write_location(policy, last, "default", settings)
    if policy.upstream is not None:
        # No rule is about OPTIONS: the upstream says who may ask from where.
        plain = Rule(0, "options", 0, "allow")
        lines += _write_location(policy, plain, "options", settings)
    return [*lines, *_write_failures(), "}"]


_FAILED: Final = (
    f"error_page 404 @{_NOT_FOUND};",
    f"error_page 413 @{_TOO_LARGE};",
    f"error_page 502 @{_UNREACHED};",
    f"error_page 504 @{_UNANSWERED};",
)


def _write_listens(listener: Listener, settings: ExportSettings) -> list[str]:
    host, port = split_bind(listener)
    secure = " ssl" if settings.certificate else ""
    places = [f"{_host(host)}:{port}"] if host else [str(port), f"[::]:{port}"]
    lines = [f"    listen {place}{secure};" for place in places]
    if secure:
        lines.append(f"    ssl_certificate {quote(settings.certificate)};")
        lines.append(f"    ssl_certificate_key {quote(settings.key or settings.certificate)};")
    return lines


def _write_endpoint(policy: Policy, index: int, listener: Listener) -> list[str]:
    path = path_of(listener)
    options, methods = [], "POST"
    if policy.upstream is not None:
        options = ["if ($request_method = OPTIONS) { rewrite ^ /mcpost-rule-options last; }"]
        methods = "(?:POST|OPTIONS)"
    supported = {"supported": MODERN, "requested": "$http_mcp_protocol_version"}
    version = "protocol version '$http_mcp_protocol_version' is not served here"
    # The version is a token where this is said, so that it needs no escape.
    unsupported = quote(answers.refused(version, answers.UNSUPPORTED, supported))
    mismatch = _body("Header mismatch: nothing can be decided on this head", answers.MISMATCH)
    steps = [
        f"if ($mcpost_other_{index}) {{ return 404 {_body(answers.NOT_FOUND)}; }}",
        # What stands in a named location can say `Allow`; 405 without a text leads there.
        f'if ($request_method !~ "^{methods}$") {{ return 405; }}',
        f"if ({HIDES}) {{ return 400 {_body('Connection may not name this header')}; }}",
        *options,
        f"if ({OLD}) {{ return 503 {_body('nginx 1.23 or newer is needed')}; }}",
        f"if ({MISMATCH}) {{ return 400 {mismatch}; }}",
        f"if ({UNSUPPORTED}) {{ return 400 {unsupported}; }}",
        f"rewrite ^ /mcpost-rule-{CHOICE} last;",
    ]
    no_method = [
        "location @mcpost_method {",
        "    internal;",
        "    add_header mcpost-gateway refused always;",
        "    add_header Allow POST always;",
        f"    return 405 {_body(answers.NO_METHOD)};",
        "}",
    ]
    refusing = "add_header mcpost-gateway refused always;"
    lines = [
        *no_method,
        f"location = {quote(path)} {{",
        f"    {refusing}",
        "    error_page 405 @mcpost_method;",
        *(f"    {line}" for line in _FAILED),
        *(f"    {step}" for step in steps),
        "}",
    ]
    if path != "/":
        lines += [f"location = {quote(path + '/')} {{", f"    rewrite ^ {quote(path)} last;", "}"]
        lines += ["location / {", f"    {refusing}", f"    return 404 {_body(answers.NOT_FOUND)};"]
        lines.append("}")
    return [f"    {line}" for line in lines]


def _write_location(policy: Policy, rule: Rule, name: str, settings: ExportSettings) -> list[str]:
    lines = [f"    location = /mcpost-rule-{name} {{", "        internal;"]
    if rule.rate is not None:
        wait = max(1, math.ceil(rule.rate.per / rule.rate.requests))
        lines = [*_write_busy(rule, wait), *lines]
    if rule.action == "deny":
        lines.append("        add_header mcpost-gateway refused always;")
        return [*lines, f"        return {rule.status} {_body(rule.message)};", "    }"]
    upstream = policy.upstreams[upstream_of(policy, rule)]
    if rule.rate is not None:
        burst = max(int(rule.rate.burst) - 1, 0)
        many = f" burst={burst} nodelay" if burst else ""
        lines.append(f"        limit_req zone=mcpost_{rule.index}{many};")
        lines.append("        limit_req_status 429;")
        lines.append(f"        error_page 429 @mcpost_busy_{rule.index};")
        lines += [f"        {line}" for line in _FAILED]
    url = urls_of(policy, upstream, "nginx")[0]
    group = _name_of(policy, upstream) + ("_ring" if rule.shard else "")
    target = f"{url.scheme}://{group}{url.path or '/'}"
    lines.append(f"        proxy_pass {quote(target)};")
    if url.scheme == "https":
        lines += [
            "        proxy_ssl_server_name on;",
            f"        proxy_ssl_name {tls_name(policy, upstream, 'nginx')};",
            "        proxy_ssl_verify on;",
            "        proxy_ssl_verify_depth 4;",
            f"        proxy_ssl_trusted_certificate {quote(settings.authorities)};",
        ]
    return [*lines, *_write_proxying(policy, upstream, settings), "    }"]


def _write_busy(rule: Rule, wait: int) -> list[str]:
    return [
        f"    location @mcpost_busy_{rule.index} {{",
        "        internal;",
        "        add_header mcpost-gateway refused always;",
        f"        add_header Retry-After {wait} always;",
        f"        return 429 {_body(answers.BUSY)};",
        "    }",
    ]


def _write_failures() -> list[str]:
    """What nginx says by itself, in the words of the gateway."""
    maybe = quote(answers.failed(answers.UNANSWERED, "maybe"))
    too_large = _body(answers.TOO_LARGE)
    lines: list[str] = []
    for name, word, status, body in (
        (_UNREACHED, "failed", 502, maybe),
        (_UNANSWERED, "failed", 504, maybe),
        (_TOO_LARGE, "refused", 413, too_large),
        (_NOT_FOUND, "refused", 404, _body(answers.NOT_FOUND)),
    ):
        lines += [
            f"    location @{name} {{",
            "        internal;",
            f"        add_header mcpost-gateway {word} always;",
            f"        return {status} {body};",
            "    }",
        ]
    return lines


def _write_proxying(policy: Policy, upstream: Upstream, settings: ExportSettings) -> list[str]:
    """Settings for streams, and the header lines that are not passed as they came."""
    host = urls_of(policy, upstream, "nginx")[0].netloc
    idle = _time(settings.idle_timeout)
    dropped = ["Forwarded", "X-Real-IP", "Proxy-Authorization", "Proxy-Connection", "Trailer"]
    if not upstream.audience:
        dropped.append("Authorization")
    lines = [
        "proxy_http_version 1.1;",
        'proxy_set_header Connection "";',
        f"proxy_set_header Host {quote(host)};",
        "proxy_set_header X-Forwarded-For $remote_addr;",
        "proxy_set_header X-Forwarded-Proto $scheme;",
        "proxy_set_header X-Forwarded-Host $http_host;",
        *(f'proxy_set_header {header} "";' for header in dropped),
        "proxy_buffering off;",
        "proxy_request_buffering off;",
        # A POST of which something was sent is not among the causes for another endpoint.
        "proxy_next_upstream error timeout;",
        # An upstream orders nothing by its answers.
        "proxy_ignore_headers X-Accel-Buffering X-Accel-Redirect X-Accel-Expires "
        "X-Accel-Limit-Rate X-Accel-Charset;",
        "proxy_pass_header X-Accel-Buffering;",
        f"proxy_connect_timeout {_time(settings.connect_timeout)};",
        f"proxy_read_timeout {idle};",
        f"proxy_send_timeout {idle};",
        "gzip off;",
    ]
    return [f"        {line}" for line in lines]


def _time(value: float) -> str:
    return f"{round(value * 1000)}ms"


def _body(message: str, code: int = answers.INVALID) -> str:
    # nginx has no escape for `$`; JSON has one.
    return quote(re.sub(r"\$", r"\\u0024", answers.refused(message, code)))
