"""`mcpost serve` with sessions of an earlier revision, to its end."""

from __future__ import annotations

import signal

import pytest

from tests.e2e.legacy.test_resume import Client
from tests.e2e.legacy.test_their_clients import BOTH, MCPOST
from tests.helpers.legacy import call, initialize
from tests.helpers.loop import run
from tests.helpers.raw import connect
from tests.helpers.serving import child


@pytest.mark.req("L-02/S")
def test_a_signal_ends_open_streams_and_the_process() -> None:
    async def check() -> None:
        async with child(MCPOST, "serve", BOTH, "--port", "0") as served:
            client = Client(served.port)
            async with connect(served.port) as raw, connect(served.port) as stream:
                await client.open(raw)
                await stream.send(client.bodyless("GET"))
                assert await stream.head() == 200
                await raw.send(client.post(call("change")))
                await raw.head()
                await raw.body()
                parts = [await stream._part(), await stream._part()]
                served.tell(signal.SIGTERM)

                assert parts[0] == b"id: 0-0\nretry: 1000\ndata: "
                assert b"notifications/tools/list_changed" in (parts[1] or b"")
                assert await stream._part() is None
                assert await served.end() == 0

    run(check())


@pytest.mark.req("T-02/S", "V-05/S")
def test_legacy_off_refuses_get_and_initialize() -> None:
    async def check() -> None:
        async with child(MCPOST, "serve", BOTH, "--port", "0", "--legacy", "off") as served:
            client = Client(served.port)
            async with connect(served.port) as raw:
                got = await raw.ask(client.bodyless("GET"))
                assert (raw.status, raw.headers["allow"]) == (405, "POST")
                opened = await raw.ask(client.post(initialize()))

                assert got["error"]["code"] == -32600
                assert (raw.status, opened["error"]["code"]) == (400, -32022)

    run(check())


@pytest.mark.req("L-01/S")
def test_with_several_workers_earlier_revisions_are_off() -> None:
    async def check() -> None:
        async with child(MCPOST, "serve", BOTH, "--port", "0", "--workers", "2") as served:
            client = Client(served.port)
            async with connect(served.port) as raw:
                opened = await raw.ask(client.post(initialize()))

                assert (raw.status, opened["error"]["code"]) == (400, -32022)
                assert "mcp-session-id" not in raw.headers
            served.tell(signal.SIGTERM)
            assert await served.end() == 0

    run(check())
