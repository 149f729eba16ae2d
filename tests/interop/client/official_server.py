"""The official SDK's server with the tools that `test_their_servers` calls; prints its port."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("theirs")
done = {"steps": 0}


@server.tool()
async def add(a: int, b: int) -> int:
    return a + b


@server.tool()
async def reindex(steps: int, ctx: Context) -> str:
    done["steps"] = 0
    for step in range(steps):
        done["steps"] += 1
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
        await asyncio.sleep(0.02)
    return "done"


@server.tool()
async def steps_done() -> int:
    return done["steps"]


@server.tool()
async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "told"


@server.resource("data://text")
def text() -> str:
    return "the text"


@server.prompt()
def greet(name: str) -> str:
    return f"Hello {name}"


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - the test reads it
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(config).run(sockets=[listener])
