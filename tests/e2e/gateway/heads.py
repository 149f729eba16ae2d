"""Heads of requests as engines may meet them."""

from __future__ import annotations

from hypothesis import strategies as st

VERSION = (b"mcp-protocol-version", b"2026-07-28")
CALL = (b"mcp-method", b"tools/call")

NAMES = st.sampled_from(
    [
        b"search",
        b"search",
        b"searching",
        b"searching",
        b"o.en",
        b"o.en",
        b"open",
        b"admin.x",
        b"a.secret",
        b"a,b",
        b"xa,b y",
    ]
    + [b"by-shard", b"file:///a/b", b"", b"=?base64?c2VhcmNo?=", b"=?base64?=", b"s\xe9", b"a\tb"]
    + [b"search\xff", b"x" * 8192, b"x" * 8193, b"=?base64?admin", b"Admin"]
)
REGIONS = st.sampled_from(
    [b"eu", b"us+x", b"us", b"EU", b"", b"=?base64?ZXU=?=", b"\xe9", b"eu,eu"]
)
SIZES = st.sampled_from([b"42", b"42.0", b"4.2e1", b"7", b"8", b"-1", b"0", b"-0", b"007", b"big"])
METHODS = st.sampled_from(
    [b"tools/call", b"tools/list", b"prompts/get", b"server/discover", b"resources/read", b"x y"]
)
VERSIONS = st.sampled_from([b"2026-07-28", b"2025-11-25", b"2027-01-01", b"", b"x\xff"])


def lines_of(name: bytes, values: st.SearchStrategy[bytes], most: int) -> st.SearchStrategy:
    return st.lists(values.map(lambda value: (name, value)), max_size=most)


def around(usual: tuple[bytes, bytes], values: st.SearchStrategy[bytes]) -> st.SearchStrategy:
    """Mostly the usual line, at times none, another, or two."""
    often = [st.just([usual])] * 5
    return st.one_of(*often, lines_of(usual[0], values, 2))


def around_one(name: bytes, values: st.SearchStrategy[bytes]) -> st.SearchStrategy:
    """Mostly one line, at times none or two."""
    one = values.map(lambda value: [(name, value)])
    return st.one_of(*[one] * 5, lines_of(name, values, 2))


def at_times(name: bytes, values: st.SearchStrategy[bytes]) -> st.SearchStrategy:
    """Mostly no line, at times one, and seldom two."""
    none = st.just([])
    return st.one_of(*[none] * 4, *[lines_of(name, values, 1)] * 3, lines_of(name, values, 2))


WILD = st.builds(
    lambda *parts: [line for part in parts for line in part],
    around(VERSION, VERSIONS),
    around(CALL, METHODS),
    around_one(b"mcp-name", NAMES),
    at_times(b"mcp-param-region", REGIONS),
    at_times(b"mcp-param-size", SIZES),
    at_times(b"mcp-param-gone", REGIONS),
    at_times(b"mcp-param-shard", REGIONS),
    lines_of(b"mcp-param-unread", REGIONS, 2),
    st.sampled_from([[], [(b"x-mcpost-checked", b"1")], [(b"authorization", b"Bearer x")]]),
)


HONEST = st.builds(
    lambda method, name, *parts: [
        VERSION,
        (b"mcp-method", method),
        (b"mcp-name", name),
        *(line for part in parts for line in part),
    ],
    st.sampled_from([b"tools/call", b"tools/call", b"prompts/get", b"resources/read"]),
    st.sampled_from(
        [b"search", b"searching", b"o.en", b"a,b", b"admin", b"by-shard", b"file:///a", b"none"]
    ),
    lines_of(b"mcp-param-region", st.sampled_from([b"eu", b"us+x", b"us"]), 1),
    lines_of(b"mcp-param-size", st.sampled_from([b"42", b"8", b"x"]), 1),
    lines_of(b"mcp-param-gone", st.sampled_from([b"eu"]), 1),
    lines_of(b"mcp-param-shard", st.sampled_from([b"a", b"b"]), 1),
    lines_of(b"mcp-param-unread", REGIONS, 1),
    st.sampled_from([[], [(b"x-mcpost-checked", b"1")], [(b"authorization", b"Bearer x")]]),
)
HEADS = st.one_of(HONEST, WILD)


def is_beyond(lines: list[tuple[bytes, bytes]]) -> bool:
    """Whether a rule reads a value of a form that Envoy does not compare, and so refuses."""
    found = dict(lines)
    encoded = {name for name, v in lines if v.startswith(b"=?base64?") and v.endswith(b"?=")}
    if b"mcp-name" in encoded:
        return True
    if found.get(b"mcp-method") != b"tools/call":
        return False
    read = {b"mcp-param-region", b"mcp-param-gone", b"mcp-param-shard"}
    return bool(encoded & read) or found.get(b"mcp-param-size") in (
        b"42.0",
        b"4.2e1",
        b"-0",
        b"007",
    )
