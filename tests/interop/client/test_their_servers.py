"""Our client against the servers of the official SDK, of fastmcp and of the TypeScript SDK."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcpost.client import Client
from mcpost.errors import RpcError
from mcpost.types import Progress, TextContent, ToolsChanged
from tests.helpers.loop import run
from tests.helpers.until import DEADLINE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
NODE_HOME = Path(os.environ.get("MCPOST_NODE_HOME", ROOT / ".conformance"))
"""Where npm has put `@modelcontextprotocol/server`, `@modelcontextprotocol/node` and `zod`."""


@contextmanager
def started(command: list[str]) -> Iterator[str]:
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.kill()
        process.wait(DEADLINE)
        process.stdout.close()


def command_of(name: str) -> list[str]:
    if name != "typescript":
        return [sys.executable, str(HERE / f"{name}_server.py")]
    node = shutil.which("node")
    packages = NODE_HOME / "node_modules"
    if node is None or not all(
        (packages / each).is_dir()
        for each in ("@modelcontextprotocol/server", "@modelcontextprotocol/node", "zod")
    ):
        pytest.skip("the TypeScript SDK's server is not installed")
    return [node, str(HERE / "typescript_server.mjs"), str(NODE_HOME)]


@pytest.fixture(scope="module", params=["official", "fastmcp", "typescript"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with started(command_of(request.param)) as found:
        yield found


@pytest.mark.req("T-09/C", "F-01/C", "V-01/C")
def test_list_and_call(url: str) -> None:
    async def main() -> None:
        async with Client(url) as client:
            assert "2026-07-28" in (await client.discover()).supported_versions
            assert {"add", "reindex"} <= {tool.name for tool in await client.tools()}
            assert (await client.call("add", {"a": 1, "b": 2})).text == "3"

    run(main())


@pytest.mark.req("P-01/C")
def test_progress_as_it_comes(url: str) -> None:
    heard: list[Progress] = []

    async def main() -> None:
        async with Client(url) as client:
            result = await client.call("reindex", {"steps": 5}, progress=heard.append)
            assert result.text == "done"

    run(main())
    assert [(each.progress, each.total) for each in heard] == [(step, 5) for step in range(1, 6)]


@pytest.mark.req("T-15/C")
def test_a_cancelled_call_stops_at_the_server(url: str) -> None:
    async def main() -> None:
        async with Client(url) as client:
            call = client.start("reindex", {"steps": 500})
            async for progress in call.progress:
                if progress.progress == 6:
                    call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            # 500 steps take ten seconds: what stands still for half of one has been stopped.
            before = -1
            while (done := int((await client.call("steps_done")).text)) != before:
                before = done
                await asyncio.sleep(0.5)
            assert done < 500

    run(main())


@pytest.mark.req("F-02/C", "F-03/C")
def test_read_and_prompt(url: str) -> None:
    async def main() -> None:
        async with Client(url) as client:
            assert (await client.read("data://text")).text == "the text"
            message = (await client.prompt("greet", {"name": "Ann"})).messages[0]
            assert isinstance(message.content, TextContent)
            assert message.content.text == "Hello Ann"
            with pytest.raises(RpcError):
                await client.read("data://none")

    run(main())


@pytest.mark.req("P-04/C")
def test_listen(url: str, request: pytest.FixtureRequest) -> None:
    async def main() -> None:
        async with Client(url) as client:
            if "fastmcp" in request.node.name:
                # It does not serve listens, which is an answer too.
                with pytest.raises(RpcError) as caught:
                    await client.listen(tools=True).open()
                assert caught.value.code == -32601
                return
            async with client.listen(tools=True) as changes:
                await client.call("change")
                assert await anext(changes) == ToolsChanged()

    run(main())


def test_thirty_calls_at_once(url: str) -> None:
    async def main() -> None:
        async with Client(url) as client:
            calls = [client.call("add", {"a": n, "b": 1}) for n in range(30)]
            results = await asyncio.gather(*calls)
            assert [each.text for each in results] == [str(n + 1) for n in range(30)]

    run(main())
