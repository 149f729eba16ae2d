"""URI templates of resources: which URI is one of theirs, and with which values.

Level 1 of RFC 6570 (`{name}`: one segment) and `{+name}`: the rest of a path, slashes included. A
value is what a URI says after percent-decoding; a value that would lead somewhere else (`..`, a
hidden slash, NUL) is no match, so no function ever sees one.

Spec: server/resources, "Resource Templates" (F-02); RFC 6570, 3.2.2 and 3.2.3.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from mcpost.errors import UsageError

__all__ = ("Template",)

_VARIABLE: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
_SEGMENT: Final = r"([^/?#]+)"
_REST: Final = r"([^?#]+)"
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Template:
    """A URI template.

    Args:
        text: The template, as in `books://{id}` or `files:///{+path}`.

    Raises:
        UsageError: A brace that is no variable of these two forms, or a name that stands twice.
    """

    __slots__ = ("_pattern", "_rests", "names", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        pattern = ""
        names: list[str] = []
        rests: list[bool] = []
        position = 0
        for match in _VARIABLE.finditer(text):
            pattern += _literal(text[position : match.start()], text)
            pattern += _REST if match[1] else _SEGMENT
            names.append(match[2])
            rests.append(bool(match[1]))
            position = match.end()
        pattern += _literal(text[position:], text)
        if len(set(names)) != len(names):
            raise UsageError(f"{text!r}: a variable stands twice")
        self._pattern = re.compile(pattern)
        self.names = tuple(names)
        """The variables, in order."""
        self._rests = tuple(rests)

    def match(self, uri: str) -> dict[str, str] | None:
        """Read the values of a URI.

        Args:
            uri: The URI that is asked for.

        Returns:
            The values by variable, decoded; `None` if the URI is none of this template's.
        """
        match = self._pattern.fullmatch(uri)
        if match is None:
            return None
        values: dict[str, str] = {}
        for name, rest, raw in zip(self.names, self._rests, match.groups(), strict=True):
            value = _decode(raw)
            if value is None or not _is_safe(value, slashes=rest):
                return None
            values[name] = value
        return values


def _literal(text: str, whole: str) -> str:
    if "{" in text or "}" in text:
        raise UsageError(
            f"{whole!r}: a variable is written {{name}}, or {{+name}} for the rest of a path"
        )
    return re.escape(text)


def _decode(raw: str) -> str | None:
    if _BAD_ESCAPE.search(raw):
        return None
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return None


def _is_safe(value: str, *, slashes: bool) -> bool:
    if "\0" in value or "\\" in value:
        return False
    parts = value.split("/")
    if len(parts) > 1 and (not slashes or value.startswith("/")):
        return False
    return not any(part in (".", "..") for part in parts)
