"""The transport of this revision: one POST a message, JSON or a stream back.

What an answer amounts to is decided in `answer`; here bytes are moved. A request is written once.
It is written again, still as the same request, in three cases, in all of which it was refused and
has not run: a redirect within the origin (307, 308), a 401 or 403 for which the provider of
credentials has new ones, and an idle connection that turned out to be closed before a byte was
written.

Spec: streamable-http, "Sending Messages", "Receiving Messages" (T-05, T-06, T-09).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Final, NamedTuple
from urllib.parse import urljoin

from mcpost.client.answer import AnswerReader, Redirected
from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.client.connection import Connection, HeadTooLarge, Malformed
from mcpost.client.credentials import Credentials
from mcpost.client.network import Address, Network, parse_url
from mcpost.client.pool import Pool
from mcpost.errors import BadReply, BadTarget, Denied, TooLarge
from mcpost.limits import ClientLimits
from mcpost.wire.jsonrpc import encode_request

__all__ = ("HttpTransport", "Sending")

_FOLLOWED: Final = frozenset({307, 308})
_MAX_DENIALS: Final = 3
_MAX_PREFIXES: Final = 16
# What this client says of itself on every request; a header of the program's does not replace it.
_OURS: Final = frozenset({"accept", "accept-encoding", "content-length", "content-type", "host"})


class Sending(NamedTuple):
    """One request of HTTP."""

    verb: str
    lines: list[tuple[str, str]]
    body: bytes


class HttpTransport:
    """Streamable HTTP.

    Args:
        address: The server's endpoint.
        network: TLS and proxies.
        headers: Header lines of every request, checked.
        credentials: The source of those that change.
        limits: Bounds.
        agent: Value of `User-Agent`.
    """

    mirrors = True
    """Whether arguments are mirrored into headers here."""

    def __init__(
        self,
        address: Address,
        *,
        network: Network,
        headers: Mapping[str, str],
        credentials: Credentials,
        limits: ClientLimits,
        agent: str,
    ) -> None:
        self._address = address
        self._headers = {"User-Agent": agent, **headers}
        self._credentials = credentials
        self._limits = limits
        self._pool = Pool(address, network, limits)
        self._prefixes: dict[Address, bytes] = {}

    @property
    def name(self) -> str:
        """What the transport leads to, for messages and as the key of what is remembered."""
        return self._address.origin + self._address.target.partition("?")[0]

    @property
    def address(self) -> Address:
        """The server's endpoint."""
        return self._address

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return self._pool.open_connections

    def at(self, address: Address) -> HttpTransport:
        """Make the transport to another path of the same origin; it shares the connections."""
        other = copy.copy(self)
        other._address = address
        return other

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request and wait for its response.

        Args:
            out: The request.
            attempt: Is told what happens, and hears the notifications.

        Returns:
            The response, which may be an error.

        Raises:
            TransportError: There is none; see `AnswerReader.result`, and `ConnectFailed`.

        Cancelling it closes the connection, which cancels the request at the server.
        """
        sending = Sending("POST", out.lines, encode_request(out.id, out.method, out.params))
        return await self.exchange(sending, lambda: AnswerReader(out.id, self._limits), attempt)

    async def exchange(
        self, sending: Sending, make_reader: Callable[[], AnswerReader], attempt: Attempt
    ) -> Reply:
        """Make one exchange of HTTP: redirects are followed, credentials renewed.

        Args:
            sending: What is sent.
            make_reader: Makes the reader of an answer, one for each time it is sent.
            attempt: As for `send`.
        """
        address = self._address
        redirects = denials = 0
        while True:
            used: Mapping[str, str] = {}
            if self._credentials.is_needed:
                attempt.paused = True
                used = await self._credentials.headers()
                attempt.resume(asyncio.get_running_loop().time())
            try:
                return await self._exchange_once(address, sending, used, make_reader(), attempt)
            except Redirected as redirect:
                redirects += 1
                address = self._follow(address, redirect, redirects)
                if redirect.status == 308:
                    self._address = address
            except Denied as denied:
                denials += 1
                attempt.paused = True
                if denials >= _MAX_DENIALS or not await self._credentials.refused(denied, used):
                    raise

    async def close(self) -> None:
        """Close all connections."""
        await self._credentials.close()
        await self._pool.close()

    # One request.

    async def _exchange_once(
        self,
        address: Address,
        sending: Sending,
        used: Mapping[str, str],
        reader: AnswerReader,
        attempt: Attempt,
    ) -> Reply:
        connection = await self._pool.acquire()
        loop = asyncio.get_running_loop()
        exchange = _Exchange(reader, attempt, connection, loop)
        attempt.sending(loop.time())
        connection.send(self._head(address, sending, used) + sending.body, exchange)
        try:
            await exchange.wait()
        except BaseException:
            connection.cut(exchange)
            raise
        if reader.is_orderly:
            connection.leave(exchange)
        else:
            connection.cut(exchange)
        reply = reader.result()
        attempt.finish()
        return reply

    def _head(self, address: Address, sending: Sending, used: Mapping[str, str]) -> bytes:
        prefix = self._prefixes.get(address)
        if prefix is None:
            prefix = self._make_prefix(address)
            if len(self._prefixes) < _MAX_PREFIXES:
                self._prefixes[address] = prefix
        head = "".join([f"{name}: {value}\r\n" for name, value in (*sending.lines, *used.items())])
        return b"%b %b%bcontent-length: %d\r\n\r\n" % (
            sending.verb.encode("ascii"),
            prefix,
            head.encode("latin-1"),
            len(sending.body),
        )

    def _make_prefix(self, address: Address) -> bytes:
        """Write the part of the head that no request changes: all but the verb before it."""
        proxy = self._pool.forward
        target = address.origin + address.target if proxy is not None else address.target
        lines = {
            "Host": address.authority,
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        lines.update(
            (name, value) for name, value in self._headers.items() if name.lower() not in _OURS
        )
        if proxy is not None and proxy.authorization is not None:
            lines["Proxy-Authorization"] = proxy.authorization
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{target} HTTP/1.1\r\n{head}".encode("latin-1")

    def _follow(self, here: Address, redirect: Redirected, count: int) -> Address:
        """Tell where a redirect points, if that is this origin and the method stays POST.

        Raises:
            BadReply: It is not followed: it could carry the credentials elsewhere, or lose the
                body.
        """
        there: Address | None = None
        with contextlib.suppress(BadTarget, ValueError):
            there = parse_url(urljoin(here.origin + here.target, redirect.location))
        status = redirect.status
        if there is None or not redirect.location:
            problem = "leads nowhere"
        elif status not in _FOLLOWED:
            problem = "would turn the POST into a GET; the server means 307 or 308, or another URL"
        elif there[:3] != here[:3]:
            problem = f"leads to another origin; if it is right, use {there.origin} yourself"
        elif count > self._limits.max_redirects:
            problem = f"is one too many; see ClientLimits.max_redirects ({count - 1})"
        else:
            return there
        raise BadReply(
            f"{here.origin}{here.target}: the redirect {status} to {redirect.location!r} {problem}",
            status=status,
        )


class _Exchange:
    """Takes one answer from a connection and passes its notifications on, in the caller's task."""

    __slots__ = ("_attempt", "_connection", "_loop", "_paused", "_waiter", "reader")

    def __init__(
        self,
        reader: AnswerReader,
        attempt: Attempt,
        connection: Connection,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.reader = reader
        self._attempt = attempt
        self._connection = connection
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._paused = False

    async def wait(self) -> None:
        """Wait for the outcome; notifications are given to the attempt's hearer meanwhile."""
        reader = self.reader
        hear = self._attempt.hear
        while True:
            notes = reader.notes
            while notes:
                note = notes.popleft()
                heard = hear(note) if hear is not None else None
                # A callback may give anything back; only what can be awaited is.
                if heard is not None and isawaitable(heard):
                    await heard
            if self._paused:
                self._paused = False
                self._connection.resume()
            if reader.is_done:
                return
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def take_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Take the head."""
        self._attempt.heard(self._loop.time())
        self.reader.head(status, headers)
        if self.reader.is_done:
            self._wake()

    def take_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        reader = self.reader
        self._attempt.heard(self._loop.time())
        reader.body(data)
        self._attempt.comments = reader.comments
        if reader.is_done:
            self._wake()
        elif reader.notes:
            if len(reader.notes) > reader.limits.max_notes and not self._paused:
                self._paused = True
                self._connection.pause()
            self._wake()

    def take_end(self) -> None:
        """Take the end of the body."""
        self.reader.end()
        self._wake()

    def take_loss(self, error: Exception | None) -> None:
        """Take the loss of the connection."""
        if isinstance(error, HeadTooLarge):
            self.reader.fail(TooLarge("head", self.reader.limits.max_head, "ClientLimits.max_head"))
        elif isinstance(error, Malformed):
            self.reader.fail(BadReply(f"the answer is not HTTP/1.1: {error}"))
        else:
            self.reader.lost(_spell(error))
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _spell(error: Exception | None) -> str:
    if error is None:
        return "the server closed the connection"
    return f"the connection was lost ({error})"
