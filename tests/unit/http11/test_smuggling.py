"""What two readers could read differently is refused, and nothing behind it is believed."""

from __future__ import annotations

import pytest

from mcpost.http11.errors import BadResponse
from tests.unit.http11.memory import OK, Server
from tests.unit.http11.smuggling import REQUESTS, RESPONSES, SMUGGLED
from tests.unit.http11.test_client import GET, sent

BEFORE = b"GET /first HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize("cut", [1, 1000], ids=["byte by byte", "whole"])
@pytest.mark.parametrize(
    ("data", "status"), [row[1:] for row in REQUESTS], ids=[row[0] for row in REQUESTS]
)
def test_a_request_that_could_be_two_is_refused_and_ends_the_connection(
    data: bytes, status: int, cut: int
) -> None:
    server = Server()
    client = server.connect()

    whole = BEFORE + data
    for start in range(0, len(whole), cut):
        client.feed(whole[start : start + cut])

    first, _, refusal = client.written.partition(OK)
    assert first == b""
    assert refusal.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nconnection: close\r\n" in refusal
    assert client.ended
    assert [request.path for request, _ in server.app.requests] == ["/first"]


def test_the_corpus_is_as_large_as_was_promised() -> None:
    assert len({data for _, data, _ in REQUESTS}) >= 60
    assert any(SMUGGLED in data for _, data, _ in REQUESTS)


@pytest.mark.parametrize("cut", [1, 1000], ids=["byte by byte", "whole"])
@pytest.mark.parametrize("data", [row[1] for row in RESPONSES], ids=[row[0] for row in RESPONSES])
def test_a_response_that_could_be_two_fails_the_call_and_ends_the_connection(
    data: bytes, cut: int
) -> None:
    up, _, receiver = sent(GET)

    for start in range(0, len(data), cut):
        up.server.feed(data[start : start + cut])

    assert isinstance(receiver.error, BadResponse)
    assert up.server.aborted
    assert not receiver.ended
