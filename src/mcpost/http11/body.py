"""Bodies: the bytes after a head to payload, piece by piece.

A reader takes what has come and says how far it went; what follows belongs to the next message and
is not touched. The chunked reader is written here, and not left to llhttp, because its end has to
be known before a byte behind it is looked at, and because llhttp has no bound for extensions and
accepts trailers.
"""

from __future__ import annotations

import re
from typing import Protocol

from mcpost.http11.errors import Malformed
from mcpost.http11.grammar import CHUNK_LINE, STRAY
from mcpost.http11.head import CHUNKED, UNTIL_CLOSE
from mcpost.http11.limits import MessageLimits

__all__ = ("BodyReader", "ChunkedReader", "ClosingReader", "SizedReader", "reader_for")

_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}")


class BodyReader(Protocol):
    """What reads one body."""

    done: bool
    """Whether the body has come to its end."""

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Take bytes of the body.

        Args:
            data: What has come.
            start: Where in it this body goes on.

        Returns:
            The payload among them, which may be empty, and where in `data` the rest begins. While
            the body is not done that is the end of `data`.

        Raises:
            Malformed: 400, the framing is broken.
        """
        ...


class SizedReader:
    """A body of a known length.

    Args:
        length: Its bytes, at least 1.
    """

    __slots__ = ("_left", "done")

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = False

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Take bytes of the body; see `BodyReader.feed`."""
        payload = data[start : start + self._left]
        self._left -= len(payload)
        self.done = not self._left
        return payload, start + len(payload)


class ClosingReader:
    """A body that ends with its connection; only a response has one."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = False

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Take bytes of the body; see `BodyReader.feed`."""
        return data[start:], len(data)


class ChunkedReader:
    """A chunked body: at most eight digits of size, bounded extensions, no trailers.

    Args:
        limits: Bounds of the message.

    Spec: RFC 9112, 7.1.
    """

    __slots__ = ("_crlf", "_extensions", "_last", "_left", "_limits", "_line", "done")

    def __init__(self, limits: MessageLimits) -> None:
        self._limits = limits
        self._line = b""
        """An unfinished chunk-size line."""
        self._left = 0
        """Bytes to come of the chunk's data."""
        self._crlf = b""
        """What is to come of the CRLF after them, or after the last size."""
        self._last = False
        self._extensions = 0
        self.done = False

    def feed(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Take bytes of the body; see `BodyReader.feed`."""
        pieces: list[bytes] = []
        end = len(data)
        while start < end and not self.done:
            if self._left:
                piece = data[start : start + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                start += len(piece)
            elif self._crlf:
                start += self._take_crlf(data[start : start + len(self._crlf)])
            else:
                start += self._take_line(data[start : start + self._limits.max_chunk_line + 2])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), start

    def _take_crlf(self, data: bytes) -> int:
        if not self._crlf.startswith(data):
            last = "there is a trailer" if self._last else "there is no CRLF after a chunk"
            raise Malformed(400, last)
        self._crlf = self._crlf[len(data) :]
        self.done = self._last and not self._crlf
        return len(data)

    def _take_line(self, data: bytes) -> int:
        # The line is at most `max_chunk_line` long, so to put it together again costs little.
        kept = len(self._line)
        line = self._line + data if kept else data
        match = CHUNK_LINE.match(line)
        if match is None:
            self._check_unfinished(line)
            self._line = line
            return len(data)
        digits, extension = match.groups()
        if match.end() - 2 > self._limits.max_chunk_line:
            raise Malformed(400, "a chunk size is longer than its limit")
        self._extensions += len(extension)
        if self._extensions > self._limits.max_chunk_extensions:
            raise Malformed(400, "the chunk extensions are longer than their limit")
        self._line = b""
        self._left = int(digits, 16)
        self._last = not self._left
        self._crlf = b"\r\n"
        return match.end() - kept

    def _check_unfinished(self, line: bytes) -> None:
        # A client that sent what cannot become a size would else wait for the timeout.
        digits, semicolon, _ = line.partition(b";")
        if not semicolon:
            digits = digits.removesuffix(b"\r")
        if b"\n" in line or STRAY.search(line) or not _SIZE.fullmatch(digits):
            raise Malformed(400, "a chunk size is malformed")
        if len(line) > self._limits.max_chunk_line:
            raise Malformed(400, "a chunk size is longer than its limit")


def reader_for(length: int, limits: MessageLimits) -> BodyReader:
    """Make the reader for a body that is not empty.

    Args:
        length: `length` of its `Request` or `Response`, not 0.
        limits: Bounds of the message.
    """
    if length == CHUNKED:
        return ChunkedReader(limits)
    return ClosingReader() if length == UNTIL_CLOSE else SizedReader(length)
