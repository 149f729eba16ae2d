"""Threads for functions that are not `async`: bounded, started when needed, gone when idle.

They are daemons: a function that never returns keeps no process alive after its drain. Each idle
thread has an inbox of its own and the one that worked last is taken first, so that a busy server
uses few of them.

Spec: ours (`ServerLimits.threads`).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

__all__ = ("Threads",)


class _Job:
    """One call of one function, and the future that waits for it."""

    __slots__ = ("arguments", "context", "function", "future", "loop")

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
        self.function = function
        self.arguments = arguments
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def run(self) -> Callable[[], None]:
        """Run it, in the thread that this is called in; gives what tells of its outcome."""
        if self.future.cancelled():
            return _nobody_asks
        try:
            value = self.context.run(self.function, **self.arguments)
        except StopIteration as error:
            # A future cannot carry one: it would be lost, and the call would hang.
            failure = RuntimeError("the function raised StopIteration")
            failure.__cause__ = error
            return partial(self._tell, self.future.set_exception, failure)
        except BaseException as error:  # noqa: BLE001 - raised again where the call is awaited
            return partial(self._tell, self.future.set_exception, error)
        return partial(self._tell, self.future.set_result, value)

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        def settle_once() -> None:
            if not self.future.done():
                settle(outcome)

        try:
            self.loop.call_soon_threadsafe(settle_once)
        except RuntimeError:
            # The loop is closed: nobody waits for the outcome any more.
            return


def _nobody_asks() -> None:
    """Tell nothing: the call was cancelled before its turn."""


class Threads:
    """A pool of threads.

    Args:
        limit: Threads at once; work beyond it waits for its turn.
        patience: Seconds that an idle thread waits for more work.
    """

    __slots__ = ("_backlog", "_count", "_idle", "_limit", "_lock", "_patience")

    def __init__(self, limit: int, *, patience: float = 10.0) -> None:
        self._limit = limit
        self._patience = patience
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[_Job]] = []
        self._backlog: deque[_Job] = deque()
        self._count = 0

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Call a function in a thread, with the context variables of the caller.

        A cancellation is at once; the thread, if it has begun, works on and its outcome is lost.

        Args:
            function: The function.
            arguments: Its keyword arguments.

        Returns:
            What it returned; what it raised is raised.
        """
        job = _Job(function, arguments)
        with self._lock:
            if self._idle:
                self._idle.pop().put(job)
            elif self._count < self._limit:
                self._start(job)
            else:
                self._backlog.append(job)
        return await job.future

    def _start(self, job: _Job) -> None:
        inbox: SimpleQueue[_Job] = SimpleQueue()
        inbox.put(job)
        thread = threading.Thread(
            target=self._work, args=(inbox,), name="mcpost-worker", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # The system gives no more threads; those that are there have to do.
            if self._count == 0:
                raise
            self._backlog.append(job)
        else:
            self._count += 1

    def _work(self, inbox: SimpleQueue[_Job]) -> None:
        # Popped and not named: what an idle thread remembers of its last call would live on.
        jobs = [inbox.get()]
        while jobs:
            tell = [jobs.pop().run()]
            # Idle before its caller hears: one that calls again at once needs no other thread.
            jobs.extend(self._next(inbox))
            tell.pop()()
            if not jobs:
                jobs.extend(self._wait(inbox))

    def _next(self, inbox: SimpleQueue[_Job]) -> list[_Job]:
        """Take a job that waits for a thread; where none does, the thread is idle from now on."""
        with self._lock:
            if self._backlog:
                return [self._backlog.popleft()]
            self._idle.append(inbox)
        return []

    def _wait(self, inbox: SimpleQueue[_Job]) -> list[_Job]:
        """Wait for the next job; nothing where the thread has been idle for long enough."""
        try:
            return [inbox.get(timeout=self._patience)]
        except Empty:
            pass
        with self._lock:
            if inbox in self._idle:
                self._idle.remove(inbox)
                self._count -= 1
                return []
        # It was chosen just now: its job is on the way.
        return [inbox.get()]
