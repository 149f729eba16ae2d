"""Gateways, and upstreams that do as they are told, on this loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mcpost.gateway.access_log import AccessLog
from mcpost.gateway.policy import Listener, Policy, Upstream
from mcpost.gateway.run import Running
from mcpost.gateway.settings import GatewaySettings
from mcpost.server.native import NativeApp, open_native
from mcpost.server.settings import Settings
from tests.helpers.http import make_server
from tests.helpers.raw import Raw, connect

LISTENER = Listener("main", "127.0.0.1:0")

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def allow_all(*ports: int, **more: Any) -> Policy:
    """A policy that lets everything through to endpoints on this machine."""
    audience = more.pop("audience", False)
    urls = tuple(f"http://127.0.0.1:{port}/mcp" for port in ports)
    upstream = Upstream("here", urls, audience=audience)
    given: dict[str, Any] = {"default": "allow", "upstream": "here", "legacy": "inspect"} | more
    return Policy((LISTENER,), {"here": upstream}, **given)


class Opened:
    """A gateway that listens."""

    def __init__(self, running: Running, lines: list[bytes]) -> None:
        self.running = running
        self.lines = lines
        self.port = running.sockets["main"].port

    @property
    def admin(self) -> int:
        assert self.running.admin is not None
        return self.running.admin.port


@contextlib.asynccontextmanager
async def opened(policy: Policy | Callable[[], Policy], **settings: Any) -> AsyncIterator[Opened]:
    """Open a gateway with an admin listener; its log is kept."""
    lines: list[bytes] = []
    read = policy if callable(policy) else lambda: policy
    running = Running(read, GatewaySettings(**settings), log=AccessLog(lines.append))
    await running.open(("127.0.0.1", 0))
    try:
        yield Opened(running, lines)
    finally:
        await running.close()
        assert not running.shared.running


@contextlib.asynccontextmanager
async def small(**options: Any) -> AsyncIterator[int]:
    """Serve the small server on our own engine; gives the port."""
    server = make_server()
    endpoint = server.endpoint(Settings.make(), legacy=options.pop("legacy", True))
    listener = await open_native(NativeApp(endpoint, "/mcp"), host="127.0.0.1", **options)
    try:
        yield listener.port
    finally:
        await endpoint.drain(0.1)
        await listener.close()


@contextlib.asynccontextmanager
async def scripted(handler: Handler) -> AsyncIterator[int]:
    """Let a coroutine answer each connection; gives the port."""
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read a head and a sized body."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    size = int(found[0].partition(b":")[2]) if found else 0
    return head, await reader.readexactly(size)


@contextlib.asynccontextmanager
async def talking(**policy: Any) -> AsyncIterator[tuple[Raw, Opened]]:
    """A connection to a gateway in front of the small server."""
    async with (
        small() as port,
        opened(allow_all(port, **policy)) as gateway,
        connect(gateway.port) as raw,
    ):
        yield raw, gateway
