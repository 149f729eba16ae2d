"""A relay between a client and a server over HTTP, which reads along and can cut the wire.

It reads as much of HTTP/1.1 as these two ends write: heads, bodies with a length, chunks.

Spec: RFC 9112, 6 and 7.1.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mcpost.compare.record import Recorder
from mcpost.wire.sse import Parser

__all__ = ("Relay",)

_PIECE: Final = 64 * 1024


class _Reader:
    """Reads the messages of one direction of one connection."""

    def __init__(self, recorder: Recorder, *, to_server: bool) -> None:
        self._recorder = recorder
        self._to_server = to_server
        self._rest = b""
        self._left: int | None = None
        self._is_chunked = False
        self._events: Parser | None = None
        self._body = b""
        self.is_streaming = False
        """Whether a stream of events is under way."""

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        self._rest += data
        while self._step():
            pass

    def _step(self) -> bool:
        """Read one head, chunk or body; false when more bytes are needed."""
        if self._left is None and not self._is_chunked:
            head, found, self._rest = self._split(b"\r\n\r\n")
            if found:
                self._take_head(head)
            return found
        if self._is_chunked:
            size, found, rest = self._split(b"\r\n")
            length = int(size or b"0", 16)
            if not found or len(rest) < length + 2:
                if found:
                    self._rest = size + b"\r\n" + rest
                return False
            self._rest = rest[length + 2 :]
            if length:
                self._take_body(rest[:length])
            else:
                self._end()
            return True
        assert self._left is not None
        if len(self._rest) < self._left:
            return False
        body, self._rest = self._rest[: self._left], self._rest[self._left :]
        self._take_body(body)
        self._end()
        return True

    def _split(self, mark: bytes) -> tuple[bytes, bool, bytes]:
        head, found, rest = self._rest.partition(mark)
        return (head, True, rest) if found else (b"", False, self._rest)

    def _take_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        self._is_chunked = "chunked" in fields.get("transfer-encoding", "")
        self._left = None if self._is_chunked else int(fields.get("content-length", "0"))
        self.is_streaming = fields.get("content-type", "").startswith("text/event-stream")
        self._events = Parser() if self.is_streaming else None
        verb = first.split(" ")[0]
        if self._to_server and verb != "POST":
            after = fields.get("last-event-id")
            self._recorder.add(True, "request", verb + (f" after event {after}" if after else ""))

    def _take_body(self, data: bytes) -> None:
        if self._events is None:
            self._body += data
            return
        for event in self._events.feed(data):
            if event.data:
                self._recorder.add_json(self._to_server, event.data)

    def _end(self) -> None:
        if self._body:
            self._recorder.add_json(self._to_server, self._body)
        self._body, self._left, self._is_chunked = b"", None, False
        self.is_streaming = False


class Relay:
    """A relay to a port of this machine.

    Args:
        port: The server's port.
        recorder: Writes down what passes.
    """

    def __init__(self, port: int, recorder: Recorder) -> None:
        self._port = port
        self._recorder = recorder
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """The port that clients call."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        """Cut all connections at once, as a lost network does."""
        self._recorder.add(False, "break", "connection cut")
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._is_cut = False
        there = await asyncio.open_connection("127.0.0.1", self._port)
        ours = (writer, there[1])
        self._writers.update(ours)
        asked = _Reader(self._recorder, to_server=True)
        answered = _Reader(self._recorder, to_server=False)
        try:
            ways = [
                asyncio.ensure_future(_pump(reader, there[1], asked)),
                asyncio.ensure_future(_pump(there[0], writer, answered)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                if ways[0].done() and answered.is_streaming and not self._is_cut:
                    self._recorder.add(True, "break", "closes the stream")
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._tasks.discard(task)
            for each in ours:
                self._writers.discard(each)
                each.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, reading: _Reader) -> None:
    try:
        while data := await source.read(_PIECE):
            reading.feed(data)
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        # One end has gone, and so will the other.
        return
