"""The serving process on our own engine: its signals and its drain (server.native)."""

from __future__ import annotations

import contextlib
import signal
from typing import Any

import pytest

from tests.helpers.http import call, listen
from tests.helpers.loop import run
from tests.helpers.raw import Raw, connect
from tests.helpers.serving import child

PROCESS = ("-m", "tests.e2e.native.process")


async def begin(stack: contextlib.AsyncExitStack, port: int, sent: bytes) -> Raw:
    connection = await stack.enter_async_context(connect(port))
    await connection.send(sent)
    return connection


@pytest.mark.req("P-05/S")
def test_sigterm_ends_listens_with_a_result_and_lets_calls_finish() -> None:
    async def scenario() -> tuple[list[Any], list[bytes], int, str]:
        async with (
            child(*PROCESS, GRACE="60") as served,
            contextlib.AsyncExitStack() as stack,
        ):
            listens = [
                await begin(stack, served.port, listen(n, toolsListChanged=True)) for n in range(50)
            ]
            for connection in listens:
                await connection.head()
                await connection.event()
            calls = [
                await begin(stack, served.port, call("wait", {"seconds": 0.7})) for _ in range(5)
            ]
            idle = await begin(stack, served.port, call("add", {"a": 1, "b": 2}))
            await idle.head()
            await idle.body()
            served.tell()
            ends = [await connection.events() for connection in listens]
            assert await idle.is_closed()
            answers = []
            for connection in calls:
                await connection.head()
                answers.append(await connection.body())
                assert await connection.is_closed()
            return ends, answers, await served.end(), await served.errors()

    ends, answers, status, errors = run(scenario(), debug=False)

    assert [[event["id"] for event in events] for events in ends] == [[n] for n in range(50)]
    assert all(b'"waited"' in answer for answer in answers)
    assert (status, errors) == (0, "")


@pytest.mark.req("P-05/S", "T-15/S")
@pytest.mark.parametrize("tool", ["wait", "stubborn", "block"])
def test_no_call_keeps_the_process_alive(tool: str) -> None:
    async def scenario() -> None:
        async with child(*PROCESS) as served, contextlib.AsyncExitStack() as stack:
            await begin(stack, served.port, call(tool, {} if tool == "stubborn" else SLOW))
            async with connect(served.port) as other:
                await other.ask(call("add", {"a": 1, "b": 2}))
            served.tell()
            # Much sooner than the call would end.
            await served.end()

    run(scenario(), debug=False)


SLOW = {"seconds": 600}


@pytest.mark.req("P-05/S")
def test_a_second_signal_ends_at_once() -> None:
    async def scenario() -> int:
        async with (
            child(*PROCESS, GRACE="600") as served,
            contextlib.AsyncExitStack() as stack,
        ):
            waiting = await begin(stack, served.port, call("wait", SLOW))
            listening = await begin(stack, served.port, listen(toolsListChanged=True))
            await listening.head()
            served.tell(signal.SIGINT)
            # Its end shows that the first signal has arrived.
            await listening.events()
            served.tell(signal.SIGINT)
            assert await waiting.is_closed()
            return await served.end()

    assert run(scenario(), debug=False) == 130
