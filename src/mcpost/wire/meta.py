"""The `_meta` keys, and the fields that every request carries in them.

Spec: basic/index, "_meta" (J-04, T-20); patterns/progress (P-01); server/utilities/logging (P-07).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpost.errors import InvalidParams
from mcpost.wire.jsonrpc import Request

__all__ = (
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "LOG_LEVEL",
    "LOG_LEVELS",
    "PROGRESS_TOKEN",
    "PROTOCOL_VERSION",
    "SERVER_INFO",
    "SUBSCRIPTION_ID",
    "TRACE_KEYS",
    "RequestMeta",
    "has_modern_meta",
    "is_at_least",
    "lenient_meta",
    "parse_meta",
    "trace_context",
)

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
PROGRESS_TOKEN: Final = "progressToken"
TRACE_KEYS: Final = ("traceparent", "tracestate", "baggage")

LOG_LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
"""The levels of RFC 5424, least severe first."""

_RANK: Final = {level: rank for rank, level in enumerate(LOG_LEVELS)}


class RequestMeta(msgspec.Struct):
    """What a request says about itself and its sender."""

    protocol_version: str
    client_capabilities: dict[str, Any]
    client_info: dict[str, Any] | None
    progress_token: int | str | None
    log_level: str | None
    raw: dict[str, Any]
    """The whole `_meta` object as received."""


def parse_meta(request: Request) -> RequestMeta:
    """Read the per-request fields of a request of this revision.

    Args:
        request: The request.

    Returns:
        Its fields. A progress token that is not one reads as absent: progress is a wish, and a
        wish that cannot be read is not granted.

    Raises:
        InvalidParams: 400, -32602; `_meta`, the protocol version or the client's capabilities are
            missing or of the wrong type, or the log level is none.

    Spec: basic/index, "_meta" (T-20, J-04); server/utilities/logging, "Error Handling" (P-07).
    """
    meta = request.params.get("_meta")
    if type(meta) is not dict:
        raise InvalidParams(
            f'"params._meta" has to be an object with "{PROTOCOL_VERSION}" and'
            f' "{CLIENT_CAPABILITIES}"',
            request_id=request.id,
        )
    version = meta.get(PROTOCOL_VERSION)
    if type(version) is not str:
        raise InvalidParams(f'"_meta" lacks "{PROTOCOL_VERSION}", a string', request_id=request.id)
    capabilities = meta.get(CLIENT_CAPABILITIES)
    if type(capabilities) is not dict:
        raise InvalidParams(
            f'"_meta" lacks "{CLIENT_CAPABILITIES}", an object', request_id=request.id
        )
    info = meta.get(CLIENT_INFO)
    return RequestMeta(
        version,
        capabilities,
        info if type(info) is dict else None,
        _progress_token(meta),
        _log_level(meta, request),
        meta,
    )


def lenient_meta(
    params: Mapping[str, Any], version: str, capabilities: dict[str, Any]
) -> RequestMeta:
    """Read `_meta` where a handshake has settled version and capabilities (earlier revisions)."""
    meta = params.get("_meta")
    if type(meta) is not dict:
        meta = {}
    return RequestMeta(version, capabilities, None, _progress_token(meta), None, meta)


def _progress_token(meta: dict[str, Any]) -> int | str | None:
    token = meta.get(PROGRESS_TOKEN)
    return token if type(token) is int or type(token) is str else None


def _log_level(meta: dict[str, Any], request: Request) -> str | None:
    level = meta.get(LOG_LEVEL)
    if level is None:
        return None
    if type(level) is not str or level not in _RANK:
        raise InvalidParams(
            f'"{LOG_LEVEL}" has to be one of {", ".join(LOG_LEVELS)}', request_id=request.id
        )
    return level


def has_modern_meta(params: Mapping[str, Any]) -> bool:
    """Whether `_meta` has a field that every request of the modern era has (V-05).

    One of the two is enough: a request that forgot the other is a modern one that is wrong.
    """
    meta = params.get("_meta")
    return type(meta) is dict and (PROTOCOL_VERSION in meta or CLIENT_CAPABILITIES in meta)


def is_at_least(level: str, minimum: str) -> bool:
    """Whether a log level is as severe as a minimum; both are of `LOG_LEVELS` (P-07)."""
    return _RANK[level] >= _RANK[minimum]


# version "-" trace-id "-" parent-id "-" trace-flags; a version after 00 may add to it.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-.*)?"
)


def trace_context(meta: Mapping[str, Any]) -> dict[str, str]:
    """Read the trace context that a message carries.

    Args:
        meta: A `_meta` object.

    Returns:
        `traceparent`, `tracestate` and `baggage` as far as they are text that can be propagated;
        `tracestate` only beside a valid `traceparent`, without which it means nothing.

    Spec: basic/index, "OpenTelemetry trace context" (J-06); W3C Trace Context, 3.2 and 3.3.
    """
    found = {key: meta[key] for key in TRACE_KEYS if type(meta.get(key)) is str}
    parent = _TRACEPARENT.fullmatch(found.get("traceparent", ""))
    if parent is None or (parent["more"] and parent.string.startswith("00")):
        found.pop("traceparent", None)
        found.pop("tracestate", None)
    return {key: value for key, value in found.items() if value.isascii() and value.isprintable()}
