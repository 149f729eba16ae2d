"""What strangers write is read or refused, and nothing else happens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.errors import BadMark
from mcpost.wire.accept import is_json, parse_accept, parse_media_type
from mcpost.wire.mirror import EMPTY, compile_mirror
from mcpost.wire.origin import Hosts, Origins, parse_host, parse_origin

VALUES = st.binary() | st.text(alphabet='application/json;q=0.1,"\\ *text').map(str.encode)


@pytest.mark.req("T-06/S", "T-07/S")
@given(st.lists(VALUES, max_size=3))
def test_accept_and_content_type(values: list[bytes]) -> None:
    parse_accept(values)
    for value in values:
        is_json(value)
        parse_media_type(value)


@pytest.mark.req("T-03/S", "T-04/S")
@given(st.binary() | st.text(alphabet="htps:/[]1.%locahst-@").map(str.encode))
def test_origins_and_hosts(value: bytes) -> None:
    origin = parse_origin(value.decode("latin-1"))

    assert Origins(loopback=False).allows(value) is False
    assert Hosts(loopback=False).allows(value) is False
    if origin is not None:
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        assert parse_host(host) == (origin.host, None)


NAMES = st.sampled_from(
    ["properties", "items", "allOf", "$defs", "x-mcp-header", "type", "a", "const"]
)
SCHEMAS = st.recursive(
    st.sampled_from(["A", "B", "string", "integer", "", None, True]),
    lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=20,
)  # fmt: skip


def spots(value: Any) -> int:
    """Count every key that is spelled like a mark, wherever it stands."""
    if isinstance(value, dict):
        return sum((key == "x-mcp-header") + spots(inner) for key, inner in value.items())
    return sum(map(spots, value)) if isinstance(value, list) else 0


@pytest.mark.req("H-02/S", "H-03/S", "H-05/C")
@given(st.dictionaries(NAMES, SCHEMAS, max_size=4))
def test_a_schema_is_compiled_or_refused(schema: dict[str, Any]) -> None:
    try:
        mirror = compile_mirror(schema)
    except BadMark:
        assert spots(schema) > 0
        return
    assert len(mirror.marks) <= spots(schema)
    assert len({mark.header for mark in mirror.marks}) == len(mirror.marks)
    for mark in mirror.marks:
        value: Any = schema
        for name in mark.path:
            value = value["properties"][name]
        assert value["x-mcp-header"] == mark.name
    assert (mirror is EMPTY) == (not mirror.marks)
