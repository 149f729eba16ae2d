"""Bounds that an export writes into the engine's configuration; those of the gateway itself.

A policy says who may call what; how long and how much is a setting, here as there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mcpost.gateway.settings import GatewaySettings
from mcpost.http11.limits import ConnectionLimits

__all__ = ("FAILURES", "HEAD_TIMEOUT", "KEPT_FOR", "RESTS_FOR", "ExportSettings")

_OURS: Final = GatewaySettings()
_CONNECTION: Final = ConnectionLimits()

HEAD_TIMEOUT: Final = _CONNECTION.head_timeout
"""Seconds for the head of a request."""

KEPT_FOR: Final = _CONNECTION.idle_timeout
"""Seconds between two requests of a client's connection."""

FAILURES: Final = 2
"""Connections in a row that could not be made, after which an endpoint is passed over."""

RESTS_FOR: Final = 5
"""Seconds for which it is."""


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Sizes are bytes, times are seconds."""

    connect_timeout: float = _OURS.connect_timeout
    """Seconds for a connection to an upstream."""
    idle_timeout: float = _OURS.idle_timeout
    """Seconds of silence of an upstream, before its answer or within a stream."""
    max_body: int = _OURS.max_body
    """Bytes of a request body; 413 above it."""
    max_connections: int = _OURS.max_connections
    """Connections to one upstream, where the engine bounds them; a stream has one."""
    max_waiting: int = _OURS.max_waiting
    """Requests that wait for a connection to one upstream, where the engine bounds them."""
    authorities: str = "/etc/ssl/certs/ca-certificates.crt"
    """File, where the engine runs, of the authorities (PEM) for `https` upstreams."""
    certificate: str = ""
    """File, where the engine runs, of the clients' side of TLS (PEM); empty for none."""
    key: str = ""
    """File of its private key; empty where the certificate's has it."""
