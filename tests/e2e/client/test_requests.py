"""What a client writes: the bytes of its requests."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from mcpost.client import Client
from mcpost.errors import RpcError, UsageError
from tests.helpers.hostile import Hostile, failure, good, page
from tests.helpers.loop import run


def lines(head: bytes) -> dict[str, str]:
    """The header lines of a request; none may stand twice."""
    pairs = [line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:] if line]
    assert len({name.lower() for name, _ in pairs}) == len(pairs)
    return {name.lower(): value for name, value in pairs}


async def send(method: str, params: dict[str, Any], **options: Any) -> tuple[str, dict, dict]:
    """Make one request; gives its request line, headers and body."""
    async with Hostile() as server, Client(server.url, era="modern", **options) as client:
        await client.request(method, params)
        head, body = server.heads[0], server.requests[0]
    return head.decode("latin-1").split("\r\n")[0], lines(head), body


@pytest.mark.req("T-05/C", "T-06/C", "T-16/C", "T-19/C", "J-01/C", "J-04/C")
def test_a_request_is_one_post_that_says_everything_about_itself() -> None:
    start, headers, body = run(send("tools/call", {"name": "x"}, name="app", version="2"))

    assert start == "POST /mcp HTTP/1.1"
    assert headers["accept"] == "application/json, text/event-stream"
    assert headers["content-type"] == "application/json"
    assert headers["accept-encoding"] == "identity"
    assert headers["mcp-protocol-version"] == "2026-07-28"
    assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "x")
    assert body == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "x",
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "app", "version": "2"},
            },
        },
    }


@pytest.mark.req("T-19/C", "H-07/C")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("resources/read", {"uri": "file:///a%20b?c=d"}, "file:///a%20b?c=d"),
        ("prompts/get", {"name": " padded "}, "=?base64?IHBhZGRlZCA=?="),
        ("tools/call", {"name": "Hello, 世界"}, "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("tools/list", {}, None),
    ],
)
def test_the_name_is_mirrored_where_the_method_has_one(
    method: str, params: dict[str, Any], name: str | None
) -> None:
    _, headers, _ = run(send(method, params))

    assert headers.get("mcp-name") == name


def test_headers_of_the_program_come_with_every_request_and_replace_none_of_ours() -> None:
    given = {"Authorization": "Bearer x", "accept": "text/html", "User-Agent": "mine"}
    _, headers, _ = run(send("tools/list", {}, headers=given))

    assert headers["authorization"] == "Bearer x"
    assert headers["accept"] == "application/json, text/event-stream"
    assert headers["user-agent"] == "mine"


@pytest.mark.req("J-06/C")
def test_a_request_goes_on_with_the_trace_of_its_caller() -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("work") as span:
        _, _, body = run(send("tools/list", {}))

    parent = body["params"]["_meta"]["traceparent"]
    assert f"-{span.get_span_context().trace_id:032x}-" in parent


def test_a_header_that_ends_the_line_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(UsageError):
        Client("http://example.com", headers={"X": "a\r\nY: b"})


@pytest.mark.req("J-01/C")
def test_no_two_requests_have_the_same_id() -> None:
    async def main() -> None:
        async with Hostile() as server, Client(server.url, era="modern", cache=False) as client:
            for _ in range(20):
                await client.discover()
            ids = [message["id"] for message in server.requests]
            assert len(set(ids)) == 20

    run(main())


@pytest.mark.req("J-03/C")
@pytest.mark.parametrize(
    ("code", "data", "not_found"),
    [
        (-32602, {"uri": "a:b"}, True),
        (-32002, None, True),
        (-32602, None, False),
        (-32603, None, False),
    ],
)
def test_a_missing_resource_is_known_in_both_codes(
    code: int, data: object, not_found: bool
) -> None:
    async def main() -> None:
        answer = lambda message: [page(failure(message["id"], code, data))]  # noqa: E731
        async with Hostile(answer=answer) as server, Client(server.url, era="modern") as client:
            with pytest.raises(RpcError) as caught:
                await client.read("a:b")

            error = caught.value
            assert (error.code, error.data, error.status) == (code, data, 200)
            assert error.is_not_found is not_found

    run(main())


@pytest.mark.req("J-02/C")
def test_a_result_of_an_older_server_is_complete() -> None:
    async def main() -> None:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"contents":[]}}'
        answer = lambda message: [page(body % message["id"])]  # noqa: E731
        async with Hostile(answer=answer) as server, Client(server.url, era="modern") as client:
            assert (await client.read("a:b")).contents == []

    run(main())


def test_a_request_that_is_larger_than_a_socket_takes_at_once_arrives_whole() -> None:
    async def main() -> None:
        async with Hostile() as server, Client(server.url, era="modern") as client:
            await client.request("tools/call", {"name": "x", "arguments": {"a": "x" * 3_000_000}})
            assert len(server.requests[0]["params"]["arguments"]["a"]) == 3_000_000

    run(main())


def test_a_result_as_large_as_the_limit_passes() -> None:
    async def main() -> None:
        answer = lambda message: [page(good(message["id"], x="y" * 5_000_000))]  # noqa: E731
        async with Hostile(answer=answer) as server, Client(server.url, era="modern") as client:
            result = await client.request("tools/list")
            assert len(result["x"]) == 5_000_000

    run(main())
