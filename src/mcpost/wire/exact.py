"""JSON read exactly, where the fast reader cannot tell or will not say.

The fast decoder keeps the last of two equal keys without a word, and refuses a number beyond a
double. This one is slower, knows which objects had a key twice, and reads `1e400` as the integer
that it is, so that such a value reaches the comparison with its header and is refused there; no
number turns into infinity.

Spec: streamable-http, "Server Validation" (T-22, H-04); RFC 8259, 4 and 6.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

import msgspec

from mcpost.errors import InvalidRequest, ParseError
from mcpost.wire.fields import parse_integer

__all__ = ("Body", "ExactReading", "not_json")

Body = bytes | bytearray | memoryview
"""What a message is read from."""

_MAX_DIGITS: Final = 4300
# `1e4000` is 7 bytes on the wire and 1,700 in memory, so only some of its kind are read.
_MAX_EXPANDED: Final = 16


def not_json(error: Exception) -> ParseError:
    """Say as an error of ours why a reader could not read a body (T-07)."""
    if isinstance(error, RecursionError):
        return ParseError("the body is nested too deeply")
    if isinstance(error, UnicodeError):
        return ParseError("the body is not UTF-8")
    return ParseError(f"the body is not one JSON text in UTF-8: {error}")


class ExactReading:
    """One JSON text, read.

    Args:
        body: The text.

    Raises:
        ParseError: -32700; not UTF-8, not JSON, a lone surrogate, nested too deeply.
        InvalidRequest: -32600; a number that is no double and no integer of at most 4,300 digits.
    """

    __slots__ = ("_expanded", "_repeated", "_unreadable", "message")

    message: Any
    """The value of the text."""

    def __init__(self, body: Body) -> None:
        # The objects are kept, not their identities: a lost one would give its identity away.
        self._repeated: list[dict[str, Any]] = []
        self._expanded = 0
        self._unreadable = False
        try:
            self.message = json.loads(
                str(body, "utf-8"),
                object_pairs_hook=self._take_object,
                parse_int=self._take_integer,
                parse_float=self._take_number,
                parse_constant=self._take_constant,
            )
            # The reader lets lone surrogates pass; what has one cannot be written.
            msgspec.json.encode(self.message)
        except (ValueError, RecursionError) as error:
            raise not_json(error) from error
        if self._unreadable:
            raise InvalidRequest(
                "a number in the body is out of range", request_id=self._request_id()
            )

    def _request_id(self) -> int | str | None:
        request_id = self.message.get("id") if type(self.message) is dict else None
        return request_id if type(request_id) is int or type(request_id) is str else None

    def _take_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self._repeated.append(value)
        return value

    def _take_integer(self, text: str) -> int | None:
        if len(text) > _MAX_DIGITS:
            self._unreadable = True
            return None
        return int(text)

    def _take_number(self, text: str) -> float | int | None:
        value = float(text)
        if math.isfinite(value):
            return value
        self._expanded += 1
        integer = parse_integer(text) if self._expanded <= _MAX_EXPANDED else None
        self._unreadable = self._unreadable or integer is None
        return integer

    def _take_constant(self, name: str) -> NoReturn:
        raise ValueError(f"{name} is no JSON")

    def refuse_repeated(self) -> None:
        """Refuse a key that stands twice where headers are compared with the body.

        Those places are the message, its `params`, their `_meta`, and `arguments` at any depth.
        The message is known to be a request or a notification.

        Raises:
            InvalidRequest: -32600; a key stands twice at one of them.

        Spec: streamable-http, "Server Validation" (T-22).
        """
        if not self._repeated:
            return
        repeated = {id(value) for value in self._repeated}
        # The id may be what stands twice: then neither of the two is the request's.
        if id(self.message) in repeated:
            raise InvalidRequest("a key stands twice in the message")
        params = self.message.get("params", {})
        meta = params.get("_meta")
        arguments = params.get("arguments")
        if id(params) in repeated:
            self._refuse("params")
        if id(meta) in repeated:
            self._refuse("_meta")
        rest = [arguments]
        while rest:
            value = rest.pop()
            if id(value) in repeated:
                self._refuse("arguments")
            if type(value) is dict:
                rest.extend(value.values())
            elif type(value) is list:
                rest.extend(value)

    def _refuse(self, where: str) -> NoReturn:
        raise InvalidRequest(f'a key stands twice in "{where}"', request_id=self._request_id())
