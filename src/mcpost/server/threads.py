"""Threads for functions that are not `async`: bounded, started when needed, gone when idle.

What costs most of a short call in a thread is waking: the thread for its work, and the loop for the
outcome. So at most one thread is on its way to wake at any time. Before it begins to work it wakes
the next one, if there is still work that nobody has begun; whoever works on quick functions has
often done all of it by then. So no work waits for a function that blocks while a thread is left.
Outcomes go to the loop in one call for all that are there when it comes to them.

Threads are daemons: a function that never returns keeps no process alive after its drain. The one
that worked last is woken first, so that a busy server uses few of them.

Spec: ours (`ServerLimits.threads`).
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ("Threads",)


class _Job:
    """One call of one function, and the future that waits for it."""

    __slots__ = ("_arguments", "_context", "_error", "_function", "_value", "future")

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        future: asyncio.Future[Any],
    ) -> None:
        self._function = function
        self._arguments = arguments
        self._context = contextvars.copy_context()
        self._value: Any = None
        self._error: BaseException | None = None
        self.future = future

    def run(self) -> None:
        """Run it, in the thread that this is called in; the outcome is kept for `settle`."""
        if self.future.cancelled():
            return
        try:
            self._value = self._context.run(self._function, **self._arguments)
        except StopIteration as error:
            # A future cannot carry one: it would be lost, and the call would hang.
            self._error = RuntimeError("the function raised StopIteration")
            self._error.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - raised again where the call is awaited
            self._error = error

    def settle(self) -> None:
        """Tell the outcome to whoever waits for it; called on the loop."""
        future = self.future
        if future.done():
            return
        if self._error is None:
            future.set_result(self._value)
        else:
            future.set_exception(self._error)


class _Outcomes:
    """What threads have done for one loop, on its way there.

    Args:
        loop: The loop.
    """

    __slots__ = ("_done", "_is_handing_over", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[_Job] = deque()
        self._is_handing_over = False

    def add(self, job: _Job) -> None:
        """Take a job that is done; from any thread."""
        self._done.append(job)
        if self._is_handing_over:
            return
        self._is_handing_over = True
        try:
            self.loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            # The loop is closed: nobody waits for the outcome any more.
            self._done.clear()
            self._is_handing_over = False

    def _settle(self) -> None:
        # Lowered first: what is added from here on either is still taken below or is handed over.
        self._is_handing_over = False
        done = self._done
        while True:
            try:
                job = done.popleft()
            except IndexError:
                return
            job.settle()


class _Sleeper:
    """Where one thread sleeps until it is woken."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def sleep(self, seconds: float) -> bool:
        """Sleep until `wake` is called, which may have been already.

        Args:
            seconds: How long at most; -1 for ever.

        Returns:
            Whether it was called.
        """
        return self._lock.acquire(timeout=seconds)

    def wake(self) -> None:
        """Wake the thread, once for each sleep."""
        self._lock.release()


class Threads:
    """A pool of threads.

    Args:
        limit: Threads at once; work beyond it waits for its turn.
        patience: Seconds that an idle thread waits for more work.
    """

    __slots__ = (
        "_count",
        "_idle",
        "_is_waking",
        "_jobs",
        "_limit",
        "_lock",
        "_outcomes",
        "_patience",
    )

    def __init__(self, limit: int, *, patience: float = 10.0) -> None:
        self._limit = limit
        self._patience = patience
        self._lock = threading.Lock()
        self._jobs: deque[tuple[_Job, _Outcomes]] = deque()
        """What nobody has begun: while there is some, a thread is waking or all are at work."""
        self._idle: list[_Sleeper] = []
        self._is_waking = False
        self._count = 0
        self._outcomes: dict[asyncio.AbstractEventLoop, _Outcomes] = {}

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Call a function in a thread, with the context variables of the caller.

        A cancellation is at once; the thread, if it has begun, works on and its outcome is lost.

        Args:
            function: The function.
            arguments: Its keyword arguments.

        Returns:
            What it returned; what it raised is raised.

        Raises:
            RuntimeError: The system gives no thread, and there is none yet.
        """
        loop = asyncio.get_running_loop()
        outcomes = self._outcomes.get(loop)
        if outcomes is None:
            outcomes = self._enter(loop)
        future: asyncio.Future[Any] = loop.create_future()
        with self._lock:
            self._jobs.append((_Job(function, arguments, future), outcomes))
            if not self._is_waking:
                self._wake_one()
        return await future

    def _enter(self, loop: asyncio.AbstractEventLoop) -> _Outcomes:
        for other in [each for each in list(self._outcomes) if each.is_closed()]:
            self._outcomes.pop(other, None)
        outcomes = self._outcomes[loop] = _Outcomes(loop)
        return outcomes

    def _wake_one(self) -> None:
        """Wake or start a thread, if there is one; the lock is held."""
        if self._idle:
            self._is_waking = True
            self._idle.pop().wake()
        elif self._count < self._limit:
            self._start()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="mcpost-worker", daemon=True)
        self._is_waking = True
        self._count += 1
        try:
            thread.start()
        except RuntimeError:
            # The system gives no more threads; those that are there have to do.
            self._is_waking = False
            self._count -= 1
            if self._count == 0:
                self._jobs.pop()
                raise

    def _work(self) -> None:
        sleeper = _Sleeper()
        # In a list and not named: what an idle thread remembers of its last call would live on.
        work = self._take(sleeper, is_woken=True)
        while True:
            if work:
                work[0][0].run()
                done = work.pop()
                work = self._take(sleeper, is_woken=False)
                # Idle before its caller hears: one that calls again at once needs no other thread.
                done[1].add(done[0])
                del done
            else:
                if not sleeper.sleep(self._patience) and self._leave(sleeper):
                    return
                work = self._take(sleeper, is_woken=True)

    def _leave(self, sleeper: _Sleeper) -> bool:
        """End an idle thread, unless it was woken just now."""
        with self._lock:
            if sleeper in self._idle:
                self._idle.remove(sleeper)
                self._count -= 1
                return True
        sleeper.sleep(-1)
        return False

    def _take(self, sleeper: _Sleeper, *, is_woken: bool) -> list[tuple[_Job, _Outcomes]]:
        """Take the next job; where there is none, the thread is idle from now on."""
        with self._lock:
            if is_woken:
                self._is_waking = False
            if not self._jobs:
                self._idle.append(sleeper)
                return []
            job = self._jobs.popleft()
            if self._jobs and not self._is_waking:
                self._wake_one()
        return [job]
