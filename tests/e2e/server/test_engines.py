"""The same application under other ASGI servers: granian and hypercorn (mcpost.server.asgi)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.helpers.http import call, listen
from tests.helpers.loop import run
from tests.helpers.ports import free_port
from tests.helpers.raw import Raw, connect
from tests.helpers.serving import ROOT
from tests.helpers.until import DEADLINE

APP = "tests.e2e.server.app:app"


def command(engine: str, port: int) -> list[str]:
    if engine == "granian":
        options = ["--interface", "asgi", "--host", "127.0.0.1", "--port", str(port)]
        return ["-m", "granian", *options, "--no-ws", APP]
    return ["-m", "hypercorn", "--bind", f"127.0.0.1:{port}", APP]


@contextlib.asynccontextmanager
async def engine(name: str) -> AsyncIterator[int]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command(name, port),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(DEADLINE):
            await _until_it_accepts(port)
        yield port
    finally:
        # granian has a process of its own for each worker.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _until_it_accepts(port: int) -> None:
    while True:
        try:
            async with connect(port):
                return
        except OSError:
            await asyncio.sleep(0.02)  # another's process tells nobody when it listens


async def opened(stack: contextlib.AsyncExitStack, port: int, sent: bytes) -> Raw:
    connection = await stack.enter_async_context(connect(port))
    await connection.send(sent)
    return connection


@pytest.mark.req("T-01/S", "T-10/S", "T-13/S", "T-15/S", "P-04/S")
@pytest.mark.parametrize("name", ["granian", "hypercorn"])
def test_all_that_a_stream_needs_works_under_other_servers(name: str) -> None:
    async def scenario() -> tuple[Any, ...]:
        async with engine(name) as port, contextlib.AsyncExitStack() as stack:
            plain = await stack.enter_async_context(connect(port))
            answer = await plain.ask(call("add", {"a": 1, "b": 2}))

            streaming = await opened(stack, port, call("count", {"steps": 2}, progressToken=1))
            await streaming.head()
            events = await streaming.events()

            listening = await opened(stack, port, listen("mine", toolsListChanged=True))
            await listening.head()
            acknowledged = await listening.event()
            comments = await listening.parts(5)

            leaving = await opened(stack, port, call("job", progressToken=1))
            await leaving.head()
            for _ in range(6):
                await leaving.event()
            await leaving.close()
            seen = (await plain.ask(call("seen")))["result"]["structuredContent"]
            return answer, events, acknowledged, comments, seen

    answer, events, acknowledged, comments, steps = run(scenario(), debug=False)

    assert answer["result"]["structuredContent"] == 3
    assert [event.get("id") for event in events] == [None, None, 7]
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert comments == [b":"] * 5
    assert 6 <= steps < 1_000
