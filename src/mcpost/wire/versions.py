"""Revisions of the protocol, and the era that a request or an answer belongs to.

A *modern* revision carries version and capabilities in every request; a *legacy* one settles them
with `initialize`. The era of a request is decided from its body and its headers together: a body
with modern `_meta` is under the modern rules whatever the headers say, so no header leads a call
around the agreement check.

Spec: basic/versioning (V-02, V-03, V-05); streamable-http, "Backward Compatibility".
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

from mcpost.errors import WireError
from mcpost.wire.jsonrpc import Notification, Request, Response, decode_answer
from mcpost.wire.meta import has_modern_meta

__all__ = (
    "CURRENT",
    "LEGACY",
    "MODERN",
    "MODERN_ERRORS",
    "PROTOCOL_VERSION_HEADER",
    "SESSION_HEADER",
    "Era",
    "era_of",
    "is_modern_answer",
    "is_modern_error",
    "pick_version",
)

CURRENT: Final = "2026-07-28"
MODERN: Final = (CURRENT,)
"""Modern revisions, best first."""

LEGACY: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions with a handshake, best first."""

PROTOCOL_VERSION_HEADER: Final = b"mcp-protocol-version"
SESSION_HEADER: Final = b"mcp-session-id"

MODERN_ERRORS: Final = frozenset({-32020, -32021, -32022})
"""Codes that only a modern server sends, whatever the HTTP status."""


class Era(enum.Enum):
    """Which family of revisions a message belongs to."""

    MODERN = "modern"
    LEGACY = "legacy"


def era_of(
    headers: Sequence[tuple[bytes, bytes]],
    message: Request | Notification | Response | None,
) -> Era:
    """Tell the era of a message that came over HTTP.

    Args:
        headers: Request header lines, names in lower case.
        message: The decoded body; `None` or a response where it is neither request nor
            notification, so that only the headers tell.

    Returns:
        `MODERN` if the body carries modern `_meta`, or if nothing marks the message as legacy.
        Marks of the legacy era are one header line that names a legacy revision and, without such
        a line, the method `initialize` or a session id. Two version lines mark nothing: one
        reader would take the first and another the last (T-22).

    Spec: basic/versioning, "Backward Compatibility" (V-05).
    """
    asked = message if isinstance(message, (Request, Notification)) else None
    if asked is not None and has_modern_meta(asked.params):
        return Era.MODERN
    versions = [value for name, value in headers if name == PROTOCOL_VERSION_HEADER]
    if versions:
        named = len(versions) == 1 and versions[0].decode("latin-1") in LEGACY
        return Era.LEGACY if named else Era.MODERN
    if asked is not None and asked.method == "initialize":
        return Era.LEGACY
    if any(name == SESSION_HEADER for name, _ in headers):
        return Era.LEGACY
    return Era.MODERN


def pick_version(supported: Sequence[str], ours: Sequence[str]) -> str | None:
    """Choose the best of our versions that the peer supports, or `None` (V-02).

    Args:
        supported: Versions the peer named, in any order.
        ours: Our versions, best first.
    """
    return next((version for version in ours if version in supported), None)


def is_modern_error(code: int) -> bool:
    """Whether an error can only have come from a modern server (V-03).

    -32601 and -32602 are sent by servers of both eras, so they do not tell.
    """
    return code in MODERN_ERRORS


def is_modern_answer(status: int, body: bytes) -> bool:
    """Whether the answer to a modern request shows that the server is modern (V-03).

    Args:
        status: HTTP status.
        body: The JSON-RPC message of the answer.

    Returns:
        `True` for the error codes of this revision whatever the status, for 404 with -32601 in
        its body, which is how a modern server refuses a method it does not have, and for a result
        with a `resultType` or with the versions of `server/discover`: a legacy server may well
        answer a method that both eras have.

    Spec: streamable-http, "Backward Compatibility".
    """
    try:
        answer = decode_answer(body)
    except WireError:
        return False
    if not isinstance(answer, Response):
        return False
    if answer.error is not None:
        code = answer.error.code
        return is_modern_error(code) or (status == 404 and code == -32601)
    result = answer.result or {}
    return "resultType" in result or "supportedVersions" in result
