"""Answers of the earlier revisions over HTTP: streams that can be asked for again.

What differs from this revision: events have ids, by which a broken stream is resumed; a stream may
carry requests of the server and what belongs to no request; 404 says that the session is gone; a
notification is answered by its status alone.

Spec: 2025-11-25, basic/transports, "Sending Messages to the Server", "Resumability and Redelivery",
"Session Management" (L-01, L-02, L-03).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from mcpost.client.answer import AnswerReader
from mcpost.errors import TooLarge, TransportError, WireError
from mcpost.limits import ClientLimits
from mcpost.wire import jsonrpc
from mcpost.wire.jsonrpc import Id, Notification, Request, Response
from mcpost.wire.sse import ServerSentEvent

__all__ = ("LegacyReader", "SessionGone", "Stray")

_log = logging.getLogger("mcpost.client")

Stray = Callable[[Request | Notification], None]

_OF_CALLS: Final = frozenset({"notifications/progress", "notifications/message"})
_raw_list: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class SessionGone(TransportError):
    """The server does not know the session (any more); it has not run the call."""

    def __init__(self) -> None:
        super().__init__("the server has ended the session (404)", sent="no")


class LegacyReader(AnswerReader):
    """Reads one answer of an earlier revision.

    Args:
        request_id: Id of the request; `None` where no response will come: of a notification, and
            of the stream of GET.
        limits: Bounds.
        stray: Gets what belongs to no request.
        last_event_id: The event after which the stream is asked for.
        in_session: Whether the request named a session, so that 404 is about that.
        opened: Is told when the answer turns out to be a stream.
        on_event: Gets every event instead of what reads it here.
    """

    __slots__ = ("_given", "_in_session", "_on_event", "_opened", "_request_id", "_stray")

    def __init__(
        self,
        request_id: Id | None,
        limits: ClientLimits,
        stray: Stray,
        *,
        last_event_id: str | None = None,
        in_session: bool = False,
        opened: Callable[[], None] | None = None,
        on_event: Callable[[ServerSentEvent], None] | None = None,
    ) -> None:
        super().__init__("" if request_id is None else request_id, limits)
        self._request_id = request_id
        self._stray = stray
        self._given = last_event_id
        self._in_session = in_session
        self._opened = opened
        self._on_event = on_event

    @property
    def last_event_id(self) -> str | None:
        """The last event that was seen; the one asked for where none was, `None` without any."""
        seen = self._parser.last_event_id if self._parser is not None else None
        return self._given if seen is None else seen

    @property
    def retry(self) -> float | None:
        """Seconds that the server wants between two connections."""
        retry = self._parser.retry if self._parser is not None else None
        return None if retry is None else retry / 1_000

    @property
    def session_id(self) -> str | None:
        """The session that the answer opens."""
        value = self._headers.get(b"mcp-session-id")
        return None if value is None else value.decode("latin-1")

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Take the head."""
        if status == 404 and self._in_session:
            self.status = status
            self._finish(error=SessionGone())
            return
        super().head(status, headers)
        if self.is_stream and self._opened is not None:
            self._opened()

    def _read_events(self, data: bytes) -> None:
        if self._on_event is None:
            super()._read_events(data)
            return
        assert self._parser is not None
        try:
            events = self._parser.feed(data)
        except TooLarge:
            self._finish(error=TooLarge("event", self.limits.max_event, "ClientLimits.max_event"))
            return
        for event in events:
            self._on_event(event)

    def _take_message(self, data: bytes) -> None:
        # Revision 2025-03-26 has batches.
        if data.lstrip()[:1] == b"[":
            try:
                parts = [bytes(part) for part in _raw_list(data)]
            except msgspec.DecodeError as error:
                self._refuse(f"an event is no JSON: {error}", data)
                return
        else:
            parts = [data]
        for part in parts:
            if not self.is_done:
                self._take_one(part)

    def _take_one(self, data: bytes) -> None:
        try:
            message = jsonrpc.decode_answer(data)
        except WireError as error:
            self._refuse(f"an event is no JSON-RPC message: {error}", data)
            return
        if isinstance(message, Response):
            if self._request_id is not None and message.id in (self._request_id, None):
                self._settle(message)
        elif isinstance(message, Request) or message.method not in _OF_CALLS:
            self._stray(message)
        elif self._request_id is not None:
            self.notes.append(message)

    def _judge_json(self, body: bytes | bytearray) -> None:
        if not self._is_taken():
            super()._judge_json(body)

    def _judge_other(self, body: bytes | bytearray) -> None:
        if not self._is_taken():
            super()._judge_other(body)

    def _is_taken(self) -> bool:
        """Whether a message without an answer was taken, of which the status tells."""
        if self._request_id is None and 200 <= self.status < 300:
            self._finish(reply=Response(None))
            return True
        return False
