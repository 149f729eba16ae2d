"""The transport to a server of an earlier revision over HTTP.

A session is opened with the first call, and once more when the server does not know it any more.
`initialize` is POSTed first; where that is refused as a server of 2024-11-05 would, HTTP+SSE is
tried.

Spec: 2025-11-25, basic/transports, "Session Management", "Backwards Compatibility" (L-01, V-03).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.client.http import HttpTransport
from mcpost.client.inputs import Inputs
from mcpost.client.legacy.reader import SessionGone
from mcpost.client.legacy.session import Session
from mcpost.client.legacy.sse import SseWire
from mcpost.client.legacy.streamable import StreamableWire
from mcpost.errors import BadReply, ConnectFailed, LegacyServer, TransportError
from mcpost.limits import ClientLimits

__all__ = ("LegacyHttp",)

_OLDER: Final = frozenset({400, 404, 405})
"""Statuses with which a server of 2024-11-05 refuses a POST to its stream."""


class _Opened:
    """A session and its wire."""

    def __init__(self, wire: StreamableWire | SseWire, inputs: Inputs, limits: ClientLimits):
        self.wire = wire
        self.session = Session(wire, inputs, limits)
        wire.stray = self.session.take
        wire.on_missed = self.session.lose

    async def close(self) -> None:
        self.session.lose("the session has ended")
        await self.session.close()
        await self.wire.close()


class LegacyHttp:
    """The transport.

    Args:
        http: Moves the bytes; it is the caller's to close.
        inputs: What the server may ask.
        limits: Bounds.
    """

    mirrors = False
    """These revisions mirror nothing."""

    open_connections = 0
    """They are `http`'s."""

    def __init__(self, http: HttpTransport, inputs: Inputs, limits: ClientLimits) -> None:
        self._http = http
        self._inputs = inputs
        self._limits = limits
        self._opened: _Opened | None = None
        self._opening: asyncio.Task[_Opened] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def name(self) -> str:
        """What it leads to."""
        return self._http.name

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request in the session, which is opened where there is none.

        Raises:
            LegacyServer: There is no server of an earlier revision.
            TransportError: There is no response.
        """
        for is_last in (False, True):
            opened = await self._ready(out.params["_meta"], attempt)
            try:
                return await opened.session.send(out, attempt)
            except SessionGone as gone:
                self._forget(opened)
                if is_last:
                    raise BadReply(f"{self.name} ends each session at once", status=404) from gone
        raise AssertionError

    async def close(self) -> None:
        """End the session."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._opened is not None:
            self._forget(self._opened)
        if self._closing:
            await asyncio.wait(list(self._closing))

    def _forget(self, opened: _Opened) -> None:
        if self._opened is not opened:
            return
        self._opened = None
        task = asyncio.ensure_future(opened.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _ready(self, meta: Mapping[str, Any], attempt: Attempt) -> _Opened:
        if self._opened is not None and self._opened.wire.is_lost:
            self._forget(self._opened)
        if self._opened is not None:
            return self._opened
        if self._is_closed:
            raise ConnectFailed("the client is closed")
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open(meta))
            self._opening.add_done_callback(self._landed)
        # Opening has a deadline of its own.
        attempt.paused = True
        try:
            return await asyncio.shield(self._opening)
        finally:
            attempt.resume(asyncio.get_running_loop().time())

    def _landed(self, task: asyncio.Task[_Opened]) -> None:
        self._opening = None
        # Whoever waits has the error; with nobody left the loop need not complain.
        if not task.cancelled():
            task.exception()

    async def _open(self, meta: Mapping[str, Any]) -> _Opened:
        limit = self._limits.start_timeout
        try:
            async with asyncio.timeout(limit):
                opened = await self._shake_hands(meta)
        except TimeoutError as error:
            raise ConnectFailed(
                f"{self.name} has opened no session within {limit:g} s; see"
                " ClientLimits.start_timeout"
            ) from error
        self._opened = opened
        return opened

    async def _shake_hands(self, meta: Mapping[str, Any]) -> _Opened:
        opened = _Opened(StreamableWire(self._http, self._limits), self._inputs, self._limits)
        try:
            await opened.session.open(meta)
            if self._inputs.capabilities():
                # Requests of the server may come on it, also during the first call.
                await opened.wire.hear()
            return opened
        except (BadReply, LegacyServer) as error:
            await opened.close()
            if error.status not in _OLDER:
                raise
            refusal = error
        except BaseException:
            await opened.close()
            raise
        return await self._go_back(meta, refusal)

    async def _go_back(self, meta: Mapping[str, Any], refusal: BadReply) -> _Opened:
        """Try the wire of 2024-11-05."""
        wire = SseWire(self._http, self._limits)
        opened = _Opened(wire, self._inputs, self._limits)
        try:
            await wire.open()
            await opened.session.open(meta)
        except TransportError as error:
            await opened.close()
            raise LegacyServer(
                f"`initialize` is refused ({refusal}), and GET opens no stream ({error})",
                status=refusal.status,
            ) from error
        except BaseException:
            with contextlib.suppress(TransportError):
                await opened.close()
            raise
        return opened
