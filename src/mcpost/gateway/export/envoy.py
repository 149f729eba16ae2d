"""A policy as the configuration of Envoy, with the same verdicts.

Routes are the rules, in order; a script before them refuses what cannot be decided on
(`envoy_guard`). Streams are never buffered, have no total timeout and no retry: a POST is sent
once. Values in the Base64 form are refused where a rule reads that header.

Spec: streamable-http, "Server Validation" for intermediaries (H-07, H-09, H-11, H-13).
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from mcpost.errors import InvalidRequest, PolicyError
from mcpost.gateway.export.common import (
    cannot,
    check_rule,
    check_whole,
    methods_of,
    reaches,
    to_regex,
    urls_of,
)
from mcpost.gateway.export.envoy_guard import MARK, write_guard
from mcpost.gateway.policy import Listener, ParamTest, Policy, Rate, Rule, Upstream

__all__ = ("to_envoy",)

_TYPE: Final = "type.googleapis.com/envoy.extensions"
_HCM: Final = "filters.network.http_connection_manager.v3.HttpConnectionManager"
_LIMITER: Final = "filters.http.local_ratelimit.v3.LocalRateLimit"
_CA: Final = "/etc/ssl/certs/ca-certificates.crt"
_IDLE: Final = "300s"
_MIN_FILL: Final = 0.05
_RING: Final = "-ring"


def to_envoy(policy: Policy) -> dict[str, Any]:
    """Write a policy as a bootstrap configuration, to be stored as JSON.

    Raises:
        PolicyError: Envoy cannot say a rule, which is named.

    Spec: streamable-http, "Server Validation" for intermediaries (H-13).
    """
    check_whole(policy, "Envoy")
    for rule in policy.rules:
        check_rule(policy, rule, "Envoy")
    clusters = [_write_cluster(policy, upstream) for upstream in policy.upstreams.values()]
    rings = sorted({_upstream_of(policy, rule) for rule in policy.rules if rule.shard})
    clusters += [_write_cluster(policy, policy.upstreams[name], _RING) for name in rings]
    listeners = [_write_listener(policy, listener) for listener in policy.listeners]
    return {"static_resources": {"listeners": listeners, "clusters": clusters}}


def _upstream_of(policy: Policy, rule: Rule) -> str:
    name = rule.upstream or policy.upstream
    assert name is not None, "an allowance without an upstream is refused when it is read"
    return name


def _any(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"{_TYPE}.{kind}", **fields}


def _filter(name: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"envoy.filters.http.{name}", "typed_config": config}


def _write_listener(policy: Policy, listener: Listener) -> dict[str, Any]:
    host, _, port = listener.bind.rpartition(":")
    guard = {"inline_string": write_guard(policy)}
    filters = [_filter("lua", _any("filters.http.lua.v3.Lua", default_source_code=guard))]
    if any(rule.rate for rule in policy.rules):
        filters.append(_filter("local_ratelimit", _any(_LIMITER, stat_prefix="mcpost")))
    filters.append(_filter("router", _any("filters.http.router.v3.Router")))
    host_of_all = {"name": "all", "domains": ["*"], "routes": _write_routes(policy, listener)}
    manager = _any(
        _HCM,
        stat_prefix=listener.name,
        http_filters=filters,
        route_config={"name": listener.name, "virtual_hosts": [host_of_all]},
        use_remote_address=True,
        stream_idle_timeout=_IDLE,
        request_headers_timeout="10s",
        server_header_transformation="PASS_THROUGH",
    )
    chain = {
        "filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
        ]
    }
    address = {"address": host.strip("[]") or "::", "port_value": int(port)}
    return {
        "name": listener.name,
        "address": {"socket_address": address},
        "filter_chains": [chain],
    }


def _write_routes(policy: Policy, listener: Listener) -> list[dict[str, Any]]:
    routes = [
        {"match": _write_match(listener, rule), **_write_action(policy, rule)}
        for rule in policy.rules
        if reaches(rule)
    ]
    last = Rule(len(policy.rules), "default", 0, policy.default)
    if policy.default == "deny":
        last = Rule(last.index, "default", 0, "deny", message="no rule allows this call")
    routes.append({"match": _write_match(listener, last), **_write_action(policy, last)})
    # What the script has not checked gets nowhere.
    unchecked = Rule(last.index, "unchecked", 0, "deny", status=503, message="not checked")
    routes.append({"match": {"path": listener.path}, **_write_action(policy, unchecked)})
    return routes


def _write_match(listener: Listener, rule: Rule) -> dict[str, Any]:
    headers: list[dict[str, Any]] = [{"name": MARK, "string_match": {"exact": "1"}}]
    methods = methods_of(rule)
    if methods:
        headers.append(_match("mcp-method", to_regex(methods, stars=False)))
    if rule.names:
        headers.append(_match("mcp-name", to_regex((p.text for p in rule.names), stars=True)))
    headers += [_match_param(test) for test in rule.params]
    return {"path": listener.path, "headers": headers}


def _match(name: str, regex: str) -> dict[str, Any]:
    return {"name": name, "string_match": {"safe_regex": {"regex": regex}}}


def _match_param(test: ParamTest) -> dict[str, Any]:
    name = test.header.decode()
    if test.values:
        return _match(name, to_regex(test.values, stars=False))
    return {"name": name, "present_match": test.present}


def _write_action(policy: Policy, rule: Rule) -> dict[str, Any]:
    if rule.action == "deny":
        error = {"code": InvalidRequest.code, "message": rule.message}
        body = json.dumps({"jsonrpc": "2.0", "error": error})
        lines = [_line("content-type", "application/json"), _line("mcpost-gateway", "refused")]
        return {
            "direct_response": {"status": rule.status, "body": {"inline_string": body}},
            "response_headers_to_add": lines,
        }
    upstream = policy.upstreams[_upstream_of(policy, rule)]
    path = urls_of(policy, upstream, "Envoy")[0].path or "/"
    route: dict[str, Any] = {
        "cluster": upstream.name + (_RING if rule.shard else ""),
        "prefix_rewrite": path,
        "auto_host_rewrite": True,
        # A stream lasts as long as it lasts; silence is bounded, and comments break it.
        "timeout": "0s",
        "idle_timeout": _IDLE,
    }
    if rule.shard:
        route["hash_policy"] = [_write_hash(policy, rule)]
    removed = [MARK] if upstream.audience else [MARK, "authorization"]
    action: dict[str, Any] = {"route": route, "request_headers_to_remove": removed}
    if rule.rate is not None:
        limits = {"envoy.filters.http.local_ratelimit": _write_rate(rule.id, rule.rate)}
        action["typed_per_filter_config"] = limits
    return action


def _line(name: str, value: str) -> dict[str, Any]:
    header = {"key": name, "value": value}
    return {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def _write_hash(policy: Policy, rule: Rule) -> dict[str, Any]:
    kind, _, name = rule.shard.partition(".")
    if kind == "client":
        return {"connection_properties": {"source_ip": True}}
    if kind == "name":
        return {"header": {"header_name": "mcp-name"}}
    if kind == "param":
        return {"header": {"header_name": f"mcp-param-{name}".lower()}}
    return cannot(policy, rule, "Envoy", f"it does not know the caller (shard {rule.shard!r})")


def _write_rate(rule: str, rate: Rate) -> dict[str, Any]:
    """One bucket per Envoy process; it fills at most every 50 ms, so several at once if need be."""
    every = rate.per / rate.requests
    tokens = max(1, math.ceil(_MIN_FILL / every))
    everything = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    return _any(
        _LIMITER,
        stat_prefix=f"mcpost_{rule}",
        token_bucket={
            "max_tokens": max(int(rate.burst), tokens),
            "tokens_per_fill": tokens,
            "fill_interval": f"{tokens * every:.9f}s",
        },
        filter_enabled=everything,
        filter_enforced=everything,
        response_headers_to_add=[_line("retry-after", str(max(1, math.ceil(every))))],
    )


def _write_cluster(policy: Policy, upstream: Upstream, suffix: str = "") -> dict[str, Any]:
    urls = urls_of(policy, upstream, "Envoy")
    secure = urls[0].scheme == "https"
    endpoints: list[dict[str, Any]] = []
    for url in urls:
        port = url.port or (443 if secure else 80)
        socket = {"socket_address": {"address": url.hostname, "port_value": port}}
        endpoints.append({"endpoint": {"address": socket, "hostname": url.netloc}})
    cluster: dict[str, Any] = {
        "name": upstream.name + suffix,
        "type": "STRICT_DNS",
        "connect_timeout": "5s",
        "lb_policy": "RING_HASH" if suffix else "ROUND_ROBIN",
        "load_assignment": {
            "cluster_name": upstream.name + suffix,
            "endpoints": [{"lb_endpoints": endpoints}],
        },
    }
    if upstream.health is not None:
        cluster["health_checks"] = [_write_health(upstream.health)]
    if secure:
        if len({url.hostname for url in urls}) != 1:
            said = "cannot be said to Envoy: endpoints with TLS have one host name"
            raise PolicyError(said, file=policy.file, key=f"upstreams.{upstream.name}.endpoints")
        cluster["transport_socket"] = _write_tls(urls[0].hostname or "")
    return cluster


def _write_health(path: str) -> dict[str, Any]:
    return {
        "timeout": "2s",
        "interval": "5s",
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
        "http_health_check": {"path": path},
    }


def _write_tls(host: str) -> dict[str, Any]:
    names = [{"san_type": "DNS", "matcher": {"exact": host}}]
    trusted = {"trusted_ca": {"filename": _CA}, "match_typed_subject_alt_names": names}
    kind = "transport_sockets.tls.v3.UpstreamTlsContext"
    context = _any(kind, sni=host, common_tls_context={"validation_context": trusted})
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}
