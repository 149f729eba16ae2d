"""Streams: events a second, time to the first one, what an idle listen costs."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from typing import Any, NamedTuple

from bench.load import META, call_body, raw_request
from bench.machine import LOAD_CORE, Running
from bench.servers import EVENTS

TIMEOUT = 60.0


def count_request(port: int) -> bytes:
    """A call of the tool that tells progress."""
    return raw_request(port, "tools/call", "count", call_body("count", {}, progressToken=1))


class Listens(NamedTuple):
    """What many idle listens cost."""

    memory: float
    """Bytes of the server's memory for each."""
    spread: float
    """Seconds between the first and the last to hear one notice."""


def events_per_second(server: Running, connections: int, seconds: float) -> float:
    """Measure the events of calls that tell progress."""
    os.sched_setaffinity(0, {LOAD_CORE})
    return asyncio.run(_events(server.port, connections, seconds))


def first_event(server: Running, calls: int) -> float:
    """Measure the seconds from a call to its first event: the median."""
    os.sched_setaffinity(0, {LOAD_CORE})
    return asyncio.run(_first(server.port, calls))


def listens(server: Running, count: int, *, notify: bool) -> Listens:
    """Open many listens and let all hear one notice."""
    os.sched_setaffinity(0, {LOAD_CORE})
    return asyncio.run(_listens(server, count, notify=notify))


class _Stream(asyncio.Protocol):
    """Counts events; at the end of a stream sends the next request, or stops."""

    def __init__(self, request: bytes, *, again: bool) -> None:
        self._request = request
        self._again = again
        self._tail = b""
        self._transport: Any = None
        self.events = 0
        self.sent = 0.0
        self.first: list[float] = []
        self.heard = asyncio.Event()
        self.last_data = 0.0
        self._waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._waiting = True
        self.sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        events = data.count(b"data: ")
        if events:
            self.events += events
            self.last_data = time.perf_counter()
            if self._waiting:
                self._waiting = False
                self.first.append(self.last_data - self.sent)
            self.heard.set()
        self._tail = (self._tail + data)[-5:]
        if self._tail == b"0\r\n\r\n" and self._again:
            self._tail = b""
            self._send()

    def close(self) -> None:
        self._transport.abort()


async def _open(port: int, request: bytes, *, again: bool) -> _Stream:
    loop = asyncio.get_running_loop()
    _, stream = await loop.create_connection(
        lambda: _Stream(request, again=again), "127.0.0.1", port
    )
    return stream


async def _events(port: int, connections: int, seconds: float) -> float:
    made = [await _open(port, count_request(port), again=True) for _ in range(connections)]
    await asyncio.sleep(0.2)
    start, before = time.perf_counter(), sum(stream.events for stream in made)
    await asyncio.sleep(seconds)
    spent = time.perf_counter() - start
    total = sum(stream.events for stream in made) - before
    for stream in made:
        stream.close()
    if total < EVENTS:
        raise RuntimeError("hardly an event came")
    return total / spent


async def _first(port: int, calls: int) -> float:
    stream = await _open(port, count_request(port), again=True)
    async with asyncio.timeout(TIMEOUT):
        while len(stream.first) < calls:
            stream.heard.clear()
            await stream.heard.wait()
    stream.close()
    return statistics.median(stream.first[calls // 10 :])


async def _listens(server: Running, count: int, *, notify: bool) -> Listens:
    params = {"notifications": {"toolsListChanged": True}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    request = raw_request(server.port, "subscriptions/listen", None, json.dumps(message).encode())
    before = server.memory()
    made: list[_Stream] = []
    async with asyncio.timeout(TIMEOUT):
        for _ in range(count):
            stream = await _open(server.port, request, again=False)
            made.append(stream)
            await stream.heard.wait()
        memory = (server.memory() - before) / count
        spread = 0.0
        if notify:
            for stream in made:
                stream.heard.clear()
            call = raw_request(server.port, "tools/call", "notify", call_body("notify", {}))
            caller = await _open(server.port, call, again=False)
            for stream in made:
                await stream.heard.wait()
            caller.close()
            times = [stream.last_data for stream in made]
            spread = max(times) - min(times)
    for stream in made:
        stream.close()
    return Listens(memory, spread)
