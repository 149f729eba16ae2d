"""What both ends of a connection do alike: write, wait for a slow reader, keep a deadline, close.

The transport's own buffer has no room (`high=0`): what the kernel takes at once is gone, and the
first byte that it does not take says that the peer is slow. From then on `blocked` holds and the
peer has to take something in each `write_timeout`, or the connection is cut.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import cast

from mcpost.http11.hub import NEVER, Hub

__all__ = ("Connection",)

_INTERNET = frozenset({socket.AF_INET, socket.AF_INET6})
# struct linger { int l_onoff; int l_linger; }: close at once, with a reset.
_RESET = struct.pack("ii", 1, 0)


class Connection(asyncio.Protocol):
    """One end of a connection; the base of the server's and the client's.

    Args:
        hub: What the connections of the loop share.
        write_timeout: Seconds in which a slow reader has to take something.
        min_write: Bytes of that something.
    """

    __slots__ = (
        "_corked",
        "_held",
        "_hub",
        "_min_write",
        "_read_by",
        "_reading",
        "_transport",
        "_waiting",
        "_write_by",
        "_write_timeout",
        "blocked",
        "deadline",
        "slot",
    )

    def __init__(self, hub: Hub, write_timeout: float, min_write: int) -> None:
        self._hub = hub
        self._write_timeout = write_timeout
        self._min_write = min_write
        self._transport: asyncio.Transport | None = None
        self._corked = False
        self._held: list[bytes] = []
        self._reading = True
        self._waiting = 0
        self._read_by = NEVER
        self._write_by = NEVER
        self.blocked = False
        """Whether the peer does not take what is written."""
        self.deadline = NEVER
        self.slot = -1

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._hub.watch(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the transport."""
        self._transport = None
        self._held.clear()
        self._hub.forget(self)

    def pause_writing(self) -> None:
        """The kernel has taken less than was written."""
        self.blocked = True
        self._waiting = self.unsent()
        self._write_by = self._hub.loop.time() + self._write_timeout
        self._keep_deadline()

    def resume_writing(self) -> None:
        """All that was written has been taken."""
        self.blocked = False
        self._write_by = NEVER
        self._keep_deadline()

    # Time.

    def expire(self, now: float) -> None:
        """Do what a passed deadline asks for."""
        if self._write_by <= now:
            waiting = self.unsent()
            if waiting > self._waiting - self._min_write:
                self._write_expired()
                return
            self._waiting = waiting
            self._write_by = now + self._write_timeout
        if self._read_by <= now:
            self._read_by = NEVER
            self._read_expired()
        self.deadline = min(self._read_by, self._write_by)

    def _write_expired(self) -> None:
        """The peer has not taken in time what it had to."""
        self.abort()

    def _read_expired(self) -> None:
        """The peer has not sent in time what it had to."""
        self.close()

    def _expect_by(self, deadline: float) -> None:
        """Set the time by which the peer has to have sent something."""
        self._read_by = deadline
        self._keep_deadline()

    def _keep_deadline(self) -> None:
        due = min(self._read_by, self._write_by)
        # `deadline` is when the hub looks next. That may be too early, never too late.
        if due < self.deadline and self._transport is not None:
            self.deadline = due
            self._hub.watch(self)

    # Writing.

    def unsent(self) -> int:
        """Bytes that the kernel has not taken."""
        if self._transport is None:
            return 0
        return self._transport.get_write_buffer_size() + sum(map(len, self._held))

    def send(self, data: bytes) -> None:
        """Write bytes; while corked they are kept and leave with what follows."""
        if self._corked:
            self._held.append(data)
        elif self._transport is not None:
            self._transport.write(data)

    def send_now(self, data: bytes) -> None:
        """Write bytes with all that is kept before them, corked or not."""
        corked = self._corked
        self._uncork()
        self.send(data)
        self._corked = corked

    def _uncork(self) -> None:
        self._corked = False
        held = self._held
        if held:
            # Writing may tell that the peer is slow, and then what is held is counted.
            self._held = []
            if self._transport is not None:
                self._transport.write(held[0] if len(held) == 1 else b"".join(held))

    # Reading.

    def _set_reading(self, *, wanted: bool) -> None:
        if wanted is self._reading or self._transport is None:
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # The end.

    def close(self) -> None:
        """Close once everything written has been sent."""
        self._uncork()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection: the peer sees a reset, so that no end is taken for the right one."""
        self._held.clear()
        transport = self._transport
        if transport is None:
            return
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family in _INTERNET:
            # The kernel drops what it holds, too: a peer that takes nothing costs nothing more.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()
