"""The same bytes through this engine and through h11: the same messages, or a known difference.

Where both take a message it has to be the same message, and cutting the bytes anywhere changes
nothing. What only one of them takes is in one of two tables below; docs/http11.md explains them.
"""

from __future__ import annotations

from typing import NamedTuple

import h11
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.http11.memory import Server, Transport
from tests.unit.http11.test_client import GET, sent

# What we refuse and h11 takes: the reasons that we give, as the table of docs/http11.md has them.
STRICTER = (
    # In llhttp's words.
    "Content-Length can't be present with Transfer-Encoding",
    "Duplicate Content-Length",
    "Expected HTTP/2 Connection Preface",
    "Invalid character in Content-Length",
    "Invalid characters in url",
    "Transfer-Encoding can't be present with Content-Length",
    "Unexpected start char in url",
    # In ours.
    "a chunk size is malformed",
    "a header line is folded",
    "a control character stands in it: 0x7f",
    "a line ends with LF alone",
    "HTTP/1.0 has no Transfer-Encoding",
    "the Host is not a host and a port",
    "the host of the request target is not the Host",
    "the method is not known",
    "the only expectation that is known is 100-continue",
    "the request target has a fragment or a character outside ASCII",
    "the request target is not a path",
    "the version is not HTTP/1.0 or HTTP/1.1",
    "there is a trailer",
    "there is more than one expect",
)

# What we take and h11 refuses, in its words.
LOOSER = ("no request line received",)


class Message(NamedTuple):
    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Seen(NamedTuple):
    """What one reader made of a stream."""

    messages: list[Message]
    refused: str | None
    """Why it stopped before the end; `None` if it wants more, or all is used."""


def ours(data: bytes, cuts: list[int]) -> Seen:
    server = Server()
    client = server.connect()
    start = 0
    for end in [*sorted(cuts), len(data)]:
        client.feed(data[start:end])
        start = end
    messages = [
        Message(request.method, request.target, request.headers, body)
        for request, body in server.app.requests
    ]
    return Seen(messages, _refusal(client))


def _refusal(client: Transport) -> str | None:
    last = client.written.rpartition(b"HTTP/1.1 ")[2]
    if last.startswith((b"200 ", b"100 ")) or not last:
        return None
    return last.rpartition(b"\r\n\r\n")[2].decode().strip()


def theirs(data: bytes) -> Seen:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=64 * 1024)
    connection.receive_data(data)
    messages: list[Message] = []
    body = b""
    request: h11.Request | None = None
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return Seen(messages, None)
            if isinstance(event, h11.Request):
                request, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None
                messages.append(_message(request, body))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return Seen(messages, None)
                connection.start_next_cycle()
    except h11.RemoteProtocolError as error:
        return Seen(messages, str(error))


def _message(request: h11.Request, body: bytes) -> Message:
    headers = [(bytes(name), bytes(value)) for name, value in request.headers]
    return Message(request.method.decode(), bytes(request.target), headers, body)


def compare(data: bytes, cuts: list[int]) -> None:
    us, them = ours(data, cuts), theirs(data)

    common = min(len(us.messages), len(them.messages))
    assert us.messages[:common] == them.messages[:common]
    if len(us.messages) < len(them.messages):
        assert us.refused in STRICTER
    elif len(us.messages) > len(them.messages):
        assert them.refused in LOOSER


# Streams: mostly well formed, with the pieces that readers disagree about.

method = st.sampled_from(
    [b"GET", b"POST", b"PUT", b"OPTIONS", b"DELETE", b"get", b"X", b"G(T", b"", b"PRI"]
)
target = st.sampled_from(
    [b"/", b"/a?b=c", b"*", b"http://a/x", b"http://b/", b"/#f", b"/\xff", b"/a b", b"x", b""]
)
version = st.sampled_from(
    4 * [b"HTTP/1.1"] + [b"HTTP/1.0", b"HTTP/1.2", b"HTTP/0.9", b"http/1.1", b"HTTP/1.10", b""]
)
line_end = st.sampled_from(12 * [b"\r\n"] + [b"\n", b"\r", b"\r\r\n", b""])
name = st.sampled_from(
    [
        *(b"Host", b"host", b"Content-Length", b"CONTENT-LENGTH", b"Transfer-Encoding"),
        *(b"Connection", b"Expect", b"X-A", b"X_A", b"X-A ", b" X", b"X:Y", b"X\0", b"", b"\xe9"),
    ]
)
value = st.sampled_from(
    [
        *(b"a", b"0", b"3", b"03", b"+3", b"-1", b"3, 3", b"3,3", b"3 3", b"1_0", b"0x3", b""),
        *(b"chunked", b"Chunked", b"gzip, chunked", b"identity", b"close", b"keep-alive", b"a,b"),
        *(b"100-continue", b"x\xffy", b"x\ty", b"x\0y", b"x\x7fy", b'"q"', b"  blanks \t ", b"a:1"),
        *(b"\r\n folded", b"\n folded", b"\r"),
    ]
)
blank = st.sampled_from([b" ", b" ", b"", b"\t", b"  "])


@st.composite
def field(draw: st.DrawFn) -> bytes:
    return draw(name) + b":" + draw(blank) + draw(value) + draw(line_end)


sized = st.sampled_from(
    [b"Content-Length: 3\r\n\r\nabc", b"content-length:0\r\n\r\n", b"Content-Length: 3 \r\n\r\nabc"]
)
chunk_size = st.sampled_from(
    [b"3", b"03", b"3;a=b", b"3 ", b" 3", b"3 ;a", b"+3", b"0x3", b"", b"3;a\tb", b'3;"\x01"', b"4"]
)


@st.composite
def chunks(draw: st.DrawFn) -> bytes:
    data = b"Transfer-Encoding: chunked\r\n\r\n"
    for _ in range(draw(st.integers(0, 3))):
        data += draw(chunk_size) + draw(line_end) + b"abc" + draw(line_end)
    last = draw(st.sampled_from([b"0", b"0", b"00", b"0;x", b"", b"000000000"]))
    trailer = draw(st.sampled_from([b"", b"", b"", b"X: y\r\n", b"Content-Length: 3\r\n"]))
    return data + last + draw(line_end) + trailer + draw(line_end)


plain = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /b HTTP/1.1\r\nHost: a:1\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost:a\r\n\r\n",
    ]
)


@st.composite
def strange(draw: st.DrawFn) -> bytes:
    first = draw(method) + b" " + draw(target) + b" " + draw(version) + draw(line_end)
    hosts = draw(st.sampled_from(4 * [b"Host: a\r\n"] + [b"", b"Host: a\r\nHost: b\r\n"]))
    fields = b"".join(draw(st.lists(field(), max_size=3)))
    return first + hosts + fields + draw(st.one_of(sized, chunks(), st.just(b"\r\n")))


@st.composite
def tame(draw: st.DrawFn) -> bytes:
    """A well-formed request whose body may be framed strangely."""
    return b"POST / HTTP/1.1\r\nHost: a\r\n" + draw(st.one_of(sized, chunks()))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A well-formed request in which a byte is another, or is missing."""
    data = bytearray(draw(plain))
    at = draw(st.integers(0, len(data) - 1))
    change = draw(st.sampled_from([b"", b"\r", b"\n", b"\0", b" ", b":", b"\xff", b"A", b"\t"]))
    data[at : at + 1] = change
    return bytes(data)


empty_line = st.just(b"\r\n")
stream = st.lists(
    st.one_of(plain, tame(), strange(), damaged(), empty_line), min_size=1, max_size=4
).map(b"".join)


@given(data=stream, cuts=st.lists(st.integers(0, 400), max_size=6))
def test_both_readers_see_the_same_messages(data: bytes, cuts: list[int]) -> None:
    compare(data, [cut for cut in cuts if cut <= len(data)])


@given(data=stream, cuts=st.lists(st.integers(0, 400), max_size=12))
def test_a_cut_anywhere_changes_nothing(data: bytes, cuts: list[int]) -> None:
    whole = ours(data, [])
    pieces = ours(data, [cut for cut in cuts if cut <= len(data)])

    assert pieces.messages == whole.messages
    assert (pieces.refused is None) is (whole.refused is None)


# The other way round: responses to one GET, after which the server ends the connection.


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


STRICTER_RESPONSES = (
    # In llhttp's words.
    "Content-Length can't be present with Transfer-Encoding",
    "Duplicate Content-Length",
    "Invalid character in Content-Length",
    "Transfer-Encoding can't be present with Content-Length",
    # In ours.
    "HTTP/1.0 has no Transfer-Encoding",
    "a 204 response announces a body",
    "a chunk size is malformed",
    "a control character stands in it: 0x7f",
    "a header line is folded",
    "a line ends with LF alone",
    "the status line is not a version, a status and a reason",
    "there is a trailer",
    "there is more than one expect",
    "there is more than one host",
)


def our_answer(data: bytes, cuts: list[int]) -> Answer | str:
    up, _, receiver = sent(GET)
    start = 0
    for end in [*sorted(cuts), len(data)]:
        up.server.feed(data[start:end])
        start = end
    up.server.feed_eof()
    up.loop.turn()
    if receiver.error is not None:
        return str(receiver.error).rpartition("HTTP/1.1: ")[2]
    assert receiver.head is not None
    return Answer(receiver.head.status, receiver.head.headers, receiver.body)


def their_answer(data: bytes) -> Answer | None:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=64 * 1024)
    connection.send(h11.Request(method="GET", target="/x", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    connection.receive_data(b"")
    head: h11.Response | None = None
    body = b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                headers = [(bytes(name), bytes(value)) for name, value in head.headers]
                return Answer(head.status_code, headers, body)
            elif not isinstance(event, h11.InformationalResponse):
                return None
    except h11.RemoteProtocolError:
        return None


status = st.sampled_from(
    5 * [b"200 OK"]
    + [b"204 No Content", b"304 Not Modified", b"200", b"200 ", b"99 X", b"2000 X", b"600 X", b""]
)
interim = st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n"])


@st.composite
def response(draw: st.DrawFn) -> bytes:
    before = b"".join(draw(st.lists(interim, max_size=2)))
    first = draw(version) + b" " + draw(status) + draw(line_end)
    fields = b"".join(draw(st.lists(field(), max_size=3)))
    body = draw(st.one_of(sized, chunks(), st.just(b"\r\nabc"), st.just(b"\r\n")))
    return before + first + fields + body


@given(data=response(), cuts=st.lists(st.integers(0, 300), max_size=6))
def test_both_readers_see_the_same_response(data: bytes, cuts: list[int]) -> None:
    us, them = our_answer(data, [cut for cut in cuts if cut <= len(data)]), their_answer(data)

    if isinstance(us, Answer):
        assert us == them
    elif them is not None:
        assert us in STRICTER_RESPONSES


@given(data=st.binary(min_size=1, max_size=200))
def test_no_bytes_whatever_are_taken_by_one_reader_alone(data: bytes) -> None:
    compare(data, [])
