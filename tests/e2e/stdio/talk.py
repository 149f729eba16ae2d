"""A child process that serves over stdio, spoken to line by line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.helpers.http import body
from tests.helpers.serving import ROOT
from tests.helpers.until import DEADLINE

NOISY = str(Path(__file__).parent / "noisy.py")
LINE_LIMIT = 80 * 1024 * 1024


class Talk:
    """A running server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def send(self, *lines: bytes) -> None:
        """Send lines."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        await asyncio.wait_for(self.process.stdin.drain(), DEADLINE)

    async def line(self) -> Any:
        """Read a line as JSON; `None` at the end."""
        assert self.process.stdout is not None
        found = await asyncio.wait_for(self.process.stdout.readline(), DEADLINE)
        return json.loads(found) if found else None

    async def error_line(self) -> str:
        """Read a line of standard error."""
        assert self.process.stderr is not None
        return (await asyncio.wait_for(self.process.stderr.readline(), DEADLINE)).decode().strip()

    async def call(self, name: str, **arguments: Any) -> Any:
        """Call a tool and give its text."""
        await self.send(call(name, **arguments))
        return text(await self.line())

    async def end(self) -> tuple[int, list[Any], str]:
        """Close its input; gives the exit status, the lines that came yet, and its errors."""
        process = self.process
        out, errors = await asyncio.wait_for(process.communicate(b""), DEADLINE)
        assert process.returncode is not None
        return process.returncode, [json.loads(line) for line in out.splitlines()], errors.decode()


def call(name: str, id: Any = 7, **arguments: Any) -> bytes:
    """Write a modern call of a tool."""
    return body("tools/call", {"name": name, "arguments": arguments}, id=id)


def text(message: Any) -> Any:
    """The text of a tool's result."""
    return message["result"]["content"][0]["text"]


def command(*options: str, target: str = NOISY) -> list[str]:
    """The command that serves over stdio."""
    return [str(Path(sys.executable).parent / "mcpost"), "serve", target, "--stdio", *options]


def environment() -> dict[str, str]:
    """The environment of the command."""
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


@asynccontextmanager
async def talking(*options: str, target: str = NOISY) -> AsyncIterator[Talk]:
    """Start a server over stdio."""
    process = await asyncio.create_subprocess_exec(
        *command(*options, target=target),
        cwd=ROOT,
        env=environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LINE_LIMIT,
    )
    try:
        yield Talk(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
