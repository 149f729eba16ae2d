"""Prefixed names and URIs, and messages that carry them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpost.errors import InvalidParams
from mcpost.gateway.addresses import prefix_message, readdress, split_name, split_uri
from mcpost.gateway.filters import join_filters, read_notice, split_filter
from mcpost.gateway.merging import Part, merge_discover, merge_list, read_cursor

MEMBERS = ("gh", "files")


@pytest.mark.parametrize(
    "name", ["", ".", "gh", "gh.", ".x", "GH.x", "gh+x", "other.x", "gh..".removesuffix(".")]
)
def test_a_name_of_no_member_is_refused_with_the_prefixes_that_there_are(name: str) -> None:
    with pytest.raises(InvalidParams, match=r"gh\., files\."):
        split_name(name, MEMBERS)


def test_only_the_first_mark_counts_and_a_scheme_knows_no_case() -> None:
    assert split_name("gh.a.b", MEMBERS) == ("gh", "a.b")
    assert split_uri("Files+git+ssh://x", MEMBERS) == ("files", "git+ssh://x")


def test_what_is_not_changed_in_a_request_stays_as_it_was_spelled() -> None:
    sent = (
        b'{ "jsonrpc": "2.0", "id": 1.0e2, "method": "tools/call", "params":'
        b' {"name": "gh.x", "arguments": {"n": 1e400, "m": 1.50, "s": "\\u00e9"}, "x": 1} }'
    )

    written = readdress(sent, {"name": "x", "x": None})

    assert b'"arguments":{"n": 1e400, "m": 1.50, "s": "\\u00e9"}' in written
    assert b'"id":1.0e2' in written
    assert b'"name":"x"' in written
    assert b'"x":' not in written


LINK = {"type": "resource_link", "uri": "a:b", "name": "n"}
EMBEDDED = {"type": "resource", "resource": {"uri": "a:b", "text": "t"}}
TEXT = {"type": "text", "text": "a:b", "uri": "a:b"}


@pytest.mark.parametrize(
    ("method", "result", "count"),
    [
        ("tools/call", {"content": [LINK, TEXT, EMBEDDED]}, 2),
        ("tools/call", {"content": [TEXT], "structuredContent": LINK}, 0),
        ("prompts/get", {"messages": [{"role": "user", "content": EMBEDDED}]}, 1),
        ("prompts/get", {"messages": [{"role": "user", "content": [LINK, LINK]}]}, 2),
        ("resources/read", {"contents": [{"uri": "a:b", "text": "a:b"}]}, 1),
        ("resources/read", {"contents": "resource"}, 0),
        ("tools/call", {"content": {"type": "resource", "resource": None}}, 0),
        ("tools/call", {"content": [1, None, {"type": "resource_link", "uri": 5}]}, 0),
    ],
)
def test_uris_are_prefixed_where_they_are_to_be_read_and_nowhere_else(
    method: str, result: Any, count: int
) -> None:
    sent = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()

    written = prefix_message(sent, method, "gh")

    assert written.count(b"gh+a:b") == count
    assert written.count(b"a:b") == sent.count(b"a:b")
    if not count:
        assert written is sent


@pytest.mark.parametrize("data", [b'{"resource', b"[]", b'"resource"', b'\xff"resource', b""])
def test_what_cannot_be_read_passes_as_it_is(data: bytes) -> None:
    assert prefix_message(data, "tools/call", "gh") is data


def test_hints_of_a_merged_list_are_the_least_of_all() -> None:
    public = {"tools": [], "ttlMs": 500, "cacheScope": "public"}
    longer = {**public, "ttlMs": 900}
    private = {**longer, "cacheScope": "private"}

    def hints(*results: Any, **missing: str) -> tuple[int, str]:
        parts = [Part(name, each) for name, each in zip(MEMBERS, results, strict=False)]
        merged = merge_list("tools/list", parts, missing, "desk")
        return merged["ttlMs"], merged["cacheScope"]

    assert hints(public, longer) == (500, "public")
    assert hints(public, private) == (500, "private")
    assert hints(public, {"tools": []}) == (0, "private")
    assert hints(public, files="down") == (0, "private")


def test_entries_that_are_none_are_left_out() -> None:
    parts = [
        Part("gh", {"tools": [{"name": "a", "x-y": 1}, {"name": 5}, "b", {}]}),
        Part("files", {"tools": {"name": "a"}}),
    ]

    merged = merge_list("tools/list", parts, {}, "desk")

    assert merged["tools"] == [{"name": "gh.a", "x-y": 1}]
    assert "nextCursor" not in merged


def test_a_cursor_holds_those_of_the_members_that_have_more() -> None:
    parts = [Part("gh", {"nextCursor": "é"}), Part("files", {})]

    cursor = merge_list("tools/list", parts, {}, "desk")["nextCursor"]

    assert read_cursor({"cursor": cursor}, MEMBERS) == {"gh": "é"}
    assert read_cursor({}, MEMBERS) is None
    with pytest.raises(InvalidParams):
        read_cursor({"cursor": cursor}, ("files",))
    with pytest.raises(InvalidParams):
        read_cursor({"cursor": cursor + "\n"}, MEMBERS)


def test_capabilities_are_those_of_any_member_that_an_aggregate_can_pass_on() -> None:
    parts = [
        Part(
            "gh",
            {
                "supportedVersions": ["2026-07-28", "2099-01-01"],
                "capabilities": {"tools": {"listChanged": True}, "extensions": {"a/b": {}}},
            },
        ),
        Part(
            "files",
            {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}, "resources": {"subscribe": True}, "logging": 5},
            },
        ),
    ]

    merged = merge_discover(parts, {}, "desk")

    assert merged["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True},
    }
    assert merged["supportedVersions"] == ["2026-07-28"]
    assert "instructions" not in merged


def test_a_filter_asks_each_member_for_its_own() -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": False}
    uris = ["gh+a:b", "gh+a:b", "files+c:d", "x:y"]

    assert split_filter({"notifications": wanted}, MEMBERS) == {
        "gh": {"toolsListChanged": True},
        "files": {"toolsListChanged": True},
    }
    assert split_filter({"notifications": {"resourceSubscriptions": uris[:2]}}, MEMBERS) == {
        "gh": {"resourceSubscriptions": ["a:b"]}
    }
    assert split_filter({"notifications": {}}, MEMBERS) == {"gh": {}, "files": {}}
    honoured = {"gh": {"resourceSubscriptions": ["a:b", 5]}, "files": {"toolsListChanged": True}}
    assert join_filters(honoured) == {
        "toolsListChanged": True,
        "resourceSubscriptions": ["gh+a:b"],
    }


def test_a_notice_that_was_not_honoured_is_not_told() -> None:
    method = "notifications/resources/updated"
    honoured = {"resourceSubscriptions": ["a:b"]}

    told = read_notice(method, {"uri": "a:b"}, "gh", honoured, 7)

    assert told == {"uri": "gh+a:b", "_meta": {"io.modelcontextprotocol/subscriptionId": 7}}
    assert read_notice(method, {"uri": "a:b"}, "gh", {}, 7) is None
    assert read_notice(method, {}, "gh", honoured, 7) is None
    assert read_notice("notifications/message", {}, "gh", honoured, 7) is None
