"""Answers of the gateway itself, which no client can take for its server's.

Each carries the header `mcpost-gateway` and, in the error's `data`, the same word, the reason and
whether the upstream may have seen the request. There is no `id` where the
body was not read.

Spec: streamable-http, "Server Validation" (H-13), "Backward Compatibility" (V-03).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mcpost.errors import InternalError, InvalidRequest, WireError
from mcpost.http11.encode import HeaderLines
from mcpost.http11.errors import BadResponse, CallFailed, ConnectFailed, PoolFull, TimedOut
from mcpost.wire import jsonrpc

__all__ = ("MARK", "Refusal", "failed", "failed_by", "reason_of", "refused", "refused_by")

MARK: Final = b"mcpost-gateway"
"""The header of an answer that no upstream gave."""

_JSON: Final = (b"content-type", b"application/json")


class Refusal(NamedTuple):
    """One answer of the gateway."""

    status: int
    headers: HeaderLines
    body: bytes


def refused(status: int, reason: str, *lines: tuple[bytes, bytes]) -> Refusal:
    """Build the answer to a request that is not forwarded.

    Args:
        status: The HTTP status, 4xx or 503.
        reason: The rule, for whoever calls.
        lines: Further header lines, as `Retry-After`.
    """
    kind = InternalError if status >= 500 else InvalidRequest
    return refused_by(status, kind(reason), *lines)


def refused_by(
    status: int,
    error: WireError,
    *lines: tuple[bytes, bytes],
    request_id: jsonrpc.Id | None = None,
) -> Refusal:
    """Build the same of an error that has a code of its own; it may be about a known request."""
    return _build(status, error, b"refused", {"sent": "no"}, lines, request_id)


def failed(error: CallFailed) -> Refusal:
    """Build the answer to a request for which no response could be had.

    502 where the upstream cannot be reached or speaks no HTTP, 503 where too many wait for it, 504
    where time ran out.
    """
    lines: tuple[tuple[bytes, bytes], ...] = ()
    if isinstance(error, PoolFull):
        status, lines = 503, ((b"retry-after", b"1"),)
    else:
        status = 504 if isinstance(error, TimedOut) else 502
    return _build(status, InternalError(reason_of(error)), b"failed", {"sent": error.sent}, lines)


def reason_of(error: CallFailed) -> str:
    """Say for a client why there is no answer.

    What is wrong with an upstream, and where it is, is for the log and not for a client.
    """
    if isinstance(error, BadResponse):
        return "the upstream's answer is no HTTP/1.1"
    if isinstance(error, TimedOut):
        return f"the upstream gave no answer in time (phase: {error.phase})"
    reason = {ConnectFailed: "the upstream cannot be reached", PoolFull: "the upstream is busy"}
    return reason.get(type(error), "the upstream gave no answer")


def failed_by(
    status: int, error: WireError, *, sent: str, request_id: jsonrpc.Id | None = None
) -> Refusal:
    """Build the answer to a request for which an aggregate has none of its own members'."""
    return _build(status, error, b"failed", {"sent": sent}, (), request_id)


def _build(
    status: int,
    error: WireError,
    word: bytes,
    data: dict[str, Any],
    lines: HeaderLines,
    request_id: jsonrpc.Id | None = None,
) -> Refusal:
    # The error may be remembered with its verdict: a copy is told, made as no constructor could.
    told = type(error).__new__(type(error))
    told.__dict__.update(error.__dict__)
    own = error.data if isinstance(error.data, dict) else {}
    told.data = {**own, "gateway": word.decode("ascii"), **data}
    if request_id is not None:
        told.request_id = request_id
    return Refusal(status, (_JSON, (MARK, word), *lines), jsonrpc.encode_error(told))
