"""Web pages as callers: preflight, and what their browser lets them read.

Spec: T-24; WHATWG Fetch, "HTTP extensions for CORS".
"""

from __future__ import annotations

from typing import Final

from mcpost.server.head import Answer, Head
from mcpost.wire.fields import is_token

__all__ = ("answer_lines", "preflight")

_ALLOWED: Final = (
    b"accept",
    b"authorization",
    b"content-type",
    b"last-event-id",
    b"mcp-method",
    b"mcp-name",
    b"mcp-protocol-version",
    b"mcp-session-id",
)
_PARAM: Final = b"mcp-param-"
_EXPOSED: Final = b"mcp-session-id, retry-after, www-authenticate"
_MAX_REQUESTED: Final = 128


def answer_lines(origin: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """The lines by which a page of an allowed origin may read an answer."""
    return (
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"origin"),
    )


def preflight(head: Head, origin: bytes, methods: bytes) -> Answer:
    """Answer a preflight of an allowed origin.

    Every `Mcp-Param-*` that is asked for is allowed: which of them a tool mirrors is told by its
    schema, and an unknown one is ignored by the call itself (H-11).

    Args:
        head: The OPTIONS request.
        origin: Its origin.
        methods: The methods of the endpoint, as in `POST`.
    """
    requested = b",".join(head.values(b"access-control-request-headers")).lower()
    names = [name.strip() for name in requested.split(b",")[:_MAX_REQUESTED]]
    mirrored = [
        name
        for name in names
        if name.startswith(_PARAM) and is_token(name.decode("latin-1"))
    ]
    return Answer(
        204,
        (
            *answer_lines(origin),
            (b"access-control-allow-methods", methods),
            (b"access-control-allow-headers", b", ".join((*_ALLOWED, *mirrored))),
            (b"access-control-max-age", b"600"),
        ),
        b"",
    )
