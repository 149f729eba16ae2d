"""Servers for tests: an application under uvicorn on this loop, or a script in a child process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn

from tests.helpers.until import DEADLINE

ROOT = Path(__file__).parent.parent.parent


class _Started(uvicorn.Server):
    """Says when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.accepts = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepts.set()


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[int]:
    """Serve an application under uvicorn on this loop; gives the port."""
    common = {"lifespan": "off", "log_config": None, "http": "httptools", "ws": "none"}
    options = {**common, "timeout_graceful_shutdown": 2, **options}
    server = _Started(uvicorn.Config(app, **options))
    # The protocol is named, as `create_server` does not: else asyncio leaves Nagle's way on.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    # Its signal handlers are not for tests.
    task = asyncio.create_task(server._serve([listening]))
    await asyncio.wait_for(server.accepts.wait(), DEADLINE)
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, DEADLINE)
        # Closing a transport takes a turn of the loop.
        await asyncio.sleep(0)


class Child:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port

    def tell(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.send_signal(sig)

    async def end(self) -> int:
        """Wait for the end; gives the exit status."""
        return await asyncio.wait_for(self.process.wait(), DEADLINE)

    async def errors(self) -> str:
        """Read what it wrote to standard error, once it has ended."""
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()


@asynccontextmanager
async def child(*arguments: str, **environment: str) -> AsyncIterator[Child]:
    """Start a Python process that writes the URL it serves as its first line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), DEADLINE)).decode()
        found = re.search(r"http://[^:/]+:(\d+)/", line)
        if found is None:
            process.kill()
            _, errors = await process.communicate()
            raise AssertionError(f"no URL in {line!r}\n{errors.decode()}")
        yield Child(process, int(found[1]))
    finally:
        if process.returncode is None:
            process.kill()
        # Reads the pipes to their end, which also closes them.
        await process.communicate()
