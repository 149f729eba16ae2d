"""URI templates of resources: which URI is one of theirs, and with which values.

Level 1 of RFC 6570 (`{name}`: one segment) and `{+name}`: the rest of a path, slashes included. A
value is what a URI says after percent-decoding; a value that would lead somewhere else (`..`, a
hidden slash, a backslash, NUL) is no match, so no function ever sees one.

Matching takes time in proportion to the URI: a variable that has another one behind it in its
segment ends where the text between them first begins, and only one variable takes a rest.

Spec: server/resources, "Resource Templates" (F-02); RFC 6570, 3.2.2 and 3.2.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from mcpost.errors import UsageError

__all__ = ("Template",)

_VARIABLE: Final = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    takes_rest: bool
    following: str
    """The text up to the next variable."""
    is_last: bool


class Template:
    """A URI template.

    Args:
        text: The template, as in `books://{id}` or `files:///{+path}`.

    Raises:
        UsageError: A brace that is no variable of these two forms, a name that stands twice, two
            variables with nothing between them, or a second `{+name}`.
    """

    __slots__ = ("_pattern", "_variables", "names", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._variables = tuple(_read(text))
        self.names = tuple(each.name for each in self._variables)
        """The variables, in order."""
        if len(set(self.names)) != len(self.names):
            raise UsageError(f"{text!r}: a variable stands twice")
        if sum(each.takes_rest for each in self._variables) > 1:
            raise UsageError(f"{text!r}: only one variable can take the rest of a path")
        first = text.partition("{")[0]
        pattern = re.escape(first)
        for each in self._variables:
            if not each.following and not each.is_last:
                raise UsageError(f"{text!r}: nothing tells where {each.name!r} ends")
            pattern += f"({_group(each)}){re.escape(each.following)}"
        self._pattern = re.compile(pattern)

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
        for variable, raw in zip(self._variables, match.groups(), strict=True):
            value = _decode(raw)
            if value is None or not _is_safe(value, slashes=variable.takes_rest):
                return None
            values[variable.name] = value
        return values


def _read(text: str) -> Iterator[_Variable]:
    matches = list(_VARIABLE.finditer(text))
    starts = [match.start() for match in matches] + [len(text)]
    literals = [text[: starts[0]]]
    for match, end in zip(matches, starts[1:], strict=True):
        following = text[match.end() : end]
        literals.append(following)
        yield _Variable(match[2], bool(match[1]), following, end == len(text))
    if any("{" in literal or "}" in literal for literal in literals):
        raise UsageError(
            f"{text!r}: a variable is written {{name}}, or {{+name}} for the rest of a path"
        )


def _group(variable: _Variable) -> str:
    if variable.takes_rest:
        return "[^?#]+"
    if variable.is_last or "/" in variable.following:
        return "[^/?#]+"
    return f"[^/?#{re.escape(variable.following[0])}]+"


def _decode(raw: str) -> str | None:
    if _BAD_ESCAPE.search(raw):
        return None
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return None


def _is_safe(value: str, *, slashes: bool) -> bool:
    if "\\" in value or _CONTROLS.search(value):
        return False
    parts = value.split("/")
    if len(parts) > 1 and not slashes:
        return False
    # An empty part at the start would make the path an absolute one.
    return parts[0] != "" and not any(part in (".", "..") for part in parts)
