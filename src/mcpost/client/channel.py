"""One channel that all requests share: lines out, lines in, sorted by id.

It knows neither process nor era. A response goes to the request of its id, a notification to the
request that it names: by progress token, by subscription id, or, for a log message that names
none, to the oldest call that asked for logs. What belongs to no request goes to `stray`.

Rules that a change must not break: a slow hearer holds up its own call alone, never the channel;
a line that cannot be read costs at most the one request whose it was.

Spec: basic/transports/stdio, "Receiving Messages", "Cancellation" (I-03, I-04, P-02).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Final

from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.errors import BadReply, ConnectionLost, TooLarge, TransportError, WireError
from mcpost.limits import ClientLimits, WireLimits
from mcpost.wire import meta as keys
from mcpost.wire.jsonrpc import (
    Id,
    Notification,
    Request,
    Response,
    decode_answer,
    encode_notification,
    encode_request,
    read_id,
)
from mcpost.wire.lines import LineParser, TooLong, encode_line

__all__ = ("Channel", "Waiting")

_log = logging.getLogger("mcpost.client")

_EXCERPT: Final = 200


class Waiting:
    """A request that waits for its response, and hears its notifications meanwhile."""

    __slots__ = ("_loop", "_waiter", "attempt", "error", "notes", "out", "response")

    def __init__(self, out: Outgoing, attempt: Attempt) -> None:
        self.out = out
        self.attempt = attempt
        self.notes: deque[Notification] = deque()
        self.response: Response | None = None
        self.error: TransportError | None = None
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self.response is not None or self.error is not None

    @property
    def wants_logs(self) -> bool:
        """Whether its call hears what the server logs: it asked for it, or its session did."""
        meta = self.out.params.get("_meta", ())
        asked = keys.LOG_LEVEL in meta or keys.PROTOCOL_VERSION not in meta
        return asked and self.attempt.hear is not None

    async def wait(self) -> Response:
        """Wait for the response; the hearer gets the notifications, in order, before it.

        Raises:
            TransportError: There will be none.
        """
        hear = self.attempt.hear
        while True:
            while self.notes:
                note = self.notes.popleft()
                heard = hear(note) if hear is not None else None
                if heard is not None and isawaitable(heard):
                    await heard
            if self.error is not None:
                raise self.error
            if self.response is not None:
                return self.response
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def note(self, note: Notification, limit: int) -> None:
        """Take a notification; the oldest go where its hearer is too slow."""
        if self.is_done:
            return
        self.attempt.heard(self._loop.time())
        self.notes.append(note)
        if len(self.notes) > limit:
            self.notes.popleft()
        self._wake()

    def settle(self, response: Response) -> None:
        """Take the response; the first counts."""
        if not self.is_done:
            self.attempt.heard(self._loop.time())
            self.response = response
            self._wake()

    def fail(self, error: TransportError) -> None:
        """There will be no response."""
        if not self.is_done:
            self.error = error
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Channel:
    """A channel.

    Args:
        write: Takes bytes for the peer.
        drain: Waits until the peer has taken most of them.
        limits: Bounds.
        wire_limits: The bound of a line.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        drain: Callable[[], Any],
        *,
        limits: ClientLimits,
        wire_limits: WireLimits = WireLimits(),
    ) -> None:
        self._write = write
        self._drain = drain
        self._limits = limits
        self._parser = LineParser(wire_limits)
        self._open: dict[Id, Waiting] = {}
        self._reason: str | None = None
        self.stray: Callable[[Request | Notification], None] | None = None
        """Takes what belongs to no request of ours."""

    @property
    def is_lost(self) -> bool:
        """Whether the channel has ended."""
        return self._reason is not None

    def tell(self, message: bytes) -> None:
        """Write a message that has no answer."""
        if self._reason is None:
            self._write(encode_line(message))

    async def request(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request and wait for its response.

        Cancelling it tells the server, by `notifications/cancelled`.

        Raises:
            TransportError: There is no response.
        """
        if self._reason is not None:
            raise ConnectionLost(self._reason, sent="no")
        waiting = self._open[out.id] = Waiting(out, attempt)
        attempt.sending(asyncio.get_running_loop().time())
        self.tell(encode_request(out.id, out.method, out.params))
        try:
            await self._drain()
            response = await waiting.wait()
        except asyncio.CancelledError:
            # The handshake is not to be cancelled, says the lifecycle.
            if not waiting.is_done and out.method != "initialize":
                params = {"requestId": out.id, "reason": "the caller has gone"}
                self.tell(encode_notification("notifications/cancelled", params))
            raise
        finally:
            del self._open[out.id]
        attempt.finish()
        return Reply(response)

    def feed(self, data: bytes) -> None:
        """Take bytes of the peer."""
        for line in self._parser.feed(data):
            if isinstance(line, TooLong):
                self._refuse(line.head, TooLarge("line", line.limit, "WireLimits.max_stdio_line"))
            else:
                self.take(line)

    def take(self, line: bytes) -> None:
        """Take one message of the peer."""
        try:
            message = decode_answer(line)
        except WireError as error:
            excerpt = line[:_EXCERPT].decode(errors="replace")
            self._refuse(
                line, BadReply(f"the server wrote a line that is no message: {error}: {excerpt!r}")
            )
            return
        if isinstance(message, Response):
            self._take_response(message)
        elif isinstance(message, Request):
            self._pass_on(message)
        else:
            self._take_note(message)

    def end(self, reason: str) -> None:
        """The peer has gone: everything that waits fails."""
        if self._reason is not None:
            return
        torn = self._parser.end()
        if torn is not None:
            reason = f"{reason} (in the midst of a line of {len(torn)} bytes)"
        self._reason = reason
        for waiting in self._open.values():
            waiting.fail(ConnectionLost(reason, sent=waiting.attempt.sent))

    # What comes in.

    def _take_response(self, response: Response) -> None:
        waiting = None if response.id is None else self._open.get(response.id)
        if waiting is None and response.id is None:
            # An error about a message that could not be read: of one that waits, it is that one.
            waiting = self._only()
        if waiting is not None:
            waiting.settle(response)

    def _take_note(self, note: Notification) -> None:
        waiting: Waiting | None = None
        subscription = note.params.get("_meta")
        if isinstance(subscription, dict) and keys.SUBSCRIPTION_ID in subscription:
            waiting = self._named(subscription[keys.SUBSCRIPTION_ID])
        elif note.method == "notifications/progress":
            waiting = self._named(note.params.get("progressToken"))
        elif note.method == "notifications/message":
            waiting = next((each for each in self._open.values() if each.wants_logs), None)
        else:
            self._pass_on(note)
        if waiting is not None:
            waiting.note(note, self._limits.max_notes)

    def _named(self, name: Any) -> Waiting | None:
        if not isinstance(name, (int, str)):
            return None
        found = self._open.get(name)
        if found is None and isinstance(name, str) and name.isascii() and name.isdigit():
            # Subscription ids are text, whatever the request's id was.
            found = self._open.get(int(name[:15]))
        return found

    def _pass_on(self, message: Request | Notification) -> None:
        if self.stray is not None:
            self.stray(message)
        elif isinstance(message, Request):
            _log.warning("the server sends a request (%s), which it may not", message.method)

    def _refuse(self, head: bytes, error: TransportError) -> None:
        """A line cannot be read; the request whose response it was fails, the rest goes on."""
        _log.warning("%s", error)
        request_id = read_id(head[:4096])
        waiting = self._only() if request_id is None else self._open.get(request_id)
        if waiting is not None and (request_id is not None or b'"result"' in head[:4096]):
            waiting.fail(error)

    def _only(self) -> Waiting | None:
        return next(iter(self._open.values())) if len(self._open) == 1 else None
