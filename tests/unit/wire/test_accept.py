"""Accept and Content-Type."""

from __future__ import annotations

import pytest

from mcpost.wire.accept import Accepted, is_json, parse_accept, parse_media_type

BOTH = (True, True)
JSON = (True, False)
STREAM = (False, True)
NEITHER = (False, False)


@pytest.mark.req("T-06/S")
@pytest.mark.parametrize(
    ("lines", "accepted"),
    [
        pytest.param([], BOTH, id="no line"),
        pytest.param([b""], BOTH, id="empty"),
        pytest.param([b" , ,;"], BOTH, id="nothing in it"),
        pytest.param([b"application/json, text/event-stream"], BOTH, id="as the text says"),
        pytest.param([b"application/json", b"text/event-stream"], BOTH, id="two lines"),
        pytest.param([b"APPLICATION/Json,Text/Event-Stream"], BOTH, id="another case"),
        pytest.param([b"*/*"], BOTH, id="all"),
        pytest.param([b"application/*"], JSON, id="all of application"),
        pytest.param([b"text/*"], STREAM, id="all of text"),
        pytest.param([b"application/json"], JSON, id="JSON"),
        pytest.param([b"text/event-stream;q=0.1"], STREAM, id="stream"),
        pytest.param([b"text/html, image/*"], NEITHER, id="neither"),
        pytest.param([b"application/jsonp, text/event-streams"], NEITHER, id="longer names"),
        pytest.param([b"*/*;q=0"], NEITHER, id="nothing at all"),
        pytest.param([b"application/json;q=0, */*"], STREAM, id="all but JSON"),
        pytest.param([b"*/*;q=0, application/json"], JSON, id="nothing but JSON"),
        pytest.param([b"text/*;q=0, */*;q=0.1"], JSON, id="all but text"),
        pytest.param([b"text/*;q=0, text/event-stream"], STREAM, id="of text only the stream"),
        pytest.param([b"application/json;q=0.000"], NEITHER, id="q=0.000"),
        pytest.param([b"application/json;Q=0"], NEITHER, id="Q"),
        pytest.param([b"application/json ; q = 0 , text/event-stream"], STREAM, id="blanks"),
        pytest.param([b"application/json;q=0, application/json;q=1"], JSON, id="twice"),
        pytest.param([b"application/json;charset=utf-8;q=0"], NEITHER, id="with a parameter"),
        pytest.param([b'application/json;a="x,*/*;q=0"'], JSON, id="quoted comma"),
        pytest.param([b'application/json;a="\\",", text/event-stream'], BOTH, id="quoted quote"),
        pytest.param([b'text/event-stream, x/y;a="open, */*'], STREAM, id="quotation not closed"),
        pytest.param([b"json, text/event-stream"], STREAM, id="malformed range"),
        pytest.param([b"*/json, text/event-stream"], STREAM, id="malformed wildcard"),
        pytest.param([b"application/json;q=2, text/event-stream"], STREAM, id="malformed q"),
        pytest.param([b"application/json;q=high"], BOTH, id="only a malformed part"),
        pytest.param([b"\xff/\xff, application/json"], JSON, id="bytes of no token"),
    ],
)
def test_what_a_caller_accepts(lines: list[bytes], accepted: tuple[bool, bool]) -> None:
    assert parse_accept(lines) == Accepted(*accepted)


@pytest.mark.req("T-06/S")
def test_of_a_very_long_value_whole_parts_are_read() -> None:
    filler = b"x/y," * 510
    cut_in_the_middle = filler + b"application/json;q=0.9"

    assert parse_accept([cut_in_the_middle]) == NEITHER
    assert parse_accept([b"application/json," + filler * 100]) == JSON
    assert parse_accept([b'"' + b"\\" * 100_000]) == BOTH


@pytest.mark.req("T-07/S")
@pytest.mark.parametrize(
    "value",
    [
        b"application/json",
        b"Application/JSON",
        b"application/json; charset=utf-8",
        b'application/json;charset="UTF-8"',
        b"application/json ; charset = utf8",
        b"application/json;profile=x;",
        b"application/json;=x",
    ],
)
def test_json_in_utf8_is_json(value: bytes) -> None:
    assert is_json(value)


@pytest.mark.req("T-07/S")
@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b";",
        b"application/jsonp",
        b"application/json-patch+json",
        b"text/plain",
        b"application",
        b"application/json, text/plain",
        b"application/json; charset=utf-16",
        b"application/json; charset=iso-8859-1",
        b"application/json; charset=utf-8; charset=utf-16",
        b"application/json;" + b" " * 3000,
        b"\xe9/json",
    ],
)
def test_anything_else_is_not(value: bytes | None) -> None:
    assert not is_json(value)


def test_a_media_type_has_a_type_and_parameters() -> None:
    parsed = parse_media_type(b'Text/Event-Stream; Charset=utf-8; a="b;c"')

    assert parsed == ("text/event-stream", {"charset": "utf-8", "a": "b;c"})
    assert parse_media_type(b"x/y" + b" " * 3000) is None
