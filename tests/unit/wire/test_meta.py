"""The fields that each request carries in `_meta`."""

from __future__ import annotations

from typing import Any

import pytest

from mcpost.errors import InvalidParams
from mcpost.wire.jsonrpc import Request
from mcpost.wire.meta import (
    LOG_LEVELS,
    has_modern_meta,
    is_at_least,
    lenient_meta,
    parse_meta,
    trace_context,
)

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
INFO = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
REQUIRED: dict[str, Any] = {VERSION: "2026-07-28", CAPABILITIES: {"roots": {}}}


def request_with(meta: object) -> Request:
    return Request(7, "tools/list", {"_meta": meta})


@pytest.mark.req("J-04/S")
def test_all_fields_are_read() -> None:
    raw = {**REQUIRED, INFO: {"name": "c"}, "progressToken": 0, LOG_LEVEL: "info", "x/y": 1}

    meta = parse_meta(request_with(raw))

    assert (meta.protocol_version, meta.client_capabilities) == ("2026-07-28", {"roots": {}})
    assert (meta.client_info, meta.progress_token, meta.log_level) == ({"name": "c"}, 0, "info")
    assert meta.raw is raw


@pytest.mark.req("T-20/S", "J-04/S")
def test_only_version_and_capabilities_are_required() -> None:
    meta = parse_meta(request_with(REQUIRED))

    assert (meta.client_info, meta.progress_token, meta.log_level) == (None, None, None)


@pytest.mark.req("T-20/S")
@pytest.mark.parametrize(
    ("meta", "named"),
    [
        pytest.param(None, VERSION, id="null"),
        pytest.param([], VERSION, id="array"),
        pytest.param({}, VERSION, id="empty"),
        pytest.param({CAPABILITIES: {}}, VERSION, id="no version"),
        pytest.param({**REQUIRED, VERSION: 3}, VERSION, id="version as a number"),
        pytest.param({VERSION: "2026-07-28"}, CAPABILITIES, id="no capabilities"),
        pytest.param({**REQUIRED, CAPABILITIES: None}, CAPABILITIES, id="capabilities null"),
    ],
)
def test_a_required_field_that_is_missing_or_wrong_is_named(meta: object, named: str) -> None:
    with pytest.raises(InvalidParams, match=named) as caught:
        parse_meta(request_with(meta))
    assert (caught.value.code, caught.value.request_id) == (-32602, 7)


@pytest.mark.req("T-20/S")
def test_params_without_meta_are_refused() -> None:
    with pytest.raises(InvalidParams):
        parse_meta(Request(7, "tools/list", {}))


@pytest.mark.req("P-01/S")
@pytest.mark.parametrize(
    ("token", "read"), [("t", "t"), (0, 0), ("", ""), (True, None), (1.5, None), (None, None)]
)
def test_a_progress_token_is_text_or_an_integer(token: object, read: object) -> None:
    assert parse_meta(request_with({**REQUIRED, "progressToken": token})).progress_token == read


@pytest.mark.req("P-07/S")
@pytest.mark.parametrize("level", ["loud", "INFO", "", 3, {}])
def test_a_log_level_that_is_none_is_refused(level: object) -> None:
    with pytest.raises(InvalidParams) as caught:
        parse_meta(request_with({**REQUIRED, LOG_LEVEL: level}))
    assert (caught.value.code, caught.value.request_id) == (-32602, 7)


@pytest.mark.req("P-07/S")
def test_log_levels_are_ordered_by_severity() -> None:
    assert LOG_LEVELS == (
        "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
    )  # fmt: skip
    assert is_at_least("error", "warning")
    assert is_at_least("info", "info")
    assert not is_at_least("debug", "info")


@pytest.mark.req("V-05/S")
@pytest.mark.parametrize(
    ("params", "modern"),
    [
        ({"_meta": REQUIRED}, True),
        ({"_meta": {VERSION: "1"}}, True),
        ({"_meta": {CAPABILITIES: {}}}, True),
        ({"_meta": {"progressToken": 1, INFO: {}}}, False),
        ({"_meta": []}, False),
        ({}, False),
    ],
)
def test_one_required_field_marks_a_request_as_modern(
    params: dict[str, object], modern: bool
) -> None:
    assert has_modern_meta(params) is modern


def test_after_a_handshake_meta_has_only_a_progress_token() -> None:
    bare = lenient_meta({}, "2025-11-25", {"roots": {}})
    full = lenient_meta({"_meta": {"progressToken": "t"}}, "2025-11-25", {})

    assert (bare.protocol_version, bare.client_capabilities) == ("2025-11-25", {"roots": {}})
    assert (bare.progress_token, bare.log_level, bare.raw) == (None, None, {})
    assert full.progress_token == "t"


PARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


@pytest.mark.req("J-06/S", "J-06/C")
def test_trace_context_is_read() -> None:
    meta = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "k=v", "other": "x"}

    assert trace_context(meta) == {"traceparent": PARENT, "tracestate": "a=1", "baggage": "k=v"}


@pytest.mark.req("J-06/S")
@pytest.mark.parametrize(
    "parent",
    [
        PARENT.upper(),
        "ff" + PARENT[2:],
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
        PARENT + "-more",
        PARENT[:-1],
        PARENT + "\n",
        "",
        7,
        None,
    ],
)
def test_a_malformed_traceparent_is_left_out_with_its_state(parent: object) -> None:
    meta = {"traceparent": parent, "tracestate": "a=1", "baggage": "k=v"}

    assert trace_context(meta) == {"baggage": "k=v"}


@pytest.mark.req("J-06/S")
def test_later_versions_of_traceparent_may_add_to_it() -> None:
    later = "01" + PARENT[2:] + "-more"

    assert trace_context({"traceparent": later}) == {"traceparent": later}
    assert trace_context({"traceparent": later + "\r\nx: y", "baggage": "é"}) == {}
