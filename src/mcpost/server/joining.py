"""A transport that sends what is written in one turn of the loop in one piece.

An HTTP server writes the head of a response and then its body, and a stream its events one by one.
Each write is a system call and a packet, which cost more than all that is done to make them.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ("JoiningTransport",)


class JoiningTransport(asyncio.Transport):
    """Joins the writes of one turn; in all else it is the transport that it is put before.

    Args:
        transport: The transport.
        loop: Its event loop.
    """

    __slots__ = ("_chunks", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._chunks: list[bytes] = []

    def write(self, data: Any) -> None:
        """Take bytes; they go out at the end of this turn of the loop."""
        if not self._chunks:
            self._loop.call_soon(self._send)
        self._chunks.append(data)

    def close(self) -> None:
        """Send what is left, and close."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is left is thrown away."""
        self._chunks.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Tell what is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection to another protocol."""
        self._transport.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Tell the protocol."""
        return self._transport.get_protocol()

    def pause_reading(self) -> None:
        """Read no more for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Tell how many bytes wait."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._chunks))

    def _send(self) -> None:
        if self._chunks and not self._transport.is_closing():
            self._transport.write(b"".join(self._chunks))
        self._chunks.clear()
