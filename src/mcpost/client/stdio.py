"""The transport to a server that runs as a child of this process.

The child is started with the first request, and again with the next one after it has ended. Which
era it is of is asked once, by `server/discover`: a result, or an error that only this revision
has, means this one; any other error, and silence, mean a handshake.

Spec: basic/transports/stdio (I-02, I-03, I-04, V-04, P-02).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.client.channel import Channel
from mcpost.client.child import Child, Command, start_child
from mcpost.client.inputs import Inputs
from mcpost.client.legacy.session import Session
from mcpost.errors import ConnectFailed, ConnectionLost, LegacyServer, TransportError
from mcpost.limits import ClientLimits, WireLimits
from mcpost.wire import meta as keys
from mcpost.wire.versions import Era, is_modern_error

__all__ = ("StdioTransport", "Tap")

Tap = Callable[[bool, bytes], None]
"""Is shown bytes that pass: whether they go to the server, and what they are."""

_PROBE: Final = "probe"
_SAID: Final = (keys.PROTOCOL_VERSION, keys.CLIENT_CAPABILITIES, keys.CLIENT_INFO)


class StdioTransport:
    """A child and the way to it.

    Args:
        command: What is started.
        inputs: What a server of an earlier revision may ask.
        limits: Bounds.
        era: The server's era, where it is known.
        wire_limits: The bound of a line.
        tap: Is shown all bytes: whether they go to the server, and what they are.
    """

    mirrors = False
    """There are no headers on stdio."""

    def __init__(
        self,
        command: Command,
        *,
        inputs: Inputs,
        limits: ClientLimits,
        era: Era | None = None,
        wire_limits: WireLimits = WireLimits(),
        tap: Tap | None = None,
    ) -> None:
        self._tap = tap
        self._command = command
        self._inputs = inputs
        self._limits = limits
        self._wire_limits = wire_limits
        self.era = era
        """The server's era, `None` before it is known."""
        self._link: _Link | None = None
        self._starting: asyncio.Task[_Link] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def name(self) -> str:
        """What it leads to: the command."""
        return self._command.name

    @property
    def open_connections(self) -> int:
        """How many children run: none or one."""
        return int(self._link is not None)

    @property
    def pid(self) -> int | None:
        """Process id of the child, `None` while there is none."""
        return None if self._link is None else self._link.child.pid

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request and wait for its response.

        Raises:
            ConnectFailed: The child cannot be started, or ends before it has answered anything.
            ConnectionLost: It ended during the call.
        """
        link = self._link
        if link is None or link.channel.is_lost:
            # The start has deadlines of its own.
            attempt.paused = True
            link = await self._ready(out.params["_meta"])
            attempt.resume(asyncio.get_running_loop().time())
        if link.session is not None:
            return await link.session.send(out, attempt)
        return await link.channel.request(out, attempt)

    async def close(self) -> None:
        """End the child and all that it has started."""
        self._is_closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._link is not None:
            self._drop(self._link, "the client was closed")
        if self._ending:
            await asyncio.wait(self._ending)

    # Starting and ending.

    async def _ready(self, meta: dict[str, Any]) -> _Link:
        if self._is_closed:
            raise ConnectFailed("the client is closed")
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start(meta))
            self._starting.add_done_callback(self._started)
        return await asyncio.shield(self._starting)

    def _started(self, task: asyncio.Task[_Link]) -> None:
        self._starting = None
        # Whoever waits has the error; with nobody left the loop need not complain.
        if not task.cancelled():
            task.exception()

    async def _start(self, meta: dict[str, Any]) -> _Link:
        link = _Link(self._limits, self._wire_limits, self._tap)
        await link.start(self._command)
        limit = self._limits.start_timeout
        try:
            async with asyncio.timeout(limit):
                await self._greet(link, meta)
        except TimeoutError as error:
            self._drop(link, "it did not answer")
            raise ConnectFailed(
                f"{self.name!r} has not answered within {limit:g} s; see ClientLimits.start_timeout"
            ) from error
        except ConnectionLost as error:
            self._drop(link, str(error))
            raise ConnectFailed(str(error)) from error
        except BaseException:
            self._drop(link, "the start failed")
            raise
        self._link = link
        link.on_lost = lambda reason: self._drop(link, reason)
        if link.channel.is_lost:
            self._drop(link, "the server has ended")
        return link

    async def _greet(self, link: _Link, meta: dict[str, Any]) -> None:
        """Find out the era, and shake hands where that is the way."""
        if self.era is None and await self._is_modern(link, meta):
            self.era = Era.MODERN
        if self.era is Era.MODERN:
            return
        session = Session(link, self._inputs, self._limits)
        link.channel.stray = session.take
        try:
            await session.open(meta)
        except LegacyServer as error:
            raise LegacyServer(
                f"{self.name!r} answers neither `server/discover` nor `initialize`: {error}"
            ) from error
        self.era = Era.LEGACY
        link.session = session

    async def _is_modern(self, link: _Link, meta: dict[str, Any]) -> bool:
        asked = {key: meta[key] for key in _SAID if key in meta}
        probe = Outgoing(_PROBE, "server/discover", {"_meta": asked}, [])
        attempt = Attempt(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(self._limits.probe_timeout):
                reply = await link.channel.request(probe, attempt)
        except TimeoutError:
            return False
        except ConnectionLost:
            raise
        except TransportError:
            return False
        error = reply.response.error
        if error is not None:
            return is_modern_error(error.code)
        return "supportedVersions" in (reply.response.result or {})

    def _drop(self, link: _Link, reason: str) -> None:
        """Let a child go: what waits for it fails at once, its end takes what time it takes."""
        if self._link is link:
            self._link = None
        if link.is_dropped:
            return
        link.is_dropped = True
        link.end(reason)
        task = asyncio.ensure_future(link.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Link:
    """One child and its channel; the wire of a session, where there is one."""

    def __init__(self, limits: ClientLimits, wire_limits: WireLimits, tap: Tap | None) -> None:
        self._limits = limits
        self._tap = tap
        self.channel = Channel(self._write, self._drain, limits=limits, wire_limits=wire_limits)
        self.session: Session | None = None
        self.on_lost = self.end
        self.is_dropped = False
        self.child: Child

    async def start(self, command: Command) -> None:
        """Start the child."""
        self.child = await start_child(command, self._take, lambda why: self.on_lost(why))

    def end(self, reason: str) -> None:
        """Fail what waits."""
        self.channel.end(reason)
        if self.session is not None:
            self.session.lose(reason)

    async def close(self) -> None:
        """End the child."""
        if self.session is not None:
            await self.session.close()
        await self.child.stop(self._limits.exit_timeout)

    # The wire of a session.

    async def request(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request; see `Channel.request`."""
        return await self.channel.request(out, attempt)

    async def tell(self, message: bytes) -> None:
        """Send a notification or response."""
        self.channel.tell(message)
        with contextlib.suppress(ConnectionLost):
            await self.child.drain()

    async def hear(self) -> bool:
        """Everything is heard: there is one channel."""
        return not self.channel.is_lost

    def _take(self, data: bytes) -> None:
        if self._tap is not None:
            self._tap(False, data)
        self.channel.feed(data)

    def _write(self, data: bytes) -> None:
        if self._tap is not None:
            self._tap(True, data)
        self.child.write(data)

    async def _drain(self) -> None:
        await self.child.drain()
