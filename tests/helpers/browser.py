"""A page in a real Chromium, over the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.helpers.until import DEADLINE

FLAGS = (
    "--headless=new",
    # Tests may run as root, where Chromium has no sandbox; the pages are our own.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


class Page:
    """One page; what it logs and which rules it breaks is kept in `told`."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.told: list[str] = []

    async def do(self, method: str, **params: Any) -> Any:
        """Send a command, and give what it came to."""
        number = next(self._numbers)
        await self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(await asyncio.wait_for(self._socket.recv(), DEADLINE))
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if message["method"] == "Log.entryAdded":
            self.told.append(params["entry"]["text"])
        elif message["method"] == "Runtime.exceptionThrown":
            self.told.append(str(params["exceptionDetails"]))

    async def open(self, url: str) -> None:
        """Go to a page and wait until its document is there."""
        for domain in ("Page", "Runtime", "Log"):
            await self.do(f"{domain}.enable")
        await self.do("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def value(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        found = await self.do("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression holds."""
        async with asyncio.timeout(DEADLINE):
            while not await self.value(script):  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.02)  # the page tells nobody when it has drawn

    async def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            more = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            await self.do("Input.dispatchKeyEvent", type=kind, key=key, **more)

    async def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window, and which colours its user prefers."""
        await self.do(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.do("Emulation.setEmulatedMedia", features=features)

    async def shoot(self) -> bytes:
        """Give what is seen as PNG."""
        shot = await self.do("Page.captureScreenshot")
        return base64.b64decode(shot["data"])


@contextlib.asynccontextmanager
async def browsing(folder: Path) -> AsyncIterator[Page]:
    """Start a browser with a page; skips the test where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    process = await asyncio.create_subprocess_exec(
        program,
        *FLAGS,
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _find_port(folder / "DevToolsActivePort", process)
        async with connect(await _find_page(port), max_size=None, proxy=None) as socket:
            yield Page(socket)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await asyncio.wait_for(process.wait(), DEADLINE)


async def _find_port(file: Path, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(DEADLINE):
        while True:
            assert process.returncode is None, "Chromium has ended"
            with contextlib.suppress(OSError, IndexError, ValueError):
                return int((await asyncio.to_thread(file.read_text)).splitlines()[0])
            await asyncio.sleep(0.02)  # it tells by this file alone


async def _find_page(port: int) -> str:
    """Ask for the address of the first page."""
    async with asyncio.timeout(DEADLINE):
        while True:
            for target in await asyncio.to_thread(_targets, port):
                if target["type"] == "page":
                    return str(target["webSocketDebuggerUrl"])
            await asyncio.sleep(0.02)  # it is opened in its own time


def _targets(port: int) -> list[dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    with contextlib.closing(connection):
        connection.request("GET", "/json/list")
        found: list[dict[str, str]] = json.load(connection.getresponse())
        return found
