"""Running a coroutine in a test: with a deadline, and with no task left."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(
    coro: Coroutine[Any, Any, T],
    timeout: float = 120,
    *,
    debug: bool = True,
    make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Run a coroutine on a new loop and give its result.

    A task that does not end after it is a failure, and so is a passed deadline.

    Args:
        coro: What to run.
        timeout: Seconds it may take. They guard against hanging; what has to be quick is shown
            by other means, since a busy machine is slow.
        debug: Whether the loop checks how it is used; off only where the time counts.
        make_loop: What makes the loop.
    """

    async def guarded() -> T:
        # Its word on a slow step would be a record in the log that the step has not written.
        asyncio.get_running_loop().slow_callback_duration = float("inf")
        async with asyncio.timeout(timeout):
            result = await coro
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=10)
        assert not left, f"tasks left behind: {left}"
        return result

    with asyncio.Runner(debug=debug, loop_factory=make_loop) as runner:
        return runner.run(guarded())


def run_by_the_clock(coro: Coroutine[Any, Any, T], timeout: float = 600) -> T:
    """Run a coroutine on a loop whose clock goes on when nothing else is to be done, and only then.

    So what waits a second for a timer waits exactly that, in no time, however busy the machine is.
    It is for what happens within one loop: this clock waits for no thread, socket or process.

    Args:
        coro: What to run.
        timeout: Seconds by this clock.
    """
    return run(coro, timeout, make_loop=lambda: _ClockedLoop(_Clock()))


class _Clock(selectors.DefaultSelector):
    """Waits by moving its time."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self.now += timeout
        return ready


class _ClockedLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: _Clock) -> None:
        super().__init__(clock)
        self._clock = clock

    def time(self) -> float:
        return self._clock.now
