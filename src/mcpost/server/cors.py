"""Web pages as callers: what their browser asks, and what it lets them read.

A page that may call (its origin is allowed) may also send every `Mcp-*` header, those that mirror
a tool's parameters included, and read the headers that a client needs.

Spec: streamable-http, "Security & Endpoint" (T-03, T-24); WHATWG Fetch, "CORS protocol".
"""

from __future__ import annotations

from typing import Final

from mcpost.server.head import Answer, Head, HeaderLines
from mcpost.wire.fields import is_token

__all__ = ("VARY", "answer_preflight", "lines_for")

# Without these no page could send a message; what a request asks for beyond them is allowed if it
# is a header of the protocol, so that a tool which mirrors a new parameter needs no setting.
_ALLOWED: Final = (
    "Accept",
    "Authorization",
    "Content-Type",
    "Last-Event-ID",
    "MCP-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
    "Mcp-Session-Id",
    "traceparent",
    "tracestate",
    "baggage",
)
_KNOWN: Final = frozenset(name.lower() for name in _ALLOWED)
_EXPOSED: Final = b"MCP-Protocol-Version, Mcp-Session-Id, Retry-After, WWW-Authenticate"
_MAX_AGE: Final = b"7200"
_MAX_REQUESTED: Final = 8192

VARY: Final = (b"vary", b"Origin")


def lines_for(origin: bytes) -> HeaderLines:
    """The lines that let a page of an allowed origin read an answer."""
    return (
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED),
        VARY,
    )


def answer_preflight(head: Head, origin: bytes) -> Answer:
    """Answer the question of a browser whether a page of an allowed origin may send a message.

    Args:
        head: An `OPTIONS` request.
        origin: Its origin, which is allowed.
    """
    asked = b",".join(head.get_all(b"access-control-request-headers"))[:_MAX_REQUESTED]
    names = list(_ALLOWED)
    for part in asked.decode("latin-1").split(","):
        name = part.strip().lower()
        if name.startswith("mcp-") and name not in _KNOWN and is_token(name):
            names.append(name)
    return Answer(
        204,
        (
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"POST, GET, DELETE"),
            (b"access-control-allow-headers", ", ".join(names).encode()),
            (b"access-control-max-age", _MAX_AGE),
            (b"vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"),
        ),
    )
