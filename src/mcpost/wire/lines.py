"""Newline-delimited framing: one message a line, as stdio carries them.

Spec: basic/transports/stdio, "Sending Messages" (I-01, I-04).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mcpost.errors import UsageError
from mcpost.limits import WireLimits

__all__ = ("LineParser", "TooLong", "encode_line")

_HEAD: Final = 4096


class TooLong(NamedTuple):
    """Stands in place of a line that was over the limit; the stream goes on after it."""

    head: bytes
    """The first bytes of the line, at most 4,096: `jsonrpc.read_id` may find its id in them."""
    limit: int
    """The limit in bytes, `WireLimits.max_stdio_line`."""


def encode_line(message: bytes) -> bytes:
    """Frame a message.

    Args:
        message: One line of compact JSON.

    Raises:
        UsageError: The message has a line break, which would make two lines of it.
    """
    if b"\n" in message or b"\r" in message:
        raise UsageError("a message on stdio has no line break")
    return message + b"\n"


class LineParser:
    """A stream of lines, taken in pieces; a byte is looked at once.

    Args:
        limits: Bound of a line. What goes over it is thrown away to the line's end and reported
            once, as soon as it is over, so one message is lost and the others are not.

    A line ends with LF or CRLF, and neither counts for its length; blank lines are passed over.

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
                lines.append(self._too_long(self._rest))
                self._rest = bytearray()
        return lines

    def end(self) -> bytes | None:
        """Take the end of the stream; what stood without a line end is given back, or `None`."""
        rest = bytes(self._rest).removesuffix(b"\r")
        self._rest = bytearray()
        self._skipping = False
        return None if rest.isspace() else rest or None

    def _complete(self, tail: bytes, lines: list[bytes | TooLong]) -> None:
        if self._skipping:
            self._skipping = False
            return
        if self._rest:
            self._rest += tail
            tail = bytes(self._rest)
            self._rest = bytearray()
        line = tail.removesuffix(b"\r")
        if len(line) > self._limit:
            lines.append(self._too_long(line))
        elif line and not line.isspace():
            lines.append(line)

    def _too_long(self, line: bytes | bytearray) -> TooLong:
        return TooLong(bytes(line[:_HEAD]), self._limit)
