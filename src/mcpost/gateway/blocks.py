"""An event stream cut at its blank lines, every byte kept: events and comments as they stand.

Spec: WHATWG HTML, 9.2.5.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ("Blocks",)

# A CR before an LF is one end of a line with it, so it never counts alone.
_END: Final = rb"(?:\r\n|\n|\r(?!\n))"
_BLANK: Final = re.compile(_END + _END)
_LONGEST: Final = 4


class Blocks:
    """Cuts a stream that comes in any pieces.

    Args:
        max_block: Bytes of one block; a longer one comes in several pieces, as it stands.
    """

    __slots__ = ("_max_block", "_rest", "_whole")

    def __init__(self, max_block: int) -> None:
        self._max_block = max_block
        self._rest = bytearray()
        self._whole = True

    def feed(self, data: bytes) -> list[tuple[bytes, bool]]:
        """Take the next piece.

        Returns:
            The blocks that it completes, each with its blank line, and whether it is whole; what
            they are joined to is what has come.
        """
        rest = self._rest
        # What was searched before has no blank line, but for one that began at its end.
        place = max(len(rest) - _LONGEST, 0)
        rest += data
        found: list[tuple[bytes, bool]] = []
        start = 0
        while (match := _BLANK.search(rest, place)) is not None:
            found.append((bytes(rest[start : match.end()]), self._whole))
            self._whole = True
            start = place = match.end()
        del rest[:start]
        if len(rest) > self._max_block:
            found.append((self.end(), False))
            self._whole = False
        return found

    def end(self) -> bytes:
        """Give what is left: without its blank line it is no block."""
        left = bytes(self._rest)
        self._rest.clear()
        return left
