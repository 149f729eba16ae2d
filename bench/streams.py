"""Streams: the time to a call's first event, and what idle listens cost."""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import time
from typing import Any, Final, NamedTuple

import uvloop

from bench.load import COUNT, META, NOTIFY, headers, raw_request
from bench.machine import Running

TIMEOUT: Final = 60.0
SETTLE: Final = 0.3
"""Seconds that a server gets to come to rest before its memory is looked at."""
AT_ONCE: Final = 50
"""Listens that are opened together."""
DATA: Final = b"data: "
END: Final = b"0\r\n\r\n"


class Listens(NamedTuple):
    """What many idle listens cost."""

    memory: float
    """Bytes of the server's memory for each."""
    all_heard: float
    """Seconds from the call that makes a notice until the last listener has heard it."""
    spread: float
    """Seconds between the first listener to hear it and the last."""


def first_event(server: Running, calls: int) -> float:
    """Measure the seconds from a call to its first event, on one connection: the median."""
    request = raw_request(server.port, COUNT.headers, COUNT.body)
    times = []
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(calls + 10):
            begun = time.perf_counter()
            connection.sendall(request)
            data = b""
            while DATA not in data:
                data += _receive(connection, server)
            times.append(time.perf_counter() - begun)
            while not data.endswith(END):
                data = data[-len(END) :] + _receive(connection, server)
    return statistics.median(times[10:])


def _receive(connection: socket.socket, server: Running) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise RuntimeError(f"{server.name} closed the connection")
    return data


def listens(server: Running, counts: list[int]) -> list[Listens]:
    """Open more and more listens, and let all of them hear one notice at each count.

    Raises:
        RuntimeError: A listen is refused, or cut off.
    """
    return uvloop.run(_listens(server, counts))


class _Heard:
    """Waits until every listener has heard one more event."""

    def __init__(self, listeners: int) -> None:
        self.missing = listeners
        self.done = asyncio.get_running_loop().create_future()

    async def wait(self, server: Running) -> None:
        try:
            async with asyncio.timeout(TIMEOUT):
                await self.done
        except TimeoutError:
            raise RuntimeError(f"{server.name}: {self.missing} listeners heard nothing") from None


class _Listener(asyncio.Protocol):
    """Opens a listen, and counts what it hears."""

    def __init__(self, request: bytes, heard: _Heard) -> None:
        self._request = request
        self._tail = b""
        self._transport: Any = None
        self.heard = heard
        self.last = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(self._request)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.heard.done.done():
            self.heard.done.set_exception(RuntimeError("a listen was refused, or cut off"))

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        data = self._tail + data
        self._tail = data[1 - len(DATA) :]
        found = data.count(DATA)
        if not found:
            return
        self.last = now
        self.heard.missing -= found
        if self.heard.missing == 0 and not self.heard.done.done():
            self.heard.done.set_result(None)

    def close(self) -> None:
        self._transport.abort()


async def _listens(server: Running, counts: list[int]) -> list[Listens]:
    params = {"notifications": {"toolsListChanged": True}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    request = raw_request(
        server.port, headers("subscriptions/listen"), json.dumps(message).encode()
    )
    await _notify(server)
    await asyncio.sleep(SETTLE)
    before = server.memory()
    listeners: list[_Listener] = []
    found: list[Listens] = []
    try:
        for count in counts:
            while len(listeners) < count:
                more = min(AT_ONCE, count - len(listeners))
                listeners += await _open(server, request, more)
            await asyncio.sleep(SETTLE)
            memory = (server.memory() - before) / count
            heard = _Heard(count)
            for listener in listeners:
                listener.heard = heard
            begun = time.perf_counter()
            await _notify(server)
            await heard.wait(server)
            times = [listener.last for listener in listeners]
            found.append(Listens(memory, max(times) - begun, max(times) - min(times)))
    finally:
        for listener in listeners:
            listener.close()
    return found


async def _open(server: Running, request: bytes, count: int) -> list[_Listener]:
    loop = asyncio.get_running_loop()
    heard = _Heard(count)
    made = [
        await loop.create_connection(lambda: _Listener(request, heard), "127.0.0.1", server.port)
        for _ in range(count)
    ]
    await heard.wait(server)
    return [listener for _, listener in made]


async def _notify(server: Running) -> None:
    """Call the tool that makes a notice, and wait for the answer."""
    request = raw_request(server.port, NOTIFY.headers, NOTIFY.body)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(request)
        async with asyncio.timeout(TIMEOUT):
            line = await reader.readline()
        if b" 200 " not in line:
            raise RuntimeError(f"{server.name} answers notify with {line!r}")
    finally:
        writer.close()
