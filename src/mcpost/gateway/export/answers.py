"""Answers that an engine gives by itself, in the words of the gateway.

Spec: streamable-http, "Server Validation" for intermediaries (H-13).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mcpost.errors import HeaderMismatch, InternalError, InvalidRequest, UnsupportedVersion

__all__ = (
    "BUSY",
    "FULL",
    "INVALID",
    "MISMATCH",
    "NOT_FOUND",
    "NO_METHOD",
    "NO_RULE",
    "TOO_LARGE",
    "UNANSWERED",
    "UNREACHED",
    "UNSUPPORTED",
    "failed",
    "refused",
)

INVALID: Final = InvalidRequest.code
MISMATCH: Final = HeaderMismatch.code
UNSUPPORTED: Final = UnsupportedVersion.code

BUSY: Final = "too many calls"
FULL: Final = "the upstream is busy"
NO_METHOD: Final = "send POST, or GET and DELETE of an earlier revision"
NO_RULE: Final = "no rule allows this call"
NOT_FOUND: Final = "there is nothing at this path"
TOO_LARGE: Final = "the body is too large"
UNANSWERED: Final = "the upstream gave no answer"
UNREACHED: Final = "the upstream cannot be reached"


def refused(message: str, code: int = INVALID, data: Mapping[str, Any] | None = None) -> str:
    """Write the body for a request that is not forwarded."""
    return _write(code, message, {**(data or {}), "gateway": "refused", "sent": "no"})


def failed(message: str, sent: str) -> str:
    """Write the body where there is no answer of the upstream.

    Args:
        message: What is wrong.
        sent: Whether the upstream may have seen the request: `no`, `maybe` or `yes`.
    """
    return _write(InternalError.code, message, {"gateway": "failed", "sent": sent})


def _write(code: int, message: str, data: Mapping[str, Any]) -> str:
    error = {"code": code, "message": message, "data": data}
    return json.dumps({"jsonrpc": "2.0", "error": error}, separators=(",", ":"))
