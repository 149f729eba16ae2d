"""Reading and writing file descriptors on the loop, whatever they are: pipes, sockets, files.

Reading takes what is there and waits for readiness, so it never needs a descriptor that does not
block. Writing does, for pipes and sockets, and gives them back as they were.

Spec: basic/transports/stdio (I-01).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from mcpost.errors import UsageError

__all__ = ("Sink", "Source", "claim")

_CHUNK: Final = 256 * 1024
"""Bytes that are read or joined at once."""


def claim() -> tuple[int, int]:
    """Take standard input and output for the protocol.

    What else this process, a library of it in C, or a child of it writes to standard output goes
    to standard error from now on, and what it reads from standard input is empty.

    Returns:
        Descriptors of what standard input and output were; no child inherits them.

    Raises:
        UsageError: One of them is closed.
    """
    try:
        source, sink = os.dup(0), os.dup(1)
    except OSError as error:
        raise UsageError("standard input or output is closed: there is no channel") from error
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        # There is no standard error either.
        os.dup2(null, 1)
    os.close(null)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # A print is seen when it is made, as it would be on a terminal.
        reconfigure(line_buffering=True)
    return source, sink


class Source:
    """A descriptor that is read.

    Args:
        descriptor: Open for reading; it is left open.
        feed: Called with each piece as it comes.
        ended: Called once, at the end or at an error.

    Next: `resume` to begin; `pause` at the end.
    """

    __slots__ = ("_descriptor", "_ended", "_feed", "_handle", "_loop", "_paused", "_plain")

    def __init__(
        self, descriptor: int, feed: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self._feed = feed
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._paused = True
        self._plain = False
        self._handle: asyncio.Handle | None = None

    def pause(self) -> None:
        """Read no more for now."""
        if self._paused:
            return
        self._paused = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        elif not self._plain:
            self._loop.remove_reader(self._descriptor)

    def resume(self) -> None:
        """Read, from now on or again."""
        if not self._paused:
            return
        self._paused = False
        if not self._plain:
            try:
                self._loop.add_reader(self._descriptor, self._read)
            except PermissionError:
                # A plain file (or /dev/null) is always ready, and cannot be waited for.
                self._plain = True
        if self._plain:
            self._handle = self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._handle = None
        try:
            data = os.read(self._descriptor, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.pause()
            self._ended()
            return
        if self._plain:
            self._handle = self._loop.call_soon(self._read)
        self._feed(data)


class Sink:
    """A descriptor that is written to, in order.

    Args:
        descriptor: Open for writing; it is left open.
        drained: Called whenever all is written.
        broken: Called once, when nobody reads any more; what waits is thrown away.

    Next: `write`; `flush` and `close` at the end.
    """

    __slots__ = (
        "_broken",
        "_chunks",
        "_descriptor",
        "_drained",
        "_empty",
        "_is_broken",
        "_loop",
        "_may_block",
        "_offset",
        "_scheduled",
        "_was_blocking",
        "pending",
    )

    def __init__(
        self, descriptor: int, drained: Callable[[], None], broken: Callable[[], None]
    ) -> None:
        self._descriptor = descriptor
        self._drained = drained
        self._broken = broken
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        self._offset = 0
        self._scheduled = False
        self._is_broken = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.pending = 0
        """Bytes that are not written yet."""
        mode = os.fstat(descriptor).st_mode
        # A file or a terminal takes what it is given; one that others share stays as it is.
        self._may_block = not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode))
        self._was_blocking = os.get_blocking(descriptor)
        if not self._may_block:
            os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> None:
        """Take data; what comes in one turn of the loop is written together."""
        if self._is_broken:
            return
        self._chunks.append(data)
        self.pending += len(data)
        self._empty.clear()
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write)

    async def flush(self, seconds: float) -> bool:
        """Wait until all is written, but no longer than that; tells whether it is."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            return False
        return not self._is_broken

    def close(self) -> None:
        """Write no more, and leave the descriptor as it was."""
        self._throw_away()
        if not self._may_block:
            self._loop.remove_writer(self._descriptor)
            with contextlib.suppress(OSError):
                os.set_blocking(self._descriptor, self._was_blocking)

    def _write(self) -> None:
        try:
            while self._chunks:
                self._advance(os.write(self._descriptor, self._next()))
        except BlockingIOError:
            self._loop.add_writer(self._descriptor, self._write)
            return
        except OSError:
            self._throw_away()
            self._broken()
        self._scheduled = False
        if not self._may_block:
            self._loop.remove_writer(self._descriptor)
        self._empty.set()
        if not self._is_broken:
            self._drained()

    def _next(self) -> memoryview:
        """What is to be written next; short pieces are joined."""
        first = self._chunks[0]
        if len(self._chunks) > 1 and len(first) - self._offset < _CHUNK:
            parts = [first[self._offset :]]
            size = len(parts[0])
            self._chunks.popleft()
            self._offset = 0
            while self._chunks and size < _CHUNK:
                parts.append(self._chunks.popleft())
                size += len(parts[-1])
            first = b"".join(parts)
            self._chunks.appendleft(first)
        return memoryview(first)[self._offset :]

    def _advance(self, written: int) -> None:
        self.pending -= written
        self._offset += written
        if self._offset == len(self._chunks[0]):
            self._chunks.popleft()
            self._offset = 0

    def _throw_away(self) -> None:
        self._is_broken = True
        self._chunks.clear()
        self._offset = 0
        self.pending = 0
        self._empty.set()
