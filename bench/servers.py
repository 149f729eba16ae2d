"""The servers that are measured: `python -m bench.servers NAME PORT`.

Each has the tools that its measurements need: `add` and `add_sync` (a sum), `count` (100 progress
events) and `notify` (one change of the list of tools).

Those of `TUNED` run on uvicorn with uvloop and httptools, in JSON mode and without logs. Those of
`README` run as the first example of their package does, with what that package alone installs
(asyncio and h11).

Hints are not postponed here: packages look at them where they cannot see this module's names.
"""

import gc
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

from bench import EVENTS

SUBSCRIPTIONS: Final = 100_000


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def add_sync(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def bare() -> Any:
    """An app that parses JSON and compares headers."""
    from bench.bare import app

    return app


def ours() -> Any:
    """The server of mcpost."""
    from mcpost import Context, Server

    server = Server("bench")

    async def count(ctx: Context) -> str:
        for number in range(EVENTS):
            await ctx.progress(number, EVENTS)
        return "done"

    async def notify() -> str:
        server.notify_tools_changed()
        return "done"

    for tool in (add, add_sync, count, notify):
        server.add_tool(tool)
    return server


def official_high(*, json_response: bool = True) -> Any:
    """The official SDK's high-level server."""
    from mcp.server.mcpserver import Context, MCPServer

    server: Any = MCPServer("bench", log_level="CRITICAL")

    async def count(ctx: Context) -> str:
        for number in range(EVENTS):
            await ctx.report_progress(number, EVENTS)
        return "done"

    for tool in (add, add_sync, count):
        server.tool()(tool)
    return server.streamable_http_app(json_response=json_response)


def official_low(*, json_response: bool = True) -> Any:
    """The official SDK's low-level server; as a stream it serves listens too."""
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
    from mcp.shared.subscriptions import ToolsListChanged

    bus = InMemorySubscriptionBus()

    async def on_call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "notify":
            await bus.publish(ToolsListChanged())
            return types.CallToolResult(content=[types.TextContent(type="text", text="done")])
        total = params.arguments["a"] + params.arguments["b"]
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(total))])

    server: Any = Server(
        "bench",
        on_call_tool=on_call_tool,
        on_subscriptions_listen=ListenHandler(bus, max_subscriptions=SUBSCRIPTIONS),
    )
    return server.streamable_http_app(json_response=json_response)


def fastmcp(*, json_response: bool = True) -> Any:
    """The fastmcp server."""
    from fastmcp import Context, FastMCP

    server: Any = FastMCP("bench")

    async def count(ctx: Context) -> str:
        for number in range(EVENTS):
            await ctx.report_progress(number, EVENTS)
        return "done"

    for tool in (add, add_sync, count):
        server.tool(tool)
    return server.http_app(path="/mcp", json_response=json_response, stateless_http=True)


TUNED: Final[dict[str, Callable[[], Any]]] = {
    "bare ASGI": bare,
    "mcpost ASGI": lambda: ours().asgi("/mcp", hosts=()),
    "mcp low": official_low,
    "mcp high": official_high,
    "fastmcp": fastmcp,
    "mcp low, streams": lambda: official_low(json_response=False),
    "mcp high, streams": lambda: official_high(json_response=False),
    "fastmcp, streams": lambda: fastmcp(json_response=False),
}
"""Applications by the names of their targets."""


def serve_tuned(name: str, listening: socket.socket) -> None:
    """Serve one of `TUNED`."""
    import uvicorn

    logging.disable(logging.CRITICAL)

    config = uvicorn.Config(
        TUNED[name](),
        loop="uvloop",
        http="httptools",
        ws="none",
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=4096,
        timeout_graceful_shutdown=1,
    )
    if name == "mcpost ASGI":
        # As `mcpost serve` does.
        gc.collect()
        gc.freeze()
    uvicorn.Server(config).run(sockets=[listening])


def serve_native(port: int) -> None:
    """Serve ours as it serves itself: through its own HTTP engine."""
    logging.disable(logging.CRITICAL)
    ours().run(port=port, engine="native", ready=lambda url: None)


def serve_bare_protocol(listening: socket.socket) -> None:
    """Serve the least that an HTTP engine of one's own could do."""
    from bench.bare_protocol import serve

    serve(listening)


def serve_mcp_readme(port: int) -> None:
    """Serve as the official package's README does."""
    from mcp.server.mcpserver import MCPServer

    server: Any = MCPServer("Demo")

    server.tool(name="add")(add_sync)
    server.run(transport="streamable-http", port=port)


def serve_fastmcp_readme(port: int) -> None:
    """Serve as the README of fastmcp does."""
    from fastmcp import FastMCP

    server: Any = FastMCP("Demo")

    server.tool(add_sync, name="add")
    server.run(transport="http", port=port)


README: Final[dict[str, Callable[[int], None]]] = {
    "mcp, readme": serve_mcp_readme,
    "fastmcp, readme": serve_fastmcp_readme,
}


def main(name: str, port: int) -> None:
    """Serve one of them until a signal comes."""
    if name in README:
        # What these packages do not install by themselves is not there.
        absent: dict[str, Any] = dict.fromkeys(("uvloop", "httptools"))
        sys.modules.update(absent)
        README[name](port)
        return
    if name == "mcpost native":
        serve_native(port)
        return
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        if name in TUNED:
            serve_tuned(name, listening)
        else:
            serve_bare_protocol(listening)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
