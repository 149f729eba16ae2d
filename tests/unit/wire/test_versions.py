"""Eras and versions."""

from __future__ import annotations

import pytest

from mcpost.wire.jsonrpc import Notification, Request, Response
from mcpost.wire.versions import Era, era_of, is_modern_answer, is_modern_error, pick_version

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN_CALL = Request(1, "tools/call", {"_meta": META})
BARE_CALL = Request(1, "tools/call", {})
INITIALIZE = Request(1, "initialize", {"protocolVersion": "2025-11-25"})
MODERN = (b"mcp-protocol-version", b"2026-07-28")
LEGACY = (b"mcp-protocol-version", b"2025-11-25")
SESSION = (b"mcp-session-id", b"s")
OTHER = (b"accept", b"*/*")


@pytest.mark.req("V-05/S", "T-16/S")
@pytest.mark.parametrize(
    "headers", [[], [MODERN], [LEGACY], [LEGACY, MODERN], [SESSION], [LEGACY, SESSION]], ids=str
)
def test_modern_meta_is_modern_whatever_the_headers_say(
    headers: list[tuple[bytes, bytes]],
) -> None:
    assert era_of(headers, MODERN_CALL) is Era.MODERN


@pytest.mark.req("V-05/S", "T-22/S")
@pytest.mark.parametrize(
    ("headers", "message", "era"),
    [
        pytest.param([OTHER, LEGACY], BARE_CALL, Era.LEGACY, id="legacy header"),
        pytest.param([LEGACY], INITIALIZE, Era.LEGACY, id="initialize, legacy header"),
        pytest.param([], INITIALIZE, Era.LEGACY, id="initialize alone"),
        pytest.param([OTHER, SESSION], BARE_CALL, Era.LEGACY, id="session alone"),
        pytest.param([SESSION], Notification("n", {}), Era.LEGACY, id="notification, session"),
        pytest.param([SESSION], Response(1, {}), Era.LEGACY, id="response, session"),
        pytest.param([LEGACY], None, Era.LEGACY, id="no message, legacy header"),
        pytest.param([], None, Era.MODERN, id="nothing"),
        pytest.param([], BARE_CALL, Era.MODERN, id="bare call"),
        pytest.param([MODERN], BARE_CALL, Era.MODERN, id="modern header"),
        pytest.param([MODERN], INITIALIZE, Era.MODERN, id="initialize, modern header"),
        pytest.param([MODERN, SESSION], BARE_CALL, Era.MODERN, id="modern header, session"),
        pytest.param([LEGACY, LEGACY], BARE_CALL, Era.MODERN, id="legacy header twice"),
        pytest.param(
            [(b"mcp-protocol-version", b"1900-01-01")], BARE_CALL, Era.MODERN, id="unknown version"
        ),
    ],
)
def test_without_modern_meta_one_clear_mark_makes_legacy(
    headers: list[tuple[bytes, bytes]],
    message: Request | Notification | Response | None,
    era: Era,
) -> None:
    assert era_of(headers, message) is era


@pytest.mark.req("V-02/C")
def test_the_best_of_our_versions_that_the_peer_supports_is_picked() -> None:
    assert pick_version(["a", "c", "b"], ["b", "c"]) == "b"
    assert pick_version(["a"], ["b"]) is None


@pytest.mark.req("V-03/C", "J-03/C")
def test_only_the_codes_of_this_revision_tell_a_modern_server() -> None:
    assert all(is_modern_error(code) for code in (-32020, -32021, -32022))
    assert not any(is_modern_error(code) for code in (-32602, -32601, -32600, -32002, -32000, 0))


def error(code: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"x"}}' % code


@pytest.mark.req("V-03/C")
@pytest.mark.parametrize(
    ("status", "body", "modern"),
    [
        pytest.param(400, error(-32020), True, id="header mismatch"),
        pytest.param(400, error(-32022), True, id="version"),
        pytest.param(200, error(-32021), True, id="whatever the status"),
        pytest.param(404, error(-32601), True, id="404 with unknown method"),
        pytest.param(200, error(-32601), False, id="200 with unknown method"),
        pytest.param(400, error(-32600), False, id="400 of a legacy server"),
        pytest.param(404, error(-32001), False, id="404 of a legacy session"),
        pytest.param(
            200, b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}', True, id="result"
        ),
        pytest.param(
            200, b'{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":[]}}', True, id="discover"
        ),
        pytest.param(200, b'{"jsonrpc":"2.0","id":1,"result":{}}', False, id="empty result"),
        pytest.param(
            200, b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}', False, id="legacy result"
        ),
        pytest.param(200, b'{"jsonrpc":"2.0","method":"n"}', False, id="notification"),
        pytest.param(404, b"", False, id="empty"),
        pytest.param(400, b"<html>400 Bad Request</html>", False, id="page of a proxy"),
    ],
)
def test_an_answer_tells_a_modern_server_by_its_body(
    status: int, body: bytes, modern: bool
) -> None:
    assert is_modern_answer(status, body) is modern
