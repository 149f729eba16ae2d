"""A call cannot go under another name: the spoof, refused here and run where nobody compares."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.helpers.until import DEADLINE
from tests.interop.conftest import Library, exchange, request_bytes, served

pytestmark = pytest.mark.xdist_group("library")

SPOOF = [
    "MCP-Protocol-Version: 2026-07-28",
    "Mcp-Method: tools/call",
    "Mcp-Name: search",
]
PLACE_HOLD = {"name": "place_hold", "arguments": {"book_id": 11}}
HOLDS = "SELECT count(*) FROM holds WHERE book_id = 11"


@pytest.mark.req("T-19/S", "H-09/S")
def test_a_call_of_another_tool_than_its_header_names_is_refused_and_not_run(
    library: Library,
) -> None:
    request = request_bytes(library.port, "tools/call", PLACE_HOLD, SPOOF)

    status, answer = exchange(library.port, request)

    assert (status, answer["id"], answer["error"]["code"]) == (400, 7, -32020)
    assert library.query(HOLDS) == [(0,)]


@pytest.mark.req("T-19/S")
def test_the_same_call_runs_on_a_server_that_does_not_compare(tmp_path: Path) -> None:
    target = "tests/interop/careless.py:server"
    with served(tmp_path, target=target) as careless:
        request = request_bytes(careless.port, "tools/call", PLACE_HOLD, SPOOF)

        status, answer = exchange(careless.port, request)

        assert (status, "result" in answer) == (200, True)
        assert careless.query(HOLDS) == [(1,)]


@pytest.mark.req("T-13/S", "P-04/S")
def test_a_stream_with_a_short_keep_alive_gives_comments_and_no_event(library: Library) -> None:
    lines = ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"]
    params = {"notifications": {"toolsListChanged": True}}
    request = request_bytes(library.port, "subscriptions/listen", params, lines)
    with socket.create_connection(("127.0.0.1", library.port), DEADLINE) as connection:
        connection.sendall(request)
        heard = b""
        while heard.partition(b"acknowledged")[2].count(b":\n\n") < 5:
            heard += connection.recv(65536)

    assert heard.count(b"data:") == 1
