"""An upstream that does what a request asks of it, and counts what it was asked."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections import Counter
from collections.abc import Iterator

from tests.helpers.until import DEADLINE

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class _Handler(socketserver.StreamRequestHandler):
    server: Acting

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while self._answer():
                pass

    def _answer(self) -> bool:
        """Do as one request says; false where the connection is over."""
        head: dict[bytes, bytes] = {}
        if not self.rfile.readline():
            return False
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            head[name.lower()] = value.strip()
        body = self._read_body(head)
        key = head.get(b"x-key", b"")
        self.server.seen[key] += 1
        self.server.came[key].set()
        do = head.get(b"x-do", b"answer")
        if do in (b"reset", b"close"):
            return self._break_off(do)
        if do == b"silent":
            return self._wait_until_left(key)
        if do == b"answer":
            said = b'{"size": %d}' % len(body)
            kind = b"content-type: application/json\r\n"
            self.wfile.write(b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n" % (kind, len(said)))
            self.wfile.write(said)
            return True
        return self._stream(do, key)

    def _stream(self, do: bytes, key: bytes) -> bool:
        more = b"x-accel-buffering: yes\r\n" if do == b"obey" else b""
        self.wfile.write(HEAD + more + b"\r\n" + chunk(b"data: 1\n\n"))
        if do == b"stream-reset":
            assert self.server.go.wait(DEADLINE)
            return self._break_off(b"reset")
        if do == b"stream-silent":
            return self._wait_until_left(key)
        if do == b"comments":
            for _ in range(8):
                self.server.never.wait(0.3)  # what is tested is what silence does
                self.wfile.write(chunk(b":\n\n"))
        else:
            assert self.server.go.wait(DEADLINE)
        self.wfile.write(chunk(b"data: 2\n\n") + b"0\r\n\r\n")
        return True

    def _read_body(self, head: dict[bytes, bytes]) -> bytes:
        if head.get(b"transfer-encoding") != b"chunked":
            return self.rfile.read(int(head.get(b"content-length", b"0")))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size + 2)[:-2]
        self.rfile.readline()
        return body

    def _break_off(self, do: bytes) -> bool:
        if do == b"reset":
            now = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
        self.connection.close()
        return False

    def _wait_until_left(self, key: bytes) -> bool:
        with contextlib.suppress(ConnectionError):
            self.connection.recv(1)
        self.server.left[key].set()
        return False

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().finish()


class _Events(dict[bytes, threading.Event]):
    def __missing__(self, key: bytes) -> threading.Event:
        return self.setdefault(key, threading.Event())


class Acting(socketserver.ThreadingTCPServer):
    """The upstream."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: Counter[bytes] = Counter()
        """Requests by their `x-key`."""
        self.came = _Events()
        self.left = _Events()
        """Set by `x-key` where the other side has closed."""
        self.go = threading.Event()
        """Lets a stream that waits go on."""
        self.never = threading.Event()
        self.port: int = self.server_address[1]

    def arrived(self, key: bytes) -> bool:
        """Wait until a request is here."""
        return self.came[key].wait(DEADLINE)

    def handle_error(self, *_: object) -> None:
        """A proxy that ends cuts its connections."""


@contextlib.contextmanager
def act() -> Iterator[Acting]:
    """Serve one."""
    server = Acting()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.go.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
