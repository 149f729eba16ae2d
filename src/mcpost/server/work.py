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
        head: The head it came with.
        request_id: Its id.
        crew: What all calls share.
    """

    __slots__ = ("_crew", "_stopped", "call", "task")

    def __init__(self, door: Door, head: Head, request_id: jsonrpc.Id, crew: Crew) -> None:
        super().__init__(door, request_id, head, crew.terms)
        self._crew = crew
        self._stopped: Stop | None = None
        self.call: Call | None = None
        """The call, while its handler has to wait."""
        self.task: asyncio.Task[Any] | None = None
        """The task that runs the handler, while it has to wait."""

    def begin(
        self, call: Call, outcome: Coroutine[Any, Any, Outcome] | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Start the call.

        Args:
            call: The call.
            outcome: What it comes to, where it has begun already; it has its place in any case.

        Returns:
            `None` if it is answered already, else the rest of it, to be awaited in a task.
        """
        admission = self._crew.admission
        if outcome is not None:
            admission.enter()
        elif not admission.enter_nowait():
            refused = admission.check_queue()
            if refused is None:
                return self._run(call, self._wait_and_handle(call), has_place=False)
            self.refuse(answer_refused(refused, self._lines, self.id))
            return None
        try:
            found = self._crew.handle(call) if outcome is None else outcome
            # Asked first, because asking an abstract class takes longer than the rest of this.
            if type(found) is types.CoroutineType:
                if not self._door.in_task:
                    # Without a task the handler could not use timeouts, nor be cancelled.
                    return self._run(call, found)
                try:
                    # Most handlers need no second step, and so no frame of ours.
                    waited_for = found.send(None)
                except StopIteration as stop:
                    self.result(stop.value)
                else:
                    return self._run(call, resume(found, waited_for))
            elif isinstance(found, Awaitable):
                return self._run(call, found)
            else:
                self.result(found)
        except WireError as error:
            self.error(error)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the handler boundary
            self._fail(call, error)
        admission.leave()
        return None

    def stop(self, reason: Stop) -> None:
        """Stop the handler; the first reason counts."""
        if self._stopped is not None:
            return
        self._stopped = reason
        if self.call is not None:
            self.call.cancelled = True
        if self.task is None:
            return
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

    async def _run(
        self, call: Call, outcome: Awaitable[Outcome], *, has_place: bool = True
    ) -> None:
        """Wait for the rest of the handler in the current task, and answer."""
        crew = self._crew
        self.call = call
        self.task = asyncio.current_task()
        if self._stopped is not None and self.task is not None:
            # In its first step, when there was no task yet.
            call.cancelled = True
            self.task.get_loop().call_soon(self._cancel_task)
        crew.running.add(self)
        crew.patience.touch(self)
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
                call.cancelled = True
                raise
            else:
                self._fail(call, error)
        except Exception as error:  # noqa: BLE001 - the handler boundary
            self._fail(call, error)
        finally:
            if has_place:
                crew.admission.leave()
            self._end()

    async def _wait_and_handle(self, call: Call) -> Outcome:
        """Start the handler once there is a place for it."""
        crew = self._crew
        await crew.admission.wait_place()
        try:
            outcome = crew.handle(call)
            return await outcome if isinstance(outcome, Awaitable) else outcome
        finally:
            crew.admission.leave()

    def _cancel_task(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def _fail(self, call: Call, error: BaseException) -> None:
        _log.error("%s failed", call.method, exc_info=error)
        self.error(InternalError("the server failed to answer; its log says why"))

    def _end(self) -> None:
        crew = self._crew
        crew.running.discard(self)
        crew.patience.discard(self)
        crew.deadline.discard(self)
        crew.terms.keep_alive.discard(self)
        if self.task is not None and self._stopped is not None and self.task.cancelling():
            # The cancellation was ours and is dealt with.
            self.task.uncancel()
        self.task = None
        # Without this circle all of it is freed at once, and not by the collector.
        self.call = None
