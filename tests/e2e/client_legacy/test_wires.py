"""What has to be the same on every wire and in every revision, each as one test."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpost import Context, Server
from mcpost.client import Client, Command
from mcpost.errors import ConnectionLost, RpcError
from mcpost.server.stdio import serve
from mcpost.types import Progress, ResourceUpdated, ToolsChanged
from tests.helpers.loop import run
from tests.helpers.serving import ROOT, serving

ASKED = {"type": "object", "properties": {"name": {"type": "string"}}}

server = Server("wires")
STEPS = {"done": 0, "cancelled": 0}


@server.tool
async def count(steps: int, ctx: Context) -> int:
    STEPS["done"] = 0
    try:
        for step in range(steps):
            STEPS["done"] = step + 1
            ctx.progress(step + 1, steps)
            ctx.info(f"step {step + 1}")
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        STEPS["cancelled"] += 1
        raise
    return steps


@server.tool
async def done() -> dict[str, int]:
    return STEPS


@server.tool
async def ask_all(ctx: Context) -> str:
    person = await ctx.elicit("Your name?", ASKED)
    model = await ctx.sample("Say hello.", max_tokens=5)
    roots = await ctx.roots()
    return f"{(person.content or {})['name']}, {model.text}, {len(roots)}"


@server.tool
async def change() -> None:
    server.notify_tools_changed()
    server.notify_resource_updated("wires://one")


@server.resource("wires://one")
def one() -> str:
    return "one"


WIRES = [(kind, era) for kind in ("stdio", "http") for era in ("modern", "legacy")]
Work = Callable[[Client], Awaitable[Any]]


@asynccontextmanager
async def connected(kind: str, era: str, **options: Any) -> AsyncIterator[Client]:
    """Give a client of the server above, over a wire."""
    if kind == "http":
        async with (
            serving(server.asgi()) as port,
            Client(f"http://127.0.0.1:{port}/", era=era, **options) as client,
        ):
            yield client
        return
    command = Command([sys.executable, __file__], {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})
    async with Client(command, era=era, **options) as client:
        yield client


@pytest.fixture(params=WIRES, ids="-".join)
def wired(request: pytest.FixtureRequest) -> Callable[..., Any]:
    kind, era = request.param

    def do(work: Work, **options: Any) -> Any:
        async def main() -> Any:
            async with connected(kind, era, **options) as client:
                return await work(client)

        return run(main())

    return do


@pytest.mark.req("P-01/C", "L-02/C", "I-01/S")
def test_progress_and_logs_of_a_call_come_in_order(wired: Callable[..., Any]) -> None:
    logs: list[Any] = []

    async def work(client: Client) -> Any:
        heard: list[float] = []

        def hear(progress: Progress) -> None:
            heard.append(progress.progress)

        return (await client.call("count", {"steps": 5}, progress=hear)).text, heard

    assert wired(work, on_log=lambda log: logs.append(log.data)) == ("5", [1, 2, 3, 4, 5])
    assert logs == [f"step {number}" for number in range(1, 6)]


@pytest.mark.req("P-02/C", "P-02/S", "T-15/S")
def test_a_cancelled_call_stops_at_the_server(wired: Callable[..., Any]) -> None:
    async def work(client: Client) -> Any:
        before = (await client.call("done")).data["cancelled"]
        handle = client.start("count", {"steps": 1_000})
        async for progress in handle.progress:
            if progress.progress == 3:
                handle.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handle
        while (found := (await client.call("done")).data)["cancelled"] == before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return found["done"]

    assert wired(work) < 1_000


@pytest.mark.req("L-03/C", "P-06/C")
def test_a_server_asks_a_person_a_model_and_for_the_roots(wired: Callable[..., Any]) -> None:
    async def work(client: Client) -> str:
        return (await client.call("ask_all")).text

    options = {
        "on_elicit": lambda question: {"name": "Ada"},
        "on_sample": lambda question: "hello",
        "on_roots": ["/"],
    }
    assert wired(work, **options) == "Ada, hello, 1"


@pytest.mark.req("L-04/C", "P-04/C")
def test_a_listen_hears_of_what_it_asked_for(wired: Callable[..., Any]) -> None:
    async def work(client: Client) -> Any:
        async with client.listen(tools=True, uris=["wires://one"]) as changes:
            await client.call("change")
            return {await anext(changes), await anext(changes)}

    assert wired(work) == {ToolsChanged(), ResourceUpdated("wires://one")}


@pytest.mark.req("F-01/C", "F-02/C", "V-01/C")
def test_what_a_server_offers_reads_the_same(wired: Callable[..., Any]) -> None:
    async def work(client: Client) -> Any:
        found = await client.discover()
        names = {tool.name for tool in await client.tools()}
        read = await client.read("wires://one")
        with pytest.raises(RpcError) as caught:
            await client.read("wires://none")
        return found.server_info.name, names, read.contents[0].text, caught.value.is_not_found  # type: ignore[union-attr]

    names = {"count", "done", "ask_all", "change"}
    assert wired(work) == ("wires", names, "one", True)


@pytest.mark.req("P-03/C")
def test_leaving_with_a_call_under_way_ends_it(wired: Callable[..., Any]) -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def work(client: Client) -> None:
        handle = client.start("count", {"steps": 1_000})
        tasks.append(handle.task)
        async for _ in handle.progress:
            return

    wired(work)
    assert isinstance(tasks[0].exception(), ConnectionLost)


if __name__ == "__main__":
    serve(server)
