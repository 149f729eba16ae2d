"""Newline-delimited framing: one message a line, as stdio carries them.

Spec: basic/transports/stdio, "Sending Messages" (I-01, I-04).
"""

from __future__ import annotations

from typing import Final

from mcpost.limits import WireLimits

__all__ = ("TOO_LONG", "LineParser", "TooLong", "encode_line")


class TooLong:
    """Stands in place of a line that was over the limit; the stream goes on after it."""

    __slots__ = ()


TOO_LONG: Final = TooLong()


def encode_line(message: bytes) -> bytes:
    """Frame a message.

    Args:
        message: One line of compact JSON.

    Raises:
        ValueError: The message has a line break, which would make two lines of it.
    """
    if b"\n" in message or b"\r" in message:
        raise ValueError("a message on stdio has no line break")
    return message + b"\n"


class LineParser:
    """A stream of lines, taken in pieces.

    Args:
        limits: Bound of a line. What goes over it is thrown away to the line's end and reported
            once, so one message is lost and the others are not.

    A line ends with LF or CRLF; blank lines are passed over.

    Next: `feed` each piece as it comes, then `end`.
    """

    __slots__ = ("_limit", "_rest", "_skipping")

    def __init__(self, limits: WireLimits = WireLimits()) -> None:
        self._limit = limits.max_stdio_line
        self._rest = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """Take the next piece and give the lines that it completes, in order."""
        lines: list[bytes | TooLong] = []
        position = 0
        while (end := chunk.find(b"\n", position)) >= 0:
            self._complete(chunk[position:end], lines)
            position = end + 1
        if position < len(chunk) and not self._skipping:
            self._rest += chunk[position:]
            # One more byte than the limit may be the CR of a CRLF.
            if len(self._rest) > self._limit + 1:
                self._skipping = True
                self._rest.clear()
                lines.append(TOO_LONG)
        return lines

    def end(self) -> bytes | None:
        """Take the end of the stream; what stood without a line end is given back, or `None`."""
        rest = bytes(self._rest).removesuffix(b"\r")
        self._rest.clear()
        self._skipping = False
        return rest or None

    def _complete(self, tail: bytes, lines: list[bytes | TooLong]) -> None:
        if self._skipping:
            self._skipping = False
            return
        if self._rest:
            self._rest += tail
            tail = bytes(self._rest)
            self._rest.clear()
        line = tail.removesuffix(b"\r")
        if len(line) > self._limit:
            lines.append(TOO_LONG)
        elif line.strip():
            lines.append(line)
