"""One answer's life on the wire: JSON unless something has to be said first, then a stream.

The moves are those of `mcpost.wire.exchange`; this is the shell that carries out their effects
through a door. Nothing here waits.

Spec: streamable-http, "Receiving Messages", "Cancellation" (T-09 to T-15).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mcpost.errors import WireError
from mcpost.server.head import STREAM, Answer, Door, Head
from mcpost.server.pulse import Lane
from mcpost.wire import jsonrpc
from mcpost.wire.exchange import Effect, Event, State, step
from mcpost.wire.sse import COMMENT, encode_event
from mcpost.wire.status import OK, status_of

__all__ = ("Reply", "Terms")

_log = logging.getLogger("mcpost.server")
_STREAMING: Final = State.STREAMING
_PROGRESS: Final = b'{"jsonrpc":"2.0","method":"notifications/progress"'


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all replies of an endpoint."""

    keep_alive: Lane[Reply]
    """Where a reply waits until it has been silent for too long."""
    max_buffer: int
    """Bytes that may wait for a slow reader."""
    soft_buffer: int = field(init=False)
    """Bytes from which on progress is dropped."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "soft_buffer", self.max_buffer >> 2)


class Reply:
    """The answer to one request.

    Args:
        door: Where it goes.
        request_id: The request's id.
        head: The request's head.
        terms: What holds for all.
    """

    __slots__ = ("_accepted", "_door", "_lines", "_terms", "_watched", "id", "state")

    def __init__(self, door: Door, request_id: jsonrpc.Id, head: Head, terms: Terms) -> None:
        self.id = request_id
        self.state = State.UNDECIDED
        self._door = door
        self._lines = head.lines
        self._accepted = head.accepted
        self._terms = terms
        self._watched = False

    def note(self, notification: bytes) -> None:
        """Send a notification of this request; it goes out before anything that follows.

        Args:
            notification: One encoded JSON-RPC notification, on one line. It is dropped for a
                caller that takes no stream, or has left.

        Raises:
            IllegalMove: The answer is out already.
        """
        door = self._door
        if self.state is _STREAMING and door.pending() <= self._terms.soft_buffer:
            # The row of the table that almost every event takes, written out. JSON of ours is one
            # line, so it is one line of data.
            door.write(b"data: %b\n\n" % notification)
            self._terms.keep_alive.touch(self)
            return
        if not self._accepted.stream:
            return
        pending = door.pending()
        if pending > self._terms.max_buffer:
            self._cut(pending)
        elif pending > self._terms.soft_buffer and notification.startswith(_PROGRESS):
            # The next progress says more than this one, and the reader is behind already.
            return
        self._move(Event.NOTE, encode_event(notification))

    def silence(self) -> None:
        """Send a comment, so that whoever is between does not take the silence for an end."""
        if not self._accepted.stream:
            return
        if self._door.pending():
            # The reader is behind: there is something on its way to it already.
            self._terms.keep_alive.touch(self)
        else:
            self._move(Event.SILENCE, COMMENT)

    def result(self, result: Mapping[str, Any] | msgspec.Raw) -> None:
        """Send the result, which ends the answer.

        Raises:
            IllegalMove: The answer is out already.
            TypeError: The result has a value that JSON has not; nothing is sent.
        """
        self._finish(OK, jsonrpc.encode_result(self.id, result))

    def error(self, error: WireError, *, by_handler: bool = True) -> None:
        """Send an error, which ends the answer.

        Args:
            error: The error; it gets this request's id.
            by_handler: As for `status_of`.

        Raises:
            IllegalMove: The answer is out already.
        """
        error.request_id = self.id
        self._finish(status_of(error, by_handler=by_handler), jsonrpc.encode_error(error))

    def refuse(self, answer: Answer) -> None:
        """Send a whole answer of another making, in place of a result.

        Raises:
            IllegalMove: The answer is out already.
        """
        self.state, effects = step(self.state, Event.FINAL)
        for effect in effects:
            if effect is Effect.SEND_JSON:
                self._door.answer(answer)
            elif effect is Effect.SEND_LAST_EVENT:
                self._door.write(encode_event(answer.body))
            elif effect is Effect.END:
                self._door.end()
        self._terms.keep_alive.discard(self)

    def gone(self) -> None:
        """Take note that the peer has left."""
        self._move(Event.GONE)

    def watch(self) -> None:
        """Have the door tell when the peer leaves; asked for late, because it may cost a task."""
        if not self._watched:
            self._watched = True
            self._door.watch(self.gone)

    @property
    def door(self) -> Door:
        """Where it goes."""
        return self._door

    def cancel(self) -> None:
        """Stop the work behind the answer: nobody waits for it any more."""

    def _cut(self, pending: int) -> None:
        _log.warning(
            "request %r: the reader left %d bytes unread, its stream is cut", self.id, pending
        )
        self.gone()
        self._door.abort()

    def _finish(self, status: int, message: bytes) -> None:
        if self.state is State.UNDECIDED and self._accepted.json:
            # The row of the table that almost every answer takes, written out.
            self.state = State.ANSWERED
            self._door.answer_json(status, message, self._lines)
            return
        if not self._accepted.json and status == OK and self.state is State.UNDECIDED:
            # A caller that takes streams only gets a stream of one event.
            self._move(Event.SILENCE, COMMENT)
        self.state, effects = step(self.state, Event.FINAL)
        for effect in effects:
            if effect is Effect.SEND_JSON:
                self._door.answer_json(status, message, self._lines)
            elif effect is Effect.SEND_LAST_EVENT:
                self._door.write(encode_event(message))
            elif effect is Effect.END:
                self._door.end()
                self._terms.keep_alive.discard(self)

    def _move(self, event: Event, chunk: bytes = b"") -> None:
        self.state, effects = step(self.state, event)
        for effect in effects:
            if effect is Effect.SEND_EVENT or effect is Effect.SEND_COMMENT:
                self._door.write(chunk)
                self._terms.keep_alive.touch(self)
            elif effect is Effect.START_STREAM:
                self._door.start(OK, STREAM + self._lines)
                self.watch()
            elif effect is Effect.CANCEL:
                self._terms.keep_alive.discard(self)
                self.cancel()
