"""A real proxy between the tests and upstreams that say who they are."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple


class Echo(BaseHTTPRequestHandler):
    """Says by which port it was reached, and what of the head arrived."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self.send_response(200)
        self.send_header("x-served-by", str(self.server.server_address[1]))
        self.send_header("x-saw", ",".join(sorted(name.lower() for name in self.headers)))
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Reply(NamedTuple):
    """What came back."""

    status: int
    served_by: int | None
    saw: str
    body: bytes


@contextlib.contextmanager
def serve_echoes(count: int) -> Iterator[list[int]]:
    """Serve upstreams; gives their ports."""
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Echo) for _ in range(count)]
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.daemon_threads = True
        thread.start()
    try:
        yield [server.server_address[1] for server in servers]
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(5)


def find_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def run_engine(command: Sequence[str], port: int, log: Path) -> Iterator[None]:
    """Run a proxy until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait_for(port, process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(log.read_text(errors="replace")[-2000:])


class Caller:
    """Sends heads as they are, over one connection while it lasts."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, lines: Sequence[tuple[bytes, bytes]], *, method: bytes = b"POST") -> Reply:
        """Send one request and read its answer."""
        head = b"".join(name + b": " + value + b"\r\n" for name, value in lines)
        fixed = b"host: gateway\r\ncontent-length: 2\r\n"
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), 10)
        self._socket.sendall(method + b" /mcp HTTP/1.1\r\n" + fixed + head + b"\r\n{}")
        return self._read(self._socket)

    def _read(self, connection: socket.socket) -> Reply:
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            assert chunk, "the proxy closed without an answer"
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        status, *rest = head.split(b"\r\n")
        fields = {k.lower(): v.strip() for k, _, v in (line.partition(b":") for line in rest)}
        while len(body) < int(fields.get(b"content-length", b"0")):
            body += connection.recv(65536)
        if fields.get(b"connection", b"").lower() == b"close":
            self.close()
        served = fields.get(b"x-served-by")
        saw = fields.get(b"x-saw", b"").decode()
        return Reply(int(status.split()[1]), int(served) if served else None, saw, body)
