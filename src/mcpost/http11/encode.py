"""Heads to bytes, from parts that are built once.

A header list that is a tuple is encoded once and remembered: most answers of a program carry one
of few tuples. A list is encoded each time.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

from mcpost.http11.errors import Misuse
from mcpost.http11.grammar import FIELDS, REQUEST_LINE

__all__ = (
    "CONTINUE",
    "LAST_CHUNK",
    "DateLine",
    "Encoded",
    "HeaderLines",
    "encode_chunk",
    "encode_passed_on",
    "encode_request",
    "encode_response",
)

HeaderLines = Sequence[tuple[bytes, bytes]]

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_PHRASES = {each.value: each.phrase for each in HTTPStatus}

# Of these the connection alone can say what is true.
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})


class Encoded(NamedTuple):
    """The beginning of a head: first line and header lines, without the blank line."""

    lines: bytes
    dated: bool
    """Whether there is a `Date` among them."""
    hosted: bool
    """Whether there is a `Host` among them."""
    closes: bool
    """Whether the caller asked, by `Connection: close`, that the connection ends with it."""


class DateLine:
    """The `Date` line, built once a second."""

    __slots__ = ("_line", "_second")

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        """Give the line for now, with its end."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._line = b"date: " + formatdate(second, usegmt=True).encode("ascii") + b"\r\n"
        return self._line


def encode_response(status: int, headers: HeaderLines) -> Encoded:
    """Encode the head of a response, without what frames its body.

    Args:
        status: 200 to 599.
        headers: Header lines; names in lower case. `content-length` and `connection` are left out,
            because the connection writes them; of the latter `close` is obeyed.

    Raises:
        Misuse: A status out of range, a `transfer-encoding`, or bytes that are no header line.
    """
    if type(headers) is tuple:
        return _remembered(status, headers)
    return _encode_response(status, headers)


def _encode_response(status: int, headers: HeaderLines) -> Encoded:
    if not 200 <= status <= 599:
        raise Misuse(f"{status} is not the status of a final response")
    first = f"HTTP/1.1 {status} {_PHRASES.get(status, '')}\r\n".encode("ascii")
    return _with_fields(first, headers)


_remembered = functools.lru_cache(maxsize=512)(_encode_response)


def encode_request(method: bytes, target: bytes, headers: HeaderLines) -> Encoded:
    """Encode the head of a request, without what frames its body.

    Args:
        method: A token.
        target: Visible ASCII without a fragment.
        headers: As for `encode_response`; there has to be one `host`.

    Raises:
        Misuse: Bytes that are no method, no target or no header line.
    """
    if type(headers) is tuple:
        return _remembered_request(method, target, headers)
    return _encode_request(method, target, headers)


def _encode_request(method: bytes, target: bytes, headers: HeaderLines) -> Encoded:
    return _with_fields(_encode_line(method, target), headers)


@functools.lru_cache(maxsize=256)
def _encode_line(method: bytes, target: bytes) -> bytes:
    first = b"%b %b HTTP/1.1\r\n" % (method, target)
    if not REQUEST_LINE.fullmatch(first):
        raise Misuse("this is no method, or no request target")
    return first


def encode_passed_on(method: bytes, target: bytes, headers: HeaderLines) -> Encoded:
    """Encode the head of a request from lines that were read from another one.

    They are not looked at again, so it is for those alone that the parser has let through.

    Args:
        method: A token.
        target: Visible ASCII without a fragment.
        headers: Header lines, names in lower case; none that frames the body, no `connection` and
            no `host`.

    Raises:
        Misuse: Bytes that are no method or no target.
    """
    lines = b"".join([b"%b: %b\r\n" % line for line in headers])
    return Encoded(_encode_line(method, target) + lines, False, False, False)


_remembered_request = functools.lru_cache(maxsize=512)(_encode_request)


def encode_chunk(payload: Sequence[bytes], size: int) -> list[bytes]:
    """Frame pieces as one chunk.

    Args:
        payload: The pieces.
        size: Their bytes in all, at least 1: a chunk of none would be the last.
    """
    return [b"%x\r\n" % size, *payload, b"\r\n"]


def _with_fields(first: bytes, headers: HeaderLines) -> Encoded:
    names = {name for name, _ in headers}
    closes = False
    if not names.isdisjoint(_FRAMING):
        if b"transfer-encoding" in names:
            raise Misuse("transfer-encoding is written by the connection")
        closes = any(name == b"connection" and value.lower() == b"close" for name, value in headers)
        headers = [line for line in headers if line[0] not in _FRAMING]
    lines = b"".join([b"%b: %b\r\n" % line for line in headers])
    # One look for all: nothing among them is, or adds, another line.
    if not FIELDS.fullmatch(lines) or lines.count(b"\r\n") != len(headers):
        raise Misuse("a header has a name that is no token, or a control character in its value")
    return Encoded(first + lines, b"date" in names, b"host" in names, closes)
