"""Lists over all their pages, kept answers, prompts, completions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from mcpost.client import Cache, Client
from mcpost.errors import BadReply, RpcError
from mcpost.limits import ClientLimits
from tests.helpers.hostile import Hostile, failure, good, page
from tests.helpers.loop import run


def answering(results: Mapping[str, Any]) -> Hostile:
    """A server that answers methods with results; a function is given the parameters."""

    def answer(message: dict[str, Any]) -> list[Any] | None:
        result = results.get(message["method"])
        if callable(result):
            result = result(message["params"])
        return None if result is None else [page(good(message["id"], **result))]

    return Hostile(answer=answer)


def entry(number: int) -> dict[str, Any]:
    return {"uri": f"a:{number}", "name": str(number)}


@pytest.mark.req("F-02/C", "F-04/C")
def test_a_list_walks_all_pages_by_their_cursors() -> None:
    def pages(params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", "0"))
        more = {"nextCursor": str(number + 1)} if number < 3 else {}
        return {"resources": [entry(number)], **more}

    async def main() -> list[str]:
        async with answering({"resources/list": pages}) as server, Client(server.url) as client:
            found = [each.uri for each in await client.resources()]
        assert "cursor" not in server.requests[0]["params"]
        return found

    assert run(main()) == ["a:0", "a:1", "a:2", "a:3"]


@pytest.mark.req("F-04/C")
@pytest.mark.parametrize(
    ("pages", "problem"),
    [
        (lambda params: {"prompts": [], "nextCursor": "same"}, "ring"),
        (lambda params: {"prompts": [], "nextCursor": params.get("cursor", "") + "x"}, "max_pages"),
        (lambda params: {"prompts": None}, "no list"),
    ],
    ids=["a ring", "without end", "no list"],
)
def test_a_list_that_does_not_end_is_an_error(pages: Any, problem: str) -> None:
    async def main() -> None:
        limits = ClientLimits(max_pages=20)
        async with (
            answering({"prompts/list": pages}) as server,
            Client(server.url, limits=limits) as client,
        ):
            with pytest.raises(BadReply, match=problem):
                await client.prompts()
            assert len(server.requests) <= 20

    run(main())


@pytest.mark.req("F-04/C")
def test_an_invalid_cursor_is_the_servers_error() -> None:
    def answer(message: dict[str, Any]) -> list[Any]:
        if "cursor" in message["params"]:
            return [page(failure(message["id"], -32602))]
        return [page(good(message["id"], prompts=[], nextCursor="x"))]

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url) as client:
            with pytest.raises(RpcError):
                await client.prompts()

    run(main())


def test_a_malformed_entry_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    results = {"resources/list": {"resources": [entry(1), {"uri": 7}, entry(2)]}}

    async def main() -> list[str]:
        async with answering(results) as server, Client(server.url) as client:
            return [each.uri for each in await client.resources()]

    with caplog.at_level(logging.WARNING, "mcpost.client"):
        assert run(main()) == ["a:1", "a:2"]
    assert len(caplog.records) == 1


@pytest.mark.req("V-01/C", "J-04/C")
def test_discover_tells_who_the_server_is() -> None:
    results = {
        "server/discover": {
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}},
            "instructions": "Ask.",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "lib", "version": "1"}},
        }
    }

    async def main() -> None:
        async with answering(results) as server, Client(server.url) as client:
            found = await client.discover()
            assert (found.supported_versions, found.instructions) == (["2026-07-28"], "Ask.")
            assert found.server_info is not None
            assert found.server_info.name == "lib"

    run(main())


@pytest.mark.req("F-02/C")
def test_resources_and_their_templates_are_listed_and_read() -> None:
    results = {
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a:{n}", "name": "t"}]},
        "resources/read": {
            "contents": [{"uri": "a:1", "text": "x"}, {"uri": "a:2", "blob": "AAE="}]
        },
    }

    async def main() -> None:
        async with answering(results) as server, Client(server.url) as client:
            assert [each.uri_template for each in await client.templates()] == ["a:{n}"]
            found = await client.read("a:1")
            assert (found.text, found.blobs[0].blob) == ("x", "AAE=")

    run(main())


@pytest.mark.req("F-03/C")
def test_prompts_are_got_and_their_arguments_completed() -> None:
    message = {"role": "user", "content": {"type": "text", "text": "Hi"}}
    results = {
        "prompts/get": {"messages": [message]},
        "completion/complete": {"completion": {"values": ["Oslo"], "hasMore": False}},
    }

    async def main() -> None:
        async with answering(results) as server, Client(server.url) as client:
            found = await client.prompt("greet", {"city": "Oslo"})
            assert found.messages[0].role == "user"
            assert (await client.complete("greet", "city", "O")).values == ["Oslo"]
            await client.complete("a:{n}", "n", "1", arguments={"x": "y"})

        got, by_name, by_uri = [each["params"] for each in server.requests]
        assert got["arguments"] == {"city": "Oslo"}
        assert by_name["ref"] == {"type": "ref/prompt", "name": "greet"}
        assert by_name["argument"] == {"name": "city", "value": "O"}
        assert by_uri["ref"] == {"type": "ref/resource", "uri": "a:{n}"}
        assert by_uri["context"] == {"arguments": {"x": "y"}}

    run(main())


READ = {"contents": [], "ttlMs": 60_000, "cacheScope": "private"}


@pytest.mark.req("F-05/C")
@pytest.mark.parametrize(
    ("scope", "requests"), [("private", 2), ("public", 1)], ids=["private", "public"]
)
def test_clients_that_share_a_cache_share_what_is_public(scope: str, requests: int) -> None:
    async def main() -> None:
        cache = Cache()
        results = {"resources/read": {**READ, "cacheScope": scope}}
        async with answering(results) as server:
            for token in ("ann", "bob", "ann"):
                headers = {"Authorization": f"Bearer {token}"}
                async with Client(server.url, cache=cache, headers=headers) as client:
                    await client.read("a:1")
            assert len(server.requests) == requests

    run(main())


@pytest.mark.req("F-05/C")
def test_an_answer_that_took_input_is_not_kept() -> None:
    asked = {"resultType": "input_required", "requestState": "s"}
    rest = [asked, READ, asked, READ]

    async def main() -> None:
        async with (
            answering({"resources/read": lambda params: rest.pop(0)}) as server,
            Client(server.url) as client,
        ):
            await client.read("a:1")
            await client.read("a:1")
            assert len(server.requests) == 4

    run(main())


def test_nothing_is_kept_where_nothing_is_to_be() -> None:
    async def main() -> None:
        async with (
            answering({"resources/read": READ}) as server,
            Client(server.url, cache=False) as client,
        ):
            await client.read("a:1")
            await client.read("a:1")
            assert len(server.requests) == 2

    run(main())
