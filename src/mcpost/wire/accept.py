"""Media types: what the caller accepts, and what it sends.

Spec: streamable-http, "Sending Messages" (T-06, T-07); RFC 9110, 8.3.1 and 12.5.1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ("BOTH", "Accepted", "is_json", "media_type", "parse_accept")

# quoted-string or anything without a delimiter, so that a comma or semicolon inside quotation
# marks separates nothing (RFC 9110, 5.6.4).
_ELEMENT: Final = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*")+')
_PART: Final = re.compile(r'(?:[^";]|"(?:[^"\\]|\\.)*")+')
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TYPE: Final = re.compile(rf"({_TOKEN})/({_TOKEN})")
# qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )  (RFC 9110, 12.4.2)
_QVALUE: Final = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_MAX_LENGTH: Final = 2048


class Accepted(NamedTuple):
    """Which of the two forms of an answer the caller takes."""

    json: bool
    """One JSON object, `application/json`."""
    stream: bool
    """An event stream, `text/event-stream`."""


BOTH: Final = Accepted(json=True, stream=True)


def parse_accept(values: Sequence[bytes]) -> Accepted:
    """Read the `Accept` lines of a request.

    Args:
        values: The values of all `Accept` lines, in order.

    Returns:
        What they admit. No line at all admits both (RFC 9110, 12.5.1), wildcards count, and
        quality 0 excludes; the most specific range decides. A part that is malformed is passed
        over; of a value that is longer than 2,048 characters only that much is read.
    """
    if not values:
        return BOTH
    return _parse(b", ".join(values)[:_MAX_LENGTH])


@lru_cache(maxsize=256)
def _parse(value: bytes) -> Accepted:
    ranges: dict[str, float] = {}
    for element in _ELEMENT.findall(value.decode("latin-1")):
        parts = [part.strip() for part in _PART.findall(element)]
        if not parts or not _TYPE.fullmatch(parts[0]):
            continue
        quality = _quality(parts[1:])
        if quality is not None:
            name = parts[0].lower()
            # A range may be named twice, with parameters that tell nothing here.
            ranges[name] = max(quality, ranges.get(name, 0.0))
    if not ranges:
        # `Accept:` with nothing in it that can be read excludes nothing.
        return BOTH
    return Accepted(
        json=_admits(ranges, "application", "json"),
        stream=_admits(ranges, "text", "event-stream"),
    )


def _quality(parameters: list[str]) -> float | None:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            value = value.strip()
            return float(value) if _QVALUE.fullmatch(value) else None
    return 1.0


def _admits(ranges: dict[str, float], kind: str, subtype: str) -> bool:
    for name in (f"{kind}/{subtype}", f"{kind}/*", "*/*"):
        if name in ranges:
            return ranges[name] > 0
    return False


def media_type(value: bytes) -> tuple[str, dict[str, str]] | None:
    """Read a `Content-Type` value.

    Args:
        value: The value.

    Returns:
        Type and parameters, as in `("application/json", {"charset": "utf-8"})`: the type and the
        parameters' names in lower case. `None` if it is no media type.

    Spec: RFC 9110, 8.3.1.
    """
    parts = [part.strip() for part in _PART.findall(value[:_MAX_LENGTH].decode("latin-1"))]
    if not parts or not _TYPE.fullmatch(parts[0]):
        return None
    parameters = {}
    for part in parts[1:]:
        name, _, text = part.partition("=")
        parameters.setdefault(name.strip().lower(), text.strip().strip('"'))
    return parts[0].lower(), parameters


@lru_cache(maxsize=256)
def is_json(content_type: bytes | None) -> bool:
    """Whether a `Content-Type` says `application/json`, in UTF-8.

    Parameters are allowed; a `charset` other than UTF-8 is not, since JSON has no other
    (RFC 8259, 8.1) and a body in it would be read wrongly.
    """
    if content_type is None:
        return False
    parsed = media_type(content_type)
    if parsed is None or parsed[0] != "application/json":
        return False
    return parsed[1].get("charset", "utf-8").lower() in ("utf-8", "utf8", "us-ascii")
