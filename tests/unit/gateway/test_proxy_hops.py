"""Which header lines cross the gateway, and as what (gateway.hops)."""

from __future__ import annotations

import pytest

from mcpost.gateway.hops import Hop, forward_request, forward_response, hides_a_fact
from mcpost.http11.grammar import REQUEST_HEAD, RESPONSE_HEAD
from mcpost.http11.head import Request, Response, parse_request, parse_response
from mcpost.http11.limits import MessageLimits


def request(*lines: bytes, peer: str = "192.0.2.7") -> Request:
    data = b"\r\n".join([b"POST /mcp HTTP/1.1", b"Host: a.example", *lines, b"", b""])
    match = REQUEST_HEAD.match(data)
    assert match is not None
    parsed = parse_request(data, match, MessageLimits())
    parsed.peer = peer
    return parsed


def response(*lines: bytes) -> Response:
    data = b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", b""])
    match = RESPONSE_HEAD.match(data)
    assert match is not None
    return parse_response(data, match, b"POST", MessageLimits())


def test_what_a_client_says_of_itself_is_dropped() -> None:
    said = request(b"X-Forwarded-For: 10.0.0.1", b"Forwarded: for=10.0.0.1", b"X-Real-IP: 10.0.0.1")

    lines = dict(forward_request(said, Hop()))

    assert lines[b"x-forwarded-for"] == b"192.0.2.7"
    assert lines[b"forwarded"] == b'for=192.0.2.7;proto=http;host="a.example"'
    assert b"x-real-ip" not in lines


def test_what_a_trusted_proxy_says_is_added_to() -> None:
    said = request(b"X-Forwarded-For: 10.0.0.1", b"X-Forwarded-Proto: https", b"Via: 1.1 edge")

    lines = dict(forward_request(said, Hop(trusts_forwarded=True)))

    assert lines[b"x-forwarded-for"] == b"10.0.0.1, 192.0.2.7"
    assert lines[b"x-forwarded-proto"] == b"https"
    assert lines[b"via"] == b"1.1 edge, 1.1 mcpost"


def test_an_ipv6_address_is_quoted_in_forwarded() -> None:
    lines = dict(forward_request(request(peer="2001:db8::1"), Hop(scheme=b"https")))

    assert lines[b"forwarded"] == b'for="[2001:db8::1]";proto=https;host="a.example"'


def test_repeated_lines_stay_repeated_and_in_order() -> None:
    said = request(b"Baggage: a=1", b"Mcp-Param-X: 1", b"Baggage: b=2")

    lines = [
        line for line in forward_request(said, Hop()) if line[0] in (b"baggage", b"mcp-param-x")
    ]

    assert lines == [(b"baggage", b"a=1"), (b"mcp-param-x", b"1"), (b"baggage", b"b=2")]


def test_a_key_of_the_gateway_ends_there() -> None:
    lines = forward_request(request(b"X-Api-Key: k"), Hop(withheld=frozenset({b"x-api-key"})))

    assert b"x-api-key" not in dict(lines)


@pytest.mark.parametrize("name", [b"mcp-name", b"Authorization", b"origin"])
def test_a_fact_that_connection_would_take_away_is_named(name: bytes) -> None:
    said = request(name + b": x", b"Connection: close, " + name)

    assert hides_a_fact(said) == name.lower()


def test_connection_may_name_what_is_not_there_or_nobody_decides_on() -> None:
    assert hides_a_fact(request(b"Connection: keep-alive, mcp-name, x-mine", b"X-Mine: 1")) is None


def test_fields_of_the_upstreams_connection_do_not_reach_the_client() -> None:
    said = response(
        b"Connection: X-Mine",
        b"X-Mine: 1",
        b"Keep-Alive: 5",
        b"X-Accel-Buffering: no",
        b"Via: 1.1 b",
    )

    assert forward_response(said) == ((b"x-accel-buffering", b"no"), (b"via", b"1.1 b, 1.1 mcpost"))
