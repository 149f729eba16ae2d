"""One answer's life: JSON until something has to be said first, then a stream.

The shell round `wire.exchange`: the table says what may happen, this carries it out on a door, and
adds what the table does not know: time, the peer's pace, and the task that does the work.

Spec: streamable-http, "Receiving Messages", "Cancellation" (T-09 to T-15).
"""

from __future__ import annotations

import asyncio
from typing import Final

from mcpost.limits import ServerLimits
from mcpost.server.call import Call
from mcpost.server.head import Answer, Door
from mcpost.wire import sse
from mcpost.wire.exchange import Effect, Event, State, step

__all__ = ("JSON", "STREAM", "Reply")

Lines = tuple[tuple[bytes, bytes], ...]

JSON: Final[Lines] = ((b"content-type", b"application/json"),)
STREAM: Final[Lines] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

_PROGRESS: Final = b'{"jsonrpc":"2.0","method":"notifications/progress"'


class Reply:
    """The answer to one request.

    Args:
        door: Where it goes.
        limits: Keep-alive, the longest call, and the buffer of a slow reader.
        extra: Header lines that every answer of this request has (CORS).
    """

    __slots__ = (
        "_deadline",
        "_door",
        "_extra",
        "_last",
        "_limits",
        "_loop",
        "_state",
        "_watching",
        "call",
        "on_gone",
        "over",
        "task",
        "timed_out",
    )

    def __init__(
        self,
        door: Door,
        limits: ServerLimits,
        loop: asyncio.AbstractEventLoop,
        extra: Lines = (),
    ) -> None:
        self._door = door
        self._limits = limits
        self._loop = loop
        self._extra = extra
        self._state = State.UNDECIDED
        self._last = loop.time()
        self._deadline: float | None = self._last + limits.call_timeout
        self._watching = False
        self.call: Call | None = None
        """The call whose `cancelled` is set when the peer leaves."""
        self.task: asyncio.Task[object] | None = None
        """The task that is cancelled then."""
        self.on_gone: object = None
        """A function to call then, for what has no task."""
        self.over = False
        """Whether the answer is out, or nobody is there to take it."""
        self.timed_out = False
        """Whether the work was cancelled because it took too long."""

    @property
    def state(self) -> State:
        """Where the answer stands."""
        return self._state

    def hold(self) -> None:
        """Let the answer last as long as the peer wants it: a listen has no deadline."""
        self._deadline = None

    def notify(self, note: bytes) -> None:
        """Say something before the answer: the answer becomes a stream.

        Args:
            note: One encoded notification of this request.
        """
        waiting = self._door.pending()
        if waiting > self._limits.max_stream_buffer:
            # A reader this slow would cost memory without end.
            self.gone()
            self._door.abort()
            return
        if 4 * waiting > self._limits.max_stream_buffer and note.startswith(_PROGRESS):
            return
        self._state, effects = step(self._state, Event.NOTE)
        for effect in effects:
            if effect is Effect.START_STREAM:
                self._start()
            elif effect is Effect.SEND_EVENT:
                self._door.write(sse.encode_event(note))
        self._last = self._loop.time()

    def finish(self, status: int, body: bytes) -> None:
        """Give the answer.

        Args:
            status: HTTP status, for an answer that is JSON.
            body: The encoded response.
        """
        self._state, effects = step(self._state, Event.FINAL)
        self.over = True
        for effect in effects:
            if effect is Effect.SEND_JSON:
                self._door.answer(Answer(status, JSON + self._extra, body))
            elif effect is Effect.SEND_LAST_EVENT:
                self._door.write(sse.encode_event(body))
            elif effect is Effect.END:
                self._door.end()

    def gone(self) -> None:
        """Take note that the peer has left: the work is cancelled, and nothing more is said."""
        self._state, effects = step(self._state, Event.GONE)
        self.over = True
        if Effect.CANCEL not in effects:
            return
        if self.call is not None:
            self.call.cancelled = True
        if self.task is not None:
            self.task.cancel()
        if callable(self.on_gone):
            self.on_gone()

    def beat(self, now: float) -> float | None:
        """Do what time asks for: watch the peer, keep the stream alive, end what takes too long.

        Called by the pulse.
        """
        self._watch()
        if self._deadline is not None and now >= self._deadline:
            self.timed_out = True
            if self.call is not None:
                self.call.cancelled = True
            if self.task is not None:
                self.task.cancel()
            return None
        due = self._last + self._limits.keep_alive
        if now >= due - 0.001:
            self._state, effects = step(self._state, Event.SILENCE)
            for effect in effects:
                if effect is Effect.START_STREAM:
                    self._start()
                elif effect is Effect.SEND_COMMENT:
                    self._door.write(sse.COMMENT)
            self._last = now
            due = now + self._limits.keep_alive
        return due if self._deadline is None else min(due, self._deadline)

    def _start(self) -> None:
        self._door.start(200, STREAM + self._extra)
        self._watch()

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._door.watch(self.gone)
