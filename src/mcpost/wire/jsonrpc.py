"""JSON-RPC messages and their bytes.

What one body may be (one request or one notification, never an array, never a response), and how
results, errors and notifications are written. Everything is one line of compact JSON.

A message is decoded once; what a caller of `decode_message` holds is what the bytes say, because a
body that says a mirrored thing twice is refused: whoever read the first of two equal keys, and
whoever read the last, would have decided about different calls (T-22).

Spec: basic/index, "Messages" (J-01, J-03); streamable-http, "Sending Messages" (T-05, T-07).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec

from mcpost.errors import InvalidRequest, ParseError, WireError

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
_encoder: Final = msgspec.json.Encoder()
encode: Final = _encoder.encode
"""Write any value as one line of compact JSON bytes; raises TypeError for what JSON cannot say."""

_INVALID_TEXT: Final = "the body is not one JSON text in UTF-8"


def decode_message(body: bytes) -> Request | Notification:
    """Read the body of a POST, or one line of stdio.

    Args:
        body: The whole body; its size is the caller's to bound.

    Returns:
        The message. `params` is decoded: integers of any size are exact.

    Raises:
        ParseError: -32700; not UTF-8, not JSON, `NaN` or `Infinity`, nested too deeply.
        InvalidRequest: -32600; an array, not an object, a wrong `jsonrpc`, an id that is neither
            text nor an integer, a response, `params` that is no object, a number out of range, or
            a key that stands twice at a mirrored place. Its `request_id` is set where an id could
            be read.

    Spec: streamable-http, "Sending Messages" (T-05, T-07); basic/index, "Messages" (J-01, T-22).
    """
    message = _decode_object(body)
    request_id = message.get("id")
    if "id" in message and type(request_id) is not int and type(request_id) is not str:
        raise InvalidRequest("an id is a string or an integer, never null")
    if message.get("jsonrpc") != "2.0":
        raise InvalidRequest('"jsonrpc" has to be "2.0"', request_id=request_id)
    method = message.get("method")
    if type(method) is not str:
        if method is None and ("result" in message or "error" in message):
            raise InvalidRequest("a response cannot be sent here: send a request or a notification")
        raise InvalidRequest('"method" has to be a string', request_id=request_id)
    params = message.get("params")
    if params is None and "params" not in message:
        params = {}
    elif type(params) is not dict:
        raise InvalidRequest('"params" has to be an object', request_id=request_id)
    _refuse_repeated(body, message, request_id)
    if request_id is None:
        return Notification(method, params)
    return Request(request_id, method, params)


def _decode_object(body: bytes) -> dict[str, Any]:
    try:
        message = _decode(body)
    except msgspec.ValidationError as error:
        raise InvalidRequest(
            "a number in the body is out of range", request_id=_salvage_id(body)
        ) from error
    except msgspec.DecodeError as error:
        raise ParseError(f"{_INVALID_TEXT}: {error}") from error
    except UnicodeDecodeError as error:
        raise ParseError(_INVALID_TEXT) from error
    except RecursionError as error:
        raise ParseError("the body is nested too deeply") from error
    if type(message) is list:
        raise InvalidRequest("a batch cannot be sent: every message is its own POST")
    if type(message) is not dict:
        raise InvalidRequest("a message is a JSON object")
    return message


def _salvage_id(body: bytes) -> Id | None:
    """Read the id of a message whose numbers the strict decoder refuses."""
    try:
        # An integer beyond any use may be longer than the interpreter wants to convert.
        message = json.loads(body, parse_int=lambda digits: int(digits[:400]))
    except (ValueError, RecursionError):
        return None
    request_id = message.get("id") if isinstance(message, dict) else None
    return request_id if type(request_id) is int or type(request_id) is str else None


# A JSON string and the colon that makes it a key. The text is known to be JSON, so every quotation
# mark outside a match opens a string.
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"([ \t\r\n]*:)?', re.DOTALL)


def _repeats_key(body: bytes, message: dict[str, Any]) -> bool:
    """Whether some object in the text names a key twice: it then has more keys than its value."""
    written = sum(map(bool, _STRING.findall(body)))
    held = 0
    rest: list[Any] = [message]
    while rest:
        value = rest.pop()
        if type(value) is dict:
            held += len(value)
            rest.extend(value.values())
        elif type(value) is list:
            rest.extend(value)
    return written != held


class _Repeated(dict[str, Any]):
    """An object of the slow reading that had a key twice."""


def _mark_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else _Repeated(plain)


def _refuse_repeated(body: bytes, message: dict[str, Any], request_id: Any) -> None:
    """Refuse a key that stands twice where headers are compared with the body (T-22).

    Those places are the message, its `params`, their `_meta`, and `arguments` at any depth.
    """
    try:
        # A canonical text has no key twice, which is quickly seen; any other is counted.
        if encode(message) == body or not _repeats_key(body, message):
            return
        message = json.loads(body, object_pairs_hook=_mark_repeated)
    except RecursionError as error:
        raise ParseError("the body is nested too deeply") from error
    params = message.get("params")
    if isinstance(message, _Repeated):
        # The id may be the one that stands twice: neither of the two is the request's.
        _refuse_at("the message", None)
    if isinstance(params, _Repeated):
        _refuse_at('"params"', request_id)
    if isinstance(params, dict):
        if isinstance(params.get("_meta"), _Repeated):
            _refuse_at('"_meta"', request_id)
        rest = [params.get("arguments")]
        while rest:
            value = rest.pop()
            if isinstance(value, _Repeated):
                _refuse_at('"arguments"', request_id)
            if isinstance(value, dict):
                rest.extend(value.values())
            elif isinstance(value, list):
                rest.extend(value)


def _refuse_at(where: str, request_id: Id | None) -> NoReturn:
    raise InvalidRequest(f"a key stands twice in {where}", request_id=request_id)


def encode_result(request_id: Id, result: Mapping[str, Any] | msgspec.Raw) -> bytes:
    """Write the response that carries a result (a mapping, or JSON bytes as `msgspec.Raw`)."""
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


def decode_answer(data: bytes) -> Response | Request | Notification:
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
    message = _decode_object(data)
    request_id = message.get("id")
    if request_id is not None and type(request_id) is not int and type(request_id) is not str:
        raise InvalidRequest("an id is a string or an integer")
    if message.get("jsonrpc") != "2.0":
        raise InvalidRequest('"jsonrpc" has to be "2.0"')
    if "method" in message:
        return decode_message(data)
    if "error" in message:
        return Response(request_id, error=_error_body(message["error"]))
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
