"""Timers for many (mcpost.server.pulse)."""

from __future__ import annotations

import asyncio

import pytest

from mcpost.server.pulse import Lane
from tests.helpers.loop import run_by_the_clock as run


@pytest.mark.req("T-13/S")
def test_entries_are_due_in_their_order_and_once() -> None:
    async def scenario() -> list[str]:
        due: list[str] = []
        lane: Lane[str] = Lane(asyncio.get_running_loop(), 0.02, due.append)
        lane.touch("a")
        lane.touch("b")
        await asyncio.sleep(0.06)
        assert len(lane) == 0
        return due

    assert run(scenario()) == ["a", "b"]


@pytest.mark.req("T-13/S")
def test_a_touch_starts_the_wait_again_and_a_discard_ends_it() -> None:
    async def scenario() -> list[str]:
        due: list[str] = []
        lane: Lane[str] = Lane(asyncio.get_running_loop(), 0.08, due.append)
        for entry in ("touched", "kept", "left"):
            lane.touch(entry)
        lane.discard("left")
        await asyncio.sleep(0.05)
        lane.touch("touched")
        await asyncio.sleep(0.05)
        assert due == ["kept"]
        await asyncio.sleep(0.06)
        return due

    assert run(scenario()) == ["kept", "touched"]


@pytest.mark.req("T-13/S")
def test_an_entry_may_enter_again_and_end_another() -> None:
    async def scenario() -> list[str]:
        due: list[str] = []

        def take(entry: str) -> None:
            due.append(entry)
            lane.discard("b")
            if len(due) < 3:
                lane.touch(entry)

        lane: Lane[str] = Lane(asyncio.get_running_loop(), 0.01, take)
        lane.touch("a")
        lane.touch("b")
        await asyncio.sleep(0.1)
        return due

    assert run(scenario()) == ["a", "a", "a"]


@pytest.mark.req("T-13/S")
def test_an_interval_of_nothing_means_never() -> None:
    async def scenario() -> int:
        lane: Lane[str] = Lane(asyncio.get_running_loop(), 0, pytest.fail)
        lane.touch("a")
        await asyncio.sleep(0.01)
        return len(lane)

    assert run(scenario()) == 0
