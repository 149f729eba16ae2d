"""A server of an earlier revision over HTTP, in few lines, that does what a test scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple


class Ask(NamedTuple):
    """A request, as it came."""

    verb: str
    headers: dict[str, str]
    message: dict[str, Any]

    @property
    def method(self) -> str:
        return str(self.message.get("method", self.verb))


class Stream:
    """An event stream under way."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def begin(self) -> None:
        self._writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        )

    def raw(self, text: str) -> None:
        self._writer.write(text.encode())

    def say(self, message: Any, id: str | None = None) -> None:
        name = f"id: {id}\n" if id else ""
        self.raw(f"{name}data: {json.dumps({'jsonrpc': '2.0', **message})}\n\n")


class Peer:
    """The server.

    Args:
        script: Gets a request and its stream; gives a status and body, or `None` where it has used
            the stream, which ends then.
    """

    def __init__(self, script: Callable[[Peer, Ask, Stream], Any]) -> None:
        self._script = script
        self.asks: list[Ask] = []
        self.version = "2025-11-25"
        self.capabilities: dict[str, Any] = {"tools": {}}
        self.sessions = 0
        self.times: list[float] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def methods(self) -> list[str]:
        return [each.method for each in self.asks]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        ask = Ask(first.split()[0], headers, json.loads(body) if body else {})
        self.asks.append(ask)
        self.times.append(asyncio.get_running_loop().time())
        found = self._script(self, ask, Stream(writer))
        if asyncio.iscoroutine(found):
            found = await found
        if found is None:
            await writer.drain()
            return
        status, message, *more = found
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() if message else b""
        named = "".join(f"{line}\r\n" for line in more)
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"{named}Content-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        await writer.drain()

    def usual(self, ask: Ask) -> Any:
        """What every server of these revisions answers."""
        request_id = ask.message.get("id")
        if ask.verb == "GET":
            return (405, {})
        if ask.verb == "DELETE" or request_id is None or "result" in ask.message:
            return (202, {})
        if ask.method == "initialize":
            self.sessions += 1
            result = {
                "protocolVersion": self.version,
                "capabilities": self.capabilities,
                "serverInfo": {"name": "peer", "version": "1"},
            }
            answer = {"id": request_id, "result": result}
            return (200, answer, f"Mcp-Session-Id: session-{self.sessions}")
        if "_meta" in ask.message.get("params", {}) and any(
            key.startswith("io.modelcontextprotocol/") for key in ask.message["params"]["_meta"]
        ):
            return (400, {"id": request_id, "error": {"code": -32600, "message": "no session"}})
        if ask.method == "tools/list":
            return (200, {"id": request_id, "result": {"tools": []}})
        return (200, {"id": request_id, "result": {}})


def words(request_id: Any, text: str) -> dict[str, Any]:
    """The response of a tool."""
    return {"id": request_id, "result": {"content": [{"type": "text", "text": text}]}}


@asynccontextmanager
async def peer(script: Callable[[Peer, Ask, Stream], Any]) -> AsyncIterator[Peer]:
    """Serve a script."""
    made = Peer(script)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()
        await server.wait_closed()
