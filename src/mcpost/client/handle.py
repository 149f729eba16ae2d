"""A call that runs by itself: its progress can be followed, it can be cancelled, and awaited.

Spec: patterns/progress, patterns/cancellation (P-01, P-02).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Final

from mcpost.client.call import OnProgress
from mcpost.types import CallResult, Progress

__all__ = ("CallHandle",)

_KEPT: Final = 1_000


class CallHandle(Awaitable[CallResult]):
    """A running call; `await` it for its result.

    Args:
        make: Makes the call, given the callback that its progress goes to.
    """

    def __init__(self, make: Callable[[OnProgress], Coroutine[Any, Any, CallResult]]) -> None:
        # Of a reader that is slower than this many notices, the oldest are lost: progress is news.
        self._notices: deque[Progress] = deque(maxlen=_KEPT)
        self._wake: asyncio.Future[None] | None = None
        self.task: asyncio.Task[CallResult] = asyncio.ensure_future(make(self._take))
        """The task that makes the call."""
        self.task.add_done_callback(lambda _: self._notify())

    def __await__(self) -> Generator[Any, None, CallResult]:
        return self.task.__await__()

    @property
    def progress(self) -> AsyncIterator[Progress]:
        """The progress of the call, as it comes, until the call is over."""
        return self._follow()

    @property
    def is_done(self) -> bool:
        """Whether the call is over."""
        return self.task.done()

    def cancel(self) -> bool:
        """Cancel the call: its stream is closed, and the server stops.

        Returns:
            Whether it was still running; awaiting it then raises `asyncio.CancelledError`.
        """
        return self.task.cancel()

    async def _follow(self) -> AsyncIterator[Progress]:
        while True:
            while self._notices:
                yield self._notices.popleft()
            if self.task.done():
                return
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    def _take(self, progress: Progress) -> None:
        self._notices.append(progress)
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
