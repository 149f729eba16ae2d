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

__all__ = ("NAMED", "Routing", "check_agreement", "read_routing")

Routing = tuple[str, str, str | None]
"""The version, the method and, where the method carries one, the name of a request."""

_VERSION: Final = b"mcp-protocol-version"
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"
_ROUTING: Final = frozenset({_VERSION, _METHOD, _NAME})
_SENTINEL: Final = b"=?base64?"
_BLANKS: Final = b" \t"
_MAX_PLAIN: Final = 256


def check_agreement(
    headers: Sequence[tuple[bytes, bytes]],
    request: Request,
    meta: RequestMeta,
    mirror_of: Callable[[str], Mirror | None],
    fields: Mapping[bytes, bytes] | None = None,
    routing: Routing | None = None,
) -> HeaderMismatch | None:
    """Compare the mirrored headers of a request with its body.

    Args:
        headers: Header lines, names in lower case. Blanks around a value are no part of it,
            whether or not the HTTP parser has left them there.
        request: The decoded body.
        meta: Its per-request fields. Whether their version is served is not asked here.
        mirror_of: Gives the mirror of a tool by its name, `None` for an unknown tool.
        fields: The header lines by name, where the caller has them so already.
        routing: What `read_routing` makes of them, where the caller knows it already.

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
    if mirror is None or not mirror.marks:
        routing = routing or read_routing(headers, found)
        if routing is not None and routing == _routing_of(request, meta):
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


def read_routing(
    headers: Sequence[tuple[bytes, bytes]], fields: Mapping[bytes, bytes]
) -> Routing | None:
    """Read what the headers say, where they say it plainly.

    A body that says the same to the letter agrees with them, whatever else there is in it, if the
    tool that it calls has no marked parameters.

    Args:
        headers: As for `check_agreement`.
        fields: The same by name.

    Returns:
        What they say; `None` where a header is missing, doubled, encoded, long or malformed. That
        says nothing: `check_agreement` then tells.
    """
    if len(fields) != len(headers):
        return None
    version = _read_plain(fields.get(_VERSION))
    method = _read_plain(fields.get(_METHOD))
    if version is None or method is None:
        return None
    if method not in NAMED:
        return version, method, None
    name = _read_plain(fields.get(_NAME))
    return None if name is None else (version, method, name)


def _routing_of(request: Request, meta: RequestMeta) -> Routing:
    source = NAMED.get(request.method)
    name = None if source is None else request.params.get(source)
    return meta.protocol_version, request.method, name


def _read_plain(value: bytes | None) -> str | None:
    """The text that a header value stands for as it is; `None` where it is not that simple."""
    return None if value is None or len(value) > _MAX_PLAIN else _decode_plain(value)


@lru_cache(maxsize=1024)
def _decode_plain(value: bytes) -> str | None:
    if not value.isascii() or not value:
        return None
    text = value.decode("ascii")
    return text if encode_value(text) == text else None


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
