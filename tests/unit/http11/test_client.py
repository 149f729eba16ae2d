"""One client connection: a response belongs to the request before it, or there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcpost.http11.call import Call, Outgoing
from mcpost.http11.client import ClientConnection
from mcpost.http11.errors import (
    BadResponse,
    CallFailed,
    ConnectionLost,
    Misuse,
    TimedOut,
)
from mcpost.http11.head import KnownResponses, Response
from mcpost.http11.hub import Hub
from mcpost.http11.limits import PoolLimits
from mcpost.http11.pool import Pool, Upstream
from tests.unit.http11.memory import Loop, Transport

GET = Outgoing(b"GET", b"/x", [(b"accept", b"*/*")])
POST = Outgoing(b"POST", b"/x", [], b"abc")
PIECES = Outgoing(b"POST", b"/x", [], None)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Taking:
    """A receiver that remembers."""

    def __init__(self) -> None:
        self.head: Response | None = None
        self.pieces: list[bytes] = []
        self.ended = False
        self.error: CallFailed | None = None

    def on_head(self, response: Response) -> None:
        assert self.head is None
        self.head = response

    def on_data(self, data: bytes) -> None:
        assert data
        self.pieces.append(data)

    def on_end(self) -> None:
        assert not self.ended
        assert self.error is None
        self.ended = True

    def on_failed(self, error: CallFailed) -> None:
        assert not self.ended
        assert self.error is None
        self.error = error

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


class Upstreams:
    """A pool with one connection in memory."""

    def __init__(self, **limits: Any) -> None:
        self.loop = Loop()
        self.limits = replace(PoolLimits(), **limits)
        self.hub = Hub(self.loop, self.limits.tick)  # type: ignore[arg-type]  # all that it calls
        self.pool = Pool(Upstream("up", 8080), self.hub, self.limits)
        connection = ClientConnection(self.pool)
        self.server = Transport(self.loop, connection, {})
        self.pool.release(connection)

    def send(self, outgoing: Outgoing) -> tuple[Call, Taking]:
        receiver = Taking()
        return self.pool.send(outgoing, receiver), receiver

    @property
    def is_kept(self) -> bool:
        return self.pool.statistics().idle == 1 and not self.server.closing


def sent(outgoing: Outgoing, **limits: Any) -> tuple[Upstreams, Call, Taking]:
    up = Upstreams(**limits)
    call, receiver = up.send(outgoing)
    return up, call, receiver


@pytest.mark.parametrize(
    ("outgoing", "written"),
    [
        (GET, b"GET /x HTTP/1.1\r\naccept: */*\r\nhost: up:8080\r\n\r\n"),
        (POST, b"POST /x HTTP/1.1\r\nhost: up:8080\r\ncontent-length: 3\r\n\r\nabc"),
        (
            POST._replace(body=b""),
            b"POST /x HTTP/1.1\r\nhost: up:8080\r\ncontent-length: 0\r\n\r\n",
        ),
        (
            GET._replace(headers=[(b"host", b"other"), (b"content-length", b"9")]),
            b"GET /x HTTP/1.1\r\nhost: other\r\n\r\n",
        ),
    ],
    ids=["without a body", "with one", "with an empty one", "with a host, and a length that lies"],
)
def test_a_request_is_sent_in_one_write(outgoing: Outgoing, written: bytes) -> None:
    up, _, _ = sent(outgoing)

    assert up.server.writes == [written]


def test_a_body_may_be_sent_piece_by_piece() -> None:
    up, call, _ = sent(PIECES)

    call.write(b"ab")
    call.write(b"")
    call.write(b"c")
    call.end()

    head, _, body = up.server.written.partition(b"\r\n\r\n")
    assert head.endswith(b"transfer-encoding: chunked")
    assert body == b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


def test_a_body_of_known_length_is_not_chunked() -> None:
    up, call, _ = sent(PIECES._replace(length=3))

    call.write(b"abc")
    call.end()

    assert up.server.written.endswith(b"content-length: 3\r\n\r\nabc")


def test_a_body_is_not_longer_than_was_said() -> None:
    _, call, _ = sent(PIECES._replace(length=2))

    with pytest.raises(Misuse, match="length"):
        call.write(b"abc")


def test_a_body_is_not_shorter_than_was_said() -> None:
    _, call, _ = sent(PIECES._replace(length=4))
    call.write(b"abc")

    with pytest.raises(Misuse, match="length"):
        call.end()


@pytest.mark.parametrize("cut", [1, 5, 1000])
@pytest.mark.parametrize(
    ("response", "status", "body"),
    [
        pytest.param(OK, 200, b"ok", id="sized"),
        pytest.param(
            b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\nok\r\n0\r\n\r\n",
            200,
            b"ok",
            id="chunked, without a reason",
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", id="204"),
        pytest.param(b"HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", 304, b"", id="304"),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK,
            200,
            b"ok",
            id="after interim ones",
        ),
    ],
)
def test_a_connection_is_kept_after_a_clean_end(
    response: bytes, status: int, body: bytes, cut: int
) -> None:
    up, _, receiver = sent(POST)

    for start in range(0, len(response), cut):
        up.server.feed(response[start : start + cut])

    assert receiver.head is not None
    assert (receiver.head.status, receiver.body, receiver.ended) == (status, body, True)
    assert up.is_kept


def test_a_response_to_head_has_no_body_whatever_it_says() -> None:
    up, _, receiver = sent(GET._replace(method=b"HEAD"))

    up.server.feed(OK.removesuffix(b"ok"))

    assert receiver.ended
    assert up.is_kept


def test_a_head_that_comes_again_is_read_once() -> None:
    up = Upstreams()
    heads = []

    for body in (b"ok", b"no"):
        _, receiver = up.send(GET)
        up.server.feed(OK.removesuffix(b"ok") + body)
        assert (receiver.body, receiver.ended, up.is_kept) == (body, True, True)
        heads.append(receiver.head)

    assert heads[0] is heads[1]


def test_few_heads_and_short_ones_are_kept() -> None:
    known = KnownResponses()
    heads = [b"HTTP/1.1 200 OK\r\nx: %d\r\n\r\n" % number for number in range(2000)]
    response = Response(200, 1)
    response.fields = {}

    for head in heads:
        known.put(head, response)
    known.put(heads[0] + b"x" * 1024, response)

    assert known.get(heads[-1]) is response
    assert sum(known.get(head) is not None for head in heads) <= 512
    assert known.get(heads[0] + b"x" * 1024) is None


@pytest.mark.parametrize("secret", [b"Set-Cookie: a=b", b"Mcp-Session-Id: s"])
def test_a_head_with_a_secret_is_not_kept(secret: bytes) -> None:
    up = Upstreams()
    heads = []

    for _ in range(2):
        _, receiver = up.send(GET)
        up.server.feed(OK.replace(b"\r\n\r\n", b"\r\n%b\r\n\r\n" % secret))
        heads.append(receiver.head)

    assert heads[0] is not heads[1]


@pytest.mark.parametrize(
    ("outgoing", "said", "body", "kept"),
    [
        (GET._replace(method=b"HEAD"), OK.removesuffix(b"ok"), b"", True),
        (GET, OK + b"x", b"ok", False),
        (PIECES, OK, b"ok", False),
    ],
)
def test_a_head_that_was_read_before_ends_each_response_by_its_own_rules(
    outgoing: Outgoing, said: bytes, body: bytes, kept: bool
) -> None:
    up = Upstreams()
    up.send(GET)
    up.server.feed(OK)

    _, receiver = up.send(outgoing)
    up.server.feed(said)

    assert (receiver.body, receiver.ended, up.is_kept) == (body, True, kept)


def test_a_receiver_that_leaves_at_a_known_head_hears_nothing_more() -> None:
    class Leaving(Taking):
        call: Call

        def on_head(self, response: Response) -> None:
            self.call.cancel()

    up = Upstreams()
    up.send(GET)
    up.server.feed(OK)
    receiver = Leaving()
    receiver.call = up.pool.send(GET, receiver)

    up.server.feed(OK)

    assert (receiver.pieces, receiver.ended, up.is_kept) == ([], False, False)


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), id="close"),
        pytest.param(OK.replace(b"1.1", b"1.0"), id="HTTP/1.0"),
        pytest.param(OK + b"HTTP/1.1 200 OK\r\n", id="bytes behind it"),
        pytest.param(OK.replace(b"200", b"204").replace(b"2\r", b"0\r"), id="a body after 204"),
    ],
)
def test_a_connection_is_not_kept_after_another_end(response: bytes) -> None:
    up, _, receiver = sent(GET)

    up.server.feed(response)

    assert receiver.ended
    assert up.server.closing
    assert up.pool.statistics().idle == 0


def test_a_connection_is_not_kept_where_the_request_says_so() -> None:
    up, _, receiver = sent(GET._replace(headers=[(b"connection", b"close")]))

    up.server.feed(OK)

    assert b"connection: close\r\n" in up.server.written
    assert receiver.ended
    assert up.server.closing


def test_a_response_before_the_end_of_the_request_ends_the_connection() -> None:
    up, call, receiver = sent(PIECES)
    call.write(b"ab")

    up.server.feed(OK)
    call.write(b"c")
    call.end()

    assert receiver.ended
    assert up.server.closing


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    up, _, receiver = sent(GET)

    up.server.feed(b"HTTP/1.1 200 OK\r\n\r\nab")
    up.server.feed(b"c")
    assert not receiver.ended
    up.server.feed_eof()
    up.loop.turn()

    assert (receiver.body, receiver.ended) == (b"abc", True)


@pytest.mark.parametrize(
    ("so_far", "seen"),
    [
        pytest.param(b"", "maybe", id="before a byte"),
        pytest.param(b"HTTP/1.1 200", "yes", id="in the head"),
        pytest.param(OK[:-1], "yes", id="in a sized body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
            "yes",
            id="before the last chunk",
        ),
    ],
)
def test_a_connection_that_ends_early_is_a_failure_and_nothing_is_sent_again(
    so_far: bytes, seen: str
) -> None:
    up, _, receiver = sent(POST)
    if so_far:
        up.server.feed(so_far)

    up.server.feed_eof()
    up.loop.turn()

    assert isinstance(receiver.error, ConnectionLost)
    assert receiver.error.sent == seen
    assert up.server.written.count(b"POST") == 1
    assert up.pool.statistics().open == 0


def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    up = Upstreams()

    up.server.feed(OK)
    up.loop.turn()

    assert up.server.aborted
    assert up.pool.statistics().open == 0


def test_too_many_interim_responses_are_refused() -> None:
    up, _, receiver = sent(GET, max_interim=2)

    up.server.feed(3 * b"HTTP/1.1 100 Continue\r\n\r\n")

    assert isinstance(receiver.error, BadResponse)
    assert up.server.aborted


def test_what_is_cancelled_ends_the_connection_and_tells_nothing() -> None:
    up, call, receiver = sent(GET)
    up.server.feed(OK[:-1])

    call.cancel()
    up.loop.turn()

    assert up.server.aborted
    assert (receiver.ended, receiver.error) == (False, None)


def test_a_receiver_may_cancel_while_it_takes_a_piece() -> None:
    up = Upstreams()
    receiver = Taking()
    call = up.pool.send(GET, receiver)
    receiver.on_data = lambda data: call.cancel()  # type: ignore[method-assign]

    up.server.feed(OK)

    assert up.server.aborted
    assert not receiver.ended


def test_the_next_request_may_be_sent_when_the_response_ends() -> None:
    up = Upstreams()
    receiver, second = Taking(), Taking()
    receiver.on_end = lambda: up.pool.send(POST, second)  # type: ignore[assignment,method-assign]
    up.pool.send(GET, receiver)
    up.server.taken()

    up.server.feed(OK)
    assert up.server.taken().startswith(b"POST")
    up.server.feed(OK)

    assert second.ended


# Time.


@pytest.mark.parametrize(
    ("so_far", "phase", "seen"),
    [
        pytest.param(b"", "head", "maybe", id="head"),
        pytest.param(b"HTTP/1.1 200", "head", "yes", id="a head that goes on"),
        pytest.param(OK[:-1], "idle", "yes", id="body"),
    ],
)
def test_an_upstream_that_is_silent_fails_the_call(so_far: bytes, phase: str, seen: str) -> None:
    up, _, receiver = sent(GET, head_timeout=5, idle_timeout=5)
    if so_far:
        up.server.feed(so_far)

    up.loop.pass_time(6)

    assert isinstance(receiver.error, TimedOut)
    assert (receiver.error.phase, receiver.error.sent) == (phase, seen)
    assert up.server.aborted


def test_each_piece_of_a_response_gives_it_new_time_but_not_for_ever() -> None:
    up, _, receiver = sent(GET, idle_timeout=5, total_timeout=20.0)
    up.server.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")

    for _ in range(6):
        up.loop.pass_time(3)
        up.server.feed(b"x")
    assert receiver.error is None
    up.loop.pass_time(3)

    assert isinstance(receiver.error, TimedOut)
    assert receiver.error.phase == "total"


def test_an_upstream_that_takes_nothing_fails_the_call() -> None:
    up = Upstreams(head_timeout=5)
    up.server.room = 10

    _, receiver = up.send(POST)
    up.loop.pass_time(6)

    assert isinstance(receiver.error, TimedOut)
    assert up.server.aborted


def test_an_idle_connection_is_kept_for_a_while() -> None:
    up = Upstreams(keep_timeout=5)

    up.loop.pass_time(4)
    assert up.is_kept
    up.loop.pass_time(2)

    assert up.server.closing


# Pace.


def test_a_response_that_is_paused_waits_and_is_not_slow() -> None:
    up, call, receiver = sent(GET, idle_timeout=5)
    up.server.feed(OK[:-1])

    call.pause()
    assert not up.server.reading
    up.loop.pass_time(100)
    assert receiver.error is None
    call.resume()
    up.server.feed(OK[-1:])

    assert receiver.ended
    assert up.is_kept
    assert up.server.reading


def test_a_response_that_ends_while_it_is_paused_leaves_a_connection_that_reads() -> None:
    up, call, receiver = sent(GET)

    call.pause()
    up.server.feed(OK)

    assert receiver.ended
    assert up.server.reading


def test_whoever_writes_a_request_is_told_what_waits_and_when_it_is_taken() -> None:
    up, call, _ = sent(PIECES._replace(length=6))
    drained: list[str] = []
    call.on_drained(lambda: drained.append("drained"))
    up.server.room = 0

    call.write(b"abcdef")
    assert call.pending() == 6
    up.server.make_room(None)

    assert (call.pending(), drained) == (0, ["drained"])
