"""What an HTTP engine of one's own could reach at best: a protocol over httptools, nothing else.

It parses HTTP and JSON, compares headers and has canned answers, as `bench.bare` does for ASGI.
"""

import asyncio
import signal
import socket
from typing import Any, Final

import httptools
import uvloop

from bench.bare import DONE, SUM, compare

__all__ = ("serve",)


def _whole(answer: tuple[dict[str, Any], dict[str, Any]]) -> bytes:
    start, body = answer
    lines = b"".join(b"%s: %s\r\n" % line for line in start["headers"])
    whole: bytes = b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n" + body["body"]
    return whole


ANSWERS: Final = {"add": _whole(SUM), "notify": _whole(DONE)}


class Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self._headers: dict[bytes, bytes] = {}
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, part: bytes) -> None:
        self._body += part

    def on_message_complete(self) -> None:
        self._transport.write(ANSWERS[compare(self._headers, self._body)])


async def _serve(listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    server = await loop.create_server(Connection, sock=listening, backlog=4096)
    await over.wait()
    server.close()


def serve(listening: socket.socket) -> None:
    """Serve until SIGTERM comes."""
    uvloop.run(_serve(listening))
