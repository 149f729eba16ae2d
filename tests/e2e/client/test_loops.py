"""The client on the other event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import uvloop

from mcpost.client import Client
from mcpost.errors import ConnectionLost
from tests.helpers.hostile import CLOSE, HANG, Hostile, event, good, stream
from tests.helpers.until import DEADLINE, until


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as made:
        yield made


def test_calls_streams_losses_and_cancels_work_on_uvloop(runner: asyncio.Runner) -> None:
    async def ending() -> None:
        async with (
            Hostile(lambda i: [stream(event(good(i))), HANG]) as server,
            Client(server.url, era="modern") as client,
        ):
            await client.discover()
            await client.request("tools/call", {"name": "fault"})

    async def lost() -> None:
        async with (
            Hostile(lambda i: [stream(), CLOSE]) as server,
            Client(server.url, era="modern") as client,
        ):
            with pytest.raises(ConnectionLost):
                await client.request("tools/call", {"name": "fault"})

    async def cancelled() -> None:
        async with (
            Hostile(lambda i: [HANG]) as server,
            Client(server.url, era="modern") as client,
        ):
            call = asyncio.ensure_future(client.request("tools/call", {"name": "fault"}))
            await until(lambda: server.requests)
            call.cancel()
            await server.gone.wait()

    for each in (ending, lost, cancelled):
        runner.run(asyncio.wait_for(each(), DEADLINE))
