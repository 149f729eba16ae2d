"""Do the headers of a request agree with its body?

This is the only place where that is asked. Whoever routed, limited or allowed the call decided
from the headers; the body is what runs. So a header that is missing, malformed, doubled or
different is refused, and so is a body value that no header could have stood for.

`check_agreement` is on every request: one pass over the header lines, and no decoding where the
bytes are equal already.

Spec: streamable-http, "Server Validation" (T-16, T-19, T-22, H-09, H-10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from mcpost.errors import HeaderMismatch, UsageError
from mcpost.wire.fields import SAFE_INTEGER, decode_value, encode_value
from mcpost.wire.jsonrpc import Request
from mcpost.wire.meta import RequestMeta
from mcpost.wire.mirror import NAMED, Mark, Mirror, value_at

__all__ = ("check_agreement",)

_PREFIX: Final = b"mcp-"
_VERSION: Final = b"mcp-protocol-version"
_METHOD: Final = b"mcp-method"
_NAME: Final = b"mcp-name"
_PARAM: Final = b"mcp-param-"

# A JSON number, and one that a header may use for an integer. The exponent is bounded, so that the
# exact value of a header is never a number of a million digits.
_INTEGER: Final = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?")
_MAX_DIGITS: Final = 400


def check_agreement(
    headers: Sequence[tuple[bytes, bytes]],
    request: Request,
    meta: RequestMeta,
    mirror_of: Callable[[str], Mirror | None],
) -> HeaderMismatch | None:
    """Compare the mirrored headers of a request with its body.

    Args:
        headers: Header lines as received: names in lower case, values without outer blanks.
        request: The decoded body.
        meta: Its per-request fields. Whether their version is served is not asked here.
        mirror_of: Gives the mirror of a tool by its name, `None` for an unknown tool.

    Returns:
        `None` if all agree, else the error to answer with: 400, -32020.

    Spec: streamable-http, "Server Validation" (T-16, T-19, T-22, H-09 to H-11).
    """
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name.startswith(_PREFIX):
            # Two lines, even equal ones, let two readers see two things (T-22).
            if name in found and _is_mirrored(name, request, mirror_of):
                return _mismatch(request, name, "stands twice")
            found[name] = value
    return (
        _compare_text(request, found, _VERSION, meta.protocol_version)
        or _compare_text(request, found, _METHOD, request.method)
        or _compare_name(request, found)
        or _compare_arguments(request, found, mirror_of)
    )


def _is_mirrored(
    name: bytes, request: Request, mirror_of: Callable[[str], Mirror | None]
) -> bool:
    if name in (_VERSION, _METHOD, _NAME):
        return True
    mirror = _mirror(request, mirror_of)
    return mirror is not None and name in mirror.headers


def _mirror(request: Request, mirror_of: Callable[[str], Mirror | None]) -> Mirror | None:
    if request.method != "tools/call":
        return None
    tool = request.params.get("name")
    return mirror_of(tool) if type(tool) is str else None


def _compare_text(
    request: Request, found: dict[bytes, bytes], name: bytes, expected: str
) -> HeaderMismatch | None:
    value = found.get(name)
    if value is None:
        return _mismatch(request, name, "is missing")
    if value == expected.encode(errors="surrogatepass"):
        # Equal bytes may still be bytes that no header may have.
        return None if value.isascii() and expected.isprintable() else _bad_bytes(request, name)
    return _differs(request, name, value, expected)


def _compare_name(request: Request, found: dict[bytes, bytes]) -> HeaderMismatch | None:
    source = NAMED.get(request.method)
    if source is None:
        return None
    expected = request.params.get(source)
    if type(expected) is not str:
        # There is nothing to compare with; that it is missing is the method's own complaint, but
        # a header that names something has then named it wrongly.
        if _NAME in found:
            return _mismatch(request, _NAME, f'is set, and the body has no "{source}"')
        return None
    value = found.get(_NAME)
    if value is None:
        return _mismatch(request, _NAME, "is missing")
    return _compare_value(request, _NAME, value, expected)


def _compare_arguments(
    request: Request,
    found: dict[bytes, bytes],
    mirror_of: Callable[[str], Mirror | None],
) -> HeaderMismatch | None:
    mirror = _mirror(request, mirror_of)
    if mirror is None:
        return None
    arguments = request.params.get("arguments")
    for mark in mirror.marks:
        expected = value_at(arguments, mark.path)
        value = found.get(mark.header)
        if expected is None:
            if value is not None:
                return _mismatch(
                    request, mark.header, f"is set, and the body has no {'.'.join(mark.path)}"
                )
            continue
        if value is None:
            return _mismatch(
                request, mark.header, f"is missing, and the body has {'.'.join(mark.path)}"
            )
        problem = _compare_argument(request, mark, value, expected)
        if problem is not None:
            return problem
    return None


def _compare_argument(
    request: Request, mark: Mark, value: bytes, expected: Any
) -> HeaderMismatch | None:
    if type(expected) is str:
        return _compare_value(request, mark.header, value, expected)
    try:
        text = encode_value(expected) if isinstance(expected, (int, float)) else None
    except UsageError:
        text = None
    if text is None:
        # What no header can stand for is refused, never skipped: it would run unseen.
        return _mismatch(request, mark.header, "cannot stand for the value in the body")
    if type(expected) is bool:
        return _compare_value(request, mark.header, value, text)
    return _compare_number(request, mark.header, value, int(text))


def _compare_value(
    request: Request, name: bytes, value: bytes, expected: str
) -> HeaderMismatch | None:
    try:
        actual = decode_value(value)
    except HeaderMismatch as error:
        return _mismatch(request, name, f"is malformed: {error.message}")
    return None if actual == expected else _differs(request, name, value, expected)


def _compare_number(
    request: Request, name: bytes, value: bytes, expected: int
) -> HeaderMismatch | None:
    try:
        actual = decode_value(value)
    except HeaderMismatch as error:
        return _mismatch(request, name, f"is malformed: {error.message}")
    if actual == str(expected) or _integer(actual) == expected:
        return None
    return _differs(request, name, value, str(expected))


def _integer(text: str) -> int | None:
    """The exact integer that a JSON number stands for, `None` if it stands for none (H-10)."""
    match = _INTEGER.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if match is None:
        return None
    sign, whole, fraction, exponent = match.groups()
    digits = whole + (fraction or "")
    shift = int(exponent or 0) - len(fraction or "")
    if shift >= 0:
        number = int(digits) * 10**shift
    else:
        number, remainder = divmod(int(digits), 10**-shift)
        if remainder:
            return None
    if number > SAFE_INTEGER:
        return None
    return -number if sign else number


def _mismatch(request: Request, name: bytes, problem: str) -> HeaderMismatch:
    return HeaderMismatch(
        f"header mismatch: {_title(name)} {problem}", request_id=request.id
    )


def _bad_bytes(request: Request, name: bytes) -> HeaderMismatch:
    return _mismatch(request, name, "has a byte that a header value may not have")


def _differs(request: Request, name: bytes, value: bytes, expected: str) -> HeaderMismatch:
    return _mismatch(
        request, name, f"is {_excerpt(value.decode('latin-1'))}, the body says {_excerpt(expected)}"
    )


def _excerpt(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:77] + "...")


def _title(name: bytes) -> str:
    if name == _VERSION:
        return "MCP-Protocol-Version"
    return "-".join(part.capitalize() for part in name.decode("latin-1").split("-"))
