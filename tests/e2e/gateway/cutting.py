"""Clients and an upstream that break off at points that a request's number decides.

What becomes of a request depends on its number alone, and not on what runs beside it: so each
run is the same, and of each request it is known what has to be seen of it.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from tests.helpers.http import call
from tests.helpers.until import DEADLINE

_ID: Final = re.compile(rb'"id": (\d+)')
_LENGTH: Final = re.compile(rb"content-length: (\d+)")
_END: Final = b"\r\n\r\n"
_LAST: Final = b"0\r\n\r\n"
_LONG: Final = 80 * 1024
"""Bytes of an argument for which a gateway does not wait before it sends the body on."""


class Fate(NamedTuple):
    """What becomes of one request."""

    sent: bytes
    """The request, as far as the client sends it."""
    is_whole: bool
    """Whether that is all of it."""
    leaves_after: int | None
    """Bytes of the answer after which the client leaves; `None` if it stays."""
    said: bytes
    """The answer, as far as the upstream gives it."""
    is_answered: bool
    """Whether that is all of it."""
    is_reset: bool
    """Whether those who break off do it with a reset."""
    pieces: tuple[float, ...]
    """Where, as shares of them, request and answer are cut into pieces."""


def fate_of(seed: int, number: int) -> Fate:
    """Decide what becomes of a request."""
    chance = random.Random(f"{seed} {number}")
    asked = _ask(number, chance)
    leaves_after = None
    is_whole = chance.random() > 0.2
    if not is_whole:
        asked = asked[: chance.randrange(len(asked))]
    elif chance.random() < 0.1:
        leaves_after = chance.choice((0, 1, 40, 150, 250))
    said = answer(number, streamed=chance.random() < 0.5)
    is_answered = chance.random() > 0.25
    if not is_answered:
        said = said[: chance.choice((0, chance.randrange(len(said)), chance.randrange(len(said))))]
    pieces = tuple(chance.random() for _ in range(chance.randrange(3)))
    is_reset = chance.random() < 0.5
    return Fate(asked, is_whole, leaves_after, said, is_answered, is_reset, pieces)


def _ask(number: int, chance: random.Random) -> bytes:
    kind = chance.random()
    padding = "x" * (_LONG if kind < 0.02 else chance.randrange(300))
    asked = call("add", {"padding": padding}, id=number)
    if kind < 0.9:
        return asked
    head, _, body = asked.partition(_END)
    chunked = _LENGTH.sub(b"transfer-encoding: chunked", head)
    return b"%b\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (chunked, len(body), body)


def answer(number: int, *, streamed: bool) -> bytes:
    """Write the answer to a request: JSON, or a stream of three events."""
    body = b'{"id": %d}' % number
    if not streamed:
        start = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        return b"%bcontent-length: %d\r\n\r\n%b" % (start, len(body), body)
    start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    event = b"data: %b\n\n" % body
    chunk = b"%x\r\n%b\r\n" % (len(event), event)
    return b"%btransfer-encoding: chunked\r\n\r\n%b%b" % (start, chunk * 3, _LAST)


class _End(asyncio.Protocol):
    """One end of a connection, which writes in pieces."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def write_in_pieces(self, data: bytes, shares: tuple[float, ...], then: Any) -> None:
        """Write, one piece in each turn of the loop; then call a function."""
        cuts = sorted(int(share * len(data)) for share in shares)
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        self._write_next(iter(pieces), then)

    def _write_next(self, pieces: Iterator[bytes], then: Any) -> None:
        piece = next(pieces, None)
        if piece is None:
            then()
            return
        self.transport.write(piece)
        asyncio.get_running_loop().call_soon(self._write_next, pieces, then)

    def break_off(self, *, reset: bool) -> None:
        """End the connection, whatever runs on it."""
        if reset:
            self.transport.abort()
        else:
            self.transport.close()


class Upstream:
    """Answers requests as their fates say, and counts them.

    Args:
        seed: Of the fates.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.ran: Counter[int] = Counter()
        """How often each request came whole."""
        self.open: set[_Served] = set()
        """Connections that stand."""

    async def listen(self) -> asyncio.Server:
        """Listen on a port that the kernel picks."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: _Served(self), "127.0.0.1", 0, backlog=1024)


class _Served(_End):
    def __init__(self, upstream: Upstream) -> None:
        super().__init__()
        self._upstream = upstream

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._upstream.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._upstream.open.discard(self)

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, end, body = self.data.partition(_END)
        length = _LENGTH.search(head)
        if not end or not (len(body) == int(length[1]) if length else body.endswith(_LAST)):
            return
        found = _ID.search(body if length else decode_chunks(body))
        assert found is not None
        self.data = b""
        self._answer(int(found[1]))

    def _answer(self, number: int) -> None:
        self._upstream.ran[number] += 1
        fate = fate_of(self._upstream.seed, number)

        def over() -> None:
            if not fate.is_answered:
                self.break_off(reset=fate.is_reset)

        self.write_in_pieces(fate.said, fate.pieces, over)


class Caller(_End):
    """One client: sends requests one after the other, over one connection while that lasts.

    Args:
        port: Of the gateway.
        seed: Of the fates.
    """

    def __init__(self, port: int, seed: int) -> None:
        super().__init__()
        self._port = port
        self._seed = seed
        self._fate: Fate | None = None
        self._over: asyncio.Future[bytes] | None = None
        self._is_open = False

    async def send(self, number: int) -> bytes:
        """Send a request as its fate says; gives what came of the answer."""
        loop = asyncio.get_running_loop()
        fate = self._fate = fate_of(self._seed, number)
        self.data = b""
        if not self._is_open:
            self._is_open = True
            await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        self._over = loop.create_future()
        self.write_in_pieces(fate.sent, fate.pieces, self._sent)
        try:
            return await asyncio.wait_for(self._over, DEADLINE)
        except TimeoutError:
            raise AssertionError(f"request {number} is stuck: {fate}, {self.data!r}") from None

    async def close(self) -> None:
        """End the connection."""
        if self._is_open:
            self._over = asyncio.get_running_loop().create_future()
            self.transport.close()
            await asyncio.wait_for(self._over, DEADLINE)

    def data_received(self, data: bytes) -> None:
        self.data += data
        fate = self._fate
        assert fate is not None
        if fate.leaves_after is not None and len(self.data) >= fate.leaves_after:
            self.break_off(reset=fate.is_reset)
        elif is_complete(self.data) and fate.is_whole:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_open = False
        self._end()

    def _sent(self) -> None:
        fate = self._fate
        assert fate is not None
        if not fate.is_whole or fate.leaves_after == 0:
            self.break_off(reset=fate.is_reset)

    def _end(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(self.data)


def decode_chunks(body: bytes) -> bytes:
    """Take the payload out of a whole chunked body."""
    payload = b""
    while body:
        line, _, rest = body.partition(b"\r\n")
        size = int(line, 16)
        payload, body = payload + rest[:size], rest[size + 2 :]
    return payload


def ids_of(got: bytes) -> set[int]:
    """The ids that a whole answer names."""
    head, _, body = got.partition(_END)
    payload = body if _LENGTH.search(head) else decode_chunks(body)
    return {int(found) for found in _ID.findall(payload)}


def is_complete(got: bytes) -> bool:
    """Whether an answer has come to its own end."""
    head, end, body = got.partition(_END)
    length = _LENGTH.search(head)
    if not end:
        return False
    return len(body) == int(length[1]) if length else body.endswith(_LAST)
