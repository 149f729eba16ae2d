"""The client and servers of the earlier revisions over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpost.client import Client
from mcpost.errors import ConnectionLost, LegacyServer
from mcpost.limits import ClientLimits
from mcpost.types import LogMessage, ResourceUpdated, ToolsChanged
from tests.e2e.client_legacy.peer import Ask, Peer, Stream, peer, words
from tests.helpers.loop import run
from tests.helpers.until import until


def usual(server: Peer, ask: Ask, stream: Stream) -> Any:
    return server.usual(ask)


@pytest.mark.req("L-01/C", "V-03/C")
def test_a_refusal_of_no_modern_kind_leads_to_a_handshake_that_is_remembered() -> None:
    async def main() -> None:
        async with peer(usual) as server:
            async with Client(server.url) as client:
                await client.tools()
                await client.tools()
            assert server.methods == [
                "tools/list",
                "server/discover",
                "initialize",
                "notifications/initialized",
                "tools/list",
                "tools/list",
                "DELETE",
            ]

    run(main())


@pytest.mark.req("L-01/C")
def test_what_follows_names_the_session_and_the_version_that_was_settled() -> None:
    async def main() -> None:
        async with peer(usual) as server:
            server.version = "2025-06-18"
            async with Client(server.url, era="legacy") as client:
                await client.tools()
            opening, *others = server.asks
            assert opening.message["params"]["protocolVersion"] == "2025-11-25"
            assert "mcp-session-id" not in opening.headers
            for ask in others:
                assert ask.headers["mcp-session-id"] == "session-1"
                assert ask.headers["mcp-protocol-version"] == "2025-06-18"

    run(main())


@pytest.mark.req("L-01/C")
def test_a_server_of_an_unknown_revision_is_refused() -> None:
    async def main() -> None:
        async with peer(usual) as server:
            server.version = "1999-01-01"
            async with Client(server.url, era="legacy") as client:
                with pytest.raises(LegacyServer, match="1999-01-01"):
                    await client.tools()

    run(main())


@pytest.mark.req("L-01/C")
def test_a_session_that_is_gone_is_opened_once_more_and_the_call_repeated() -> None:
    def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.method == "tools/call":
            if ask.headers.get("mcp-session-id") == "session-1":
                return (404, {})
            return (200, words(ask.message["id"], "once"))
        return server.usual(ask)

    async def main() -> None:
        async with peer(script) as server:
            async with Client(server.url, era="legacy") as client:
                assert (await client.call("x")).text == "once"
            assert server.methods.count("initialize") == 2
            assert server.methods.count("tools/call") == 2

    run(main())


@pytest.mark.req("L-01/C")
def test_a_server_that_ends_every_session_is_not_asked_for_ever() -> None:
    def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        return (404, {}) if ask.method == "tools/call" else server.usual(ask)

    async def main() -> None:
        async with peer(script) as server, Client(server.url, era="legacy") as client:
            with pytest.raises(Exception, match="ends each session at once"):
                await client.call("x")
            assert server.methods.count("tools/call") == 2

    run(main())


@pytest.mark.req("L-02/C")
def test_a_broken_stream_is_resumed_after_the_time_that_the_server_named() -> None:
    def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        token = ask.message.get("params", {}).get("_meta", {}).get("progressToken")
        if ask.method == "tools/call":
            server.token = (ask.message["id"], token)  # type: ignore[attr-defined]
            stream.begin()
            stream.raw("id: a-0\nretry: 300\ndata: \n\n")
            stream.say(progress(token, 1), "a-1")
            return None
        if ask.verb == "GET":
            request_id, token = server.token  # type: ignore[attr-defined]
            stream.begin()
            if ask.headers["last-event-id"] == "a-1":
                stream.say(progress(token, 2), "a-2")
                return None
            stream.say(words(request_id, "done"), "a-3")
            return None
        return server.usual(ask)

    async def main() -> None:
        heard: list[float] = []
        async with peer(script) as server:
            async with Client(server.url, era="legacy") as client:
                result = await client.call("x", progress=lambda p: heard.append(p.progress))
            assert (result.text, heard) == ("done", [1, 2])
            gets = [ask.headers["last-event-id"] for ask in server.asks if ask.verb == "GET"]
            assert gets == ["a-1", "a-2"]
            called = server.methods.index("tools/call")
            assert server.times[called + 1] - server.times[called] >= 0.29

    run(main())


def progress(token: Any, done: int) -> dict[str, Any]:
    params = {"progressToken": token, "progress": done}
    return {"method": "notifications/progress", "params": params}


@pytest.mark.req("L-02/C")
@pytest.mark.parametrize("has_ids", [True, False])
def test_a_stream_that_cannot_be_resumed_is_a_lost_call(has_ids: bool) -> None:
    def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.method == "tools/call":
            stream.begin()
            stream.say(progress(1, 1), "a-1" if has_ids else None)
            return None
        return server.usual(ask)

    async def main() -> None:
        async with peer(script) as server, Client(server.url, era="legacy") as client:
            with pytest.raises(ConnectionLost) as caught:
                await client.call("x")
            assert caught.value.sent == "yes"
            assert ("GET" in server.methods) is has_ids

    run(main())


@pytest.mark.req("L-02/C", "P-02/C")
def test_cancelling_a_call_is_told_since_leaving_cancels_nothing() -> None:
    async def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.method == "tools/call":
            stream.begin()
            stream.say(progress(1, 1))
            await asyncio.sleep(600)
        return server.usual(ask)

    async def main() -> None:
        async with peer(script) as server, Client(server.url, era="legacy") as client:
            handle = client.start("x")
            await until(lambda: "tools/call" in server.methods)
            handle.cancel()
            await asyncio.wait([handle.task])
            await until(lambda: "notifications/cancelled" in server.methods)
            called = next(ask for ask in server.asks if ask.method == "tools/call")
            told = next(ask for ask in server.asks if ask.method == "notifications/cancelled")
            assert told.message["params"]["requestId"] == called.message["id"]

    run(main())


@pytest.mark.req("L-03/C")
@pytest.mark.parametrize("where", ["GET", "call"])
def test_a_servers_question_is_answered_by_a_post_of_its_own(where: str) -> None:
    answered = asyncio.Event()
    question = {"id": "q", "method": "elicitation/create", "params": QUESTION}

    async def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.verb == "GET":
            stream.begin()
            server.get = stream  # type: ignore[attr-defined]
            await asyncio.sleep(600)
        if ask.message.get("id") == "q":
            answered.set()
        if ask.method == "tools/call":
            stream.begin()
            (server.get if where == "GET" else stream).say(question)  # type: ignore[attr-defined]
            await answered.wait()
            stream.say(words(ask.message["id"], "thanks"))
            return None
        return server.usual(ask)

    async def main() -> None:
        async with (
            peer(script) as server,
            Client(server.url, era="legacy", on_elicit=lambda q: {"name": "Ada"}) as client,
        ):
            assert (await client.call("x")).text == "thanks"
            answer = next(ask.message for ask in server.asks if ask.message.get("id") == "q")
            assert answer["result"] == {"action": "accept", "content": {"name": "Ada"}}
            assert server.methods.index("GET") < server.methods.index("tools/call")

    run(main())


QUESTION = {
    "message": "Name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


@pytest.mark.req("L-03/C", "L-04/C")
@pytest.mark.parametrize(
    ("method", "expected"), [("ping", {"result": {}}), ("sampling/createMessage", -32601)]
)
def test_ping_is_answered_and_what_was_not_declared_is_refused(method: str, expected: Any) -> None:
    answered = asyncio.Event()

    async def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.message.get("id") == "q":
            answered.set()
        if ask.method == "tools/call":
            stream.begin()
            stream.say({"id": "q", "method": method, "params": {}})
            await answered.wait()
            stream.say(words(ask.message["id"], "thanks"))
            return None
        return server.usual(ask)

    async def main() -> None:
        async with peer(script) as server, Client(server.url, era="legacy") as client:
            await client.call("x")
            answer = next(ask.message for ask in server.asks if ask.message.get("id") == "q")
            if isinstance(expected, int):
                assert answer["error"]["code"] == expected
            else:
                assert answer == {"jsonrpc": "2.0", "id": "q", **expected}

    run(main())


@pytest.mark.req("L-04/C")
def test_the_level_of_logs_is_set_once_and_logs_are_heard() -> None:
    def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.method == "tools/call":
            stream.begin()
            params = {"level": "warning", "data": "careful"}
            stream.say({"method": "notifications/message", "params": params})
            stream.say(words(ask.message["id"], "done"))
            return None
        return server.usual(ask)

    async def main() -> None:
        logs: list[LogMessage] = []
        async with peer(script) as server:
            server.capabilities = {"tools": {}, "logging": {}}
            options: Any = {"era": "legacy", "on_log": logs.append, "log_level": "warning"}
            async with Client(server.url, **options) as client:
                await client.call("x")
                await client.call("x")
            levels = [ask for ask in server.asks if ask.method == "logging/setLevel"]
            assert [ask.message["params"] for ask in levels] == [{"level": "warning"}]
            assert [log.data for log in logs] == ["careful", "careful"]

    run(main())


@pytest.mark.req("L-04/C")
def test_a_listen_subscribes_hears_on_the_stream_of_get_and_unsubscribes() -> None:
    async def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.verb == "GET":
            stream.begin()
            server.get = stream  # type: ignore[attr-defined]
            await asyncio.sleep(600)
        if ask.method == "resources/subscribe":
            updated = "notifications/resources/updated"
            server.get.say({"method": updated, "params": {"uri": "a://b"}})  # type: ignore[attr-defined]
            server.get.say({"method": updated, "params": {"uri": "c://d"}})  # type: ignore[attr-defined]
            server.get.say({"method": "notifications/tools/list_changed"})  # type: ignore[attr-defined]
        return server.usual(ask)

    async def main() -> None:
        async with peer(script) as server:
            server.capabilities = {
                "tools": {"listChanged": True},
                "resources": {"subscribe": True},
            }
            async with Client(server.url, era="legacy") as client:
                async with client.listen(tools=True, prompts=True, uris=["a://b"]) as changes:
                    assert changes.honoured == {
                        "toolsListChanged": True,
                        "resourceSubscriptions": ["a://b"],
                    }
                    found = [await anext(changes), await anext(changes)]
                assert found == [ResourceUpdated("a://b"), ToolsChanged()]
                await until(lambda: "resources/unsubscribe" in server.methods)

    run(main())


@pytest.mark.req("V-03/C")
def test_a_server_of_2024_is_spoken_to_over_its_own_two_addresses() -> None:
    async def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.verb == "GET":
            stream.begin()
            stream.raw("event: endpoint\ndata: /mcp?session=7\n\n")
            server.get = stream  # type: ignore[attr-defined]
            await asyncio.sleep(600)
            return None
        if not hasattr(server, "get"):
            return (405, {})
        if ask.method == "tools/call":
            server.get.say(words(ask.message["id"], "from the past"))
        elif "id" in ask.message:
            server.version = "2024-11-05"
            server.get.say(server.usual(ask)[1])
        return (202, {})

    async def main() -> None:
        async with peer(script) as server:
            async with Client(server.url) as client:
                assert (await client.discover()).supported_versions == ["2024-11-05"]
                assert (await client.call("x")).text == "from the past"
            assert server.methods[:3] == ["server/discover", "initialize", "GET"]

    run(main())


@pytest.mark.req("V-03/C")
def test_an_endpoint_of_another_origin_is_not_used() -> None:
    def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.verb != "GET":
            return (405, {})
        stream.begin()
        stream.raw("event: endpoint\ndata: http://evil.example/mcp\n\n")
        return None

    async def main() -> None:
        async with peer(script) as server, Client(server.url) as client:
            with pytest.raises(LegacyServer, match=r"evil\.example"):
                await client.tools()

    run(main())


@pytest.mark.req("L-01/C")
def test_a_silent_server_ends_the_handshake_by_its_deadline() -> None:
    async def script(server: Peer, ask: Ask, stream: Stream) -> Any:
        await asyncio.sleep(600)

    async def main() -> None:
        limits = ClientLimits(start_timeout=0.2)
        async with (
            peer(script) as server,
            Client(server.url, era="legacy", limits=limits) as client,
        ):
            with pytest.raises(Exception, match="has opened no session within"):
                await client.tools()

    run(main())
