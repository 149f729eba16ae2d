"""A server for tests of the process: it serves itself on a port that the system chooses."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from mcpost import Context
from mcpost.limits import ServerLimits
from tests.helpers.http import make_server

server = make_server(ServerLimits(drain_grace=float(os.environ.get("GRACE", "1"))))
running = 0


@server.tool
async def begun() -> int:
    """Tell how many calls of the tools below have begun."""
    return running


def count() -> None:
    global running
    running += 1


@server.tool
async def pid() -> int:
    return os.getpid()


@server.tool
async def wait(seconds: float) -> str:
    count()
    await asyncio.sleep(seconds)
    return "waited"


@server.tool
async def stubborn(ctx: Context) -> str:
    count()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ctx.info("not me")


@server.tool
def block(seconds: float) -> str:
    count()
    time.sleep(seconds)
    return "blocked"


if __name__ == "__main__":
    server.run(port=0, engine=sys.argv[1], workers=int(sys.argv[2]))
