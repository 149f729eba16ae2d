"""`mcpost gateway demo`: a call under another name, with and without a server that compares.

The gateway allows `search` alone. Three calls go through it: `place_hold` as itself, and twice as
`search`, to a server that trusts its headers and to one that compares them with the body. What was
done is counted in a database.

Spec: streamable-http, "Server Validation" (T-19, H-13).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from mcpost import Server
from mcpost.gateway.policy_read import read_policy
from mcpost.gateway.run import Running
from mcpost.http11.application import Application
from mcpost.http11.call import Outgoing
from mcpost.http11.errors import CallFailed
from mcpost.http11.exchange import Exchange
from mcpost.http11.head import Request, Response
from mcpost.http11.hub import Hub
from mcpost.http11.listener import listen
from mcpost.http11.pool import Pool, Upstream
from mcpost.server.native import NativeApp, open_native
from mcpost.server.settings import Settings
from mcpost.wire import jsonrpc

__all__ = ("Shown", "demo", "show")

_POLICY: Final = """
default = "deny"
upstream = "library"

[[listeners]]
name = "main"
bind = "127.0.0.1:0"

[upstreams.library]
endpoints = ["http://127.0.0.1:{port}/mcp"]

[[rules]]
id = "search-only"
action = "allow"
method = ["tools/call"]
name = ["search"]
"""
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Shown(NamedTuple):
    """One call and what came of it."""

    server: str
    header: str
    body: str
    status: int
    error: str
    holds: int


def demo() -> None:
    """Show a call under another name, and who stops it."""
    table = Table("server", "Mcp-Name", "tool in the body", "status", "error", "holds placed")
    for row in asyncio.run(show()):
        table.add_row(*map(str, row))
    Console().print("The policy allows [bold]search[/bold] alone.", table)


async def show() -> list[Shown]:
    """Run the calls; gives a row for each."""
    rows = []
    for title, compares in (("trusts its headers", False), ("compares", True)):
        holds = sqlite3.connect(":memory:")
        holds.execute("CREATE TABLE holds (book INTEGER)")
        listener: Any
        if compares:
            endpoint = _make_server(holds).endpoint(Settings.make(), legacy=False)
            listener = await open_native(NativeApp(endpoint, "/mcp"), host="127.0.0.1")
        else:
            listener = await listen(_Careless(holds), Exchange, host="127.0.0.1")
        try:
            rows += await _try_calls(title, listener.port, holds)
        finally:
            await listener.close()
            holds.close()
    return rows


async def _try_calls(title: str, port: int, holds: sqlite3.Connection) -> list[Shown]:
    """Call `place_hold` through a gateway, as itself and as `search`."""
    policy = read_policy(_POLICY.format(port=port))
    gateway = Running(lambda: policy)
    await gateway.open()
    hub = Hub(asyncio.get_running_loop(), 0.5)
    pool = Pool(Upstream("127.0.0.1", gateway.sockets["main"].port), hub)
    rows = []
    try:
        for header in ("place_hold", "search"):
            status, error = await _call(pool, header, "place_hold")
            count = holds.execute("SELECT count(*) FROM holds").fetchone()[0]
            rows.append(Shown(title, header, "place_hold", status, error, count))
    finally:
        await pool.close()
        await gateway.close()
    return rows


def _make_server(holds: sqlite3.Connection) -> Server:
    server = Server("library")

    @server.tool
    async def search(words: str) -> list[str]:
        """Find books."""
        return [words]

    @server.tool
    async def place_hold(book: int) -> str:
        """Reserve a book."""
        return _place(holds, book)

    return server


def _place(holds: sqlite3.Connection, book: int) -> str:
    with holds:
        holds.execute("INSERT INTO holds VALUES (?)", (book,))
    return "held"


class _Careless(Application[Exchange]):
    """A server as there are some: runs what the body says, whatever the headers say."""

    def __init__(self, holds: sqlite3.Connection) -> None:
        self._holds = holds

    def open(self, request: Request, exchange: Exchange) -> None:
        """Refuse nothing."""

    def handle(self, request: Request, body: bytes, exchange: Exchange) -> None:
        """Run the tool that the body names."""
        message = jsonrpc.decode_message(body)
        assert isinstance(message, jsonrpc.Request)
        text = ""
        if message.params["name"] == "place_hold":
            text = _place(self._holds, message.params["arguments"]["book"])
        result = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
        lines = ((b"content-type", b"application/json"),)
        exchange.respond(200, lines, jsonrpc.encode_result(message.id, result))


class _Taken:
    """Takes a response."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.over = asyncio.Event()

    def on_head(self, response: Response) -> None:
        """Keep the status."""
        self.status = response.status

    def on_data(self, data: bytes) -> None:
        """Keep the body."""
        self.body += data

    def on_end(self) -> None:
        """It is whole."""
        self.over.set()

    def on_failed(self, error: CallFailed) -> None:
        """There is none."""
        self.over.set()


async def _call(pool: Pool, header: str, tool: str) -> tuple[int, str]:
    params = {"name": tool, "arguments": {"book": 11}, "_meta": _META}
    lines = [
        (b"content-type", b"application/json"),
        (b"accept", b"application/json, text/event-stream"),
        (b"mcp-protocol-version", b"2026-07-28"),
        (b"mcp-method", b"tools/call"),
        (b"mcp-name", header.encode()),
    ]
    taken = _Taken()
    body = jsonrpc.encode_request(1, "tools/call", params)
    pool.send(Outgoing(b"POST", b"/mcp", lines, body), taken)
    await taken.over.wait()
    error = json.loads(taken.body or b"{}").get("error", {})
    return taken.status, str(error.get("code", ""))
