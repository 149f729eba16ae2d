"""A policy as the configuration of Envoy, with the same verdicts.

Routes are the rules, in order (`envoy_routes`); a script before them refuses what cannot be decided
on (`envoy_guard`). Streams are never buffered and have no total timeout. A request goes to a second
endpoint only where no connection to the first could be made: a POST is sent once. Values in the
Base64 form are refused where a rule reads that header.

Spec: streamable-http, "Server Validation" for intermediaries (H-07, H-09, H-11, H-13).
"""

from __future__ import annotations

from typing import Any, Final

from mcpost.errors import PolicyError
from mcpost.gateway.export import answers
from mcpost.gateway.export.common import check_rule, check_whole, split_bind
from mcpost.gateway.export.envoy_clusters import RING, seconds, typed, write_cluster
from mcpost.gateway.export.envoy_guard import write_guard
from mcpost.gateway.export.envoy_routes import LIMITER, write_route_config
from mcpost.gateway.export.settings import HEAD_TIMEOUT, KEPT_FOR, ExportSettings
from mcpost.gateway.policy import Listener, Policy

__all__ = ("to_envoy",)

_HCM: Final = "filters.network.http_connection_manager.v3.HttpConnectionManager"
_BUFFER: Final = "filters.http.buffer.v3.Buffer"
_TLS: Final = "transport_sockets.tls.v3.DownstreamTlsContext"
_HELD: Final = 64 * 1024
"""Bytes of a stream that are kept for a slow reader, at each side."""


def to_envoy(policy: Policy, settings: ExportSettings | None = None) -> dict[str, Any]:
    """Write a policy as a bootstrap configuration, to be stored as JSON.

    Args:
        policy: The policy.
        settings: Bounds; those of the gateway by default.

    Raises:
        PolicyError: Envoy cannot say a rule, which is named.

    Spec: streamable-http, "Server Validation" for intermediaries (H-13).
    """
    settings = settings or ExportSettings()
    check_whole(policy, "Envoy")
    for rule in policy.rules:
        check_rule(policy, rule, "Envoy")
    sharded = {rule.upstream or policy.upstream for rule in policy.rules if rule.shard}
    clusters = []
    for name, upstream in policy.upstreams.items():
        clusters.append(write_cluster(policy, upstream, settings, _HELD))
        if name in sharded:
            clusters.append(write_cluster(policy, upstream, settings, _HELD, RING))
    listeners = [_write_listener(policy, listener, settings) for listener in policy.listeners]
    return {
        "static_resources": {"listeners": listeners, "clusters": clusters},
        # A rule may list more names than Envoy's default of 100 steps of a regular expression.
        "layered_runtime": {
            "layers": [
                {"name": "mcpost", "static_layer": {"re2.max_program_size.error_level": 1_000_000}}
            ]
        },
    }


def _filter(name: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"envoy.filters.http.{name}", "typed_config": config}


def _write_listener(policy: Policy, listener: Listener, settings: ExportSettings) -> dict[str, Any]:
    guard = {"inline_string": write_guard(policy, listener)}
    filters = [
        _filter("lua", typed("filters.http.lua.v3.Lua", default_source_code=guard)),
        _filter("buffer", typed(_BUFFER, max_request_bytes=settings.max_body)),
    ]
    if any(rule.rate for rule in policy.rules):
        filters.append(_filter("local_ratelimit", typed(LIMITER, stat_prefix="mcpost")))
    router = typed("filters.http.router.v3.Router", suppress_envoy_headers=True)
    filters.append(_filter("router", router))
    manager = typed(
        _HCM,
        stat_prefix=listener.name,
        codec_type="HTTP1",
        http_filters=filters,
        route_config=write_route_config(policy, listener, settings),
        local_reply_config={"mappers": _write_replies(policy)},
        use_remote_address=True,
        generate_request_id=False,
        max_request_headers_kb=64,
        common_http_protocol_options={"idle_timeout": seconds(KEPT_FOR)},
        stream_idle_timeout=seconds(settings.idle_timeout),
        request_headers_timeout=seconds(HEAD_TIMEOUT),
        server_header_transformation="PASS_THROUGH",
    )
    manager_filter = "envoy.filters.network.http_connection_manager"
    chain: dict[str, Any] = {"filters": [{"name": manager_filter, "typed_config": manager}]}
    if settings.certificate:
        chain["transport_socket"] = _write_tls(settings)
    return {
        "name": listener.name,
        "address": {"socket_address": _write_address(policy, listener)},
        "per_connection_buffer_limit_bytes": _HELD,
        "filter_chains": [chain],
    }


def _write_address(policy: Policy, listener: Listener) -> dict[str, Any]:
    host, port = split_bind(listener)
    if not host:
        return {"address": "::", "port_value": port, "ipv4_compat": True}
    if not host.replace(".", "").isdigit() and ":" not in host:
        said = f"cannot be said to Envoy: it binds an address, and {host!r} is a name"
        key = f"listeners[{policy.listeners.index(listener)}].bind"
        raise PolicyError(said, file=policy.file, key=key)
    return {"address": host, "port_value": port}


def _write_tls(settings: ExportSettings) -> dict[str, Any]:
    pair = {
        "certificate_chain": {"filename": settings.certificate},
        "private_key": {"filename": settings.key or settings.certificate},
    }
    context = typed(_TLS, common_tls_context={"tls_certificates": [pair]})
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}


def _write_replies(policy: Policy) -> list[dict[str, Any]]:
    """What Envoy says by itself, in the words and with the statuses of the gateway."""
    found = [
        _map_flags("UO", 503, "failed", answers.failed(answers.FULL, "no")),
        _map_flags("UF UH", 502, "failed", answers.failed(answers.UNREACHED, "no")),
        _map_flags("UC UR UPE", 502, "failed", answers.failed(answers.UNANSWERED, "maybe")),
        _map_flags("UT SI", 504, "failed", answers.failed(answers.UNANSWERED, "maybe")),
    ]
    # These have no flag; a rule that denies with the same status has words of its own.
    taken = {rule.status for rule in policy.rules if rule.action == "deny"}
    for status, message in ((413, answers.TOO_LARGE), (429, answers.BUSY)):
        if status not in taken:
            at = {"op": "EQ", "value": {"default_value": status, "runtime_key": "mcpost.none"}}
            which = {"status_code_filter": {"comparison": at}}
            found.append(_map(which, status, "refused", answers.refused(message)))
    return found


def _map_flags(flags: str, status: int, word: str, body: str) -> dict[str, Any]:
    return _map({"response_flag_filter": {"flags": flags.split()}}, status, word, body)


def _map(which: dict[str, Any], status: int, word: str, body: str) -> dict[str, Any]:
    source = {"inline_string": body.replace("%", "%%")}
    line = {"header": {"key": "mcpost-gateway", "value": word}}
    return {
        "filter": which,
        "status_code": status,
        "body_format_override": {"text_format_source": source, "content_type": "application/json"},
        "headers_to_add": [{**line, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}],
    }
