"""A server on a raw socket that does what it is told, and what no server should.

It answers well, except to the call that is named `fault`: that one gets the steps of a `Fault`.
With `answer`, each request gets the steps that a function of its body gives.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

__all__ = (
    "CLOSE",
    "HALF_CLOSE",
    "HANG",
    "RESET",
    "Fault",
    "Forever",
    "Hostile",
    "chunk",
    "event",
    "failure",
    "good",
    "head",
    "note",
    "page",
    "stream",
)


class Forever(NamedTuple):
    """Send the same bytes again and again, until the other end is gone."""

    data: bytes
    pause: float = 0.0


class Signal(NamedTuple):
    name: str


CLOSE = Signal("close")
HALF_CLOSE = Signal("half-close")
RESET = Signal("reset")
HANG = Signal("hang")

Step = bytes | float | asyncio.Event | Forever | Signal
Fault = Callable[[int], Iterable[Step]]
"""From the id of the request to what happens on its connection."""

Answer = Callable[[dict[str, Any]], Iterable[Step] | None]


def head(status: int = 200, *lines: str) -> bytes:
    """The head of an answer."""
    return ("\r\n".join([f"HTTP/1.1 {status} X", *lines]) + "\r\n\r\n").encode("latin-1")


def page(body: bytes, *lines: str, status: int = 200, kind: str = "application/json") -> bytes:
    """A whole answer with its length."""
    return head(status, f"Content-Type: {kind}", f"Content-Length: {len(body)}", *lines) + body


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def good(request_id: Any, **more: Any) -> bytes:
    """The body of a good result."""
    result = {"resultType": "complete", "content": [], **more}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode()


def failure(request_id: Any, code: int, data: Any = None) -> bytes:
    """The body of an error."""
    error = {"code": code, "message": "no", "data": data}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()


def note(method: str, **params: Any) -> bytes:
    """A notification."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def event(data: bytes) -> bytes:
    """One event."""
    return b"data: " + data + b"\n\n"


def stream(*events: bytes) -> bytes:
    """The head of a stream that ends with its connection, and some bytes of it."""
    return head(200, "Content-Type: text/event-stream") + b"".join(events)


class Hostile:
    """The server; use it as an async context manager.

    Args:
        fault: What the call named `fault` gets; `None` where all is well.
        answer: What each request gets, from its body; `None` for the good answer.
        tls: Its side of TLS, `None` to speak in the clear.
    """

    def __init__(
        self,
        fault: Fault | None = None,
        *,
        answer: Answer | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._fault = fault
        self._tls = tls
        self._writers: set[asyncio.StreamWriter] = set()
        self._answering = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        """Its port, once it is entered."""
        self.requests: list[dict[str, Any]] = []
        """The bodies received."""
        self.heads: list[bytes] = []
        """The heads received."""
        self.accepted = 0
        """Connections accepted so far."""
        self.gone = asyncio.Event()
        """Set when a connection that ran a fault has been closed by the other end."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, limit=2**22, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Die: the listener and all connections."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """Its URL."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/mcp"

    def drop_connections(self) -> None:
        """Send the end of every connection, now: it is in the other end's socket after this."""
        for writer in self._writers:
            writer.get_extra_info("socket").shutdown(socket.SHUT_WR)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The other end has gone, or this server is being closed.
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it; tells whether the connection goes on."""
        request = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(request)
        lines = request.lower().split(b"\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        body = await reader.readexactly(length)
        verb = request.partition(b" ")[0].decode()
        message = json.loads(body) if body else {"id": None, "method": verb, "params": {}}
        self.requests.append(message)
        steps = self._answering(message) if self._answering is not None else None
        if self._fault is not None and message["params"].get("name") == "fault":
            steps = self._fault(message["id"])
        if steps is None:
            writer.write(page(good(message["id"], supportedVersions=[], capabilities={}, tools=[])))
            return True
        try:
            for step in steps:
                if not await self._play(step, reader, writer):
                    return False
        except ConnectionError:
            self.gone.set()
            raise
        return True

    async def _play(
        self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif isinstance(step, float):
            await asyncio.sleep(step)
        elif isinstance(step, asyncio.Event):
            await step.wait()
        elif isinstance(step, Forever):
            while True:
                writer.write(step.data)
                await writer.drain()
                await asyncio.sleep(step.pause)
        elif step is HALF_CLOSE:
            writer.write_eof()
        elif step is HANG:
            await reader.read()
            self.gone.set()
            return False
        else:
            if step is RESET:
                raw = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        return True
