"""On which line of a TOML file does a key stand?

The standard parser keeps no places, so the text is scanned once more for what begins a line:
headers of tables and keys. What cannot be told so (a key inside an inline table) has the line of
what it stands in.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ("Lines",)

_PART: Final = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED: Final = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE: Final = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_KEY: Final = re.compile(rf"\s*({_DOTTED})\s*=(.*)", re.DOTALL)
_STRING: Final = re.compile(r""""(?:\\.|[^"\\])*"|'[^']*'|#.*""")


class Lines:
    """The places of the keys of one file."""

    def __init__(self, text: str) -> None:
        self._found: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        table = ""
        quote, depth = "", 0
        for number, line in enumerate(text.splitlines(), 1):
            if quote or depth:
                quote, depth = _carry(line, quote, depth)
                continue
            header = _TABLE.match(line)
            if header is not None:
                table = self._open(header, number)
                continue
            key = _KEY.match(line)
            if key is not None:
                self._note(".".join(part for part in (table, *_parts(key[1])) if part), number)
                quote, depth = _carry(key[2], "", 0)

    def of(self, key: str) -> int:
        """The line, from 1, of a key as in `rules[2].name`; 0 where nothing of it was found."""
        while key:
            if key in self._found:
                return self._found[key]
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return 0

    def _open(self, header: re.Match[str], number: int) -> str:
        name = ".".join(_parts(header[2]))
        if header[1] == "[[":
            count = self._counts.get(name, 0)
            self._counts[name] = count + 1
            name = f"{name}[{count}]"
        else:
            head, _, rest = name.partition(".")
            if rest and head in self._counts:
                name = f"{head}[{self._counts[head] - 1}].{rest}"
        self._note(name, number)
        return name

    def _note(self, key: str, number: int) -> None:
        while key:
            self._found.setdefault(key, number)
            key = key.rpartition(".")[0]


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, dotted)]


def _carry(line: str, quote: str, depth: int) -> tuple[str, int]:
    """What is still open at the end of a line: a long string, or brackets."""
    if quote:
        _, mark, line = line.partition(quote)
        if not mark:
            return quote, depth
    for mark in ('"""', "'''"):
        before, found, after = line.partition(mark)
        if found:
            closed = after.partition(mark)
            if not closed[1]:
                return mark, depth
            line = before + closed[2]
    bare = _STRING.sub("", line)
    return "", max(depth + sum(map(bare.count, "[{")) - sum(map(bare.count, "]}")), 0)
