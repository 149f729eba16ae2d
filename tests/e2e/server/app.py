"""An ASGI application for servers that import theirs, counting the steps its job has done."""

from __future__ import annotations

import asyncio

from mcpost import Context
from mcpost.limits import ServerLimits
from tests.helpers.http import make_server

server = make_server(ServerLimits(keep_alive=0.05))
steps: list[int] = []
stopped = asyncio.Event()


@server.tool
async def job(ctx: Context) -> int:
    try:
        for step in range(1_000):
            steps.append(step)
            ctx.progress(step + 1, 1_000)
            await asyncio.sleep(0.03)
    except asyncio.CancelledError:
        stopped.set()
        raise
    return 1_000


@server.tool
async def seen() -> int:
    """Tell how many steps were done when the job was stopped."""
    await stopped.wait()
    return len(steps)


app = server.asgi("/mcp")
