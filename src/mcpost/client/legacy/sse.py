"""HTTP+SSE, the wire of 2024-11-05: one stream of GET, and messages POSTed beside it.

The stream's first event, `endpoint`, says where to POST; all answers come on the stream, so it is a
channel like that of stdio.

Spec: 2025-11-25, basic/transports, "Backwards Compatibility" (V-03).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urljoin

from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.client.channel import Channel
from mcpost.client.http import HttpTransport, Sending
from mcpost.client.legacy.reader import LegacyReader, Stray
from mcpost.client.network import parse_url
from mcpost.errors import BadReply, BadTarget, LegacyServer, TransportError
from mcpost.limits import ClientLimits
from mcpost.wire.jsonrpc import Notification, Request
from mcpost.wire.sse import ServerSentEvent

__all__ = ("SseWire",)


class SseWire:
    """The wire of one session.

    Args:
        http: Moves the bytes; its address is that of the stream.
        limits: Bounds.

    Next: `open`, before all else.
    """

    def __init__(self, http: HttpTransport, limits: ClientLimits) -> None:
        self._http = http
        self._limits = limits
        self._channel = Channel(self._write, self._drain, limits=limits)
        self._endpoint: asyncio.Future[HttpTransport] = asyncio.get_running_loop().create_future()
        self._stream: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_missed: Any = None
        """Is told why changes may have been missed."""

    @property
    def stray(self) -> Stray | None:
        """Takes what belongs to no request."""
        return self._channel.stray

    @stray.setter
    def stray(self, stray: Stray) -> None:
        self._channel.stray = stray

    @property
    def is_lost(self) -> bool:
        """Whether the stream has ended, and the session with it."""
        return self._channel.is_lost

    async def open(self) -> None:
        """Open the stream and wait for its first event.

        Raises:
            TransportError: It is no such stream.
        """
        self._stream = asyncio.ensure_future(self._read())
        await asyncio.shield(self._endpoint)

    async def request(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request; see `Channel.request`."""
        return await self._channel.request(out, attempt)

    async def tell(self, message: bytes) -> None:
        """Send a notification or a response."""
        self._channel.tell(message)

    async def hear(self) -> bool:
        """Everything is heard: there is one stream."""
        return not self.is_lost

    async def close(self) -> None:
        """Close the stream, which ends the session."""
        self._channel.end("the client was closed")
        tasks = list(self._tasks)
        if self._stream is not None:
            tasks.append(self._stream)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._endpoint.cancel()

    async def _read(self) -> None:
        reader = LegacyReader(None, self._limits, _ignore, on_event=self._take)
        attempt = Attempt(asyncio.get_running_loop().time())
        reason = "the server has ended the stream"
        try:
            await self._http.exchange(Sending("GET", [], b""), lambda: reader, attempt)
            self._refuse(LegacyServer("GET opens no stream of events"))
        except TransportError as error:
            reason = str(error)
            self._refuse(error)
        self._channel.end(reason)
        if self.on_missed is not None:
            self.on_missed(reason)

    def _take(self, event: ServerSentEvent) -> None:
        if event.event == "endpoint":
            self._find(event.data.decode(errors="replace"))
        elif event.event == "message" and event.data:
            self._channel.take(event.data)

    def _find(self, where: str) -> None:
        """Take the address to POST to; it has to be of the stream's own origin."""
        here = self._http.address
        there = None
        with contextlib.suppress(BadTarget, ValueError):
            there = parse_url(urljoin(here.origin + here.target, where))
        if there is None or there[:3] != here[:3]:
            self._refuse(BadReply(f"the endpoint {where!r} is not of {here.origin}"))
        elif not self._endpoint.done():
            self._endpoint.set_result(self._http.at(there))

    def _refuse(self, error: TransportError) -> None:
        if not self._endpoint.done():
            self._endpoint.set_exception(error)
            # Whoever waits gets it; if nobody does, the loop need not complain.
            self._endpoint.exception()

    def _write(self, line: bytes) -> None:
        self._spawn(self._post(line[:-1]))

    async def _drain(self) -> None:
        """Nothing is held back: each message is a POST of its own."""

    async def _post(self, message: bytes) -> None:
        endpoint = await self._endpoint
        attempt = Attempt(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(self._limits.timeout):
                await endpoint.exchange(
                    Sending("POST", [], message),
                    lambda: LegacyReader(None, self._limits, _ignore),
                    attempt,
                )
        except (TransportError, TimeoutError) as error:
            self._channel.end(f"a message could not be sent: {error}")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _ignore(_: Request | Notification) -> None:
    return None
