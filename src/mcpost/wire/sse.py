"""Server-sent events: their bytes, and an incremental parser.

The parser takes a stream in any pieces and gives the same events for every way to cut it. It looks
at a byte once: an unfinished line is put aside and never searched again.

An event's data is one JSON-RPC message. JSON is written on one line here, so `data:` has one line;
what others send in several lines is joined by LF, as the grammar says.

Spec: streamable-http, "Receiving Messages" (T-09, T-13); WHATWG HTML, 9.2.5 and 9.2.6.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mcpost.errors import TooLarge, UsageError
from mcpost.limits import WireLimits

__all__ = ("COMMENT", "Parser", "ServerSentEvent", "encode_comment", "encode_event")

COMMENT: Final = b":\n\n"
"""A comment line, which keeps a silent stream alive (T-13)."""

# end-of-line = ( cr lf / cr / lf ); U+2028 and the like are data.
_END_OF_LINE: Final = re.compile(rb"\r\n?|\n")
# More digits than the interpreter converts are no time that anybody waits.
_MAX_DIGITS: Final = 4000
_BOM: Final = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event."""

    data: bytes
    """The data, UTF-8; lines of it are joined by LF."""
    event: str = "message"
    """The event's type."""
    id: str | None = None
    """The last event id, as of this event; `None` while the stream has named none."""
    retry: int | None = None
    """The reconnection time in milliseconds that stood in this event, `None` where none did."""


def encode_event(
    data: bytes,
    *,
    event: str | None = None,
    id: str | None = None,
    retry: int | None = None,
) -> bytes:
    """Write an event.

    Args:
        data: UTF-8; each line of it becomes a `data:` line, so no line break of it is one of ours.
        event: Its type, left out if `None`.
        id: The event id, left out if `None`.
        retry: Reconnection time in milliseconds, left out if `None`.

    Returns:
        The event with its closing blank line.

    Raises:
        UsageError: A line break or NUL in `event` or `id`, or a negative `retry`.

    Spec: WHATWG HTML, 9.2.5.
    """
    head = b""
    if event is not None:
        head += _encode_field("event", event)
    if id is not None:
        head += _encode_field("id", id)
    if retry is not None:
        if retry < 0:
            raise UsageError(f"retry is a time in milliseconds, not {retry}")
        head += b"retry: %d\n" % retry
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_END_OF_LINE.split(data))
    return b"%bdata: %b\n\n" % (head, data)


def _encode_field(name: str, value: str) -> bytes:
    if "\n" in value or "\r" in value or "\0" in value:
        raise UsageError(f"{name} has a line break or NUL: {value!r}")
    return f"{name}: {value}\n".encode()


def encode_comment(text: bytes = b"") -> bytes:
    """Write a comment; line breaks in it become further comment lines."""
    return b"\n".join(b":" + line for line in _END_OF_LINE.split(text)) + b"\n\n"


class Parser:
    """An event stream, taken in pieces.

    Args:
        limits: Bounds of a line and of an event's data.

    Next: `feed` each piece as it comes, then `end`.

    Spec: WHATWG HTML, 9.2.6.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_event",
        "_id",
        "_max_event",
        "_max_line",
        "_rest",
        "_retry",
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
        self._id: str | None = None
        self._retry: int | None = None
        self.comments = 0
        """Comment lines seen so far."""
        self.last_event_id: str | None = None
        """The last id that a finished event named, with data or without; `None` before."""
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
        if self._after_cr and chunk:
            # A CR that ended the last piece may have been the first half of a CRLF.
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        # Of bytes, these are the lines of LF, CR and CRLF and of nothing else.
        lines = chunk.splitlines()
        tail = b""
        if chunk.endswith(b"\r"):
            self._after_cr = True
        elif lines and not chunk.endswith(b"\n"):
            tail = lines.pop()
        events: list[ServerSentEvent] = []
        for line in lines:
            self._check_line(len(self._rest) + len(line))
            if self._rest:
                self._rest += line
                line = bytes(self._rest)
                self._rest = bytearray()
            self._take_line(line, events)
        if tail:
            self._check_line(len(self._rest) + len(tail))
            self._rest += tail
        return events

    def end(self) -> bool:
        """Take the end of the stream.

        Returns:
            Whether an unfinished event was dropped: without its blank line it is no event.
        """
        unfinished = bool(self._rest or self._data)
        self._rest = bytearray()
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
        elif line.startswith(b"data: "):
            self._take_data(line[6:])
        elif line.startswith(b":"):
            self.comments += 1
        else:
            name, _, value = line.partition(b":")
            self._take_field(name, value.removeprefix(b" "))

    def _take_data(self, value: bytes) -> None:
        self._size += len(value) + 1
        # The last LF is taken off again when the event is complete.
        if self._size - 1 > self._max_event:
            raise TooLarge("event", self._max_event, "WireLimits.max_sse_event")
        self._data.append(value)

    def _take_field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._take_data(value)
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_DIGITS:
            self.retry = self._retry = int(value)

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        self.last_event_id = self._id
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            events.append(ServerSentEvent(data, self._event or "message", self._id, self._retry))
            self._data.clear()
            self._size = 0
        self._event = ""
        self._retry = None
