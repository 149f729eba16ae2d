"""Waiting for what no event tells of, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

DEADLINE = 60.0
"""Seconds for one wait that only guards against hanging: no test hangs on how fast a machine is."""


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; raises TimeoutError when it does not in time."""
    async with asyncio.timeout(DEADLINE):
        while not condition():  # noqa: ASYNC110 - what is waited for belongs to others
            await asyncio.sleep(0.002)
