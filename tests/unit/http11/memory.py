"""A connection without a socket, and a loop without a clock: bytes in, bytes out, time by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcpost.http11.application import Application
from mcpost.http11.exchange import Exchange
from mcpost.http11.head import Request
from mcpost.http11.hub import Hub
from mcpost.http11.limits import ConnectionLimits
from mcpost.http11.listener import Listener


class Timer:
    def __init__(self, due: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.due, self.callback, self.args = due, callback, args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """What a `Hub` needs of a loop; turns and time pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.ready: list[Timer] = []
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Timer:
        self.ready.append(Timer(self.now, callback, args))
        return self.ready[-1]

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        self.timers.append(Timer(self.now + delay, callback, args))
        return self.timers[-1]

    def turn(self) -> None:
        ready, self.ready = self.ready, []
        for each in ready:
            each.callback(*each.args)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            self.timers = [each for each in self.timers if not each.cancelled]
            due = min(self.timers, key=lambda each: each.due, default=None)
            if due is None or due.due > end:
                break
            self.timers.remove(due)
            self.now = due.due
            due.callback(*due.args)
        self.now = end


class Transport(asyncio.Transport):
    """Takes what is written, as far as its room goes."""

    def __init__(self, loop: Loop, protocol: asyncio.Protocol, extra: dict[str, Any]) -> None:
        super().__init__(extra)
        self.loop, self.protocol = loop, protocol
        self.room: int | None = None
        self.writes: list[bytes] = []
        self.waiting = bytearray()
        self.reading = True
        self.eof_sent = self.closing = self.lost = self.aborted = False
        protocol.connection_made(self)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def get_write_buffer_size(self) -> int:
        return len(self.waiting)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.eof_sent
        if self.closing:
            return
        blocked = bool(self.waiting)
        self.waiting += data
        taken = self._take()
        if taken:
            self.writes.append(taken)
        if self.waiting and not blocked:
            self.protocol.pause_writing()

    def make_room(self, size: int | None) -> None:
        """Let the peer take more, `None` for all."""
        self.room = None if size is None else (self.room or 0) + size
        taken = self._take()
        if taken:
            self.writes.append(taken)
            if not self.waiting:
                self.protocol.resume_writing()
        self._end_if_closing()

    def _take(self) -> bytes:
        size = len(self.waiting) if self.room is None else min(self.room, len(self.waiting))
        taken = bytes(self.waiting[:size])
        del self.waiting[:size]
        if self.room is not None:
            self.room -= size
        return taken

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof_sent = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        self._end_if_closing()

    def abort(self) -> None:
        self.aborted = self.closing = True
        self.waiting.clear()
        self._end_if_closing()

    def _end_if_closing(self) -> None:
        if self.closing and not self.waiting and not self.lost:
            self.lost = True
            self.loop.call_soon(self.protocol.connection_lost, None)

    def feed(self, data: bytes) -> None:
        """Bytes of the peer."""
        if not self.closing:
            self.protocol.data_received(data)

    def feed_eof(self) -> None:
        """The peer sends nothing more."""
        if not self.closing and not self.protocol.eof_received():
            self.close()

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def taken(self) -> bytes:
        """What has been written since the last look."""
        data = self.written
        self.writes.clear()
        return data

    @property
    def ended(self) -> bool:
        """Whether the peer was told that nothing more comes."""
        return self.eof_sent or self.closing


class Answering(Application[Exchange]):
    """An application that remembers, and answers 200 with what it is told to, or later."""

    def __init__(self, body: bytes | None = b"ok") -> None:
        self.body = body
        self.requests: list[tuple[Request, bytes]] = []
        self.exchanges: list[Exchange] = []
        self.on_open: Callable[[Request, Exchange], None] = lambda request, exchange: None

    def open(self, request: Request, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.on_open(request, exchange)

    def handle(self, request: Request, body: bytes, exchange: Exchange) -> None:
        self.requests.append((request, body))
        if self.body is not None:
            exchange.respond(200, NO_DATE, self.body)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.requests]


# A given Date is not written again, so answers are the same bytes every time.
NO_DATE = ((b"date", b"now"),)


class Server:
    """A listener whose clients connect in memory."""

    def __init__(self, application: Answering | None = None, **limits: Any) -> None:
        self.loop = Loop()
        self.app = Answering() if application is None else application
        self.limits = ConnectionLimits(**limits)
        hub = Hub(self.loop, self.limits.tick)  # type: ignore[arg-type]  # all that it calls
        self.listener = Listener(self.app, Exchange, hub, self.limits)

    def connect(self, **extra: Any) -> Transport:
        extra.setdefault("peername", ("127.0.0.1", 50000))
        return Transport(self.loop, self.listener.make_connection(), extra)


def answer(body: bytes, *lines: bytes) -> bytes:
    """What `Answering` sends."""
    head = [b"HTTP/1.1 200 OK", b"date: now", *lines, b"content-length: %d" % len(body)]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


OK = answer(b"ok")
CLOSING_OK = answer(b"ok", b"connection: close")
