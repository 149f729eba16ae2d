"""A mirrored header value and the value it stands for.

What a client writes into `Mcp-Name` and `Mcp-Param-*`, and how a server or an intermediary reads
it back. `encode_value` and `decode_value` are exact inverses on text.

Spec: streamable-http, "Value Encoding" (H-06 to H-09); RFC 9110, 5.5 and 5.6.2.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from typing import Final

from mcpost.errors import HeaderMismatch, UsageError

__all__ = ("SAFE_INTEGER", "decode_value", "encode_value", "is_token")

SAFE_INTEGER: Final = 2**53 - 1
"""Largest magnitude of a mirrored integer (H-04): the safe range of a JavaScript number."""

PREFIX: Final = "=?base64?"
SUFFIX: Final = "?="

# field-content of RFC 9110, 5.5 without obs-text: visible ASCII, with blanks and tabs inside only.
PLAIN: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
# What a received value may consist of; outer blanks are the parser's to remove (RFC 9110, 5.5).
RECEIVED: Final = re.compile(rb"[\x20-\x7e\t]*")
# token = 1*tchar (RFC 9110, 5.6.2)
TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


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
        UsageError: A number that is not an integer in the safe range, or text that has no UTF-8
            form (a lone surrogate).

    Spec: streamable-http, "Value Encoding" (H-06, H-07, H-08); tools, "x-mcp-header" (H-04).
    """
    if isinstance(value, str):
        return _encode_text(value)
    if value is True:
        return "true"
    if value is False:
        return "false"
    # Integral floats become plain digits: `1e+16` would be refused by the other end.
    if isinstance(value, float):
        if not value.is_integer():
            raise UsageError(f"{value!r} is not an integer, so it cannot be mirrored")
        value = int(value)
    if not -SAFE_INTEGER <= value <= SAFE_INTEGER:
        raise UsageError("an integer beyond -(2^53-1) .. 2^53-1 cannot be mirrored")
    return str(value)


def _encode_text(text: str) -> str:
    if PLAIN.fullmatch(text) and not (text.startswith(PREFIX) and text.endswith(SUFFIX)):
        return text
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise UsageError("text with a lone surrogate cannot be mirrored") from error
    return f"{PREFIX}{b64encode(raw).decode('ascii')}{SUFFIX}"


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
    if not RECEIVED.fullmatch(line):
        raise HeaderMismatch("the value has a byte that a header value may not have")
    text = line.decode("ascii")
    # `=?base64?=` shares its `?` between both markers, so the two must not overlap.
    if not (
        text.startswith(PREFIX)
        and text.endswith(SUFFIX)
        and len(text) >= len(PREFIX) + len(SUFFIX)
    ):
        return text
    payload = text[len(PREFIX) : -len(SUFFIX)].encode()
    try:
        raw = b64decode(payload, validate=True)
        decoded = raw.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise HeaderMismatch("the value is not Base64 of UTF-8 inside its markers") from error
    # Unused bits and missing padding would give one text several spellings.
    if b64encode(raw) != payload:
        raise HeaderMismatch("the Base64 inside the markers is not in its canonical form")
    return decoded


def is_token(name: str) -> bool:
    """Whether a name is an HTTP token, as a header's name must be (RFC 9110, 5.6.2; H-02)."""
    return TOKEN.fullmatch(name) is not None
