"""A server object called in process: the rules of the wire hold, and no socket is used."""

from __future__ import annotations

import asyncio
from typing import Annotated

import pytest

from mcpost import Context, Mirror, Server
from mcpost.errors import BadTarget, ConnectionLost, RpcError
from mcpost.testing import Recorder, connect
from mcpost.types import Progress, ToolsChanged
from tests.helpers.loop import run, run_by_the_clock
from tests.helpers.until import until

STEPS: list[int] = []


def make_server() -> Server:
    server = Server("library", version="1")

    @server.tool
    async def search(query: str, region: Annotated[str | None, Mirror("Region")] = None) -> str:
        return f"{query} in {region}"

    @server.tool
    async def reindex(steps: int, ctx: Context) -> int:
        for step in range(steps):
            STEPS.append(step)
            ctx.progress(step + 1, steps)
            await asyncio.sleep(0.01)
        return steps

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", {"type": "object", "properties": {}})
        return answer.action

    return server


@pytest.fixture
def server() -> Server:
    STEPS.clear()
    return make_server()


def test_a_call_goes_through_the_endpoint_with_its_headers(server: Server) -> None:
    recorder = Recorder()

    async def main() -> None:
        async with connect(server, recorder) as client:
            result = await client.call("search", {"query": "tide", "region": "eu"})
            assert result.text == "tide in eu"

    run(main())
    assert ("Mcp-Param-Region", "eu") in recorder.exchanges[-1].request.lines


def test_progress_is_heard_and_recorded(server: Server) -> None:
    recorder = Recorder()
    heard: list[Progress] = []

    async def main() -> None:
        async with connect(server, recorder) as client:
            assert (await client.call("reindex", {"steps": 4}, progress=heard.append)).text == "4"

    run(main())
    assert [each.progress for each in heard] == [1, 2, 3, 4]
    assert len(recorder.exchanges[-1].notifications) == 4
    reply = recorder.exchanges[-1].reply
    assert reply is not None
    assert reply.status == 200


@pytest.mark.req("T-15/C")
def test_a_call_that_is_cancelled_stops(server: Server) -> None:
    async def main() -> None:
        async with connect(server) as client:
            call = client.start("reindex", {"steps": 40})
            async for progress in call.progress:
                if progress.progress == 6:
                    call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.sleep(0.05)

    run_by_the_clock(main())
    assert len(STEPS) <= 7


def test_input_and_listens_work_as_over_http(server: Server) -> None:
    async def main() -> None:
        async with connect(server, on_elicit=lambda question: {}) as client:
            assert (await client.call("greet")).text == "accept"
            async with client.listen(tools=True) as changes:
                server.notify_tools_changed()
                assert await anext(changes) == ToolsChanged()

    run(main())


def test_a_refusal_has_the_status_it_has_over_http(server: Server) -> None:
    async def main() -> None:
        async with connect(server) as client:
            with pytest.raises(RpcError) as caught:
                await client.request("tools/unknown")
            assert (caught.value.code, caught.value.status) == (-32601, 404)

    run(main())


def test_closing_the_client_ends_the_work(server: Server) -> None:
    async def main() -> None:
        async with connect(server) as client:
            call = asyncio.ensure_future(client.call("reindex", {"steps": 400}))
            await until(lambda: STEPS)
        with pytest.raises(ConnectionLost):
            await call

    run_by_the_clock(main())
    assert len(STEPS) < 50


def test_an_application_that_fails_is_a_lost_connection() -> None:
    async def broken(scope: object, receive: object, send: object) -> None:
        return

    async def main() -> None:
        async with connect(broken) as client:
            with pytest.raises(ConnectionLost):
                await client.discover()

    run(main())


def test_what_is_no_server_is_refused() -> None:
    with pytest.raises(BadTarget):
        connect(7)  # type: ignore[arg-type]
