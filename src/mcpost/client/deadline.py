"""The deadlines of one call: a hard one, and one that every sign of life moves.

One timer a call. It is not moved when something is heard; when it fires it looks at how things
stand and either ends the call or waits for the rest. So a sign of life costs one assignment.

Spec: patterns/cancellation, "Timeouts" (P-03).
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Final

from mcpost.client.attempt import Attempt, State
from mcpost.errors import ConnectionLost, Timeout, TransportError
from mcpost.limits import ClientLimits

__all__ = ("Deadline",)

_PHASES: Final = {State.IDLE: "connect", State.SENT: "head", State.HEARD: "idle"}


class Deadline:
    """Ends a call that takes too long, by cancelling what it waits for.

    Args:
        limits: The limit of a connection.
        idle: Seconds without a sign of life.
        total: Seconds in all.

    Use it as a context manager round the whole call, in the task that makes it. Within, `watch`
    names the attempt under way; between attempts, and while an attempt is paused, only the hard
    limit holds.
    """

    __slots__ = (
        "_attempt",
        "_before",
        "_connect",
        "_error",
        "_handle",
        "_idle",
        "_is_relaxed",
        "_loop",
        "_task",
        "_total",
        "hard_at",
    )

    def __init__(self, limits: ClientLimits, idle: float, total: float) -> None:
        self._connect = limits.connect_timeout
        self._idle = idle
        self._total = total
        self._is_relaxed = False
        self._attempt: Attempt | None = None
        self._error: TransportError | None = None
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._loop = task.get_loop()
        now = self._loop.time()
        self.hard_at = now + self._total
        """Loop time of the hard limit."""
        self._handle = self._loop.call_at(
            min(self.hard_at, now + min(self._connect, self._idle)), self._fire
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        # Only a cancellation that came from here becomes an error of ours; one of the caller's
        # stays what it is, even if both came at once.
        if self._error is None or self._task.uncancel() > self._before:
            return
        if kind is asyncio.CancelledError:
            raise self._error from error

    def watch(self, attempt: Attempt | None) -> None:
        """Name the attempt that is under way, `None` between two."""
        self._attempt = attempt

    def relax(self) -> None:
        """Lift the hard limit: the stream of a listen has begun, and it may stay open for ever.

        Silence ends it only where the server has shown that it does not fall silent, by comments.
        """
        self._is_relaxed = True
        self.hard_at = math.inf

    def remaining(self) -> float:
        """Seconds to the hard limit."""
        return self.hard_at - self._loop.time()

    def close(self) -> None:
        """End the call because its client is closed."""
        sent = self._attempt.sent if self._attempt is not None else "no"
        self._stop(ConnectionLost("the client was closed during the call", sent=sent))

    def _stop(self, error: TransportError) -> None:
        if self._error is None and not self._task.done():
            self._error = error
            self._task.cancel()

    def _fire(self) -> None:
        self._handle = None
        now = self._loop.time()
        attempt = self._attempt
        sent = attempt.sent if attempt is not None else "no"
        if now >= self.hard_at:
            self._stop(Timeout("total", self._total, sent=sent))
            return
        due = self.hard_at
        if attempt is not None and not attempt.paused:
            phase = _PHASES.get(attempt.state)
            limit = self._connect if attempt.state is State.IDLE else self._idle
            due = attempt.last_sign + limit
            if now >= due:
                if phase is not None and not (self._is_relaxed and not attempt.comments):
                    self._stop(Timeout(phase, limit, sent=sent))
                    return
                due = now + self._idle
        else:
            due = now + min(self._connect, self._idle)
        self._handle = self._loop.call_at(min(due, self.hard_at), self._fire)
