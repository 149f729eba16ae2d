"""Versions and eras: what a client does with a server that speaks another."""

from __future__ import annotations

from typing import Any

import pytest

from mcpost.client import Client, EraMemory
from mcpost.errors import BadReply, LegacyServer, RpcError
from mcpost.wire.versions import Era
from tests.helpers.hostile import Hostile, failure, page
from tests.helpers.loop import run

LEGACY_ANSWER = page(failure(None, -32600), status=400)


@pytest.mark.req("T-17/C", "V-02/C")
def test_a_version_that_both_support_is_retried_once_under_a_new_id() -> None:
    def answer(message: dict[str, Any]) -> list[Any] | None:
        if message["id"] > 1:
            return None
        data = {"supported": ["2099-01-01", "2026-07-28"], "requested": "2026-07-28"}
        return [page(failure(message["id"], -32022, data), status=400)]

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url) as client:
            await client.discover()
            assert [message["id"] for message in server.requests] == [1, 2]
            assert all(b"MCP-Protocol-Version: 2026-07-28" in head for head in server.heads)

    run(main())


@pytest.mark.req("V-02/C")
def test_without_a_common_version_the_error_names_both_sides() -> None:
    def answer(message: dict[str, Any]) -> list[Any]:
        return [page(failure(message["id"], -32022, {"supported": ["2099-01-01"]}), status=400)]

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url) as client:
            with pytest.raises(RpcError, match=r"2099-01-01.*2026-07-28"):
                await client.discover()
            assert len(server.requests) == 1

    run(main())


@pytest.mark.req("V-03/C")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(LEGACY_ANSWER, id="a JSON-RPC error of both eras"),
        pytest.param(page(b"", status=400), id="an empty 400"),
        pytest.param(page(b"<h1>404</h1>", status=404, kind="text/html"), id="a page"),
        pytest.param(page(b"", status=405), id="405"),
    ],
)
def test_a_server_that_knows_nothing_of_any_revision_is_named_so(answer: bytes) -> None:
    async def main() -> None:
        memory = EraMemory()
        async with (
            Hostile(answer=lambda message: [answer]) as server,
            Client(server.url, eras=memory) as client,
        ):
            with pytest.raises(LegacyServer) as caught:
                await client.request("tools/call", {"name": "x"})

            assert caught.value.sent == "no"
            assert [message["method"] for message in server.requests] == [
                "tools/call",
                "server/discover",
                "initialize",
                "GET",
            ]
            assert memory.get(server.url) is None

    run(main())


@pytest.mark.req("V-03/C")
def test_a_proxys_page_for_one_request_makes_no_legacy_server() -> None:
    """nginx answers a head above 8 KiB with 400 and a page of HTML, which is no modern error."""

    def answer(message: dict[str, Any]) -> list[Any] | None:
        if message["method"] == "server/discover":
            return None
        return [page(b"<h1>400 Bad Request</h1>", status=400, kind="text/html")]

    async def main() -> None:
        memory = EraMemory()
        async with (
            Hostile(answer=answer) as server,
            Client(server.url, eras=memory) as client,
        ):
            with pytest.raises(BadReply, match="nginx") as caught:
                await client.request("tools/call", {"name": "x" * 9_000})

            assert not isinstance(caught.value, LegacyServer)
            assert memory.get(server.url) is Era.MODERN

    run(main())


@pytest.mark.req("V-03/C")
def test_an_error_of_both_eras_from_a_modern_server_is_an_error() -> None:
    def answer(message: dict[str, Any]) -> list[Any] | None:
        if message["method"] == "server/discover":
            return None
        return [page(failure(message["id"], -32602), status=400)]

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url) as client:
            for _ in range(2):
                with pytest.raises(RpcError) as caught:
                    await client.read("a:b")
                assert caught.value.code == -32602
            # It is asked once which era it is of, and remembered.
            methods = [message["method"] for message in server.requests]
            assert methods == ["resources/read", "server/discover", "resources/read"]

    run(main())


@pytest.mark.req("V-03/C")
def test_what_is_known_of_a_server_is_shared_among_clients() -> None:
    async def main() -> None:
        memory = EraMemory()
        async with Hostile() as server:
            async with Client(server.url, eras=memory) as client:
                await client.discover()
            assert memory.get(server.url) is Era.MODERN

    run(main())
