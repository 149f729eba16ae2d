"""The client without async: in scripts, and under a running loop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from mcpost import Context, Server
from mcpost.errors import ConnectFailed
from mcpost.sync import Client
from mcpost.types import Progress, ToolsChanged
from tests.helpers.loop import run
from tests.helpers.until import DEADLINE


@pytest.fixture
def server() -> Server:
    made = Server("library", version="1")

    @made.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @made.tool
    async def count(to: int, ctx: Context) -> int:
        for step in range(to):
            await ctx.progress(step + 1, to)
        return to

    @made.resource("data://x")
    def x() -> str:
        return "text"

    @made.prompt
    def greet(name: str) -> str:
        return f"Hello {name}"

    @made.completion("greet", "name")
    def names(value: str) -> list[str]:
        return [f"{value}nn"]

    return made


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server) as made:
        yield made


def test_every_method_gives_its_result(client: Client) -> None:
    assert client.call("add", {"a": 1, "b": 2}).text == "3"
    assert [tool.name for tool in client.tools()] == ["add", "count"]
    assert client.read("data://x").text == "text"
    assert [each.uri for each in client.resources()] == ["data://x"]
    assert client.templates() == []
    assert [each.name for each in client.prompts()] == ["greet"]
    assert client.prompt("greet", {"name": "Ann"}).messages[0].role == "user"
    assert client.complete("greet", "name", "A").values == ["Ann"]
    assert client.discover().supported_versions == ["2026-07-28"]
    assert client.request("tools/list")["tools"]


def test_progress_runs_in_the_thread_that_called(client: Client) -> None:
    heard: list[tuple[float, str]] = []

    def hear(progress: Progress) -> None:
        heard.append((progress.progress, threading.current_thread().name))

    client.call("count", {"to": 3}, progress=hear)

    assert heard == [(1, "MainThread"), (2, "MainThread"), (3, "MainThread")]


def test_what_the_callback_raises_ends_the_call(client: Client) -> None:
    def hear(progress: Progress) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        client.call("count", {"to": 3}, progress=hear)


def test_changes_are_iterated(client: Client, server: Server) -> None:
    changes = client.listen(tools=True)
    heard = threading.Event()

    def change_until_heard() -> None:
        while not heard.wait(0.02):
            server.notify_tools_changed()

    changing = threading.Thread(target=change_until_heard)
    changing.start()

    assert next(changes) == ToolsChanged()
    heard.set()
    changing.join()
    changes.close()


def test_it_works_where_a_loop_runs_already(server: Server) -> None:
    async def notebook() -> str:
        with Client(server) as client:
            return client.call("add", {"a": 1, "b": 2}).text

    assert run(notebook(), debug=False) == "3"


def test_a_closed_client_ends_its_thread_and_calls_no_more(server: Server) -> None:
    with Client(server) as client:
        client.discover()
    client.close()

    assert "mcpost-client" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(ConnectFailed):
        client.discover()


SLOW = """
import asyncio, sys
from mcpost import Server
from mcpost.sync import Client
server = Server("slow", version="1")
@server.tool
async def wait() -> str:
    print("started", flush=True)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        print("cancelled", flush=True)
        raise
with Client(server) as client:
    client.call("wait")
"""


@pytest.mark.req("T-15/C")
def test_ctrl_c_cancels_the_call_and_goes_on() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=DEADLINE)

    assert out == "cancelled\n"
    assert "KeyboardInterrupt" in err
