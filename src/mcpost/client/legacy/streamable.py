"""Streamable HTTP of the earlier revisions: a session, its stream of GET, streams that resume.

Leaving a stream cancels nothing there: a cancelled call is told to the server, and a broken stream
is asked for again, after the time that the server named.

Spec: 2025-11-25, basic/transports, "Streamable HTTP"; basic/utilities/cancellation (L-01, L-02).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final

from mcpost.client.attempt import Attempt, Outgoing, Reply, State
from mcpost.client.http import HttpTransport, Sending
from mcpost.client.legacy.reader import LegacyReader, SessionGone, Stray
from mcpost.errors import BadReply, ConnectFailed, ConnectionLost, TransportError
from mcpost.limits import ClientLimits
from mcpost.wire.jsonrpc import Id, Notification, Request, encode_notification, encode_request

__all__ = ("StreamableWire",)

_RETRY: Final = 0.5
"""Seconds before a stream is asked for again where the server names none."""
_MAX_RETRY: Final = 20.0
_HEAD: Final = 2.0
"""Seconds to wait for the head of the stream of GET."""
_LEAVE: Final = 2.0
"""Seconds that the last words to a server may take."""


class StreamableWire:
    """The wire of one session.

    Args:
        http: Moves the bytes.
        limits: Bounds.
    """

    def __init__(self, http: HttpTransport, limits: ClientLimits) -> None:
        self._http = http
        self._limits = limits
        self._session_id: str | None = None
        self._version: str | None = None
        self._ear: asyncio.Task[None] | None = None
        self._hears: asyncio.Future[bool] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.stray: Stray = _drop
        """Takes what belongs to no request."""
        self.on_missed: Any = _drop
        """Is told why changes may have been missed."""

    @property
    def is_lost(self) -> bool:
        """A session does not end with a connection; 404 tells that it has ended."""
        return False

    async def request(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request and wait for its response, over as many connections as it takes.

        Raises:
            SessionGone: The server has ended the session.
            TransportError: There is no response.
        """
        readers: list[LegacyReader] = []

        def make() -> LegacyReader:
            readers.append(self._reader(out.id))
            return readers[-1]

        body = encode_request(out.id, out.method, out.params)
        try:
            try:
                reply = await self._http.exchange(
                    Sending("POST", self._lines(), body), make, attempt
                )
            except ConnectionLost as lost:
                if not readers or readers[-1].last_event_id is None:
                    raise
                return await self._resume(out.id, attempt, readers[-1], lost)
        except asyncio.CancelledError:
            if out.method != "initialize" and attempt.state is not State.IDLE:
                self._spawn(self._tell_cancelled(out.id))
            raise
        if out.method == "initialize" and reply.response.result is not None:
            self._session_id = readers[-1].session_id
            version = reply.response.result.get("protocolVersion")
            self._version = version if isinstance(version, str) else None
        return reply

    async def tell(self, message: bytes) -> None:
        """Send a notification or a response; 202 takes it."""
        attempt = Attempt(asyncio.get_running_loop().time())
        sending = Sending("POST", self._lines(), message)
        async with asyncio.timeout(self._limits.timeout):
            await self._http.exchange(sending, lambda: self._reader(None), attempt)

    async def hear(self) -> bool:
        """Open the stream of GET, where it is not open; false where the server has none."""
        if self._ear is None:
            self._hears = asyncio.get_running_loop().create_future()
            self._ear = asyncio.ensure_future(self._listen(self._hears))
        assert self._hears is not None
        await asyncio.wait([self._hears], timeout=_HEAD)
        if not self._hears.done():
            # Some servers send the head with the first event only.
            self._hears.set_result(True)
        return self._hears.result()

    async def close(self) -> None:
        """Take leave of the server: what is still to be said, then DELETE."""
        if self._ear is not None:
            self._ear.cancel()
            await asyncio.wait([self._ear])
        if self._hears is not None and not self._hears.done():
            self._hears.set_result(False)
        if self._tasks:
            _, left = await asyncio.wait(list(self._tasks), timeout=_LEAVE)
            for task in left:
                task.cancel()
        if self._session_id is None:
            return
        sending = Sending("DELETE", self._lines(), b"")
        attempt = Attempt(asyncio.get_running_loop().time())
        # A server may not allow it, or have gone: the session ends by itself then.
        with contextlib.suppress(TransportError, TimeoutError):
            async with asyncio.timeout(_LEAVE):
                await self._http.exchange(sending, lambda: self._reader(None), attempt)

    # Streams.

    async def _resume(
        self, request_id: Id, attempt: Attempt, reader: LegacyReader, lost: ConnectionLost
    ) -> Reply:
        """Ask for the rest of a call's stream until its response is there."""
        failures = 0
        retry = reader.retry
        while True:
            last = reader.last_event_id
            attempt.paused = True
            await asyncio.sleep(_delay(retry, failures))
            attempt.resume(asyncio.get_running_loop().time())
            if attempt.state is State.SENT:
                # Of the call as a whole there were signs before.
                attempt.heard(attempt.last_sign)
            reader = self._reader(request_id, last)
            sending = Sending("GET", self._lines(last), b"")
            try:
                return await self._http.exchange(sending, lambda: reader, attempt)  # noqa: B023
            except (ConnectionLost, ConnectFailed) as error:
                failures = failures + 1 if reader.last_event_id == last else 0
                retry = reader.retry or retry
                if failures >= self._limits.max_resumes:
                    raise lost from error
            except (BadReply, SessionGone) as error:
                raise ConnectionLost(
                    f"{lost}, and it cannot be resumed: {error}", sent="yes"
                ) from error

    async def _listen(self, hears: asyncio.Future[bool]) -> None:
        """Keep the stream of GET open, for as long as the server has one."""
        last: str | None = None
        retry: float | None = None
        failures = 0

        def opened() -> None:
            nonlocal failures
            failures = 0
            if not hears.done():
                hears.set_result(True)

        while True:
            reader = LegacyReader(
                None,
                self._limits,
                self.stray,
                last_event_id=last,
                in_session=self._session_id is not None,
                opened=opened,
            )
            sending = Sending("GET", self._lines(last), b"")
            attempt = Attempt(asyncio.get_running_loop().time())
            try:
                await self._http.exchange(sending, lambda: reader, attempt)  # noqa: B023
                # Taken, as a notification is: there is no stream.
                break
            except (ConnectionLost, ConnectFailed) as error:
                last, retry = reader.last_event_id, reader.retry or retry
                failures += 1
                if last is None:
                    self.on_missed(str(error))
                if failures > self._limits.max_resumes:
                    break
            except TransportError:
                break
            await asyncio.sleep(_delay(retry, failures - 1))
        if not hears.done():
            hears.set_result(False)
        else:
            self._ear = None
        self.on_missed("the server tells of nothing any more")

    # Within.

    def _reader(self, request_id: Id | None, last_event_id: str | None = None) -> LegacyReader:
        return LegacyReader(
            request_id,
            self._limits,
            self.stray,
            last_event_id=last_event_id,
            in_session=self._session_id is not None,
        )

    def _lines(self, last_event_id: str | None = None) -> list[tuple[str, str]]:
        lines: list[tuple[str, str]] = []
        if self._session_id is not None:
            lines.append(("Mcp-Session-Id", self._session_id))
        if self._version is not None:
            lines.append(("MCP-Protocol-Version", self._version))
        if last_event_id is not None:
            lines.append(("Last-Event-ID", last_event_id))
        return lines

    async def _tell_cancelled(self, request_id: Id) -> None:
        params = {"requestId": request_id, "reason": "the caller has gone"}
        with contextlib.suppress(TransportError, TimeoutError):
            await self.tell(encode_notification("notifications/cancelled", params))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _delay(retry: float | None, failures: int) -> float:
    least = _RETRY if retry is None else retry
    return min(max(least, _RETRY / 8) * 2.0**failures, max(_MAX_RETRY, least))


def _drop(_: Request | Notification | str) -> None:
    return None
