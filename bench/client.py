"""What a call costs its client: `python -m bench.client`.

Processor time of the client's process per call of `add`, one after the other and 32 at once, in
turns against one server that does next to nothing. Each client runs in a process of its own; the
first calls (connections, the list of tools) are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bench.machine import ROOT, SERVER_CORE, on_core, prepare

CLIENTS: Final = ("mcpost", "official", "fastmcp")
AT_ONCE: Final = (1, 32)
START_TIMEOUT: Final = 60.0

Call = Callable[[int], Awaitable[object]]


class Answering(asyncio.Protocol):
    """A connection of the server: it reads whole requests and answers from what it has ready."""

    def __init__(self) -> None:
        self._rest = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._rest += data
        while True:
            head, blank, rest = self._rest.partition(b"\r\n\r\n")
            mark = head.lower().find(b"content-length:")
            if not blank or mark < 0:
                return
            length = int(head[mark + 15 :].partition(b"\r\n")[0])
            if len(rest) < length:
                return
            self._rest = rest[length:]
            self._transport.write(answer(json.loads(rest[:length])))


RESULTS: Final[dict[str, dict[str, Any]]] = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {
        "tools": [
            {
                "name": "add",
                "inputSchema": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                },
            }
        ]
    },
    "tools/call": {"content": [{"type": "text", "text": "3"}]},
}


def answer(message: dict[str, Any]) -> bytes:
    """The bytes of the answer to a request."""
    result = {
        "resultType": "complete",
        "ttlMs": 3_600_000,
        "cacheScope": "public",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bench", "version": "1"}},
        **RESULTS[message["method"]],
    }
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    lines = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return f"HTTP/1.1 200 OK\r\n{lines}".encode() + body


async def serve() -> None:
    """Answer until the process ends; the first line of the output is the port."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def with_mcpost(url: str, use: Callable[[Call], Awaitable[None]]) -> None:
    from mcpost import Client

    async with Client(url) as client:
        await use(lambda number: client.call("add", {"a": number, "b": 2}))


async def with_official(url: str, use: Callable[[Call], Awaitable[None]]) -> None:
    from mcp.client import Client

    async with Client(url) as client:
        await use(lambda number: client.call_tool("add", {"a": number, "b": 2}))


async def with_fastmcp(url: str, use: Callable[[Call], Awaitable[None]]) -> None:
    from fastmcp import Client

    async with Client(url) as client:
        await use(lambda number: client.call_tool("add", {"a": number, "b": 2}))


WITH: Final = {"mcpost": with_mcpost, "official": with_official, "fastmcp": with_fastmcp}


async def measure_here(name: str, url: str, calls: int) -> dict[int, float]:
    """Measure a client in this process; gives microseconds of processor time a call."""
    found: dict[int, float] = {}

    async def use(call: Call) -> None:
        for at_once in AT_ONCE:
            await spread(call, calls // 5, at_once)
            before = time.process_time()
            await spread(call, calls, at_once)
            found[at_once] = (time.process_time() - before) / calls * 1e6

    await WITH[name](url, use)
    return found


async def spread(call: Call, calls: int, at_once: int) -> None:
    """Make calls, so many at once."""
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(work() for _ in range(at_once)))


def measure(rounds: int, calls: int) -> dict[str, dict[int, float]]:
    """Measure all clients in turns; gives the medians."""
    prepare()
    module = [sys.executable, "-m", "bench.client"]
    with on_core(SERVER_CORE):
        server = subprocess.Popen([*module, "--serve"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found: dict[str, dict[int, list[float]]] = {
        name: {at_once: [] for at_once in AT_ONCE} for name in CLIENTS
    }
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
        for _ in range(rounds):
            for name in CLIENTS:
                command = [*module, "--measure", name, "--url", url, "--calls", str(calls)]
                done = subprocess.run(
                    command,
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=START_TIMEOUT + calls / 100,
                )
                for at_once, value in json.loads(done.stdout.splitlines()[-1]).items():
                    found[name][int(at_once)].append(value)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    return {
        name: {at_once: statistics.median(values) for at_once, values in each.items()}
        for name, each in found.items()
    }


def table(found: dict[str, dict[int, float]]) -> str:
    """The figures as a Markdown table, with the official client's as the measure."""
    lines = [
        "| client | one after the other, us | 32 at once, us | official / it |",
        "| --- | --- | --- | --- |",
    ]
    for name, each in found.items():
        ratios = [found["official"][at_once] / each[at_once] for at_once in AT_ONCE]
        spelled = " / ".join(f"{ratio:.1f}" for ratio in ratios)
        lines.append(f"| {name} | {each[1]:.0f} | {each[32]:.0f} | {spelled} |")
    return "\n".join(lines)


def main() -> int:
    """Run what is asked for; gives the exit status: 1 where the bar of a quarter is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
    elif options.measure:
        print(json.dumps(asyncio.run(measure_here(options.measure, options.url, options.calls))))
    else:
        found = measure(options.rounds, options.calls)
        print(table(found))
        held = all(
            4 * found["mcpost"][at_once] <= found["official"][at_once] for at_once in AT_ONCE
        )
        return 0 if held else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
