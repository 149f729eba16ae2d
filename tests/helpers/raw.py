"""A raw HTTP/1.1 connection: bytes out, literal answers in, and every wait with a deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.helpers.until import DEADLINE


class Raw:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._chunks = b""
        self._over = False
        self.status = 0
        self.headers: dict[str, str] = {}

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await asyncio.wait_for(self._writer.drain(), DEADLINE)

    async def ask(self, data: bytes) -> Any:
        """Send a request and give the answer's JSON, `None` where it has no body."""
        await self.send(data)
        await self.head()
        found = await self.body()
        return json.loads(found) if found else None

    async def head(self) -> int:
        """Read the head of an answer; `status` and `headers` are its own from then on."""
        data = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), DEADLINE)
        first, *rest = data.decode("latin-1").split("\r\n")[:-2]
        self.status = int(first.split()[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)
        }
        self._chunks = b""
        self._over = False
        return self.status

    async def body(self) -> bytes:
        """Read the rest of the answer."""
        length = self.headers.get("content-length")
        if length is not None:
            return await asyncio.wait_for(self._reader.readexactly(int(length)), DEADLINE)
        if self.status in (202, 204):
            return b""
        while await self._chunk():
            pass
        return self._chunks

    async def event(self, deadline: float = DEADLINE) -> Any:
        """Give the next event's data as JSON, comments passed over; `None` at the end."""
        async with asyncio.timeout(deadline):
            while True:
                part = await self._part()
                if part is None or part.startswith(b"data: "):
                    return None if part is None else json.loads(part[6:])

    async def events(self) -> list[Any]:
        """Give the data of all events that are left."""
        found = []
        while (event := await self.event()) is not None:
            found.append(event)
        return found

    async def parts(self, count: int) -> list[bytes | None]:
        """Give the next parts of a stream, events and comments as they stand; `None` at its end."""
        async with asyncio.timeout(DEADLINE):
            return [await self._part() for _ in range(count)]

    @property
    def is_open(self) -> bool:
        """Whether no end of the connection has been seen so far."""
        return not self._reader.at_eof() and self._reader.exception() is None

    async def is_closed(self) -> bool:
        """Wait for the server to close the connection."""
        try:
            return await asyncio.wait_for(self._reader.read(1), DEADLINE) == b""
        except ConnectionError:
            return True

    async def close(self, *, reset: bool = False) -> None:
        """Close the connection, or cut it."""
        if reset:
            self._writer.transport.abort()
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    async def _part(self) -> bytes | None:
        while b"\n\n" not in self._chunks:
            if not await self._chunk():
                return None
        part, _, self._chunks = self._chunks.partition(b"\n\n")
        return part

    async def _chunk(self) -> bool:
        """Read one chunk; false at the last."""
        if self._over:
            return False
        async with asyncio.timeout(DEADLINE):
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            self._chunks += (await self._reader.readexactly(size + 2))[:-2]
        self._over = size == 0
        return not self._over


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Raw]:
    """Open a connection to a port of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    raw = Raw(reader, writer)
    try:
        yield raw
    finally:
        await raw.close()
