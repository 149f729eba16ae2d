"""What a client writes a server accepts, and a change of any line is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mcpost.wire.agreement import check_agreement
from mcpost.wire.jsonrpc import Request, decode_message, encode_request
from mcpost.wire.meta import parse_meta
from mcpost.wire.mirror import compile_mirror, request_headers

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MIRROR = compile_mirror(
    {
        "properties": {
            "s": {"type": "string", "x-mcp-header": "S"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "deep": {"properties": {"b": {"type": "boolean", "x-mcp-header": "B"}}},
        }
    }
)
SAFE = 2**53 - 1
VALUES = (st.none() | st.text() | st.integers(-SAFE, SAFE) | st.booleans()) | st.integers(
    -SAFE, SAFE
).map(float).filter(lambda value: abs(value) <= SAFE)
DEEP = st.fixed_dictionaries({}, optional={"b": VALUES})
ARGUMENTS = st.fixed_dictionaries({}, optional={"s": VALUES, "n": VALUES, "deep": DEEP})
NAMES = st.text(min_size=1)


def lines_of(name: str, arguments: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    params = {"name": name, "arguments": arguments}
    lines = request_headers("tools/call", params, "2026-07-28", MIRROR)
    return [(header.lower().encode(), value.encode("ascii")) for header, value in lines]


def agree(lines: list[tuple[bytes, bytes]], name: str, arguments: dict[str, Any]) -> bool:
    params = {"name": name, "arguments": arguments, "_meta": META}
    request = decode_message(encode_request(1, "tools/call", params))
    assert isinstance(request, Request)
    return check_agreement(lines, request, parse_meta(request), lambda _: MIRROR) is None


@pytest.mark.req("T-16/S", "T-19/S", "H-01/S", "H-01/C", "H-06/S", "H-10/S")
@given(NAMES, ARGUMENTS, st.randoms())
def test_what_a_client_writes_a_server_accepts_in_any_order(
    name: str, arguments: dict[str, Any], random: Any
) -> None:
    lines = lines_of(name, arguments)
    random.shuffle(lines)

    assert agree(lines, name, arguments)


@pytest.mark.req("T-19/S", "T-22/S", "H-09/S")
@given(NAMES, ARGUMENTS, st.data())
def test_a_line_that_is_missing_doubled_or_changed_is_refused(
    name: str, arguments: dict[str, Any], data: st.DataObject
) -> None:
    lines = lines_of(name, arguments)
    place = data.draw(st.integers(0, len(lines) - 1))
    header, value = lines[place]
    other = data.draw(st.binary(max_size=8))
    assume(other.strip(b" \t") != value)

    assert not agree(lines[:place] + lines[place + 1 :], name, arguments)
    assert not agree([*lines, (header, value)], name, arguments)
    if other.isascii() and not other[:1].isdigit() and not other.startswith((b"-", b"=?")):
        assert not agree([*lines[:place], (header, other), *lines[place + 1 :]], name, arguments)


@pytest.mark.req("T-19/S", "H-09/S")
@given(NAMES, ARGUMENTS, NAMES, ARGUMENTS)
def test_the_headers_of_another_call_are_refused(
    name: str, arguments: dict[str, Any], other_name: str, other: dict[str, Any]
) -> None:
    lines = lines_of(other_name, other)

    assert agree(lines, name, arguments) == (set(lines) == set(lines_of(name, arguments)))
