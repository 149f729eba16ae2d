"""The first step of a call, without a task of its own.

A coroutine needs a task: to be cancelled, to have deadlines, to know which task it is. Making one
and waiting for its turn costs as much as all the checks of a call, and most calls are done at their
first step. So that step is run by hand, in the name of a task that waits for its turn:
if the call has to wait, that same task goes on with it. All first steps of one turn of the
loop share one.

Each call has a context of its own from its first step to its last, as in a task of its own.

Spec: asyncio, "Extending": third-party task implementations (`_enter_task`, `_leave_task`).
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from typing import Any

__all__ = ("Host",)


class Host:
    """Starts work on one event loop.

    Args:
        loop: The loop.

    The task that lends its name is new in every turn of the loop that needs one, and over with the
    next: none is left behind.
    """

    __slots__ = ("_cell", "_task", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._task: asyncio.Task[None] | None = None
        self._cell: list[Generator[Any, Any, Any]] = []

    def start(
        self, begin: Callable[..., Coroutine[Any, Any, None] | None], *args: Any
    ) -> asyncio.Task[None] | None:
        """Begin some work at once, as in a task of its own.

        To be called where no task runs, as in a callback of a protocol.

        Args:
            begin: What does as much of the work as can be done without waiting, and gives the rest
                of it, a coroutine that has not been started; `None` if there is none.
            args: What it is called with.

        Returns:
            The task that goes on with the rest; `None` where there is none.

        Raises:
            BaseException: What was raised before the work had to wait.
        """
        task = self._task
        if task is None:
            self._cell = []
            # Made outside of any call, so that it holds on to nothing of one.
            task = contextvars.Context().run(self.loop.create_task, self._lend(self._cell))
            self._task = task
        context = contextvars.copy_context()
        _enter_task(self.loop, task)
        try:
            work = context.run(begin, *args)
            if work is None:
                return None
            waited_for = context.run(work.send, None)
        except StopIteration:
            return None
        finally:
            _leave_task(self.loop, task)
            if task.cancelling():
                # Whether the coroutine has outrun it or not, it is nobody else's.
                self._task = None
        rest = _finish(work, context, waited_for)
        if self._task is None:
            # It cancelled its task in its first step: that is for its next one to hear.
            task = self.loop.create_task(_wait(rest))
            self.loop.call_soon(task.cancel)
            return task
        self._cell.append(rest)
        self._task = None
        return task

    async def _lend(self, cell: list[Generator[Any, Any, Any]]) -> None:
        """The task: over with the turn that made it, unless a coroutine has to wait."""
        if self._cell is cell:
            self._task = None
        if cell:
            await _wait(cell.pop())


@types.coroutine
def _wait(rest: Generator[Any, Any, Any]) -> Generator[Any, Any, None]:
    yield from rest


def _finish(
    work: Coroutine[Any, Any, None], context: contextvars.Context, waited_for: Any
) -> Generator[Any, Any, None]:
    """Take the rest of the steps, each in the context of the first."""
    run = context.run
    while True:
        try:
            try:
                value = yield waited_for
            except BaseException as error:  # noqa: BLE001 - handed on to whom it is meant for
                waited_for = run(work.throw, error)
            else:
                waited_for = run(work.send, value)
        except StopIteration:
            return
