"""An answer of HTTP, from its bytes to a response: the client's side of an exchange.

The reader is given the head, the pieces of the body and the end, in whatever pieces they come, and
says what they amount to: the response, notifications before it, or the error that the caller gets.
It opens no socket and reads no clock; every outcome of `docs/client.md`, "What each fault becomes",
that begins after the request was sent is decided here.

Rules that a change must not break: the body is read by its media type alone, never by guessing;
the first response settles the call and nothing after it is read; everything has a bound.

Spec: streamable-http, "Receiving Messages" (T-09, T-13, T-14); basic/index, "Responses" (J-01).
"""

from __future__ import annotations

import enum
from collections import deque
from typing import Final

from mcpost.client.attempt import Reply
from mcpost.errors import (
    BadReply,
    Busy,
    ConnectionLost,
    Denied,
    McpostError,
    TooLarge,
    TransportError,
    WireError,
)
from mcpost.limits import ClientLimits, WireLimits
from mcpost.wire import jsonrpc, sse
from mcpost.wire.jsonrpc import Id, Notification, Response

__all__ = ("AnswerReader", "Redirected", "retry_after")

_EXCERPT: Final = 200
# A refusal that is no JSON is read this far, for its first words.
_MAX_REFUSAL: Final = 16 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_TELLING: Final = frozenset({401, 403, 429, 503})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Redirected(TransportError):
    """The server points elsewhere; whether that is followed is the transport's to decide.

    Args:
        status: HTTP status.
        location: The value of `Location`, empty where there is none.
    """

    def __init__(self, status: int, location: str) -> None:
        super().__init__(f"redirect {status} to {location!r}", sent="no")
        self.status = status
        self.location = location


class _Mode(enum.Enum):
    HEAD = "head"
    JSON = "json"
    STREAM = "stream"
    OTHER = "other"


class AnswerReader:
    """Reads one answer.

    Args:
        request_id: Id of the request; only its response is one.
        limits: Bounds.

    Next: `head`, then `body` for each piece, then `end` or `lost`, until `is_done`; after each,
    `notes` may have become longer. When it is done, `result` gives the outcome.
    """

    __slots__ = (
        "_body",
        "_content_type",
        "_error",
        "_events",
        "_headers",
        "_id",
        "_mode",
        "_parser",
        "_reply",
        "is_done",
        "limits",
        "notes",
        "status",
    )

    def __init__(self, request_id: Id, limits: ClientLimits) -> None:
        self._id = request_id
        self.limits = limits
        """The bounds."""
        self._mode = _Mode.HEAD
        self._headers: dict[bytes, bytes] = {}
        self._content_type = b""
        self._body: bytes | bytearray = b""
        self._parser: sse.Parser | None = None
        self._events = 0
        self._reply: Response | None = None
        self._error: McpostError | None = None
        self.status = 0
        """HTTP status, 0 before the head is here."""
        self.is_done = False
        """Whether the outcome is known; no further byte is wanted."""
        self.notes: deque[Notification] = deque()
        """Notifications that were heard and not taken yet."""

    @property
    def is_stream(self) -> bool:
        """Whether the answer is an event stream."""
        return self._mode is _Mode.STREAM

    @property
    def comments(self) -> int:
        """Comments that the stream has had so far."""
        return self._parser.comments if self._parser is not None else 0

    @property
    def is_orderly(self) -> bool:
        """Whether the server may go on, so that its connection is worth keeping."""
        return self._reply is not None or isinstance(self._error, Redirected)

    def result(self) -> Reply:
        """Give the outcome.

        Returns:
            The response, which may be an error of JSON-RPC.

        Raises:
            Redirected: 301, 302, 303, 307, 308.
            Denied: 401, 403.
            Busy: 429, 503.
            BadReply: The answer is none that this protocol knows.
            TooLarge: It is over a limit.
            ConnectionLost: It ended before its response.
        """
        assert self.is_done
        if self._error is not None:
            raise self._error
        assert self._reply is not None
        return Reply(self._reply, self.status)

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Take the head: its status and media type say how the body is read."""
        self.status = status
        for name, value in headers:
            self._headers.setdefault(name, value)
        get = self._headers.get
        content_type = get(b"content-type")
        if content_type == b"application/json":
            kind = content_type
        else:
            kind = (content_type or b"").partition(b";")[0].strip().lower()
        self._content_type = kind
        if status in _REDIRECTS:
            location = get(b"location", b"").decode("latin-1")
            self._finish(error=Redirected(status, location))
            return
        coding = get(b"content-encoding", b"identity").strip().lower()
        if coding not in (b"identity", b""):
            # What we ask for is the plain form; a bomb would be the server's answer to nothing.
            self._refuse(f"the answer is compressed ({coding.decode('latin-1')}), unasked")
        elif kind == b"application/json":
            self._mode = _Mode.JSON
            length = get(b"content-length", b"")
            if length.isdigit() and len(length) < 20 and int(length) > self.limits.max_answer:
                self._finish(error=_too_large(self.limits))
        elif kind == b"text/event-stream" and 200 <= status < 300:
            self._mode = _Mode.STREAM
            limit = self.limits.max_event
            self._parser = sse.Parser(WireLimits(max_sse_line=limit + 8, max_sse_event=limit))
        else:
            self._mode = _Mode.OTHER

    def body(self, data: bytes) -> None:
        """Take a piece of the body."""
        if self.is_done:
            return
        if self._mode is _Mode.STREAM:
            self._read_events(data)
            return
        # Most bodies come in one piece, which needs no copy; many small ones go into one buffer.
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data
        if self._mode is _Mode.JSON:
            if len(self._body) > self.limits.max_answer:
                self._finish(error=_too_large(self.limits))
        elif len(self._body) > _MAX_REFUSAL:
            self._judge_other(self._body)

    def end(self) -> None:
        """Take the end of the body, as its framing says."""
        if self.is_done:
            return
        if self._mode is _Mode.STREAM:
            self._finish(
                error=ConnectionLost("the stream ended before the response came", sent="yes")
            )
            return
        if self._mode is _Mode.JSON:
            self._judge_json(self._body)
        else:
            self._judge_other(self._body)

    def lost(self, reason: str) -> None:
        """Take the loss of the connection before the body ended."""
        if self.is_done:
            return
        if self._mode is _Mode.HEAD:
            error = ConnectionLost(f"{reason} before an answer came", sent="maybe")
        else:
            error = ConnectionLost(f"{reason} before the answer was complete", sent="yes")
        self._finish(error=error)

    def fail(self, error: McpostError) -> None:
        """Take an error of the framing below."""
        if not self.is_done:
            self._finish(error=error)

    # The stream.

    def _read_events(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            events = self._parser.feed(data)
        except TooLarge:
            self._finish(error=TooLarge("event", self.limits.max_event, "ClientLimits.max_event"))
            return
        for event in events:
            self._events += 1
            if self._events > self.limits.max_events:
                self._refuse(
                    f"the stream has more than {self.limits.max_events} events;"
                    " see ClientLimits.max_events"
                )
            # An event of another type is of another protocol, and one without data has nothing
            # to say; servers of earlier revisions send such to name an event id.
            elif event.event == "message" and event.data:
                self._take_message(event.data)
            if self.is_done:
                return

    def _take_message(self, data: bytes) -> None:
        try:
            message = jsonrpc.decode_answer(data)
        except WireError as error:
            self._refuse(f"an event is no JSON-RPC message: {error}", data)
            return
        if isinstance(message, Notification):
            self.notes.append(message)
        elif isinstance(message, Response):
            self._settle(message)
        else:
            self._refuse(f"the stream carries a request ({message.method}), which it may not", data)

    # The response.

    def _settle(self, response: Response) -> None:
        # An error without an id is about the request whose id could not be read: this one, since
        # the answer is to it alone.
        is_ours = response.id == self._id and type(response.id) is type(self._id)
        if is_ours or (response.id is None and response.error is not None):
            self._finish(reply=response)
        else:
            self._refuse(f"the answer is to request {response.id!r}, not to {self._id!r}")

    def _judge_json(self, body: bytes | bytearray) -> None:
        try:
            text = body[len(_BOM) :] if body.startswith(_BOM) else body
            message = jsonrpc.decode_answer(text)
        except WireError as error:
            if not self._judge_status(body):
                self._refuse(f"the answer is no JSON-RPC message: {error}", body)
            return
        if not isinstance(message, Response):
            self._refuse("the answer is a message, but no response", body)
        elif message.error is None and self.status >= 300:
            self._refuse("the answer is a result with the status of an error", body)
        else:
            words = message.error.message if message.error is not None else ""
            if not self._judge_status(body, words):
                self._settle(message)

    def _judge_other(self, body: bytes | bytearray) -> None:
        if self._judge_status(body):
            return
        if self.status in (202, 204):
            self._refuse("the request was taken as a notification: there is no answer", body)
            return
        kind = self._content_type.decode("latin-1") or "no media type"
        self._refuse(f"the answer is {kind}, neither JSON nor an event stream", body)

    def _judge_status(self, body: bytes | bytearray, words: str = "") -> bool:
        """Take the statuses that say all by themselves, whatever the body is."""
        if self.status not in _TELLING:
            return False
        excerpt = _excerpt(body)
        said = words or excerpt or "no reason given"
        if self.status in (401, 403):
            challenge = self._headers.get(b"www-authenticate", b"").decode("latin-1")
            self._finish(
                error=Denied(
                    f"the server wants {'other ' if self.status == 403 else ''}credentials"
                    f" ({self.status}): {said}",
                    status=self.status,
                    challenge=challenge,
                    excerpt=excerpt,
                )
            )
        else:
            wait = retry_after(
                self._headers.get(b"retry-after", b""), self._headers.get(b"date", b"")
            )
            self._finish(
                error=Busy(
                    f"the server takes no more now ({self.status}): {said}",
                    status=self.status,
                    retry_after=wait,
                    excerpt=excerpt,
                )
            )
        return self.is_done

    def _refuse(self, problem: str, body: bytes | bytearray = b"") -> None:
        excerpt = _excerpt(body)
        message = f"{problem} (status {self.status})"
        if excerpt:
            message = f"{message}: {excerpt}"
        self._finish(error=BadReply(message, status=self.status, excerpt=excerpt))

    def _finish(self, *, reply: Response | None = None, error: McpostError | None = None) -> None:
        self.is_done = True
        self._reply = reply
        self._error = error
        self._body = b""


def _too_large(limits: ClientLimits) -> TooLarge:
    return TooLarge("answer", limits.max_answer, "ClientLimits.max_answer")


def _excerpt(body: bytes | bytearray) -> str:
    text = body[: 4 * _EXCERPT].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in text).strip()[:_EXCERPT]


def retry_after(value: bytes, date: bytes = b"") -> float | None:
    """Read `Retry-After`: seconds, or a date that is compared with the answer's own `Date`.

    Returns:
        Seconds, 0 or more; `None` where nothing readable stands there.

    Spec: RFC 9110, 10.2.3.
    """
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    # Imported here: it brings the whole of `email` with it.
    from email.utils import parsedate_to_datetime

    try:
        then = parsedate_to_datetime(text)
        now = parsedate_to_datetime(date.decode("latin-1"))
        return max((then - now).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
