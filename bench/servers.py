"""The servers that are measured: `python -m bench.servers NAME PORT`.

Each has the tools `add` (async), `add_sync`, `count` (100 progress events) and, where the peer can
do it, `notify` (one change of the list of tools). All run in one process, on uvicorn with uvloop
and httptools where they are ASGI, with logging off.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

EVENTS = 100
VERSION = b"2026-07-28"


def bare() -> Any:
    """An ASGI app that parses JSON and compares headers; its answers are canned."""
    import msgspec

    decode = msgspec.json.decode
    answer = (
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}],'
        b'"structuredContent":3,"resultType":"complete"}}'
    )
    event = (
        b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":'
        b'{"progressToken":1,"progress":%d,"total":100}}\n\n'
    )
    ack = (
        b'data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":'
        b'{"notifications":{"toolsListChanged":true}}}\n\n'
    )
    notice = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}\n\n'
    json_head = {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(answer)).encode()),
        ],
    }
    stream_head = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/event-stream")],
    }
    listening: set[Any] = set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = decode((await receive())["body"])
        headers = dict(scope["headers"])
        params = body["params"]
        if headers[b"mcp-method"].decode() != body["method"]:
            raise ValueError("the headers do not agree")
        if headers[b"mcp-protocol-version"] != VERSION:
            raise ValueError("the version is not served")
        if body["method"] == "subscriptions/listen":
            await send(stream_head)
            await send({"type": "http.response.body", "body": ack, "more_body": True})
            listening.add(send)
            await receive()
            listening.discard(send)
            return
        if params["name"] == "notify":
            for each in list(listening):
                await each({"type": "http.response.body", "body": notice, "more_body": True})
        if params["name"] == "count":
            await send(stream_head)
            for number in range(EVENTS):
                await send(
                    {"type": "http.response.body", "body": event % number, "more_body": True}
                )
            await send({"type": "http.response.body", "body": b"data: " + answer + b"\n\n"})
            return
        await send(json_head)
        await send({"type": "http.response.body", "body": answer})

    return app


def ours() -> Any:
    """Our server; run by itself below, since it has doors of its own."""
    from mcpost import Context, Server

    server = Server("bench")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def add_sync(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(ctx: Context) -> str:
        for number in range(EVENTS):
            ctx.progress(number, EVENTS)
        return "done"

    @server.tool
    async def notify() -> str:
        server.notify_tools_changed()
        return "done"

    return server


def official_high(*, json_response: bool = True) -> Any:
    """The official SDK's high-level server."""
    from mcp.server.mcpserver import Context, MCPServer

    server = MCPServer("bench", log_level="CRITICAL")

    @server.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    def add_sync(a: int, b: int) -> int:
        return a + b

    @server.tool()
    async def count(ctx: Context) -> str:
        for number in range(EVENTS):
            await ctx.report_progress(number, EVENTS)
        return "done"

    return server.streamable_http_app(json_response=json_response)


def official_low() -> Any:
    """The official SDK's low-level server."""
    from mcp import types
    from mcp.server.lowlevel import Server

    async def on_call_tool(ctx: Any, params: Any) -> Any:
        total = params.arguments["a"] + params.arguments["b"]
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(total))])

    server: Any = Server("bench", on_call_tool=on_call_tool)
    return server.streamable_http_app(json_response=True)


def fastmcp() -> Any:
    """The fastmcp server."""
    from fastmcp import FastMCP

    server: Any = FastMCP("bench")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def add_sync(a: int, b: int) -> int:
        return a + b

    return server.http_app(path="/mcp", json_response=True, stateless_http=True)


APPS: dict[str, Callable[[], Any]] = {
    "bare": bare,
    "official-high": official_high,
    "official-high-stream": lambda: official_high(json_response=False),
    "official-low": official_low,
    "fastmcp": fastmcp,
}
OURS = ("mcpost-asgi", "mcpost-native")
NAMES = (*APPS, *OURS)


def main(name: str, port: int) -> None:
    """Serve one of them."""
    logging.disable(logging.CRITICAL)
    if name in OURS:
        ours().run(port=port, ready=lambda url: None)
        return
    import uvicorn

    config = uvicorn.Config(
        APPS[name](),
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        log_level="critical",
        access_log=False,
    )
    serve: Callable[[], Awaitable[None]] = uvicorn.Server(config).serve
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
