"""Do the headers of a request agree with its body?

This is the only place where that is asked. Whoever routed, limited or allowed the call decided
from the headers; the body is what runs. So a header that is missing, malformed, doubled or
different is refused, and so is a body value that no header could have stood for.

`check_agreement` is on every request: where all is well, header lines are looked up and compared
as they are; only what is not plainly equal is decoded.

Spec: streamable-http, "Server Validation" (T-16, T-19, T-22, H-09, H-10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from mcpost.errors import HeaderMismatch, UsageError
from mcpost.wire.fields import decode_value, encode_value, parse_integer
from mcpost.wire.jsonrpc import Request
from mcpost.wire.meta import RequestMeta
from mcpost.wire.mirror import NAMED, Mirror, value_at

__all__ = ("NAMED", "check_agreement")

_VERSION: Final = b"mcp-protocol-version"
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"
_ROUTING: Final = frozenset({_VERSION, _METHOD, _NAME})
_SENTINEL: Final = b"=?base64?"
_BLANKS: Final = b" \t"
_MAX_PLAIN: Final = 256
_NOTHING: Final = object()


def check_agreement(
    headers: Sequence[tuple[bytes, bytes]],
    request: Request,
    meta: RequestMeta,
    mirror_of: Callable[[str], Mirror | None],
    fields: Mapping[bytes, bytes] | None = None,
) -> HeaderMismatch | None:
    """Compare the mirrored headers of a request with its body.

    Args:
        headers: Header lines, names in lower case. Blanks around a value are no part of it,
            whether or not the HTTP parser has left them there.
        request: The decoded body.
        meta: Its per-request fields. Whether their version is served is not asked here.
        mirror_of: Gives the mirror of a tool by its name, `None` for an unknown tool.
        fields: The header lines by name, where the caller has them so already.

    Returns:
        `None` if all agree, else the first disagreement as the error to answer with (400, -32020):
        of the version, the method, the name, the parameters, in this order.

    Spec: streamable-http, "Server Validation" (T-16, T-19, T-22, H-09 to H-11).
    """
    params = request.params
    mirror = None
    if request.method == "tools/call":
        tool = params.get("name")
        mirror = mirror_of(tool) if type(tool) is str else None
    found = dict(headers) if fields is None else fields
    if len(found) == len(headers) and _agrees_plainly(found, request, meta, mirror):
        return None
    problem = None
    if len(found) != len(headers):
        problem = _find_double(headers, mirror)
    if problem is None:
        problem = _compare_token(_VERSION, found.get(_VERSION), meta.protocol_version)
    if problem is None:
        problem = _compare_token(_METHOD, found.get(_METHOD), request.method)
    if problem is None and request.method in NAMED:
        source = NAMED[request.method]
        problem = _compare_value(_NAME, found.get(_NAME), params.get(source), source)
    if problem is None and mirror is not None and mirror.marks:
        problem = _compare_arguments(found, mirror, params.get("arguments"))
    if problem is None:
        return None
    return HeaderMismatch(f"Header mismatch: {problem}", request_id=request.id)


def _agrees_plainly(
    found: Mapping[bytes, bytes], request: Request, meta: RequestMeta, mirror: Mirror | None
) -> bool:
    """Whether all is well to the byte, as it is with most requests; `False` says nothing."""
    if mirror is not None and mirror.marks:
        return False
    if found.get(_VERSION) != _plain(meta.protocol_version):
        return False
    if found.get(_METHOD) != _plain(request.method):
        return False
    source = NAMED.get(request.method)
    if source is None:
        return True
    name = request.params.get(source)
    return type(name) is str and found.get(_NAME) == _plain(name)


def _plain(text: str) -> object:
    """The header value that stands for a text as it is; something equal to none where none does."""
    return _encode_plain(text) if len(text) <= _MAX_PLAIN else _NOTHING


@lru_cache(maxsize=1024)
def _encode_plain(text: str) -> object:
    if not text.isascii() or not text or encode_value(text) != text:
        return _NOTHING
    return text.encode("ascii")


def _find_double(headers: Sequence[tuple[bytes, bytes]], mirror: Mirror | None) -> str | None:
    """Name a mirrored header that stands twice: of two lines, two readers may take either (T-22).

    Equal lines are no exception: a proxy may change one of them.
    """
    mirrored = _ROUTING if mirror is None else _ROUTING | mirror.headers
    seen = set()
    for name, _ in headers:
        if name in mirrored:
            if name in seen:
                return f"{_title(name)} stands twice"
            seen.add(name)
    return None


def _compare_token(name: bytes, value: bytes | None, expected: str) -> str | None:
    """Compare a header that is never encoded."""
    if value is None:
        return f"{_title(name)} is missing"
    text = value.strip(_BLANKS).decode("latin-1")
    if text != expected:
        return _differs(name, value, expected)
    # What is equal may still be what no header line may carry.
    if text.isascii() and text.isprintable():
        return None
    return f"{_title(name)} has a byte that a header value may not have"


def _compare_arguments(found: Mapping[bytes, bytes], mirror: Mirror, arguments: Any) -> str | None:
    for mark in mirror.marks:
        expected = value_at(arguments, mark.path)
        problem = _compare_value(mark.header, found.get(mark.header), expected, mark.path[-1])
        if problem is not None:
            return problem
    return None


def _compare_value(name: bytes, value: bytes | None, expected: Any, source: str) -> str | None:
    """Compare a header that may be encoded with the body value that it mirrors.

    Agreement only: whether the value is of the right type is the schema's to say (R02).
    """
    if expected is None:
        # A header for what the body does not say is a decision about nothing: it is refused.
        if value is None:
            return None
        return f"{_title(name)} is set, and the body has no {source!a}"
    if value is None:
        return f"{_title(name)} is missing, and the body has {source!a}"
    try:
        # What no header can stand for is refused, never skipped: it would run unseen (R01).
        text = expected if type(expected) is str else encode_value(expected)
    except UsageError:
        return f"{_title(name)} cannot stand for the value of {source!a} in the body"
    value = value.strip(_BLANKS)
    if _is_plainly(value, text):
        return None
    try:
        actual = decode_value(value)
    except HeaderMismatch as error:
        return f"{_title(name)} is malformed: {error.message}"
    if actual == text or (_is_number(expected) and parse_integer(actual) == int(text)):
        return None
    return _differs(name, value, text)


def _is_plainly(value: bytes, expected: str) -> bool:
    text = value.decode("latin-1")
    return (
        text == expected
        and text.isascii()
        and text.isprintable()
        and not value.startswith(_SENTINEL)
    )


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _differs(name: bytes, value: bytes, expected: str) -> str:
    return (
        f"{_title(name)} header value {_excerpt(value.decode('latin-1'))}"
        f" does not match body value {_excerpt(expected)}"
    )


def _excerpt(text: str) -> str:
    return ascii(text if len(text) <= 80 else f"{text[:77]}...")


def _title(name: bytes) -> str:
    """Spell a header's name as the specification does."""
    if name == _VERSION:
        return "MCP-Protocol-Version"
    return "-".join(part.capitalize() for part in name.decode("latin-1").split("-"))
