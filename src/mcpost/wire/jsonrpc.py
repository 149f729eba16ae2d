"""JSON-RPC messages and their bytes.

What one body may be (one request or one notification, never an array, never a response), and how
results, errors and notifications are written. Everything is one line of compact JSON.

A body that says a mirrored thing twice is refused: whoever read the first of two equal keys and
whoever read the last would have decided about different calls (T-22). The plan, since this is on
every request: the fast decoder keeps the last of two equal keys, so writing its value again gives
other bytes than the body had. Equal bytes, or equally many colons, prove that nothing stood twice;
only a text that proves neither is read a second time, by the exact reader.

Spec: basic/index, "Messages" (J-01, J-03); streamable-http, "Sending Messages" (T-05, T-07).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpost.errors import InvalidRequest, WireError
from mcpost.wire.exact import Body, ExactReading, not_json

__all__ = (
    "ErrorBody",
    "Id",
    "Notification",
    "Request",
    "Response",
    "decode_answer",
    "decode_message",
    "encode",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "read_id",
    "says_all",
)

Id = int | str
"""A request's id: text or an integer, never null (J-01)."""


class Request(msgspec.Struct):
    """A request: it is answered, with its id."""

    id: Id
    method: str
    params: dict[str, Any]
    """The parameters, `{}` where the message had none."""


class Notification(msgspec.Struct):
    """A notification: it has no id and gets no answer."""

    method: str
    params: dict[str, Any]
    """The parameters, `{}` where the message had none."""


class ErrorBody(msgspec.Struct):
    """The `error` member of a response."""

    code: int
    message: str
    data: Any = None


class Response(msgspec.Struct):
    """A response: exactly one of `result` and `error` is set."""

    id: Id | None
    """`None` only in the error of a message whose id could not be read."""

    result: dict[str, Any] | None = None
    error: ErrorBody | None = None


_decode: Final = msgspec.json.Decoder().decode
encode: Final = msgspec.json.Encoder().encode
"""Write any value as one line of compact JSON bytes; raises TypeError for what JSON cannot say."""


def decode_message(body: Body) -> Request | Notification:
    """Read the body of a POST, or one line of stdio.

    Args:
        body: The whole body; its size is the caller's to bound.

    Returns:
        The message. `params` is decoded once: integers up to 4,300 digits are exact, `1e400` too.

    Raises:
        ParseError: -32700; not UTF-8, not JSON, `NaN` or `Infinity`, a lone surrogate, nested too
            deeply.
        InvalidRequest: -32600; an array, not an object, a wrong `jsonrpc`, an id that is neither
            text nor an integer, a response, `params` that is no object, a number out of range, or
            a key that stands twice at a mirrored place. Its `request_id` is set where a request's
            id could be read.

    Spec: streamable-http, "Sending Messages" (T-05, T-07); basic/index, "Messages" (J-01, T-22).
    """
    reading = None
    try:
        message = _decode(body)
        if not says_all(body, encode(message)):
            reading = ExactReading(body)
    except msgspec.ValidationError:
        reading = ExactReading(body)
        message = reading.message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise not_json(error) from error
    if type(message) is not dict:
        raise InvalidRequest(
            "a batch cannot be sent: every message is its own POST"
            if type(message) is list
            else "a message is a JSON object"
        )
    decoded = _classify(message)
    if reading is not None:
        reading.refuse_repeated()
    return decoded


def _is_id(value: object) -> bool:
    # `isinstance` would take a boolean for an integer.
    return type(value) is int or type(value) is str


def _classify(message: dict[str, Any]) -> Request | Notification:
    """Tell what an object is: a request or a notification."""
    request_id = message.get("id")
    # `isinstance` would take a boolean for an integer.
    if type(request_id) is not int and type(request_id) is not str and "id" in message:
        raise InvalidRequest("an id is a string or an integer, never null")
    method = message.get("method")
    if type(method) is not str and ("result" in message or "error" in message):
        raise InvalidRequest("a response cannot be sent here: send a request or a notification")
    if message.get("jsonrpc") != "2.0":
        raise InvalidRequest('"jsonrpc" has to be "2.0"', request_id=request_id)
    if type(method) is not str:
        raise InvalidRequest('"method" has to be a string', request_id=request_id)
    params = message.get("params")
    if type(params) is not dict:
        if "params" in message:
            raise InvalidRequest('"params" has to be an object', request_id=request_id)
        params = {}
    if request_id is None:
        return Notification(method, params)
    return Request(request_id, method, params)


def says_all(body: Body, written: bytes) -> bool:
    r"""Whether it is quickly seen that what was read, written again, has every key of the body.

    Equal bytes are proof, and so are equally many colons: the body has one for each key that was
    written, what we write has one for each key that was kept, and strings have theirs in both,
    unless they spell it `\u003a`.
    """
    if written == body:
        return True
    raw = bytes(body)
    return raw.count(b":") == written.count(b":") and b"\\u003" not in raw


def encode_result(
    request_id: Id, result: Mapping[str, Any] | msgspec.Struct | msgspec.Raw
) -> bytes:
    """Write the response that carries a result (a mapping, a Struct, or JSON as `msgspec.Raw`)."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def encode_error(error: WireError) -> bytes:
    """Write the response that carries an error.

    Without a readable id the member is left out: `"id": null` is not in the schema (T-07).

    Spec: basic/index, "Error Responses".
    """
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    if error.request_id is None:
        return encode({"jsonrpc": "2.0", "error": body})
    return encode({"jsonrpc": "2.0", "id": error.request_id, "error": body})


def encode_request(request_id: Id, method: str, params: Mapping[str, Any]) -> bytes:
    """Write a request."""
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def encode_notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Write a notification; `None` leaves `params` out."""
    if params is None:
        return encode({"jsonrpc": "2.0", "method": method})
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def decode_answer(data: Body) -> Response | Request | Notification:
    """Read what a server sends: a response, or a notification or request on its stream.

    Args:
        data: One JSON text; its size is the caller's to bound.

    Returns:
        The message; which of the three is acceptable where it came is the caller's to judge.

    Raises:
        ParseError: Not UTF-8, not JSON.
        InvalidRequest: JSON, but none of the three.

    Spec: basic/index, "Responses" (J-01).
    """
    try:
        message = _decode(data)
    except msgspec.ValidationError:
        message = ExactReading(data).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise not_json(error) from error
    if type(message) is not dict:
        raise InvalidRequest("a message is a JSON object")
    if "method" in message:
        return _classify(message)
    if message.get("jsonrpc") != "2.0":
        raise InvalidRequest('"jsonrpc" has to be "2.0"')
    request_id = message.get("id")
    if "error" in message:
        # Older servers say `"id": null` where they could not read it.
        if request_id is not None and not _is_id(request_id):
            raise InvalidRequest("an id is a string or an integer")
        return Response(request_id, error=_error_body(message["error"]))
    if not _is_id(request_id):
        raise InvalidRequest("an id is a string or an integer, never null")
    result = message.get("result")
    if type(result) is not dict:
        raise InvalidRequest("a response has an object as its result, or an error")
    return Response(request_id, result=result)


def _error_body(error: Any) -> ErrorBody:
    code = error.get("code") if type(error) is dict else None
    if type(code) is not int:
        raise InvalidRequest("an error has a whole number as its code")
    message = error.get("message")
    return ErrorBody(code, message if type(message) is str else "", error.get("data"))


# A string, a mark of punctuation, or a number or word.
_LEXEME: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


def read_id(head: bytes) -> Id | None:
    """Read the id of a message of which only the first bytes are there.

    Of a message over a limit, that is; so its sender can be told which one was too large.

    Args:
        head: The first bytes, some hundreds or thousands.

    Returns:
        The id of the message itself (not one inside of it), or `None` if it does not stand whole
        within these bytes.
    """
    depth = 0
    recent = [b"", b"", b"", b""]
    for match in _LEXEME.finditer(head):
        lexeme = match.group()
        if depth == 1 and lexeme in (b",", b"}") and recent[1:3] == [b'"id"', b":"]:
            try:
                value = _decode(recent[3])
            except msgspec.DecodeError:
                return None
            return value if _is_id(value) else None
        depth += (lexeme in (b"{", b"[")) - (lexeme in (b"}", b"]"))
        recent = [*recent[1:], lexeme]
    return None
