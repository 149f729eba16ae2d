"""Event streams."""

from __future__ import annotations

import pytest

from mcpost.errors import TooLarge, UsageError
from mcpost.limits import WireLimits
from mcpost.wire.sse import COMMENT, Parser, ServerSentEvent, encode_comment, encode_event


def parse(stream: bytes) -> list[ServerSentEvent]:
    return Parser().feed(stream)


def data_of(stream: bytes) -> list[bytes]:
    return [event.data for event in parse(stream)]


@pytest.mark.req("T-09/S", "T-11/S")
@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, b"data: {}\n\n"),
        ({"event": "endpoint"}, b"event: endpoint\ndata: {}\n\n"),
        ({"id": "1"}, b"id: 1\ndata: {}\n\n"),
        ({"id": ""}, b"id: \ndata: {}\n\n"),
        (
            {"event": "é", "id": "a", "retry": 500},
            "event: é\nid: a\nretry: 500\ndata: {}\n\n".encode(),
        ),
    ],
)
def test_an_event_is_written_with_its_fields(fields: dict[str, object], written: bytes) -> None:
    assert encode_event(b"{}", **fields) == written  # type: ignore[arg-type]


@pytest.mark.req("T-11/S")
@pytest.mark.parametrize(
    ("data", "written"),
    [
        (b"", b"data: \n\n"),
        (b"a\nb", b"data: a\ndata: b\n\n"),
        (b"a\r\nb\rc\n", b"data: a\ndata: b\ndata: c\ndata: \n\n"),
        ("a\u2028b\u0085".encode(), "data: a\u2028b\u0085\n\n".encode()),
        (b"a\n\nevent: x", b"data: a\ndata: \ndata: event: x\n\n"),
    ],
)
def test_no_line_break_of_the_data_is_one_of_the_stream(data: bytes, written: bytes) -> None:
    assert encode_event(data) == written


@pytest.mark.parametrize(
    "fields",
    [{"event": "a\nb"}, {"event": "a\rb"}, {"id": "a\n"}, {"id": "a\0"}, {"retry": -1}],
    ids=str,
)
def test_a_field_cannot_break_its_line(fields: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        encode_event(b"{}", **fields)  # type: ignore[arg-type]


@pytest.mark.req("T-13/S")
def test_a_comment_is_no_event() -> None:
    assert COMMENT == encode_comment() == b":\n\n"
    assert encode_comment(b" a\r\nb") == b": a\n:b\n\n"
    assert parse(COMMENT + encode_comment(b"data: x")) == []


@pytest.mark.req("T-09/C")
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_ends_with_lf_cr_or_crlf(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])

    assert parse(stream) == [ServerSentEvent(b"1\n2", "a"), ServerSentEvent(b"3", "message")]


@pytest.mark.req("T-09/C")
@pytest.mark.parametrize(
    ("stream", "data"),
    [
        pytest.param(b"data: a\n\n", [b"a"], id="blank after the colon"),
        pytest.param(b"data:a\n\n", [b"a"], id="no blank"),
        pytest.param(b"data:  a \n\n", [b" a "], id="only one blank is taken"),
        pytest.param(b"data:\ta\n\n", [b"\ta"], id="a tab is no blank"),
        pytest.param(b"data\n\n", [b""], id="no colon"),
        pytest.param(b"data:\n\n", [b""], id="empty"),
        pytest.param(b"data\ndata\n\n", [b"\n"], id="two empty lines"),
        pytest.param(b"data: a: b\n\n", [b"a: b"], id="colon in the value"),
        pytest.param(b"event: x\n\n", [], id="no data, no event"),
        pytest.param(b"\n\n\n", [], id="blank lines"),
        pytest.param(b"Data: a\nDATA: b\n data: c\n\n", [], id="names have one spelling"),
        pytest.param(b"foo: a\ndata: b\nbar\n\n", [b"b"], id="unknown fields"),
        pytest.param("data: a\u2028b\u0085c\x0b\x0cd\n\n".encode(),
                     ["a\u2028b\u0085c\x0b\x0cd".encode()], id="other line breaks are data"),
        pytest.param(b"data: \xff\n\n", [b"\xff"], id="bytes are not changed"),
        pytest.param(b"data: a\n", [], id="not finished"),
        pytest.param(b"data: a\n\ndata: b", [b"a"], id="the last is not finished"),
        pytest.param(b"data: a\n\r\ndata: b\r\r", [b"a", b"b"], id="mixed line ends"),
        pytest.param(b"data: a\n:\ndata: b\n\n", [b"a\nb"], id="comment inside"),
    ],
)  # fmt: skip
def test_the_grammar_of_fields(stream: bytes, data: list[bytes]) -> None:
    assert data_of(stream) == data


@pytest.mark.req("T-09/C")
def test_a_bom_is_taken_off_at_the_start_only() -> None:
    bom = b"\xef\xbb\xbf"

    assert data_of(bom + b"data: a\n\n" + bom + b"data: b\n\n") == [b"a"]
    assert data_of(bom + bom + b"data: a\n\n") == []
    assert data_of(bom + b"\ndata: a\n\n") == [b"a"]


@pytest.mark.req("L-02/C")
def test_an_id_lasts_until_another_and_counts_when_its_event_is_finished() -> None:
    parser = Parser()

    events = parser.feed(b"data: a\n\nid: 1\ndata: b\n\ndata: c\n\nid\ndata: d\n\nid: 5\n\nid: 6\n")

    assert [event.id for event in events] == [None, "1", "1", ""]
    assert parser.last_event_id == "5"


def test_an_id_with_nul_is_ignored() -> None:
    parser = Parser()
    parser.feed(b"id: 1\n\nid: 2\x003\n\n")

    assert parser.last_event_id == "1"


@pytest.mark.parametrize(
    ("value", "retry"),
    [(b"500", 500), (b"0", 0), (b"0010", 10), (b"-1", 9), (b"1.5", 9), (b"", 9), (b" 1", 9),
     (b"1 ", 9), ("٣".encode(), 9), (b"1" * 5000, 9)],
)  # fmt: skip
def test_retry_is_digits_only(value: bytes, retry: int) -> None:
    parser = Parser()
    parser.feed(b"retry: 9\n\n")

    events = parser.feed(b"retry: " + value + b"\ndata: a\n\ndata: b\n\n")

    assert parser.retry == retry
    assert [event.retry for event in events] == [None if retry == 9 else retry, None]


def test_a_type_holds_for_its_own_event_only() -> None:
    events = parse(b"event: a\n\ndata: 1\n\nevent: b\nevent: c\ndata: 2\n\ndata: 3\n\n")

    assert [event.event for event in events] == ["message", "c", "message"]


@pytest.mark.req("T-13/C")
def test_comments_are_counted_and_give_no_event() -> None:
    parser = Parser()

    assert parser.feed(b":\n\n: a\r\n\r\n:data: b\n") == []
    assert parser.comments == 3


@pytest.mark.req("T-14/C")
@pytest.mark.parametrize(
    ("stream", "dropped"),
    [(b"", False), (b"data: a\n\n", False), (b":\n", False), (b"data: a\n", True), (b"da", True)],
)
def test_the_end_drops_an_unfinished_event_and_says_so(stream: bytes, dropped: bool) -> None:
    parser = Parser()
    parser.feed(stream)

    assert parser.end() is dropped
    assert parser.end() is False


def test_a_line_up_to_the_limit_passes_and_a_longer_one_does_not() -> None:
    limits = WireLimits(max_sse_line=10)

    assert len(Parser(limits).feed(b"data: 1234\n\n")) == 1
    with pytest.raises(TooLarge, match="line"):
        Parser(limits).feed(b"data: 12345\n\n")
    with pytest.raises(TooLarge, match="max_sse_line"):
        Parser(limits).feed(b"data: 12345")


def test_a_line_that_comes_in_pieces_is_bounded_too() -> None:
    parser = Parser(WireLimits(max_sse_line=10))
    parser.feed(b"data: 1")
    parser.feed(b"234")

    with pytest.raises(TooLarge):
        parser.feed(b"5")


def test_the_data_of_an_event_is_bounded_over_its_lines() -> None:
    limits = WireLimits(max_sse_event=5)

    assert Parser(limits).feed(b"data: 12\ndata:34\n\ndata: 12345\n\n")[0].data == b"12\n34"
    with pytest.raises(TooLarge, match="event"):
        Parser(limits).feed(b"data: 12\ndata:345\n")
    with pytest.raises(TooLarge):
        Parser(limits).feed(b"data\n" * 7)
