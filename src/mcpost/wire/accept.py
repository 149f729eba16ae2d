"""Media types: what the caller accepts, and what it sends.

Spec: streamable-http, "Sending Messages" (T-06, T-07); RFC 9110, 8.3.1 and 12.5.1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ("BOTH", "Accepted", "is_json", "parse_accept", "parse_media_type")

# Pieces between commas or semicolons; one inside quotation marks separates nothing (RFC 9110,
# 5.6.4). A quotation that is not closed reaches to the end, so no byte is looked at twice.
_QUOTED: Final = r'"(?:[^"\\]|\\.?)*(?:"|\Z)'
_ELEMENT: Final = re.compile(rf'(?:[^",]|{_QUOTED})+', re.DOTALL)
_PART: Final = re.compile(rf'(?:[^";]|{_QUOTED})+', re.DOTALL)
_TOKEN: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_TYPE: Final = re.compile(rf"({_TOKEN})/({_TOKEN})")
# qvalue = ( "0" [ "." 0*3DIGIT ] ) / ( "1" [ "." 0*3("0") ] )  (RFC 9110, 12.4.2)
_QVALUE: Final = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_MAX_LENGTH: Final = 2048
"""Bytes of a value that are read; browsers send some 150."""


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
        What they admit. No line at all, and lines without one readable range, admit both (RFC
        9110, 12.5.1); wildcards count, quality 0 excludes, and the most specific range decides.
        Parameters other than `q` are passed over, and so is a part that is malformed or stands
        behind the first 2,048 bytes.

    Spec: streamable-http, "Sending Messages" (T-06); RFC 9110, 12.4.2 and 12.5.1.
    """
    if not values:
        return BOTH
    value = values[0] if len(values) == 1 else b",".join(values)
    if len(value) > _MAX_LENGTH:
        # What is cut through the middle might read as something else.
        value = value[:_MAX_LENGTH].rpartition(b",")[0]
    return _parse(value)


@lru_cache(maxsize=256)
def _parse(value: bytes) -> Accepted:
    ranges: dict[str, float] = {}
    for element in _ELEMENT.findall(value.decode("latin-1")):
        kind, *parameters = [part.strip() for part in _PART.findall(element)] or [""]
        quality = _quality(parameters)
        if quality is not None and _TYPE.fullmatch(kind):
            name = kind.lower()
            # A range may be named twice, with parameters that tell nothing here.
            ranges[name] = max(quality, ranges.get(name, 0.0))
    if not ranges:
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


def parse_media_type(value: bytes) -> tuple[str, dict[str, str]] | None:
    """Read a `Content-Type` value.

    Args:
        value: The value, at most 2,048 bytes.

    Returns:
        Type and parameters, as in `("application/json", {"charset": "utf-8"})`: the type and the
        parameters' names in lower case. `None` if it is no media type, if it is longer, or if a
        parameter stands twice, since two readers could then read two types.

    Spec: RFC 9110, 8.3.1.
    """
    parts = [part.strip() for part in _PART.findall(value[: _MAX_LENGTH + 1].decode("latin-1"))]
    if len(value) > _MAX_LENGTH or not parts or not _TYPE.fullmatch(parts[0]):
        return None
    parameters: dict[str, str] = {}
    for part in parts[1:]:
        name, _, text = part.partition("=")
        name = name.strip().lower()
        if name in parameters:
            return None
        if name:
            parameters[name] = text.strip().strip('"')
    return parts[0].lower(), parameters


def is_json(content_type: bytes | None) -> bool:
    """Whether a `Content-Type` says `application/json`, in UTF-8.

    Parameters are allowed; a `charset` other than UTF-8 is not, since JSON has no other
    (RFC 8259, 8.1) and a body in it would be read wrongly.

    Spec: streamable-http, "Sending Messages" (T-07); RFC 9110, 8.3.1.
    """
    if content_type is None or len(content_type) > _MAX_LENGTH:
        return False
    return _is_json(content_type)


@lru_cache(maxsize=256)
def _is_json(content_type: bytes) -> bool:
    parsed = parse_media_type(content_type)
    if parsed is None or parsed[0] != "application/json":
        return False
    return parsed[1].get("charset", "utf-8").lower() in ("utf-8", "utf8")
