# ruff: noqa: T201, ASYNC221 - writing where it should not is what it is for
"""A server whose handlers write wherever they can, and whose module does already."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import time

from mcpost import Context, Server

print("printed at import")
os.write(1, b"written at import\n")

server = Server("noisy", version="1")
libc = ctypes.CDLL(None)


@server.tool
async def add(a: int, b: int) -> int:
    return a + b


@server.tool
async def shout() -> str:
    """Write to standard output in every way."""
    print("printed")
    sys.stdout.flush()
    os.write(1, b"written\n")
    libc.puts(b"from C")
    libc.fflush(None)
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    return "done"


@server.tool
def read() -> str:
    """Read what a child reads from standard input, and what this process does."""
    child = subprocess.run(["cat"], stdout=subprocess.PIPE, check=True, timeout=30)
    return repr((sys.stdin.read(), child.stdout))


@server.tool
async def large(size: int) -> str:
    return "x" * size


@server.tool
async def length(text: str) -> int:
    return len(text)


@server.tool
async def wait(seconds: float, ctx: Context) -> str:
    print("waiting", file=sys.stderr, flush=True)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        print("cancelled", file=sys.stderr, flush=True)
        raise
    return "waited"


@server.tool
def block(seconds: float) -> str:
    print("waiting", file=sys.stderr, flush=True)
    time.sleep(seconds)
    return "blocked"


@server.tool
async def stubborn() -> str:
    """Mind neither cancellation nor the end of the loop."""
    print("waiting", file=sys.stderr, flush=True)
    return await asyncio.to_thread(block, 60)
