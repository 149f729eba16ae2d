"""Our client against servers that know earlier revisions only: the reference servers from npm, and
the official package before 2.0, over every wire that they offer.

They are put beside the conformance suite by `make conformance`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcpost.client import Client
from tests.helpers.loop import run
from tests.helpers.ports import free_port
from tests.helpers.until import DEADLINE

HERE = Path(__file__).parent
HOME = Path(os.environ.get("MCPOST_NODE_HOME", HERE.parents[2] / ".conformance"))
EARLIER = HOME / "earlier" / "bin" / "python"


def node_server(name: str) -> list[str]:
    nodes = sorted(HOME.glob("node_modules/node-linux-*/bin/node"))
    package = HOME / "node_modules" / "@modelcontextprotocol" / f"server-{name}"
    if not nodes or not package.is_dir():
        pytest.skip("the reference servers are not installed: run make conformance")
    return [str(nodes[0]), str(package / "dist" / "index.js")]


def earlier_server(wire: str, port: int = 0) -> list[str]:
    if not EARLIER.exists():
        pytest.skip("the earlier official package is not installed: run make conformance")
    return [str(EARLIER), str(HERE / "earlier_server.py"), wire, str(port)]


@contextmanager
def listening(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PORT": str(port)},
    )
    try:
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                socket.create_connection(("localhost", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "the server did not start"
                time.sleep(0.05)  # a process of others tells nobody when it listens
        yield
    finally:
        process.terminate()
        process.wait(DEADLINE)


async def call(client: Client, name: str, arguments: dict[str, object]) -> str:
    async with client:
        assert name in [tool.name for tool in await client.tools()]
        return (await client.call(name, arguments)).text


@pytest.mark.req("V-04/C", "I-02/C")
@pytest.mark.parametrize(
    ("server", "name", "arguments", "text"),
    [
        ("everything", "echo", {"message": "hello"}, "hello"),
        ("memory", "read_graph", {}, "entities"),
        ("filesystem", "list_allowed_directories", {}, "directories"),
    ],
)
def test_reference_servers_are_called_over_stdio(
    server: str, name: str, arguments: dict[str, object], text: str, tmp_path: Path
) -> None:
    command = [*node_server(server), *([str(tmp_path)] if server == "filesystem" else [])]

    assert text in run(call(Client(command), name, arguments), debug=False)


@pytest.mark.req("V-03/C")
@pytest.mark.parametrize(("wire", "path"), [("streamableHttp", "/mcp"), ("sse", "/sse")])
def test_a_reference_server_is_called_over_its_http(wire: str, path: str) -> None:
    port = free_port()
    with listening([*node_server("everything"), wire], port):
        client = Client(f"http://localhost:{port}{path}")

        assert "hello" in run(call(client, "echo", {"message": "hello"}), debug=False)


async def use_earlier(client: Client) -> tuple[str, list[float], str]:
    told: list[float] = []
    async with client:
        total = await client.call("add", {"a": 1, "b": 2})
        await client.call("count", progress=lambda each: told.append(each.progress))
        return total.text, told, (await client.read("earlier://word")).text


@pytest.mark.req("V-04/C", "L-01/C")
def test_the_earlier_official_server_is_used_over_stdio() -> None:
    client = Client(earlier_server("stdio"))

    assert run(use_earlier(client), debug=False) == ("3", [1, 2, 3], "hello")


@pytest.mark.req("V-03/C", "L-01/C")
@pytest.mark.parametrize(("wire", "path"), [("streamable-http", "/mcp"), ("sse", "/sse")])
def test_the_earlier_official_server_is_used_over_its_http(wire: str, path: str) -> None:
    port = free_port()
    with listening(earlier_server(wire, port), port):
        client = Client(f"http://127.0.0.1:{port}{path}")

        assert run(use_earlier(client), debug=False) == ("3", [1, 2, 3], "hello")
