"""The clients of the official SDK and of fastmcp, in both their modes, over both wires."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fastmcp
import mcp
import mcp_types
import pytest
from fastmcp.client.transports import StdioTransport

from tests.helpers.loop import run
from tests.helpers.serving import child
from tests.helpers.until import DEADLINE

BOTH = str(Path(__file__).parent / "both.py")
MCPOST = str(Path(sys.executable).parent / "mcpost")

modes = pytest.mark.parametrize("mode", ["legacy", "auto"])
wires = pytest.mark.parametrize("wire", ["http", "stdio"])


@asynccontextmanager
async def target(wire: str) -> AsyncIterator[Any]:
    """What a client of theirs is given."""
    if wire == "stdio":
        yield mcp.StdioServerParameters(command=MCPOST, args=["serve", BOTH, "--stdio"])
    else:
        async with child(MCPOST, "serve", BOTH, "--port", "0") as served:
            yield f"http://127.0.0.1:{served.port}/mcp"


async def answer_elicit(context: Any, params: Any) -> Any:
    return mcp_types.ElicitResult(action="accept", content={"name": "Ann"})


async def answer_sample(context: Any, params: Any) -> Any:
    content = mcp_types.TextContent(type="text", text="hello")
    return mcp_types.CreateMessageResult(role="assistant", content=content, model="m")


async def answer_roots(context: Any) -> Any:
    return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri="file:///x")])


class Heard:
    """What a client was told besides answers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.arrived = asyncio.Event()

    async def take(self, message: Any) -> None:
        self.names.append(type(message).__name__)
        if "ResourceUpdatedNotification" in self.names:
            self.arrived.set()


@asynccontextmanager
async def official(wire: str, mode: str, heard: Heard) -> AsyncIterator[mcp.Client]:
    async with (
        target(wire) as given,
        mcp.Client(
            given,
            mode=mode,
            elicitation_callback=answer_elicit,
            sampling_callback=answer_sample,
            list_roots_callback=answer_roots,
            message_handler=heard.take,
            read_timeout_seconds=DEADLINE,
        ) as client,
    ):
        yield client


@pytest.mark.req("L-05/S", "V-05/S")
@modes
@wires
def test_the_official_client_calls_reads_and_hears_progress(wire: str, mode: str) -> None:
    async def check() -> None:
        told: list[float] = []

        async def progress(done: float, total: float | None, message: str | None) -> None:
            told.append(done)

        async with official(wire, mode, Heard()) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            counted = await client.call_tool("count", {"steps": 5}, progress_callback=progress)
            read = await client.read_resource("both://one")

            assert tools == ["add", "count", "ask_all", "change"]
            assert counted.content[0].text == "5"  # type: ignore[union-attr]
            assert told == [1, 2, 3, 4, 5]
            assert read.contents[0].text == "one"  # type: ignore[union-attr]

    run(check(), debug=False)


@pytest.mark.req("L-03/S", "L-05/S")
@modes
@wires
def test_the_official_client_answers_all_kinds_of_questions(wire: str, mode: str) -> None:
    async def check() -> None:
        async with official(wire, mode, Heard()) as client:
            result = await client.call_tool("ask_all", {})

            assert result.content[0].text == "Ann, hello, 1"  # type: ignore[union-attr]

    run(check(), debug=False)


@pytest.mark.req("L-04/S")
@pytest.mark.filterwarnings("ignore:resources/subscribe")
@wires
def test_the_official_client_hears_of_changes(wire: str) -> None:
    async def check() -> None:
        heard = Heard()
        async with official(wire, "legacy", heard) as client:
            await client.session.subscribe_resource("both://one")
            await client.session.send_ping()
            await client.call_tool("change", {})
            await asyncio.wait_for(heard.arrived.wait(), DEADLINE)

            assert heard.names[-2:] == [
                "ToolListChangedNotification",
                "ResourceUpdatedNotification",
            ]

    run(check(), debug=False)


@pytest.mark.req("L-05/S", "V-05/S")
@modes
@wires
def test_the_client_of_fastmcp_calls(wire: str, mode: str) -> None:
    async def check() -> None:
        async with target(wire) as given:
            if wire == "stdio":
                given = StdioTransport(MCPOST, given.args, keep_alive=False)
            async with fastmcp.Client(given, mode=mode, timeout=DEADLINE) as client:
                result = await client.call_tool("add", {"a": 1, "b": 2})

                assert result.content[0].text == "3"  # type: ignore[union-attr]

    run(check(), debug=False)
