"""One server connection: requests in, answers out, in order and within bounds."""

from __future__ import annotations

import pytest

from mcpost.http11.errors import Misuse
from mcpost.http11.exchange import Exchange
from mcpost.http11.head import Request
from mcpost.http11.limits import MessageLimits
from tests.unit.http11.memory import CLOSING_OK, NO_DATE, OK, Answering, Server, answer

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def sized(length: int, *lines: bytes) -> bytes:
    head = [b"POST / HTTP/1.1", b"Host: a", b"Content-Length: %d" % length, *lines]
    return b"\r\n".join(head) + b"\r\n\r\n"


def test_a_request_is_answered() -> None:
    server = Server()
    client = server.connect()

    client.feed(POST)

    ((request, body),) = server.app.requests
    assert (request.method, request.path, request.peer, body) == (
        "POST",
        "/mcp",
        "127.0.0.1",
        b"abc",
    )
    assert client.written == OK
    assert not client.closing


def test_a_request_may_come_byte_by_byte() -> None:
    server = Server()
    client = server.connect()

    for byte in POST + CHUNKED + b"2;x\r\nab\r\n1\r\nc\r\n0\r\n\r\n" + GET:
        client.feed(bytes([byte]))

    assert server.app.bodies == [b"abc", b"abc", b""]
    assert client.written == 3 * OK


def test_pipelined_requests_are_answered_in_order_and_in_one_write() -> None:
    server = Server()
    client = server.connect()

    client.feed(GET + POST + GET)

    assert client.writes == [3 * OK]


def test_a_request_waits_for_the_answer_to_the_one_before_it() -> None:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(POST + GET)

    first, *others = server.app.exchanges
    assert others == []
    first.respond(200, NO_DATE, b"1")
    server.loop.turn()
    server.app.exchanges[1].respond(200, NO_DATE, b"2")

    assert client.written == answer(b"1") + answer(b"2")


def test_nothing_is_read_while_too_much_waits_behind_an_answer() -> None:
    server = Server(Answering(None), max_pipelined=100)
    client = server.connect()
    client.feed(GET + 3 * POST)
    assert not client.reading

    server.app.body = b"ok"
    server.app.exchanges[0].respond(200, NO_DATE, b"ok")
    server.loop.turn()

    assert client.reading
    assert client.written == 4 * OK


def test_what_comes_before_the_next_turn_stays_behind_what_waited() -> None:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(GET + POST[:-1])

    server.app.body = b"ok"
    server.app.exchanges[0].respond(200, NO_DATE, b"ok")
    client.feed(POST[-1:] + GET)
    server.loop.turn()

    assert client.written == 3 * OK
    assert server.app.bodies == [b"", b"abc", b""]


def test_one_empty_line_before_a_request_is_ignored() -> None:
    client = Server().connect()

    client.feed(b"\r\n" + GET + b"\r\n")
    client.feed(GET)

    assert client.written == 2 * OK


def test_two_empty_lines_before_a_request_are_refused() -> None:
    client = Server().connect()

    client.feed(b"\r\n\r\n" + GET)

    assert client.written.startswith(b"HTTP/1.1 400 ")


def test_head_gets_the_length_and_no_body() -> None:
    client = Server().connect()

    client.feed(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + GET)

    assert client.written == answer(b"ok").removesuffix(b"ok") + OK


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_has_no_content_says_no_length(status: int) -> None:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(GET)

    server.app.exchanges[0].respond(status, NO_DATE)

    first, *lines = client.written.split(b"\r\n")
    assert first.startswith(b"HTTP/1.1 %d" % status)
    assert lines == [b"date: now", b"", b""]


def test_an_answer_has_a_date() -> None:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(GET)

    server.app.exchanges[0].respond(200, ())

    assert b"\r\ndate: " in client.written
    assert b" GMT\r\n" in client.written


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), id="close"),
        pytest.param(
            GET.replace(b"\r\n\r\n", b"\r\nConnection: x, Close\r\nConnection: y\r\n\r\n"),
            id="close in a list, and a second line",
        ),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", id="HTTP/1.0"),
        pytest.param(
            b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", id="HTTP/1.0 with keep-alive"
        ),
    ],
)
def test_the_connection_is_closed_where_the_client_wants_it(request_bytes: bytes) -> None:
    client = Server().connect()

    client.feed(request_bytes)

    assert client.written == CLOSING_OK
    assert client.closing


def test_nothing_is_answered_behind_the_last_request() -> None:
    server = Server()
    client = server.connect()

    client.feed(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + POST)

    assert client.written == CLOSING_OK
    assert len(server.app.requests) == 1


def test_an_application_may_end_the_connection() -> None:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(GET)

    server.app.exchanges[0].respond(200, (*NO_DATE, (b"connection", b"close")), b"ok")

    assert client.written == CLOSING_OK
    assert client.closing


# Expect: 100-continue.


def test_a_client_that_waits_for_100_is_told_to_continue() -> None:
    server = Server()
    client = server.connect()

    client.feed(sized(3, b"Expect: 100-Continue"))
    assert client.taken() == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.feed(b"abc")

    assert client.written == OK


def test_a_body_that_is_there_needs_no_100() -> None:
    client = Server().connect()

    client.feed(sized(3, b"Expect: 100-continue") + b"a")
    client.feed(b"bc")

    assert client.written == OK


def test_a_client_that_waits_for_100_is_refused_without_it() -> None:
    server = Server()
    server.app.on_open = lambda request, exchange: exchange.respond(200, NO_DATE, b"ok")
    client = server.connect()

    client.feed(sized(3, b"Expect: 100-continue"))

    assert client.written == CLOSING_OK


# Refusals before the body.


def refuse(request: Request, exchange: Exchange) -> None:
    exchange.respond(200, NO_DATE, b"ok")


def test_a_short_body_of_a_refused_request_is_thrown_away() -> None:
    server = Server()
    server.app.on_open = refuse
    client = server.connect()

    client.feed(sized(3) + b"a")
    client.feed(b"bc" + GET)

    assert client.written == 2 * OK
    assert server.app.requests == []


def test_a_long_body_of_a_refused_request_is_not_read() -> None:
    server = Server(max_discard=2)
    server.app.on_open = refuse
    client = server.connect()

    client.feed(sized(3) + b"abc" + GET)

    assert client.written == CLOSING_OK
    assert client.ended


@pytest.mark.parametrize(
    "chunks",
    [b"2\r\nab\r\n0\r\n\r\n", b"4\r\nabcd\r\n0\r\n\r\n", b"x"],
    ids=["short", "long", "bad"],
)
def test_a_chunked_body_of_a_refused_request_ends_the_connection(chunks: bytes) -> None:
    server = Server(max_discard=3)
    server.app.on_open = refuse
    client = server.connect()

    client.feed(CHUNKED + chunks + GET)

    assert client.written == CLOSING_OK
    assert client.ended


def test_a_refused_sender_is_heard_out_so_that_it_gets_the_answer() -> None:
    server = Server(linger=2.0, max_linger=10)
    client = server.connect()

    client.feed(b"nonsense\r\n\r\n")
    client.feed(b"0123456789")
    assert client.eof_sent
    assert not client.closing

    server.loop.pass_time(3)
    assert client.closing


def test_a_refused_sender_that_goes_on_is_cut_off() -> None:
    client = Server(max_linger=10).connect()

    client.feed(b"nonsense\r\n\r\n")
    client.feed(b"0123456789a")

    assert client.aborted


def test_a_refused_sender_that_ends_is_let_go() -> None:
    client = Server().connect()

    client.feed(b"nonsense\r\n\r\n")
    client.feed_eof()

    assert client.closing


# Bounds.


def small(**limits: int) -> Server:
    return Server(message=MessageLimits(**limits))


@pytest.mark.parametrize("cut", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("limits", "data", "status"),
    [
        pytest.param({"max_head": 50}, GET[:-2] + b"X: " + 50 * b"x", 431, id="unfinished head"),
        pytest.param({"max_head": 50}, GET[:-2] + b"X: " + 50 * b"x" + b"\r\n\r\n", 431, id="head"),
        pytest.param({"max_target": 90}, b"GET /" + 200 * b"x", 414, id="unfinished target"),
        pytest.param(
            {"max_target": 9}, GET.replace(b"/ ", b"/" + 9 * b"x" + b" "), 414, id="target"
        ),
        pytest.param({"max_fields": 2}, GET[:-2] + b"A: 1\r\nB: 2\r\n\r\n", 431, id="fields"),
        pytest.param({"max_body": 2}, POST, 413, id="sized body"),
        pytest.param({"max_body": 2}, CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", 413, id="chunked body"),
        pytest.param({"max_chunk_line": 9}, CHUNKED + b"1;23456789", 400, id="unfinished chunk"),
        pytest.param({"max_chunk_line": 9}, CHUNKED + b"1;23456789\r\n", 400, id="chunk size"),
        pytest.param(
            {"max_chunk_extensions": 3}, CHUNKED + 2 * b"1;2\r\na\r\n", 400, id="extensions"
        ),
    ],
)
def test_what_is_above_its_limit_is_refused(
    limits: dict[str, int], data: bytes, status: int, cut: int
) -> None:
    server = small(**limits)
    client = server.connect()

    for start in range(0, len(data), cut):
        client.feed(data[start : start + cut])

    assert client.written.startswith(b"HTTP/1.1 %d " % status)
    assert client.ended
    assert server.app.requests == []


@pytest.mark.parametrize(
    ("limits", "data"),
    [
        pytest.param({"max_head": len(GET)}, GET, id="head"),
        pytest.param({"max_target": 1}, GET, id="target"),
        pytest.param({"max_fields": 1}, GET, id="fields"),
        pytest.param({"max_body": 3}, POST, id="sized body"),
        pytest.param({"max_body": 3}, CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", id="chunked body"),
        pytest.param({"max_chunk_line": 3}, CHUNKED + b"1;2\r\na\r\n0\r\n\r\n", id="chunk size"),
        pytest.param(
            {"max_chunk_extensions": 2}, CHUNKED + b"1;2\r\na\r\n0\r\n\r\n", id="extensions"
        ),
    ],
)
def test_what_is_at_its_limit_is_served(limits: dict[str, int], data: bytes) -> None:
    client = small(**limits).connect()

    client.feed(data)

    assert client.written == OK


def test_a_body_above_the_limit_is_refused_before_it_comes() -> None:
    client = small(max_body=2).connect()

    client.feed(sized(3))

    assert client.written.startswith(b"HTTP/1.1 413 ")


def test_one_connection_too_many_is_refused() -> None:
    server = Server(max_connections=1)
    first, second = server.connect(), server.connect()

    assert second.written.startswith(b"HTTP/1.1 503 ")
    first.feed(GET)
    assert first.written == OK


# Time.


def test_an_idle_connection_is_closed_without_a_word() -> None:
    server = Server(idle_timeout=5)
    client = server.connect()
    client.feed(GET)
    client.taken()

    server.loop.pass_time(4.9)
    assert not client.closing
    server.loop.pass_time(1.1)

    assert client.closing
    assert client.written == b""


def test_a_slow_head_is_refused_however_often_a_byte_comes() -> None:
    server = Server(head_timeout=5)
    client = server.connect()

    for byte in GET[:10]:
        client.feed(bytes([byte]))
        server.loop.pass_time(0.6)

    assert client.written.startswith(b"HTTP/1.1 408 ")
    assert client.ended


def test_a_slow_second_head_has_the_time_of_a_head_not_that_of_an_idle_connection() -> None:
    server = Server(head_timeout=5, idle_timeout=100)
    client = server.connect()
    client.feed(GET)
    client.taken()

    client.feed(GET[:5])
    server.loop.pass_time(6)

    assert client.written.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_never_speaks_is_let_go() -> None:
    server = Server(head_timeout=5)
    client = server.connect()

    server.loop.pass_time(6)

    assert client.closing
    assert client.written == b""


def test_a_slow_body_is_refused() -> None:
    server = Server(body_timeout=5)
    client = server.connect()

    client.feed(sized(3))
    server.loop.pass_time(3)
    client.feed(b"a")
    server.loop.pass_time(3)

    assert client.written.startswith(b"HTTP/1.1 408 ")
    assert server.app.requests == []


def test_an_answer_may_take_as_long_as_it_likes() -> None:
    server = Server(Answering(None), head_timeout=1, idle_timeout=1, body_timeout=1)
    client = server.connect()
    client.feed(POST)

    server.loop.pass_time(100_000)
    server.app.exchanges[0].respond(200, NO_DATE, b"ok")

    assert client.written == OK


def test_a_reader_that_takes_nothing_is_cut_off() -> None:
    server = Server(Answering(b"x" * 1000), write_timeout=5)
    client = server.connect()
    client.room = 10
    client.feed(GET)

    server.loop.pass_time(6)

    assert client.aborted


def test_a_reader_that_takes_too_little_is_cut_off() -> None:
    server = Server(Answering(b"x" * 1000), write_timeout=5, min_write=100)
    client = server.connect()
    client.room = 10
    client.feed(GET)

    for _ in range(6):
        client.make_room(10)
        server.loop.pass_time(1)

    assert client.aborted


def test_a_reader_that_takes_enough_is_kept() -> None:
    server = Server(Answering(b"x" * 1000), write_timeout=5, min_write=100)
    client = server.connect()
    client.room = 0
    client.feed(GET)

    for _ in range(30):
        client.make_room(30)
        server.loop.pass_time(1)
    client.make_room(None)

    assert not client.closing
    assert client.written == answer(b"x" * 1000)


# The end.


def test_a_client_that_leaves_is_told_to_whoever_answers() -> None:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(GET)
    left: list[str] = []
    server.app.exchanges[0].watch(lambda: left.append("gone"))

    client.feed_eof()
    server.loop.turn()

    assert left == ["gone"]
    assert server.listener.statistics().open == 0


def test_whoever_asks_too_late_is_told_at_once() -> None:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(GET)
    client.feed_eof()
    left: list[str] = []

    server.app.exchanges[0].watch(lambda: left.append("gone"))
    server.app.exchanges[0].respond(200, NO_DATE, b"ok")

    assert left == ["gone"]
    assert client.written == b""


def test_nobody_is_told_of_a_client_that_leaves_after_the_answer() -> None:
    server = Server(Answering(None))
    client = server.connect()
    client.feed(GET)
    left: list[str] = []
    server.app.exchanges[0].watch(lambda: left.append("gone"))

    server.app.exchanges[0].respond(200, NO_DATE, b"ok")
    client.feed_eof()
    server.loop.turn()

    assert left == []


def test_half_a_connection_gets_its_answers_where_that_is_allowed() -> None:
    server = Server(Answering(None), half_close=True)
    client = server.connect()
    client.feed(GET + GET)
    client.feed_eof()
    assert not client.closing

    for _ in range(2):
        server.app.exchanges[-1].respond(200, NO_DATE, b"ok")
        server.loop.turn()

    assert client.written == 2 * OK
    assert client.closing


def test_a_request_that_will_never_be_whole_is_dropped() -> None:
    server = Server(half_close=True)
    client = server.connect()
    client.feed(sized(3) + b"a")

    client.feed_eof()

    assert client.closing
    assert server.app.requests == []


def test_draining_closes_what_idles_and_finishes_what_runs() -> None:
    server = Server(Answering(None))
    idle, busy = server.connect(), server.connect()
    busy.feed(GET)

    for connection in (idle, busy):
        connection.protocol.drain()  # type: ignore[attr-defined]
    server.app.exchanges[0].respond(200, NO_DATE, b"ok")

    assert idle.closing
    assert busy.written == CLOSING_OK
    assert busy.closing


def test_a_second_answer_is_a_mistake() -> None:
    server = Server()
    server.connect().feed(GET)

    with pytest.raises(Misuse, match="over"):
        server.app.exchanges[0].respond(200, NO_DATE)


def test_a_failing_application_leaves_nothing_unsent() -> None:
    server = Server()
    client = server.connect()

    def fail(request: Request, exchange: Exchange) -> None:
        if request.path == "/bad":
            raise ZeroDivisionError

    server.app.on_open = fail
    with pytest.raises(ZeroDivisionError):
        client.feed(GET + GET.replace(b"/ ", b"/bad "))

    assert client.written == OK
