"""Upstreams as clusters of Envoy: endpoints, bounds, health, TLS."""

from __future__ import annotations

from typing import Any, Final

from mcpost.gateway.export.common import tls_name, urls_of
from mcpost.gateway.export.settings import FAILURES, RESTS_FOR, ExportSettings
from mcpost.gateway.policy import Policy, Upstream

__all__ = ("RING", "seconds", "typed", "write_cluster")

RING: Final = "-ring"
"""What follows the name of an upstream over whose endpoints a rule shards."""

_TYPE: Final = "type.googleapis.com/envoy.extensions"


def typed(kind: str, **fields: Any) -> dict[str, Any]:
    """Write a message of an extension, with its type."""
    return {"@type": f"{_TYPE}.{kind}", **fields}


def seconds(value: float) -> str:
    """Write a duration."""
    return f"{value:.9f}".rstrip("0").rstrip(".") + "s"


def write_cluster(
    policy: Policy, upstream: Upstream, settings: ExportSettings, held: int, suffix: str = ""
) -> dict[str, Any]:
    """Write one upstream.

    Args:
        policy: Whose upstream it is.
        upstream: The upstream.
        settings: Bounds.
        held: Bytes of an answer that are kept for a slow reader.
        suffix: `RING` for one that is sharded.

    Raises:
        PolicyError: Its endpoints differ in what Envoy knows for all together.
    """
    urls = urls_of(policy, upstream, "Envoy")
    secure = urls[0].scheme == "https"
    endpoints: list[dict[str, Any]] = []
    for url in urls:
        port = url.port or (443 if secure else 80)
        socket = {"socket_address": {"address": url.hostname, "port_value": port}}
        endpoints.append({"endpoint": {"address": socket, "hostname": url.netloc}})
    most = settings.max_connections
    bounds = {
        "max_connections": most,
        "max_pending_requests": settings.max_waiting,
        "max_requests": most,
        "max_retries": most,
    }
    cluster: dict[str, Any] = {
        "name": upstream.name + suffix,
        "type": "STRICT_DNS",
        # Each address of a name is an endpoint of its own; `localhost` often has one too many.
        "dns_lookup_family": "V4_PREFERRED",
        "connect_timeout": seconds(settings.connect_timeout),
        "per_connection_buffer_limit_bytes": held,
        "lb_policy": "RING_HASH" if suffix else "ROUND_ROBIN",
        # Envoy's own bound is 1,024 requests at once, streams among them.
        "circuit_breakers": {"thresholds": [bounds]},
        "load_assignment": {
            "cluster_name": upstream.name + suffix,
            "endpoints": [{"lb_endpoints": endpoints}],
        },
    }
    if len(urls) > 1:
        cluster["outlier_detection"] = _write_rest()
    if upstream.health is not None:
        cluster["health_checks"] = [_write_health(upstream.health)]
    if secure:
        name = tls_name(policy, upstream, "Envoy")
        cluster["transport_socket"] = _write_tls(name, settings.authorities)
    return cluster


def _write_rest() -> dict[str, Any]:
    """Pass over an endpoint to which no connection can be made; its answers do not count."""
    rest = f"{RESTS_FOR}s"
    return {
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": FAILURES,
        "enforcing_consecutive_local_origin_failure": 100,
        "enforcing_local_origin_success_rate": 0,
        "enforcing_consecutive_5xx": 0,
        "enforcing_consecutive_gateway_failure": 0,
        "enforcing_success_rate": 0,
        "interval": "1s",
        "base_ejection_time": rest,
        "max_ejection_time": rest,
        "max_ejection_percent": 99,
    }


def _write_health(path: str) -> dict[str, Any]:
    return {
        "timeout": "3s",
        "interval": "5s",
        "unhealthy_threshold": 1,
        "healthy_threshold": 1,
        "http_health_check": {"path": path, "expected_statuses": [{"start": 200, "end": 300}]},
    }


def _write_tls(host: str, authorities: str) -> dict[str, Any]:
    kind = "DNS"
    if host.replace(".", "").isdigit() or ":" in host:
        kind = "IP_ADDRESS"
    names = [{"san_type": kind, "matcher": {"exact": host}}]
    trusted = {"trusted_ca": {"filename": authorities}, "match_typed_subject_alt_names": names}
    named = {"sni": host} if kind == "DNS" else {}
    context = typed(
        "transport_sockets.tls.v3.UpstreamTlsContext",
        **named,
        common_tls_context={"validation_context": trusted},
    )
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}
