"""Applications and clients on real sockets, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from mcpost.http11.application import Application
from mcpost.http11.call import Outgoing
from mcpost.http11.errors import CallFailed
from mcpost.http11.exchange import Exchange
from mcpost.http11.head import Request, Response
from mcpost.http11.limits import ConnectionLimits
from mcpost.http11.listener import Listener, listen
from mcpost.http11.pool import Pool
from tests.helpers.until import DEADLINE

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


class Echo(Application[Exchange]):
    """Answers with the body it got; holds the answer back for the path /wait."""

    def __init__(self) -> None:
        self.waiting: list[Exchange] = []
        self.arrived = asyncio.Event()
        self.count = 0

    def open(self, request: Request, exchange: Exchange) -> None:
        self.count += 1

    def handle(self, request: Request, body: bytes, exchange: Exchange) -> None:
        if request.path == "/wait":
            self.waiting.append(exchange)
            self.arrived.set()
        else:
            exchange.respond(200, ((b"x-path", request.path.encode()),), body)


@contextlib.asynccontextmanager
async def serving(
    app: Any, limits: ConnectionLimits | None = None, **options: Any
) -> AsyncIterator[Listener[Exchange]]:
    if "path" not in options and "sockets" not in options:
        options["host"] = "127.0.0.1"
    listener = await listen(app, Exchange, limits=limits, **options)
    try:
        yield listener
    finally:
        await listener.close()


async def talk(port: int, data: bytes, **options: Any) -> bytes:
    """Send bytes and read until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    try:
        writer.write(data)
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds."""
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110 - what is waited for may be a callback
            await asyncio.sleep(0)


class Fetched:
    """A receiver that can be waited for."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.error: CallFailed | None = None
        self.started = asyncio.Event()
        self.over = asyncio.Event()

    def on_head(self, response: Response) -> None:
        self.status, self.headers = response.status, response.headers
        self.started.set()

    def on_data(self, data: bytes) -> None:
        self.body += data

    def on_end(self) -> None:
        self.over.set()

    def on_failed(self, error: CallFailed) -> None:
        self.error = error
        self.over.set()


async def fetch(pool: Pool, outgoing: Outgoing) -> Fetched:
    receiver = Fetched()
    pool.send(outgoing, receiver)
    await receiver.over.wait()
    return receiver


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for localhost and its key, with the openssl command."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl",
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        timeout=DEADLINE,
    )
    return certificate, key
