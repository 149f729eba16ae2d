"""A call from its start to its answer: its place, its deadlines, and the reasons to stop it.

A handler that finishes without waiting needs no task, timer or watcher of ours. Only when it has
waited for some milliseconds is the peer watched and the clock started.

Stopping is cancelling the task that runs the handler. Who asked for it decides what happens then:
the peer left (nothing is said any more), the call took too long or the server is going down
(an error is answered), somebody outside cancelled the task (the cancellation goes on outwards),
or nobody did, and the handler came upon a cancellation of its own making (an error like any other).

Spec: streamable-http, "Cancellation" (T-15); patterns/cancellation; ours (T-23, T-25).
"""

from __future__ import annotations

import asyncio
import enum
import logging
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from mcpost.errors import InternalError, Refused, WireError
from mcpost.server.admission import Admission
from mcpost.server.call import Call
from mcpost.server.head import Door, Head
from mcpost.server.pulse import Lane
from mcpost.server.refusals import answer_refused
from mcpost.server.reply import Reply, Terms
from mcpost.wire import jsonrpc
from mcpost.wire.meta import RequestMeta

__all__ = ("Crew", "Handle", "Stop", "Work", "drive", "resume")

_log = logging.getLogger("mcpost.server")

Outcome = Mapping[str, Any] | msgspec.Raw
Handle = Callable[[Call], Outcome | Awaitable[Outcome]]


class Stop(enum.Enum):
    """Why a call is stopped."""

    GONE = "the caller has left"
    TIMEOUT = "the call took longer than this server allows"
    SHUTDOWN = "the server is shutting down"


@types.coroutine
def resume(work: Coroutine[Any, Any, Any], waited_for: Any) -> Generator[Any, Any, Any]:
    """Go on with a coroutine that was started by hand, as `await` would have.

    Args:
        work: A coroutine after its first `send(None)`.
        waited_for: What that gave.
    """
    while True:
        try:
            yield waited_for
        except BaseException as error:  # noqa: BLE001 - handed on to the coroutine it is meant for
            try:
                waited_for = work.throw(error)
            except StopIteration as stop:
                return stop.value
        else:
            return (yield from work)


@types.coroutine
def drive(work: Coroutine[Any, Any, Any], waits: Callable[[], None]) -> Generator[Any, Any, Any]:
    """Run a coroutine as `await` does, and call `waits` when it has to wait for the first time.

    Args:
        work: A coroutine that has not been started.
        waits: Called at most once.
    """
    try:
        waited_for = work.send(None)
    except StopIteration as stop:
        return stop.value
    waits()
    return (yield from resume(work, waited_for))


@dataclass(frozen=True, slots=True)
class Crew:
    """What the calls of an endpoint share."""

    terms: Terms
    admission: Admission
    handle: Handle
    """What starts a call: `Features.handle`."""
    patience: Lane[Work]
    """Where a call waits until it counts as a long one."""
    deadline: Lane[Work]
    """Where a long call waits for its time to be over."""
    running: set[Work]
    """Calls that have to wait."""


class Work(Reply):
    """One call.

    Args:
        door: Where its answer goes.
        request: The request.
        meta: Its per-request fields.
        head: The head it came with.
        crew: What all calls share.
    """

    __slots__ = ("_crew", "_has_place", "_stopped", "call", "task")

    def __init__(
        self, door: Door, request: jsonrpc.Request, meta: RequestMeta, head: Head, crew: Crew
    ) -> None:
        super().__init__(door, request.id, head, crew.terms)
        self.call = Call(request, meta, self.note, headers=head.headers, principal=head.principal)
        self._crew = crew
        self._has_place = False
        self._stopped: Stop | None = None
        self.task: asyncio.Task[Any] | None = None
        """The task that runs the handler, while it has to wait."""

    def begin(self) -> Coroutine[Any, Any, None] | None:
        """Start the call.

        Returns:
            `None` if it is answered already, else the rest of it, to be awaited in a task.
        """
        admission = self._crew.admission
        if not admission.enter_nowait():
            refused = admission.check_queue()
            if refused is None:
                return self._run(self._wait_and_handle())
            self.refuse(answer_refused(refused, self._lines, self.id))
            return None
        self._has_place = True
        try:
            outcome = self._crew.handle(self.call)
            # Asked first, because asking an abstract class takes longer than the rest of this.
            if type(outcome) is types.CoroutineType or isinstance(outcome, Awaitable):
                return self._start(outcome)
            self.result(outcome)
        except WireError as error:
            self.error(error)
        except Exception as error:  # noqa: BLE001 - the handler boundary
            self._fail(error)
        self._leave()
        return None

    def _start(self, outcome: Awaitable[Outcome]) -> Coroutine[Any, Any, None] | None:
        """Take the first step: most handlers need no second one, and so no frame of ours."""
        if not self._door.in_task or type(outcome) is not types.CoroutineType:
            # Without a task the handler could not use timeouts, nor be cancelled.
            return self._run(outcome)
        try:
            waited_for = outcome.send(None)
        except StopIteration as stop:
            self.result(stop.value)
            self._leave()
            return None
        except asyncio.CancelledError as error:
            self._fail(error)
            self._leave()
            return None
        return self._run(resume(outcome, waited_for))

    def stop(self, reason: Stop) -> None:
        """Stop the handler; the first reason counts."""
        self.call.cancelled = True
        if self._stopped is not None or self.task is None:
            return
        self._stopped = reason
        if self.task is asyncio.current_task():
            # The handler itself has just filled the buffer of a slow reader. A task that cancels
            # itself is hit at its next wait, which may be no longer ours.
            self.task.get_loop().call_soon(self._cancel_task)
        else:
            self.task.cancel()

    def cancel(self) -> None:
        """Stop the handler, because the peer has left."""
        self.stop(Stop.GONE)

    def become_long(self) -> None:
        """Watch the peer and the clock from now on."""
        self.watch()
        self._crew.terms.keep_alive.touch(self)
        self._crew.deadline.touch(self)

    async def _run(self, outcome: Awaitable[Outcome]) -> None:
        """Wait for the rest of the handler in the current task, and answer."""
        self.task = asyncio.current_task()
        self._crew.running.add(self)
        self._crew.patience.touch(self)
        try:
            self.result(await outcome)
        except WireError as error:
            self.error(error)
        except Refused as refused:
            self.refuse(answer_refused(refused, self._lines, self.id))
        except asyncio.CancelledError as error:
            if self._stopped is not None:
                self.error(InternalError(self._stopped.value))
            elif self.task is not None and self.task.cancelling():
                self.call.cancelled = True
                raise
            else:
                self._fail(error)
        except Exception as error:  # noqa: BLE001 - the handler boundary
            self._fail(error)
        finally:
            self._crew.running.discard(self)
            self._crew.patience.discard(self)
            self._crew.deadline.discard(self)
            self._crew.terms.keep_alive.discard(self)
            if self._stopped is not None and self.task is not None:
                # The cancellation was ours and is dealt with.
                self.task.uncancel()
            self.task = None
            self._leave()

    async def _wait_and_handle(self) -> Outcome:
        await self._crew.admission.wait_place()
        self._has_place = True
        outcome = self._crew.handle(self.call)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    def _cancel_task(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def _fail(self, error: BaseException) -> None:
        _log.error("%s failed", self.call.method, exc_info=error)
        self.error(InternalError("the server failed to answer; its log says why"))

    def _leave(self) -> None:
        if self._has_place:
            self._crew.admission.leave()
        # Without this circle the call is freed at once, and not by the collector.
        self.call.notify = _drop
        self.call.closed = True


def _drop(notification: bytes) -> None:
    """Nobody hears what is said after the answer."""
