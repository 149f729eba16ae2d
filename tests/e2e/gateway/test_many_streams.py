"""A thousand streams that are open at once: what they cost, that they are bounded, how they end."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest

import mcpost
from tests.e2e.gateway.gateways import Opened, allow_all, opened
from tests.helpers.http import listen
from tests.helpers.loop import run
from tests.helpers.until import until

STREAMS = 1000
MOST = 8 * 1024
"""Bytes that one stream may take."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'14\r\ndata: {"event": 1}\n\n\r\n'
OPEN = Path("/proc/self/fd")


class End(asyncio.Protocol):
    """One end of a stream, the upstream's or the client's."""

    transport: asyncio.Transport

    def __init__(self, ends: list[End], says: bytes, answers: bool) -> None:
        self.data = b""
        self.is_over = False
        self._ends = ends
        self._says = says
        self._answers = answers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._ends.append(self)
        if not self._answers:
            self.transport.write(self._says)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self._answers and self.data.endswith(b"}"):
            self.transport.write(self._says)


class Streams:
    """Clients, a gateway, and an upstream that lets their streams stand."""

    def __init__(self, gateway: Opened, clients: list[End], served: list[End]) -> None:
        self.gateway = gateway
        self.clients = clients
        self.served = served

    async def open(self, count: int) -> None:
        """Open more streams, and wait for the first event of each."""
        loop, port = asyncio.get_running_loop(), self.gateway.port
        asked = listen(toolsListChanged=True)
        for start in range(0, count, 100):
            for _ in range(start, min(start + 100, count)):
                await loop.create_connection(
                    lambda: End(self.clients, asked, answers=False), "127.0.0.1", port
                )
            await until(lambda: all(b"}\n\n" in each.data for each in self.clients))

    def gauge(self, name: str) -> int:
        return self.gateway.running.gauges()[name]


@contextlib.asynccontextmanager
async def streaming(**settings: int) -> AsyncIterator[Streams]:
    served: list[End] = []
    clients: list[End] = []
    loop = asyncio.get_running_loop()
    upstream = await loop.create_server(
        lambda: End(served, HEAD + EVENT, answers=True), "127.0.0.1", 0, backlog=1024
    )
    port = upstream.sockets[0].getsockname()[1]
    try:
        async with opened(allow_all(port), **settings) as gateway:
            yield Streams(gateway, clients, served)
    finally:
        for each in (*clients, *served):
            each.transport.abort()
        upstream.close()
        await until(lambda: all(each.is_over for each in (*clients, *served)))


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 5 * STREAMS:
        pytest.skip(f"a process may open {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def count_files() -> int:
    return sum(1 for _ in OPEN.iterdir()) if OPEN.exists() else 0


@pytest.mark.usefixtures("many_files")
def test_a_thousand_streams_take_little_and_leave_nothing() -> None:
    async def scenario() -> float:
        async with streaming() as streams:
            await streams.open(10)
            tasks, before = len(asyncio.all_tasks()), measure()
            await streams.open(STREAMS)
            taken = measure() - before
            assert streams.gauge("open_streams") == STREAMS + 10
            assert len(asyncio.all_tasks()) == tasks, "a stream has a task"

            for each in streams.clients[::2]:
                each.transport.abort()
            left = len(streams.clients) // 2
            await until(lambda: streams.gauge("open_streams") == left)
            await until(lambda: sum(not each.is_over for each in streams.served) == left)

            for each in streams.served:
                each.transport.abort()
            await until(lambda: all(each.is_over for each in streams.clients))
            assert not any(each.data.endswith(b"0\r\n\r\n") for each in streams.clients)
            for name in ("running_requests", "client_connections", "upstream_connections"):
                await until(lambda name=name: streams.gauge(name) == 0)
            return taken / STREAMS

    files = count_files()
    tracemalloc.start()
    try:
        taken = run(scenario(), 600, debug=False)
    finally:
        tracemalloc.stop()

    assert 0 < taken < MOST
    assert count_files() == files


def measure() -> int:
    """Bytes that the package holds: what it has allocated and not given back."""
    ours = tracemalloc.Filter(inclusive=True, filename_pattern=f"{Path(mcpost.__file__).parent}/*")
    found = tracemalloc.take_snapshot().filter_traces([ours])
    return sum(each.size for each in found.statistics("filename"))


def test_streams_above_the_limit_are_refused_until_there_is_room() -> None:
    async def scenario() -> tuple[bytes, bytes]:
        async with streaming(max_connections=20) as streams:
            await streams.open(20)
            loop, more = asyncio.get_running_loop(), []
            asked = listen(toolsListChanged=True)

            async def one_more() -> End:
                await loop.create_connection(
                    lambda: End(more, asked, answers=False), "127.0.0.1", streams.gateway.port
                )
                await until(lambda: more[-1].data)
                return more[-1]

            refused = await one_more()
            refused.transport.abort()
            streams.clients[0].transport.abort()
            await until(lambda: streams.gauge("client_connections") == 19)
            let_in = await one_more()
            streams.clients.append(let_in)
            return refused.data, let_in.data

    refused, let_in = run(scenario())

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"mcpost-gateway: refused" in refused
    assert let_in.startswith(b"HTTP/1.1 200 ")
