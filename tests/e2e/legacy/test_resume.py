"""Streams of the earlier revision over real connections that are cut wherever they can be."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import re
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpost import Server
from mcpost.limits import ServerLimits
from mcpost.server.native import NativeApp, open_native
from mcpost.server.settings import Settings
from mcpost.wire.sse import Parser
from tests.helpers.http import post
from tests.helpers.legacy import Gates, call, initialize, make_server, text
from tests.helpers.loop import run
from tests.helpers.raw import Raw, connect
from tests.helpers.serving import serving
from tests.helpers.until import DEADLINE, until

STEPS = 12


class Client:
    """A client of one session over raw connections."""

    def __init__(self, port: int, session: str = "") -> None:
        self.port = port
        self.session = session

    def lines(self, **more: str) -> list[tuple[bytes, bytes]]:
        found = {
            "host": "127.0.0.1",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-session-id": self.session,
            "mcp-protocol-version": "2025-11-25",
        }
        named = found | {key.replace("_", "-"): value for key, value in more.items()}
        return [(key.encode(), value.encode()) for key, value in named.items() if value]

    def post(self, message: Any) -> bytes:
        return post(json.dumps(message).encode(), self.lines())

    def bodyless(self, method: str, **more: str) -> bytes:
        lines = b"".join(b"%b: %b\r\n" % line for line in self.lines(**more))
        return b"%b /mcp HTTP/1.1\r\n%b\r\n" % (method.encode(), lines)

    async def open(self, raw: Raw) -> None:
        await raw.ask(self.post(initialize()))
        self.session = raw.headers["mcp-session-id"]


doors = pytest.mark.parametrize("door", ["asgi", "native"])


@asynccontextmanager
async def opened(door: str, server: Server) -> AsyncIterator[int]:
    """Serve under uvicorn, or on our own engine; gives the port."""
    if door == "asgi":
        async with serving(server.asgi("/mcp")) as port:
            yield port
        return
    native = NativeApp(server.endpoint(Settings.make(limits=server.limits)), "/mcp")
    listener = await open_native(native, host="127.0.0.1")
    try:
        yield listener.port
    finally:
        await native.endpoint.drain(1)
        await listener.close()


@asynccontextmanager
async def a_client(door: str, gates: Gates | None = None) -> AsyncIterator[Client]:
    async with opened(door, make_server(gates=gates)) as port:
        client = Client(port)
        async with connect(port) as raw:
            await client.open(raw)
        yield client


async def read_stream(client: Client, sent: bytes, cut: int | None) -> tuple[bytes, bool]:
    """Send a request and read its stream, at most `cut` bytes; tells whether that was all."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    try:
        writer.write(sent)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE)
        assert head.startswith(b"HTTP/1.1 200"), head
        raw = Raw(reader, writer)
        data = b""
        while await asyncio.wait_for(raw._chunk(), DEADLINE):
            data += raw._chunks
            raw._chunks = b""
            if cut is not None and len(data) >= cut:
                return data[:cut], False
        return data, True
    finally:
        writer.transport.abort()


async def see_all(client: Client, sent: bytes, cuts: list[int]) -> list[tuple[str | None, bytes]]:
    """See a stream to its end, over connections that are cut after so many bytes."""
    seen: list[tuple[str | None, bytes]] = []
    last = None
    for cut in [*cuts, None]:
        parser = Parser()
        data, _ = await read_stream(client, sent, cut)
        seen += [(event.id, event.data) for event in parser.feed(data)]
        last = parser.last_event_id or last
        if last is not None:
            sent = client.bodyless("GET", last_event_id=last)
        elif cut is not None:
            # Not even the first event came: there is nothing to come back with.
            return []
    return seen


def check_seen(seen: list[tuple[str | None, bytes]], stream: int) -> None:
    """Every event once, in order: the events without data are no messages."""
    told = [(id, json.loads(data)) for id, data in seen if data]
    assert [id for id, _ in told] == [f"{stream}-{n}" for n in range(1, STEPS + 2)]
    progress = [message["params"]["progress"] for _, message in told[:-1]]
    assert progress == list(range(1, STEPS + 1))
    assert text(told[-1][1]) == str(STEPS)


@pytest.mark.req("L-02/S")
@doors
def test_a_stream_that_is_cut_at_every_event_is_seen_once_and_in_order(door: str) -> None:
    async def check() -> None:
        async with a_client(door) as client:
            sent = client.post(call("count", steps=STEPS, token=1))
            whole, _ = await read_stream(client, sent, None)
            ends = [found.end() for found in re.finditer(rb"\n\n", whole)]
            for stream, end in enumerate(ends, 2):
                check_seen(await see_all(client, sent, [end]), stream)

    run(check())


@pytest.mark.req("L-02/S")
@doors
@pytest.mark.parametrize("seed", range(10))
def test_a_stream_that_is_cut_at_any_bytes_is_seen_once_and_in_order(door: str, seed: int) -> None:
    async def check() -> None:
        chance = random.Random(seed)
        async with a_client(door) as client:
            sent = client.post(call("count", steps=STEPS, token=1))
            for stream in range(1, 11):
                cuts = [chance.randrange(40, 900) for _ in range(chance.randrange(1, 5))]
                check_seen(await see_all(client, sent, cuts), stream)

    run(check())


@pytest.mark.req("L-02/S")
@doors
def test_a_call_whose_client_is_gone_runs_once_to_its_end(door: str) -> None:
    async def check() -> None:
        gates = Gates()
        async with a_client(door, gates) as client:
            data, _ = await read_stream(client, client.post(call("hold", token=1)), 40)
            await gates.entered.wait()
            gates.go.set()
            sent = client.bodyless("GET", last_event_id="1-0")
            rest, whole = await read_stream(client, sent, None)

            assert data.startswith(b"id: 1-0\n")
            assert whole
            assert (gates.runs, gates.cancelled) == (1, False)
            assert b'"held"' in rest

    run(check())


@pytest.mark.req("L-02/S")
@doors
def test_a_connection_serves_on_after_its_stream_was_let_go(door: str) -> None:
    async def check() -> None:
        gates = Gates()
        async with a_client(door, gates) as client, connect(client.port) as raw:
            await raw.send(client.post(call("leave")))
            await raw.head()
            assert b"id: 1-0" in await raw.body()
            gates.go.set()
            await raw.send(client.bodyless("GET", last_event_id="1-0"))
            await raw.head()

            assert b'"left"' in await raw.body()

    run(check())


@pytest.mark.req("L-01/S")
@doors
def test_the_whole_life_of_a_session_over_one_connection(door: str) -> None:
    async def check() -> None:
        async with a_client(door) as client, connect(client.port) as raw:
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            statuses = []
            for sent in (
                client.post(note),
                client.bodyless("DELETE"),
                client.post(note),
                client.bodyless("GET"),
            ):
                await raw.ask(sent)
                statuses.append(raw.status)

            assert statuses == [202, 200, 404, 404]

    run(check())


@pytest.mark.req("L-01/S")
@doors
def test_a_thousand_sessions_that_come_and_go_give_their_memory_back(door: str) -> None:
    async def lives(client: Client, count: int) -> None:
        async with connect(client.port) as raw:
            for _ in range(count):
                client.session = ""
                await client.open(raw)
                await raw.send(client.post(call("count", steps=3, token=1)))
                await raw.head()
                await raw.body()
                await raw.ask(client.bodyless("DELETE"))

    async def check() -> None:
        async with a_client(door) as client:
            tracemalloc.start()
            try:
                # So many that what is remembered of a fixed number of answers is full.
                await lives(client, 600)
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
                await lives(client, 1000)
                gc.collect()
                grown = tracemalloc.get_traced_memory()[0] - before
            finally:
                tracemalloc.stop()

            assert grown < 100_000, f"{grown} bytes are left of 1,000 sessions"

    # What is traced takes many times as long.
    run(check(), 280, debug=False)


@pytest.mark.req("L-01/S")
def test_a_thousand_sessions_that_are_left_expire() -> None:
    async def check() -> None:
        limits = ServerLimits(session_idle=1.0)
        app = make_server(limits).asgi("/mcp")
        async with serving(app) as port:
            client = Client(port)
            async with connect(port) as raw:
                for _ in range(1000):
                    client.session = ""
                    await client.open(raw)
            table = next(iter(app.endpoint._legacy._tables.values()))  # type: ignore[union-attr]
            await until(lambda: len(table) == 0)

            assert table._store.size == 0  # type: ignore[attr-defined]

    run(check(), debug=False)
