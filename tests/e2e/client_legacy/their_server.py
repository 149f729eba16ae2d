"""A server on stdio of the official SDK or of fastmcp, named by the first argument."""

import sys
from typing import Any


def official() -> Any:
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context

    server = MCPServer("theirs")

    @server.tool()
    async def count(steps: int, ctx: Context) -> str:
        for step in range(steps):
            await ctx.report_progress(step + 1, steps)
        return "done"

    return server.run, {"transport": "stdio"}


def fastmcp() -> Any:
    from fastmcp import Context, FastMCP

    server = FastMCP("theirs")

    @server.tool
    async def count(steps: int, ctx: Context) -> str:
        for step in range(steps):
            await ctx.report_progress(step + 1, steps)
        return "done"

    return server.run, {"show_banner": False}


if __name__ == "__main__":
    run, options = {"official": official, "fastmcp": fastmcp}[sys.argv[1]]()
    run(**options)
