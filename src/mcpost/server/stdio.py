"""`serve`: one server over standard input and output, for as long as its client keeps them open.

Standard output belongs to the protocol: what a handler prints, a library in C writes or a child
says there goes to standard error. At the end of the input, or at SIGTERM, open listens get their
closing result, running calls get a short grace, and what is left to say is written.

Spec: basic/transports/stdio (I-01, I-02, I-04); 2025-11-25, basic/transports, "stdio".
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpost.limits import ServerLimits, WireLimits
from mcpost.server.channel import Channel
from mcpost.server.pipes import Sink, Source, claim
from mcpost.wire.lines import LineParser, encode_line

if TYPE_CHECKING:
    from mcpost.server.app import Server

__all__ = ("serve", "serve_on")

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_LAST_WRITES: Final = 1.0
"""Seconds that the last lines get to reach a slow reader."""
_STUBBORN: Final = 2.0
"""Seconds after the grace at which the process ends, whatever still runs."""


def serve(
    server: Server,
    *,
    channel: tuple[int, int] | None = None,
    limits: ServerLimits | None = None,
    wire_limits: WireLimits = WireLimits(),
    legacy: bool = True,
) -> None:
    """Serve over standard input and output until the input ends or a signal comes.

    Args:
        server: What to serve.
        channel: Descriptors to read from and to write to: what `mcpost.server.pipes.claim` gave,
            or any other pipes, sockets or files. Standard input and output by default, which
            are then claimed.
        limits: Bounds, by default those of the server.
        wire_limits: The bound of a line.
        legacy: Whether the revisions with a handshake are served too.

    Raises:
        UsageError: Standard input or output is closed.
    """
    source, sink = claim() if channel is None else channel
    grace = (limits or server.limits).drain_grace
    # A function in a thread, or one that minds no cancellation, keeps no process alive.
    watchdog = threading.Timer(grace + _LAST_WRITES + _STUBBORN, os._exit, (1,))
    watchdog.daemon = True

    async def main() -> None:
        stop = asyncio.Event()
        _handle_signals(stop)
        await serve_on(
            server,
            source,
            sink,
            limits=limits,
            wire_limits=wire_limits,
            legacy=legacy,
            stop=stop,
            draining=watchdog.start,
        )

    try:
        asyncio.run(main())
    finally:
        watchdog.cancel()


async def serve_on(
    server: Server,
    source: int,
    sink: int,
    *,
    limits: ServerLimits | None = None,
    wire_limits: WireLimits = WireLimits(),
    legacy: bool = True,
    stop: asyncio.Event | None = None,
    draining: Callable[[], None] = lambda: None,
) -> None:
    """Serve over two descriptors until the one that is read ends; both are left open.

    Args:
        server: What to serve.
        source: Descriptor to read from.
        sink: Descriptor to write to; may be the same, as of a socket.
        limits: As for `serve`.
        wire_limits: As for `serve`.
        legacy: As for `serve`.
        stop: Ends it as the end of the input does, once it is set.
        draining: Called when the end begins.
    """
    link = _Link(server, source, sink, limits or server.limits, wire_limits, legacy=legacy)
    await link.run(stop or asyncio.Event())
    draining()
    await link.drain()


class _Link:
    """The two descriptors, and the channel between them."""

    def __init__(
        self,
        server: Server,
        source: int,
        sink: int,
        limits: ServerLimits,
        wire_limits: WireLimits,
        *,
        legacy: bool,
    ) -> None:
        server.serving()
        self._limits = limits
        self._parser = LineParser(wire_limits)
        self._sink = Sink(sink, self._resume, self._end)
        self._source = Source(source, self._feed, self._end)
        self._channel = Channel(
            server.features,
            server.bus,
            limits,
            write=self._write,
            pending=lambda: self._sink.pending,
            legacy=legacy,
        )
        self._ended = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until the input ends, nobody reads the output, or the event is set."""
        self._source.resume()
        ends = [asyncio.ensure_future(each.wait()) for each in (stop, self._ended)]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.cancel()
            self._source.pause()
        rest = self._parser.end()
        if rest is not None and self._ended.is_set():
            # The last line may lack its end, and may be cut off.
            self._channel.receive(rest)

    async def drain(self) -> None:
        """End what is open, and write what is left to say."""
        await self._channel.drain(self._limits.drain_grace)
        await self._sink.flush(_LAST_WRITES)
        self._sink.close()

    def _write(self, message: bytes) -> None:
        self._sink.write(encode_line(message))

    def _feed(self, data: bytes) -> None:
        for line in self._parser.feed(data):
            self._channel.receive(line)
        if self._sink.pending > self._limits.max_stream_buffer:
            # The peer asks faster than it reads; it may wait as well.
            self._source.pause()

    def _resume(self) -> None:
        if not self._ended.is_set():
            self._source.resume()

    def _end(self) -> None:
        self._ended.set()


def _handle_signals(stop: asyncio.Event) -> None:
    """Drain at the first signal, end at once at the second."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def handle(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, handle, number)
