r"""Which bytes are the head of a message, and which rule the others break.

A head is framed here, before llhttp sees a byte of it: one expression says whether the bytes up to
the blank line are a head, and only those are parsed. llhttp then has to agree. What it lets pass
and this does not is listed in docs/http11.md.

The expressions use possessive repeats only, so each byte is looked at once and a match is linear.
What does not match is explained by `explain_request` and `explain_response`, which may be slow:
the connection is closed after them.
"""

from __future__ import annotations

import re

from mcpost.http11.errors import Malformed
from mcpost.http11.limits import MessageLimits

__all__ = (
    "CHUNK_LINE",
    "FIELDS",
    "HOST",
    "REQUEST_HEAD",
    "REQUEST_LINE",
    "RESPONSE_HEAD",
    "STRAY",
    "TOKEN",
    "check_unfinished",
    "explain_request",
    "explain_response",
)

# RFC 9110, 5.6.2: token = 1*tchar
_TCHAR = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
TOKEN = re.compile(_TCHAR + rb"++")

# RFC 9112, 5: field-line = field-name ":" OWS field-value OWS
# RFC 9110, 5.5: field-value is made of VCHAR, obs-text, SP and HTAB. No line folding (9112, 5.2).
_FIELDS = rb"(?:" + _TCHAR + rb"++:[\t -~\x80-\xff]*+\r\n)*+"
FIELDS = re.compile(_FIELDS)

# RFC 9112, 3: request-line = method SP request-target SP HTTP-version CRLF
# A target has no fragment, and here only the visible part of ASCII.
_REQUEST_LINE = rb"(" + _TCHAR + rb"{1,32}+) ([!\"$-~]++) HTTP/1\.([01])\r\n"
REQUEST_LINE = re.compile(_REQUEST_LINE)
REQUEST_HEAD = re.compile(_REQUEST_LINE + _FIELDS + rb"\r\n")

# RFC 9112, 4: status-line = HTTP-version SP status-code SP [ reason-phrase ] CRLF
# The blank before an absent reason is often left out, so it may be.
RESPONSE_HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [\t -~\x80-\xff]*+)?+\r\n" + _FIELDS + rb"\r\n"
)

# RFC 9112, 7.1: chunk = chunk-size [ chunk-ext ] CRLF chunk-data CRLF
# Eight digits hold more than any limit; blanks before an extension are "bad" ones (7.1.1).
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8}+)((?:;[\t -~\x80-\xff]*+)?+)\r\n")

# RFC 3986, 3.2.2, with a port; no user, no blank.
HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]++\]|[0-9A-Za-z\-._~%!$&'()*+,;=]*+)(?::[0-9]{0,5})?+")

# A byte that no head and no chunk-size line can have. A CR at the end may get its LF yet.
STRAY = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?!\n|\Z)")

_END = b"\r\n\r\n"
_VERSION = re.compile(rb"HTTP/[0-9]\.[0-9]")
_TARGET = re.compile(rb"[!\"$-~]++")


def check_unfinished(data: bytes, start: int, limits: MessageLimits, *, request: bool) -> None:
    """Check a head whose end has not come.

    Args:
        data: What has come so far, from the head's first byte.
        start: Up to where an earlier call has checked; a byte is not looked at twice.
        limits: Bounds of the message.
        request: Whether it is a request's head: its first line has a limit of its own.

    Raises:
        Malformed: 400 for a byte that no head has, 414 or 431 for a head above its limit.
    """
    stray = STRAY.search(data, max(start - 1, 0))
    if stray:
        raise Malformed(400, _name_stray(stray.group()))
    # "CONNECT" and "OPTIONS" are the longest methods that are common; 64 leaves room for others.
    if request and len(data) > limits.max_target + 64:
        line = data.find(b"\r\n", 0, limits.max_target + 64)
        if line < 0:
            raise Malformed(414, f"the request target is longer than {limits.max_target} bytes")
    if len(data) > limits.max_head:
        raise Malformed(431, f"the head is longer than {limits.max_head} bytes")


def explain_request(data: bytes) -> Malformed:
    """Say which rule a request's head breaks; it has an end, and does not match `REQUEST_HEAD`."""
    line, fields = _split(data)
    stray = STRAY.search(data[: len(line) + 2])
    if stray:
        return Malformed(400, _name_stray(stray.group()))
    parts = line.split(b" ")
    if len(parts) != 3:
        return Malformed(400, "the request line is not a method, a target and a version")
    method, target, version = parts
    if not TOKEN.fullmatch(method) or len(method) > 32:
        return Malformed(400, "the method is not a token of at most 32 characters")
    if not _TARGET.fullmatch(target):
        return Malformed(400, "the request target has a fragment or a character outside ASCII")
    if version not in {b"HTTP/1.0", b"HTTP/1.1"}:
        status = 505 if _VERSION.fullmatch(version) else 400
        return Malformed(status, "the version is not HTTP/1.0 or HTTP/1.1")
    return _explain_fields(fields)


def explain_response(data: bytes) -> Malformed:
    """Say which rule a response's head breaks; it has an end and does not match."""
    line, fields = _split(data)
    if not RESPONSE_HEAD.fullmatch(line + _END):
        return Malformed(400, "the status line is not a version, a status and a reason")
    return _explain_fields(fields)


def _split(data: bytes) -> tuple[bytes, list[bytes]]:
    head = data[: data.index(_END)]
    line, *fields = head.split(b"\r\n")
    return line, fields


def _explain_fields(fields: list[bytes]) -> Malformed:
    for field in fields:
        stray = STRAY.search(field)
        if stray or field.endswith(b"\r"):
            return Malformed(400, _name_stray(stray.group() if stray else b"\r"))
        name, colon, _ = field.partition(b":")
        if name[:1] in {b" ", b"\t"}:
            return Malformed(400, "a header line is folded")
        if not colon:
            return Malformed(400, "a header line has no colon")
        if name.rstrip(b" \t") != name:
            return Malformed(400, "a header line has a blank before its colon")
        if not TOKEN.fullmatch(name):
            return Malformed(400, "the name of a header is not a token")
    return Malformed(400, "the head is malformed")


def _name_stray(byte: bytes) -> str:
    if byte == b"\n":
        return "a line ends with LF alone"
    if byte == b"\r":
        return "a CR stands alone"
    return f"a control character stands in it: 0x{byte[0]:02x}"
