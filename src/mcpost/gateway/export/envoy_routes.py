"""Rules as routes of Envoy: the first that matches decides.

Every route asks for the mark that the script has set (`envoy_guard`), so that nothing unchecked
gets anywhere.
"""

from __future__ import annotations

import math
from typing import Any, Final

from mcpost.gateway.export import answers
from mcpost.gateway.export.common import (
    cannot,
    methods_of,
    path_of,
    reaches,
    to_regex,
    upstream_of,
    urls_of,
)
from mcpost.gateway.export.envoy_clusters import RING, seconds, typed
from mcpost.gateway.export.envoy_guard import MARK, PLAIN
from mcpost.gateway.export.settings import ExportSettings
from mcpost.gateway.policy import Listener, ParamTest, Policy, Rate, Rule, Upstream

__all__ = ("LIMITER", "write_route_config")

LIMITER: Final = "filters.http.local_ratelimit.v3.LocalRateLimit"

_LONGEST: Final = 1024 * 1024
"""Bytes of the words of a denial; Envoy's own bound is 4,096."""
_MIN_FILL: Final = 0.05
_PREVIOUS: Final = "retry.host.previous_hosts.v3.PreviousHostsPredicate"
_DROPPED: Final = ("forwarded", "x-real-ip", "proxy-authorization", "proxy-connection", MARK)


def write_route_config(
    policy: Policy, listener: Listener, settings: ExportSettings
) -> dict[str, Any]:
    """Write the routes of one listener, and the header lines that are the same for all."""
    host = {"name": "all", "domains": ["*"], "routes": _write_routes(policy, listener, settings)}
    return {
        "name": listener.name,
        "virtual_hosts": [host],
        "max_direct_response_body_size_bytes": _LONGEST,
        # What a client says of earlier hops is dropped, as by the gateway.
        "request_headers_to_remove": list(_DROPPED),
        "request_headers_to_add": [
            _line("x-forwarded-for", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
            _line("x-forwarded-host", "%REQ(:AUTHORITY)%"),
        ],
    }


def _write_routes(
    policy: Policy, listener: Listener, settings: ExportSettings
) -> list[dict[str, Any]]:
    routes = [
        {"match": _write_match(listener, rule), **_write_action(policy, rule, settings)}
        for rule in policy.rules
        if reaches(rule)
    ]
    last = Rule(len(policy.rules), "default", 0, policy.default)
    if policy.default == "deny":
        last = Rule(last.index, "default", 0, "deny", message=answers.NO_RULE)
    routes.append({"match": _write_match(listener, last), **_write_action(policy, last, settings)})
    if policy.upstream is not None:
        # No rule is about OPTIONS: the upstream says who may ask from where.
        upstream = policy.upstreams[policy.upstream]
        match = {"path": path_of(listener), "headers": [_is(MARK, PLAIN)]}
        routes.append({"match": match, **_write_forward(policy, upstream, settings)})
    # What the script has not checked gets nowhere.
    routes.append({"match": {"path": path_of(listener)}, **_deny(503, "not checked")})
    routes.append({"match": {"prefix": "/"}, **_deny(404, answers.NOT_FOUND)})
    return routes


def _write_match(listener: Listener, rule: Rule) -> dict[str, Any]:
    headers: list[dict[str, Any]] = [_is(MARK, "1")]
    methods = methods_of(rule)
    if methods:
        headers.append(_match("mcp-method", to_regex(methods, stars=False)))
    if rule.names:
        headers.append(_match("mcp-name", to_regex((p.text for p in rule.names), stars=True)))
    headers += [_match_param(test) for test in rule.params]
    return {"path": path_of(listener), "headers": headers}


def _is(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "string_match": {"exact": value}}


def _match(name: str, regex: str) -> dict[str, Any]:
    return {"name": name, "string_match": {"safe_regex": {"regex": regex}}}


def _match_param(test: ParamTest) -> dict[str, Any]:
    name = test.header.decode()
    if test.values:
        return _match(name, to_regex(test.values, stars=False))
    return {"name": name, "present_match": test.present}


def _write_action(policy: Policy, rule: Rule, settings: ExportSettings) -> dict[str, Any]:
    if rule.action == "deny":
        return _deny(rule.status, rule.message)
    upstream = policy.upstreams[upstream_of(policy, rule)]
    action = _write_forward(policy, upstream, settings, RING if rule.shard else "")
    if rule.shard:
        action["route"]["hash_policy"] = [_write_hash(policy, rule)]
    if rule.rate is not None:
        limits = {"envoy.filters.http.local_ratelimit": _write_rate(rule.id, rule.rate)}
        action["typed_per_filter_config"] = limits
    return action


def _deny(status: int, message: str) -> dict[str, Any]:
    lines = [_line("content-type", "application/json"), _line("mcpost-gateway", "refused")]
    return {
        "direct_response": {
            "status": status,
            "body": {"inline_string": answers.refused(message)},
        },
        "response_headers_to_add": lines,
    }


def _write_forward(
    policy: Policy, upstream: Upstream, settings: ExportSettings, suffix: str = ""
) -> dict[str, Any]:
    urls = urls_of(policy, upstream, "Envoy")
    route: dict[str, Any] = {
        "cluster": upstream.name + suffix,
        "prefix_rewrite": urls[0].path or "/",
        "auto_host_rewrite": True,
        # A stream lasts as long as it lasts; silence is bounded, and comments break it.
        "timeout": "0s",
        "idle_timeout": seconds(settings.idle_timeout),
    }
    if len(urls) > 1:
        route["retry_policy"] = _write_second_try(len(urls))
    action: dict[str, Any] = {"route": route}
    if not upstream.audience:
        action["request_headers_to_remove"] = ["authorization"]
    return action


def _write_second_try(endpoints: int) -> dict[str, Any]:
    """Ask another endpoint where no connection stood: nothing of the request can have been seen."""
    other = {"name": "envoy.retry_host_predicates.previous_hosts", "typed_config": typed(_PREVIOUS)}
    return {
        "retry_on": "connect-failure",
        "num_retries": endpoints - 1,
        "retry_host_predicate": [other],
        "host_selection_retry_max_attempts": 2 * endpoints,
    }


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
    return typed(
        LIMITER,
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
