"""One answer: a stream, its framing, what leaves in one write, and the pace of both sides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mcpost.http11.errors import Misuse
from mcpost.http11.exchange import Exchange, State
from mcpost.http11.head import Request
from tests.unit.http11.memory import NO_DATE, OK, Answering, Server, Transport

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\ndate: now\r\ntransfer-encoding: chunked\r\n\r\n"


def opened(request: bytes = GET) -> tuple[Server, Transport, Exchange]:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(request)
    return server, client, server.app.exchanges[0]


def streaming() -> tuple[Server, Transport, Exchange]:
    """A stream whose head is out, in a turn in which nothing was written."""
    server, client, exchange = opened()
    exchange.start(200, NO_DATE)
    server.loop.turn()
    server.loop.turn()
    client.taken()
    return server, client, exchange


def test_the_head_of_a_stream_leaves_with_its_first_piece() -> None:
    _, client, exchange = opened()

    exchange.start(200, NO_DATE)
    exchange.write(b"abc")

    assert client.writes == [HEAD + b"3\r\nabc\r\n"]


def test_the_head_of_a_silent_stream_leaves_when_the_turn_is_over() -> None:
    server, client, exchange = opened()

    exchange.start(200, NO_DATE)
    assert client.writes == []
    server.loop.turn()

    assert client.writes == [HEAD]


def test_the_first_piece_in_a_turn_leaves_at_once_and_the_others_as_one() -> None:
    server, client, exchange = streaming()

    for piece in (b"1", b"22", b"333"):
        exchange.write(piece)
    assert client.taken() == b"1\r\n1\r\n"
    server.loop.turn()

    assert client.writes == [b"5\r\n22333\r\n"]


def test_a_stream_that_was_silent_for_a_turn_writes_at_once_again() -> None:
    server, client, exchange = streaming()
    exchange.write(b"1")
    server.loop.turn()

    exchange.write(b"2")

    assert client.writes == [b"1\r\n1\r\n", b"1\r\n2\r\n"]


def test_the_end_leaves_with_what_was_written_before_it() -> None:
    _, client, exchange = streaming()

    exchange.write(b"1")
    exchange.write(b"2")
    exchange.end()

    assert client.writes == [b"1\r\n1\r\n", b"1\r\n2\r\n0\r\n\r\n"]


def test_the_connection_is_used_again_after_a_stream() -> None:
    server, client, exchange = streaming()
    exchange.end()
    client.taken()

    server.app.body = b"ok"
    client.feed(GET)

    assert client.written == OK


def test_nothing_is_sent_after_the_end() -> None:
    server, client, exchange = streaming()
    exchange.write(b"1")
    exchange.end()
    client.taken()

    server.loop.turn()

    assert client.written == b""


def test_an_empty_piece_is_not_the_last_chunk() -> None:
    _, client, exchange = streaming()

    exchange.write(b"")

    assert client.written == b""


def test_a_stream_of_known_length_is_not_chunked() -> None:
    _, client, exchange = opened()

    exchange.start(200, NO_DATE, 3)
    exchange.write(b"ab")
    exchange.write(b"c")
    exchange.end()

    assert client.written == b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 3\r\n\r\nabc"
    assert not client.closing


def test_a_stream_that_is_shorter_than_its_length_cuts_the_connection() -> None:
    _, client, exchange = opened()

    exchange.start(200, NO_DATE, 3)
    exchange.write(b"ab")
    exchange.end()

    assert client.aborted


def test_a_stream_that_is_longer_than_its_length_is_a_mistake() -> None:
    _, _, exchange = opened()
    exchange.start(200, NO_DATE, 1)

    with pytest.raises(Misuse, match="length"):
        exchange.write(b"ab")


def test_a_stream_for_http_1_0_ends_with_its_connection() -> None:
    _, client, exchange = opened(b"GET / HTTP/1.0\r\n\r\n")

    exchange.start(200, NO_DATE)
    exchange.write(b"abc")
    exchange.end()

    assert client.written == b"HTTP/1.1 200 OK\r\ndate: now\r\nconnection: close\r\n\r\nabc"
    assert client.closing


def test_a_stream_for_head_is_its_head() -> None:
    _, client, exchange = opened(GET.replace(b"GET", b"HEAD"))

    exchange.start(200, NO_DATE)
    exchange.write(b"abc")
    exchange.end()

    assert client.written == HEAD


def test_a_stream_that_is_cut_has_no_last_chunk() -> None:
    _, client, exchange = streaming()

    exchange.write(b"1")
    exchange.abort()

    assert client.written == b"1\r\n1\r\n"
    assert client.aborted


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(lambda exchange: exchange.write(b"x"), id="write"),
        pytest.param(lambda exchange: exchange.end(), id="end"),
    ],
)
def test_a_stream_is_opened_first(step: Callable[[Exchange], None]) -> None:
    _, _, exchange = opened()

    with pytest.raises(Misuse, match="waiting"):
        step(exchange)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(lambda exchange: exchange.start(200, ()), id="start"),
        pytest.param(lambda exchange: exchange.respond(200, ()), id="respond"),
    ],
)
def test_a_stream_is_the_only_answer(step: Callable[[Exchange], None]) -> None:
    _, _, exchange = streaming()

    with pytest.raises(Misuse, match="open"):
        step(exchange)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(lambda exchange: exchange.respond(200, ()), id="respond"),
        pytest.param(lambda exchange: exchange.start(200, ()), id="start"),
        pytest.param(lambda exchange: exchange.write(b"x"), id="write"),
        pytest.param(lambda exchange: exchange.end(), id="end"),
        pytest.param(lambda exchange: exchange.abort(), id="abort"),
        pytest.param(lambda exchange: exchange.pause(), id="pause"),
    ],
)
def test_nothing_is_wrong_after_the_peer_has_left(step: Callable[[Exchange], None]) -> None:
    _, client, exchange = streaming()
    client.feed_eof()

    step(exchange)

    assert exchange.state is State.GONE
    assert client.written == b""


# The reader's pace.


def test_what_waits_for_a_slow_reader_is_told() -> None:
    _, client, exchange = streaming()
    client.room = 4

    exchange.write(b"abc")
    exchange.write(b"defg")

    # Of the chunk "3 CRLF abc CRLF" four bytes are taken; of the second only the payload counts.
    assert exchange.pending() == 4 + 4


def test_whoever_writes_is_told_when_all_has_been_taken() -> None:
    _, client, exchange = streaming()
    drained: list[str] = []
    exchange.on_drained(lambda: drained.append("drained"))
    client.room = 0
    exchange.write(b"abc")

    client.make_room(5)
    assert drained == []
    client.make_room(None)

    assert drained == ["drained"]


def test_whoever_waits_since_much_was_kept_for_a_turn_is_told_when_it_has_been_sent() -> None:
    server, _, exchange = streaming()
    drained: list[int] = []
    exchange.on_drained(lambda: drained.append(exchange.pending()))
    exchange.write(b"abc")
    exchange.write(b"defg")
    assert (exchange.pending(), drained) == (4, [])

    server.loop.turn()

    assert drained == [0]


# The request's body, piece by piece.


class Collecting:
    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.pieces: list[bytes] = []
        self.ended = False

    def on_data(self, data: bytes) -> None:
        self.pieces.append(data)

    def on_end(self) -> None:
        self.ended = True


def receiving(request: bytes, **limits: float) -> tuple[Server, Transport, Collecting]:
    server = Server(Answering(None), **limits)
    sinks: list[Collecting] = []

    def receive(request: Request, exchange: Exchange) -> None:
        sinks.append(Collecting(exchange))
        exchange.receive(sinks[-1])

    server.app.on_open = receive
    client = server.connect()
    client.feed(request)
    return server, client, sinks[0]


POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n"


def test_a_body_may_be_taken_piece_by_piece() -> None:
    server, client, sink = receiving(POST + b"ab")
    client.feed(b"cdef")

    assert (sink.pieces, sink.ended) == ([b"ab", b"cdef"], True)
    assert server.app.requests == []
    sink.exchange.respond(200, NO_DATE, b"ok")
    assert client.written == OK


def test_an_absent_body_has_an_end_too() -> None:
    _, _, sink = receiving(GET)

    assert (sink.pieces, sink.ended) == ([], True)


def test_an_answer_may_begin_before_the_body_has_come() -> None:
    _, client, sink = receiving(POST)
    sink.exchange.start(200, NO_DATE)
    sink.exchange.write(b"x")

    client.feed(b"abcdef")
    sink.exchange.end()

    assert client.written == HEAD + b"1\r\nx\r\n0\r\n\r\n"
    assert not client.closing


def test_what_comes_of_a_body_after_the_answer_is_thrown_away() -> None:
    server, client, sink = receiving(POST + b"ab")
    sink.exchange.respond(200, NO_DATE, b"ok")

    client.feed(b"cdef" + GET)

    assert sink.pieces == [b"ab"]
    assert len(server.app.exchanges) == 2


def test_a_sender_that_is_paused_waits_and_is_not_slow() -> None:
    server, client, sink = receiving(POST + b"ab", body_timeout=5)

    sink.exchange.pause()
    assert not client.reading
    server.loop.pass_time(100)
    sink.exchange.resume()
    assert client.reading
    server.loop.pass_time(6)

    assert client.written.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_waits_for_100_waits_while_it_is_paused() -> None:
    server = Server(Answering(None))
    server.app.on_open = lambda request, exchange: exchange.pause()
    client = server.connect()

    client.feed(POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    assert client.written == b""
    server.app.exchanges[0].resume()

    assert client.written == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_sender_that_is_paused_goes_on_with_the_next_request() -> None:
    _, client, sink = receiving(POST + b"ab")

    sink.exchange.pause()
    client.feed(b"cdef")
    sink.exchange.respond(200, NO_DATE, b"ok")

    assert client.reading


def test_a_body_that_breaks_a_rule_is_told_as_a_client_that_leaves() -> None:
    _, client, sink = receiving(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    left: list[str] = []
    sink.exchange.watch(lambda: left.append("gone"))

    client.feed(b"3\r\nabcd")

    assert (left, sink.ended) == (["gone"], False)
    assert client.written.startswith(b"HTTP/1.1 400 ")


def test_a_body_that_breaks_a_rule_cuts_an_answer_that_has_begun() -> None:
    _, client, sink = receiving(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    sink.exchange.start(200, NO_DATE)
    sink.exchange.write(b"x")

    client.feed(b"3\r\nabcd")

    assert client.aborted
    assert client.written.endswith(b"\r\n\r\n1\r\nx\r\n")
