"""Server-sent events: their bytes, and an incremental parser.

The parser takes a stream in any pieces and gives the same events for every way to cut it. It looks
at a byte once: what is left of an unfinished line is remembered with the place searched so far.

An event's data is one JSON-RPC message. JSON is written on one line here, so `data:` has one line;
what others send in several lines is joined by LF, as the grammar says.

Spec: streamable-http, "Receiving Messages" (T-09, T-13); WHATWG HTML, 9.2.5 and 9.2.6.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mcpost.errors import TooLarge
from mcpost.limits import WireLimits

__all__ = ("COMMENT", "Parser", "ServerSentEvent", "encode_comment", "encode_event", "encode_data")

COMMENT: Final = b":\n\n"
"""A comment line, which keeps a silent stream alive (T-13)."""

# end-of-line = ( cr lf / cr / lf ); U+2028 and the like are data.
_END_OF_LINE: Final = re.compile(rb"\r\n|\r|\n")
_DIGITS: Final = re.compile(rb"[0-9]+")
_BOM: Final = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event."""

    data: bytes
    """The data, UTF-8; lines of it are joined by LF."""
    event: str = "message"
    """The event's type."""
    id: str | None = None
    """The last event id, as of this event; `None` while the stream has named none."""


def encode_data(data: bytes) -> bytes:
    """Write an event that is one line of data, which the caller vouches for (compact JSON is)."""
    return b"data: %b\n\n" % data


def encode_event(
    data: bytes,
    *,
    event: str | None = None,
    id: str | None = None,  # noqa: A002 - the field's name in the standard
    retry: int | None = None,
) -> bytes:
    """Write an event.

    Args:
        data: UTF-8; each line of it becomes a `data:` line.
        event: Its type, left out if `None`.
        id: The event id, left out if `None`.
        retry: Reconnection time in milliseconds, left out if `None`.

    Returns:
        The event with its closing blank line.

    Raises:
        ValueError: A line break in `event` or `id`, or a NUL in `id`.
    """
    lines = []
    for name, value in (("event", event), ("id", id)):
        if value is not None:
            if any(character in value for character in "\r\n\0"):
                raise ValueError(f"{name} has a line break or NUL: {value!r}")
            lines.append(f"{name}: {value}".encode())
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    lines.extend(b"data: " + line for line in _END_OF_LINE.split(data))
    return b"\n".join(lines) + b"\n\n"


def encode_comment(text: bytes = b"") -> bytes:
    """Write a comment; line breaks in it become further comment lines."""
    return b"\n".join(b":" + line for line in _END_OF_LINE.split(text)) + b"\n\n"


class Parser:
    """An event stream, taken in pieces.

    Args:
        limits: Bounds of a line and of an event's data.

    Next: `feed` each piece as it comes, then `end`.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_event",
        "_max_event",
        "_max_line",
        "_rest",
        "_size",
        "_started",
        "comments",
        "last_event_id",
        "retry",
    )

    def __init__(self, limits: WireLimits = WireLimits()) -> None:
        self._max_line = limits.max_sse_line
        self._max_event = limits.max_sse_event
        self._rest = bytearray()
        self._started = False
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self.comments = 0
        """Comments seen so far."""
        self.last_event_id: str | None = None
        """The last id that the stream named."""
        self.retry: int | None = None
        """The reconnection time in milliseconds that the stream asked for last."""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next piece.

        Args:
            chunk: Bytes, of any number.

        Returns:
            The events that it completes, in order.

        Raises:
            TooLarge: A line or an event's data is over its limit; the stream cannot go on.
        """
        events: list[ServerSentEvent] = []
        # A CR that ended the last piece may be the first half of a CRLF.
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        position = 0
        for match in _END_OF_LINE.finditer(chunk):
            line = chunk[position : match.start()]
            position = match.end()
            if self._rest:
                self._rest += line
                line = bytes(self._rest)
                self._rest.clear()
            self._check_line(len(line))
            self._take_line(line, events)
        if position < len(chunk):
            self._rest += chunk[position:]
            self._check_line(len(self._rest))
        elif chunk[-1:] == b"\r":
            self._after_cr = True
        return events

    def end(self) -> bool:
        """Take the end of the stream.

        Returns:
            Whether an unfinished event was dropped: without its blank line it is no event.
        """
        unfinished = bool(self._rest or self._data)
        self._rest.clear()
        self._data.clear()
        return unfinished

    def _check_line(self, length: int) -> None:
        if length > self._max_line:
            raise TooLarge("line", self._max_line, "WireLimits.max_sse_line")

    def _take_line(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        if line[:1] == b":":
            self.comments += 1
            return
        name, _, value = line.partition(b":")
        self._take_field(name, value.removeprefix(b" "))

    def _take_field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._size += len(value) + 1
            if self._size - 1 > self._max_event:
                raise TooLarge("event", self._max_event, "WireLimits.max_sse_event")
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id":
            if b"\0" not in value:
                self.last_event_id = value.decode(errors="replace")
        elif name == b"retry" and _DIGITS.fullmatch(value) and len(value) < 16:
            self.retry = int(value)

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(ServerSentEvent(data, self._event or "message", self.last_event_id))
            self._data.clear()
        self._size = 0
        self._event = ""
