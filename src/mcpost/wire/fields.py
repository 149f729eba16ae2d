"""A mirrored header value and the value it stands for.

What a client writes into `Mcp-Name` and `Mcp-Param-*`, and how a server or an intermediary reads
it back. `encode_value` and `decode_value` are exact inverses on text, and what one end writes for
a number the other end reads as that number.

Spec: streamable-http, "Value Encoding" (H-06 to H-10); RFC 9110, 5.5 and 5.6.2.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from typing import Final

from mcpost.errors import HeaderMismatch, UsageError

__all__ = ("SAFE_INTEGER", "decode_value", "encode_value", "is_token", "parse_integer")

SAFE_INTEGER: Final = 2**53 - 1
"""Largest magnitude of a mirrored integer (H-04): the safe range of a JavaScript number."""

_PREFIX: Final = "=?base64?"
_SUFFIX: Final = "?="

# What is sent as it stands: visible ASCII with blanks inside only (RFC 9110, 5.5). A tab may be
# received, but it is a control character too, so it is sent encoded.
_PLAIN: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")
# What a received value may consist of; outer blanks are the HTTP parser's to remove.
_RECEIVED: Final = re.compile(rb"[\x20-\x7e\t]*")
# token = 1*tchar (RFC 9110, 5.6.2)
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# number = [ minus ] int [ frac ] [ exp ] (RFC 8259, 6)
_NUMBER: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]+))?")
# More digits than the interpreter converts by default are no number of any use here.
_MAX_DIGITS: Final = 4300


def encode_value(value: str | int | float | bool) -> str:
    """Write a value as the header value that stands for it.

    The reverse of `decode_value`.

    Args:
        value: Text, an integer within `SAFE_INTEGER`, an integral float in that range (JSON Schema
            counts `42.0` as an integer), or a boolean.

    Returns:
        The value of the header line: plain where visible ASCII can carry it, else in the Base64
        sentinel.

    Raises:
        UsageError: A number that is not an integer in the safe range, text that has no UTF-8 form
            (a lone surrogate), or a value of another type.

    Spec: streamable-http, "Value Encoding" (H-06, H-07, H-08); tools, "x-mcp-header" (H-04).
    """
    if isinstance(value, str):
        return _encode_text(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    # Integral floats become plain digits: `1e+15` would be refused by the other end.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int):
        raise UsageError(f"a {type(value).__name__} that is not a whole number cannot be mirrored")
    if not -SAFE_INTEGER <= value <= SAFE_INTEGER:
        raise UsageError("an integer beyond -(2^53-1) .. 2^53-1 cannot be mirrored")
    return str(value)


def _encode_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _is_sentinel(text):
        return text
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError("text with a lone surrogate cannot be mirrored") from error
    return f"{_PREFIX}{b64encode(raw).decode('ascii')}{_SUFFIX}"


def _is_sentinel(text: str) -> bool:
    return text.startswith(_PREFIX) and text.endswith(_SUFFIX)


def decode_value(line: bytes) -> str:
    """Read a mirrored header value as the text its sender meant.

    The reverse of `encode_value`.

    Args:
        line: Field value as received, outer blanks already removed.

    Returns:
        The text. Outside the sentinel nothing is changed, so case and inner blanks survive.

    Raises:
        HeaderMismatch: 400, -32020; a byte outside visible ASCII, blank and tab, or a sentinel
            whose payload is not canonical Base64 of UTF-8.

    Spec: streamable-http, "Value Encoding" (H-07, H-09); RFC 9110, 5.5.
    """
    if _RECEIVED.fullmatch(line) is None:
        raise HeaderMismatch("the value has a byte that a header value may not have")
    text = line.decode("ascii")
    if not _is_sentinel(text):
        return text
    # In `=?base64?=` the two markers share a character: some readers would take it for the empty
    # text and some for itself, and no conforming sender writes it.
    if len(text) < len(_PREFIX) + len(_SUFFIX):
        raise HeaderMismatch("the markers of Base64 overlap")
    payload = line[len(_PREFIX) : -len(_SUFFIX)]
    try:
        raw = b64decode(payload, validate=True)
        decoded = raw.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise HeaderMismatch("the value is not Base64 of UTF-8 inside its markers") from error
    # Unused bits and missing padding would give one text several spellings.
    if b64encode(raw) != payload:
        raise HeaderMismatch("the Base64 inside the markers is not in its canonical form")
    return decoded


def parse_integer(text: str) -> int | None:
    """Read the exact integer that a JSON number stands for.

    Digits are moved as text and no power is computed, so `1e999999999` costs nothing.

    Args:
        text: A JSON number, as in `42`, `42.0`, `4.2e1`.

    Returns:
        The integer, however large up to 4,300 digits; `None` for what is no JSON number, has a
        fraction, or has more digits.

    Spec: streamable-http, "Server Validation" (H-10); RFC 8259, 6.
    """
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if match is None:
        return None
    sign, whole, fraction, direction, exponent = match.groups(default="")
    digits = whole + fraction
    if not digits.strip("0"):
        return 0
    if len(exponent) > len(str(_MAX_DIGITS)):
        return None
    point = len(whole) + int(f"{direction}{exponent or 0}")
    if point > _MAX_DIGITS:
        return None
    point = max(point, 0)
    if digits[point:].strip("0"):
        return None
    number = int(digits.ljust(point, "0")[:point])
    return -number if sign else number


def is_token(name: str) -> bool:
    """Whether a name is an HTTP token, as a header's name must be (RFC 9110, 5.6.2; H-02)."""
    return _TOKEN.fullmatch(name) is not None
