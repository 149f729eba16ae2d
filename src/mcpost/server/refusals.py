"""Answers that refuse: HTTP statuses with a JSON-RPC error as the body.

A refusal that stands before JSON-RPC has no code of its own; its body is -32600 for what the
caller did wrong and -32603 for what this side cannot do now, without an `id` unless the request
could be read. The fixed ones are built once.

Spec: streamable-http, "Security & Endpoint", "Sending Messages" (T-02, T-03, T-06, T-07, T-25).
"""

from __future__ import annotations

from typing import Final

from mcpost.errors import InternalError, InvalidRequest, Refused, WireError
from mcpost.server.head import JSON, Answer, HeaderLines
from mcpost.wire import jsonrpc
from mcpost.wire.status import status_of

__all__ = (
    "ACCEPTED",
    "CLOSE",
    "CONTENT_TYPE",
    "HOST",
    "LENGTH",
    "NOT_ACCEPTABLE",
    "NOT_FOUND",
    "ORIGIN",
    "SLOW_BODY",
    "answer_error",
    "answer_refused",
    "json_answer",
    "refusal",
)

CLOSE: Final = (b"connection", b"close")
"""Sent where the rest of the body will not be read, so the connection is of no further use."""


def json_answer(status: int, body: bytes, lines: HeaderLines = ()) -> Answer:
    """Build the answer whose body is one JSON object."""
    return Answer(status, (JSON, (b"content-length", b"%d" % len(body)), *lines), body)


def answer_error(error: WireError, lines: HeaderLines = (), *, by_handler: bool = False) -> Answer:
    """Build the answer that carries a JSON-RPC error, with the status of the one table."""
    status = status_of(error, by_handler=by_handler)
    return json_answer(status, jsonrpc.encode_error(error), lines)


def answer_refused(
    refused: Refused, lines: HeaderLines = (), request_id: jsonrpc.Id | None = None
) -> Answer:
    """Build the answer for an HTTP refusal."""
    kind = InternalError if refused.status >= 500 else InvalidRequest
    body = jsonrpc.encode_error(kind(refused.reason, request_id=request_id))
    return json_answer(refused.status, body, (*refused.headers, *lines))


def refusal(status: int, reason: str, *headers: tuple[bytes, bytes]) -> Answer:
    """Build a refusal of a fixed wording."""
    return answer_refused(Refused(status, reason, headers))


NOT_FOUND: Final = refusal(404, "there is nothing at this path")
ACCEPTED: Final = Answer(202, ((b"content-length", b"0"),))
ORIGIN: Final = refusal(403, "this Origin may not call here; see the setting origins")
HOST: Final = refusal(403, "this Host is not served here; see the setting hosts")
CONTENT_TYPE: Final = refusal(415, "send the message as Content-Type: application/json, in UTF-8")
LENGTH: Final = refusal(400, "Content-Length is no number", CLOSE)
NOT_ACCEPTABLE: Final = refusal(
    406, "send Accept: application/json, text/event-stream; the Accept header admits neither"
)
SLOW_BODY: Final = refusal(408, "the body did not arrive in time", CLOSE)
