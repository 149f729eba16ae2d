"""Heads to bytes: nothing that is given can add a line, or frame a body."""

from __future__ import annotations

import pytest

from mcpost.http11.encode import encode_request, encode_response
from mcpost.http11.errors import Misuse


@pytest.mark.parametrize("kind", [tuple, list])
def test_a_response_head_is_its_status_and_its_lines(kind: type) -> None:
    head = encode_response(404, kind([(b"allow", b"POST"), (b"x", b"a b")]))

    assert head.lines == b"HTTP/1.1 404 Not Found\r\nallow: POST\r\nx: a b\r\n"
    assert not head.closes


def test_an_unknown_status_has_an_empty_reason() -> None:
    assert encode_response(599, ()).lines == b"HTTP/1.1 599 \r\n"


def test_what_frames_a_body_is_left_to_the_connection() -> None:
    head = encode_response(
        200, ((b"content-length", b"7"), (b"connection", b"Close"), (b"a", b"1"))
    )

    assert head.lines == b"HTTP/1.1 200 OK\r\na: 1\r\n"
    assert head.closes


@pytest.mark.parametrize(
    "line",
    [
        pytest.param((b"a", b"1\r\nb: 2"), id="another line in the value"),
        pytest.param((b"a: 1\r\nb", b"2"), id="another line in the name"),
        pytest.param((b"a", b"1\n"), id="LF"),
        pytest.param((b"a", b"1\r"), id="CR"),
        pytest.param((b"a", b"\0"), id="NUL"),
        pytest.param((b"", b"1"), id="no name"),
        pytest.param((b"a b", b"1"), id="a blank in the name"),
        pytest.param((b"transfer-encoding", b"chunked"), id="a transfer coding"),
    ],
)
def test_a_line_that_is_none_is_a_mistake(line: tuple[bytes, bytes]) -> None:
    with pytest.raises(Misuse):
        encode_response(200, (line,))


@pytest.mark.parametrize("status", [100, 101, 199, 600, 0])
def test_only_a_final_status_is_answered(status: int) -> None:
    with pytest.raises(Misuse, match="status"):
        encode_response(status, ())


def test_a_request_head_is_its_line_and_its_lines() -> None:
    head = encode_request(b"POST", b"/mcp?x=1", [(b"host", b"a")])

    assert head.lines == b"POST /mcp?x=1 HTTP/1.1\r\nhost: a\r\n"
    assert head.hosted


@pytest.mark.parametrize(
    ("method", "target"),
    [
        pytest.param(b"PO ST", b"/", id="a blank in the method"),
        pytest.param(b"", b"/", id="no method"),
        pytest.param(b"GET", b"/ HTTP/1.1\r\nx: y", id="a line in the target"),
        pytest.param(b"GET", b"/a b", id="a blank in the target"),
        pytest.param(b"GET", b"/#a", id="a fragment"),
        pytest.param(b"GET", b"", id="no target"),
    ],
)
def test_a_request_line_that_is_none_is_a_mistake(method: bytes, target: bytes) -> None:
    with pytest.raises(Misuse, match="target"):
        encode_request(method, target, [])
