"""First steps: in the name of a task, in a context of their own."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mcpost.server.host import Host
from tests.helpers.loop import run

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


def outside(*works: Callable[[list[Any]], Coroutine[Any, Any, None]]) -> list[Any]:
    """Start coroutines where no task runs, as a protocol does; give what they noted."""
    noted: list[Any] = []

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[list[asyncio.Task[None]]] = loop.create_future()
        host = Host(loop)

        def start() -> None:
            tasks = [host.start(work, noted) for work in works]
            begun.set_result([task for task in tasks if task is not None])

        loop.call_soon(start)
        await asyncio.gather(*await begun, return_exceptions=True)

    run(wait())
    return noted


async def quick(noted: list[Any]) -> None:
    noted.append(WHO.get())


async def slow(noted: list[Any]) -> None:
    first = asyncio.current_task()
    WHO.set("slow")
    await asyncio.sleep(0)
    noted.append((WHO.get(), first is asyncio.current_task() is not None))


def test_what_does_not_wait_is_done_at_once_and_has_no_task() -> None:
    assert outside(quick) == ["nobody"]


def test_a_coroutine_has_one_task_and_one_context_from_its_first_step_to_its_last() -> None:
    assert outside(slow) == [("slow", True)]


def test_a_context_is_nobody_elses() -> None:
    assert outside(slow, quick, slow) == ["nobody", ("slow", True), ("slow", True)]


def test_a_coroutine_may_have_deadlines_of_its_own() -> None:
    async def late(noted: list[Any]) -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            noted.append("late")

    assert outside(late) == ["late"]


def test_a_coroutine_that_cancels_its_task_is_cancelled_at_its_next_wait() -> None:
    async def cancels(noted: list[Any]) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            noted.append("cancelled")
            raise

    assert set(outside(cancels, slow)) == {("slow", True), "cancelled"}


def test_a_cancellation_that_was_outrun_is_nobody_elses() -> None:
    async def outruns(noted: list[Any]) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    assert outside(outruns, slow) == [("slow", True)]


def test_what_a_coroutine_raises_in_its_first_step_is_raised() -> None:
    async def breaks(noted: list[Any]) -> None:
        raise LookupError("broken")

    async def wait() -> None:
        loop = asyncio.get_running_loop()
        caught: asyncio.Future[type[BaseException]] = loop.create_future()

        def start() -> None:
            with pytest.raises(LookupError) as info:
                Host(loop).start(breaks, [])
            caught.set_result(info.type)

        loop.call_soon(start)
        assert await caught is LookupError

    run(wait())
