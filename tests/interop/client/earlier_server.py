"""A server of the official package before its revision 2026-07-28, run by that package's own
interpreter: `python earlier_server.py WIRE PORT`."""

from __future__ import annotations

import sys

from mcp.server.fastmcp import Context, FastMCP  # type: ignore[import-not-found]

server = FastMCP("earlier", port=int(sys.argv[2]))


@server.tool()  # type: ignore[untyped-decorator]
def add(a: int, b: int) -> int:
    return a + b


@server.tool()  # type: ignore[untyped-decorator]
async def count(ctx: Context) -> str:
    for number in range(3):
        await ctx.report_progress(number + 1, 3)
    return "done"


@server.resource("earlier://word")  # type: ignore[untyped-decorator]
def word() -> str:
    return "hello"


server.run(transport=sys.argv[1])
