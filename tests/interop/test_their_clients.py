"""The clients of the official SDK and of fastmcp, against `mcpost serve`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import fastmcp
import mcp.client
import pytest

from tests.helpers.loop import run
from tests.interop.conftest import Library

pytestmark = pytest.mark.xdist_group("library")


class Official:
    """The official client, called like the other one."""

    def __init__(self, url: str) -> None:
        self._client = mcp.client.Client(url)

    async def __aenter__(self) -> Official:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.__aexit__(*error)

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def call(self, name: str, arguments: dict[str, Any], progress: Any = None) -> Any:
        result = await self._client.call_tool(name, arguments, progress_callback=progress)
        return result.structured_content

    async def read(self, uri: str) -> str:
        return (await self._client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return (await self._client.get_prompt(name, arguments)).messages[0].content


class Fast:
    """The fastmcp client, called like the other one."""

    def __init__(self, url: str) -> None:
        self._client = fastmcp.Client(url)

    async def __aenter__(self) -> Fast:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.__aexit__(*error)

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self._client.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any], progress: Any = None) -> Any:
        result = await self._client.call_tool(name, arguments, progress_handler=progress)
        return result.structured_content

    async def read(self, uri: str) -> str:
        return (await self._client.read_resource(uri))[0].text  # type: ignore[union-attr]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return (await self._client.get_prompt(name, arguments)).messages[0].content


@pytest.fixture(params=[Official, Fast], ids=["official", "fastmcp"])
def client(request: pytest.FixtureRequest, library: Library) -> Any:
    return request.param(library.url)


@pytest.mark.req("F-01/S")
def test_their_clients_list_our_tools(client: Any) -> None:
    async def list_tools() -> list[str]:
        async with client as entered:
            return await entered.tools()  # type: ignore[no-any-return]

    assert run(list_tools(), debug=False) == ["search", "place_hold", "reindex"]


@pytest.mark.req("H-01/S", "F-01/S")
def test_their_clients_call_a_tool_with_a_mirrored_parameter(client: Any) -> None:
    async def call() -> Any:
        async with client as entered:
            await entered.tools()
            return await entered.call("search", {"query": "treasure", "region": "eu"})

    found = run(call(), debug=False)
    assert [book["title"] for book in found] == ["Treasure Island"]


@pytest.mark.req("P-01/S", "T-10/S")
def test_their_clients_see_progress(client: Any) -> None:
    told: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async def call() -> Any:
        async with client as entered:
            return await entered.call("reindex", {"steps": 5, "delay": 0.01}, note)

    assert run(call(), debug=False)["done"] == 5
    assert told == [(n, 5) for n in (1, 2, 3, 4, 5)]


@pytest.mark.req("F-02/S", "F-03/S")
def test_their_clients_read_resources_and_prompts(client: Any) -> None:
    async def read() -> tuple[str, Any]:
        async with client as entered:
            text = await entered.read("library://books/3")
            return text, await entered.prompt("recommend", {"subject": "sea"})

    text, prompt = run(read(), debug=False)
    assert json.loads(text)["title"] == "Frankenstein"
    assert "about sea" in prompt.text


@pytest.mark.req("T-15/S")
def test_a_call_that_their_client_leaves_after_six_steps_is_stopped(
    client: Any, library: Library
) -> None:
    six = asyncio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        if progress >= 6:
            six.set()

    async def leave() -> None:
        async with client as entered:
            call = asyncio.create_task(entered.call("reindex", {"steps": 200, "delay": 0.05}, note))
            await six.wait()
            call.cancel()
            await asyncio.wait([call])

    run(leave(), debug=False)
    last = "SELECT state, done FROM runs ORDER BY id DESC LIMIT 1"
    assert 6 <= library.wait_until(last, "cancelled")[0][1] < 200


@pytest.mark.req("P-04/S", "T-13/S")
def test_the_official_client_hears_changes_and_no_keep_alive(library: Library) -> None:
    async def listen() -> list[Any]:
        heard: list[Any] = []
        async with (
            mcp.client.Client(library.url) as client,
            client.listen(resource_subscriptions=["library://holds"]) as changes,
        ):
            # Eight keep-alive intervals without a word, and then one change.
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.4):
                    heard.append(await anext(aiter(changes)))
            await client.call_tool("place_hold", {"book_id": 5})
            heard.append(await anext(aiter(changes)))
        return heard

    (change,) = run(listen(), debug=False)
    assert change.uri == "library://holds"
