"""Running a coroutine in a test: with a deadline, and with no task left."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(coro: Coroutine[Any, Any, T], timeout: float = 10, *, debug: bool = True) -> T:
    """Run a coroutine on a new loop and give its result.

    A task that still runs a second after the end is a failure, and so is a passed deadline.

    Args:
        coro: What to run.
        timeout: Seconds it may take.
        debug: Whether the loop checks how it is used; off only where the time counts.
    """

    async def guarded() -> T:
        async with asyncio.timeout(timeout):
            result = await coro
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=1)
        assert not left, f"tasks left behind: {left}"
        return result

    return asyncio.run(guarded(), debug=debug)
