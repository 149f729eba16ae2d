"""Several servers behind one endpoint: merged, routed by prefix, listened to as one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import Annotated, Any

import pytest

from mcpost import Client, Context, Mirror, Server
from mcpost.gateway.policy import (
    Aggregate,
    Listener,
    Pattern,
    Policy,
    Rule,
    Upstream,
)
from mcpost.limits import ServerLimits
from mcpost.server.native import NativeApp, open_native
from mcpost.server.offers import CacheHints
from mcpost.server.settings import Settings
from mcpost.types import ResourceLink
from tests.e2e.gateway.gateways import Opened, opened, read_request, scripted
from tests.helpers.http import body, lines, listen, post
from tests.helpers.loop import run
from tests.helpers.raw import Raw, connect
from tests.helpers.until import until

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def make_server(name: str, **options: Any) -> Server:
    server = Server(name, cache=CacheHints(60_000, "public"), **options)

    @server.tool
    async def search(text: str, region: Annotated[str | None, Mirror("Region")] = None) -> str:
        return f"{name} found {text} in {region}"

    @server.tool
    async def count(steps: int, ctx: Context) -> int:
        for step in range(steps):
            ctx.progress(step + 1, steps)
            await asyncio.sleep(0)
        return steps

    @server.tool
    async def link(ctx: Context, streamed: bool = False) -> ResourceLink:
        if streamed:
            ctx.progress(1, 2)
            await asyncio.sleep(0.01)  # so that what was said goes out before the answer
        return ResourceLink(uri="doc://one", name="one")

    @server.resource("doc://one")
    def one() -> str:
        return f"one of {name}"

    @server.resource("doc://é/{page}")
    def pages(page: str) -> str:
        return f"{page} of {name}"

    @server.prompt
    def greet(whom: str) -> str:
        return f"{name} greets {whom}"

    @server.completion("greet", "whom")
    def whoms(value: str) -> list[str]:
        return [f"{value} of {name}"]

    @server.completion("doc://é/{page}", "page")
    def page_names(value: str) -> list[str]:
        return [f"page {value} of {name}"]

    return server


@contextlib.asynccontextmanager
async def served(server: Server) -> AsyncIterator[int]:
    endpoint = server.endpoint(Settings.make())
    listener = await open_native(NativeApp(endpoint, "/mcp"), host="127.0.0.1")
    try:
        yield listener.port
    finally:
        await endpoint.drain(0.1)
        await listener.close()


def policy_for(ports: dict[str, int], **more: Any) -> Policy:
    """A policy with one aggregate; its members have the names of their upstreams."""
    audience, cache = more.pop("audience", ()), more.pop("cached", False)
    upstreams = {
        f"at-{name}": Upstream(
            f"at-{name}", (f"http://127.0.0.1:{port}/mcp",), name in audience, cache=cache
        )
        for name, port in ports.items()
    }
    options = {key: more.pop(key) for key in ("strict", "wait", "max_answer") if key in more}
    all_of_them = Aggregate("all", {name: f"at-{name}" for name in ports}, **options)
    given: dict[str, Any] = {"default": "allow", "upstream": "all"} | more
    listener = Listener("main", "127.0.0.1:0")
    return Policy((listener,), upstreams, aggregates={"all": all_of_them}, **given)


class Two:
    """A gateway before two servers, and a connection to it."""

    def __init__(self, raw: Raw, gateway: Opened, servers: dict[str, Server]) -> None:
        self.raw = raw
        self.gateway = gateway
        self.servers = servers

    async def ask(self, method: str, named: str | None = None, /, **params: Any) -> Any:
        """Ask, and give the result, or the error."""
        answer = await self.raw.ask(post(body(method, params), lines(method, named)))
        return answer.get("result", answer.get("error"))


@contextlib.asynccontextmanager
async def two(**more: Any) -> AsyncIterator[Two]:
    options = more.pop("server", {})
    servers = {name: make_server(name, **options) for name in ("books", "maps")}
    async with (
        served(servers["books"]) as first,
        served(servers["maps"]) as second,
        opened(policy_for({"books": first, "maps": second}, **more)) as gateway,
        connect(gateway.port) as raw,
    ):
        yield Two(raw, gateway, servers)


def ask(method: str, named: str | None = None, /, *, policy: Any = None, **params: Any) -> Any:
    async def scenario() -> Any:
        async with two(**(policy or {})) as there:
            return await there.ask(method, named, **params)

    return run(scenario())


@pytest.mark.parametrize(
    ("method", "place", "key", "names"),
    [
        ("tools/list", "tools", "name", ("count", "link", "search")),
        ("prompts/list", "prompts", "name", ("greet",)),
    ],
)
def test_names_are_listed_with_the_prefix_of_their_member(
    method: str, place: str, key: str, names: tuple[str, ...]
) -> None:
    result = ask(method)

    found = [each[key] for each in result[place]]
    assert sorted(found) == [f"{who}.{name}" for who in ("books", "maps") for name in names]
    assert (result["cacheScope"], result["ttlMs"] > 0) == ("public", True)


def test_resources_are_listed_with_the_member_before_their_scheme() -> None:
    resources = ask("resources/list")["resources"]
    templates = ask("resources/templates/list")["resourceTemplates"]

    assert [each["uri"] for each in resources] == ["books+doc://one", "maps+doc://one"]
    assert [each["uriTemplate"] for each in templates] == [
        "books+doc://é/{page}",
        "maps+doc://é/{page}",
    ]


@pytest.mark.req("H-11/G")
def test_a_call_goes_to_its_member_with_name_and_body_rewritten_together() -> None:
    async def scenario() -> tuple[Any, Any]:
        async with two() as there:
            params = {"name": "maps.search", "arguments": {"text": "x", "region": "é"}}
            # The mirrored parameter passes as it is: the server compares it, and the name, itself.
            mirrored = ("mcp-param-region", "=?base64?w6k=?=")
            head = lines("tools/call", "maps.search", mirrored)
            right = await there.raw.ask(post(body("tools/call", params), head))
            wrong = lines("tools/call", "maps.search", ("mcp-param-region", "eu"))
            return right, await there.raw.ask(post(body("tools/call", params), wrong))

    right, wrong = run(scenario())

    assert right["result"]["content"][0]["text"] == "maps found x in é"
    assert (wrong["error"]["code"], wrong["id"]) == (-32020, 7)


@pytest.mark.req("H-07/G")
def test_a_resource_is_read_by_its_prefixed_uri_whatever_stands_in_it() -> None:
    encoded = "=?base64?Qk9PS1MrZG9jOi8vw6kvMQ==?="

    result = ask("resources/read", encoded, uri="BOOKS+doc://é/1")

    (found,) = result["contents"]
    assert (found["text"], found["uri"]) == ("1 of books", "books+doc://é/1")


def test_prompts_and_completions_go_to_their_member() -> None:
    prompt = ask("prompts/get", "maps.greet", name="maps.greet", arguments={"whom": "me"})
    assert prompt["messages"][0]["content"]["text"] == "maps greets me"

    for ref, said in (
        ({"type": "ref/prompt", "name": "books.greet"}, "a of books"),
        ({"type": "ref/resource", "uri": "maps+doc://é/{page}"}, "page a of maps"),
    ):
        argument = {"name": "whom" if "name" in ref else "page", "value": "a"}
        found = ask("completion/complete", ref=ref, argument=argument)
        assert found["completion"]["values"] == [said]


def test_discover_says_what_all_can_do_together() -> None:
    result = ask("server/discover", policy={"server": {"instructions": "Be kind."}})

    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert "completions" in result["capabilities"]
    assert result["instructions"] == "## books\n\nBe kind.\n\n## maps\n\nBe kind."
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "all"


@pytest.mark.req("F-04/G")
def test_pages_of_all_members_are_walked_with_one_cursor() -> None:
    async def scenario() -> tuple[list[list[str]], Any]:
        async with two(server={"limits": ServerLimits(page_size=2)}) as there:
            pages, cursor = [], {}
            while True:
                page = await there.ask("tools/list", **cursor)
                pages.append([each["name"] for each in page["tools"]])
                if "nextCursor" not in page:
                    break
                cursor = {"cursor": page["nextCursor"]}
            return pages, await there.ask("tools/list", cursor="eyJib29rcyI6IngifQ==")

    pages, refused = run(scenario())

    assert [len(page) for page in pages] == [4, 2]
    assert len({name for page in pages for name in page}) == 6
    # It has the form of one, but the member has never given its part.
    assert refused["code"] == -32602


@pytest.mark.parametrize("cursor", ["x", "e30=", "eyJtZSI6IngifQ==", "eyJib29rcyI6MX0=", 5])
def test_a_cursor_that_was_not_given_here_is_refused(cursor: Any) -> None:
    assert ask("tools/list", cursor=cursor)["code"] == -32602


@pytest.mark.parametrize(
    ("method", "name", "params"),
    [
        ("tools/call", "search", {"name": "search"}),
        ("tools/call", "nobody.search", {"name": "nobody.search"}),
        ("tools/call", "books.", {"name": "books."}),
        ("tools/call", "books+search", {"name": "books+search"}),
        ("resources/read", "doc://one", {"uri": "doc://one"}),
        ("completion/complete", None, {"ref": {"type": "ref/prompt", "name": "greet"}}),
        ("completion/complete", None, {"ref": 5}),
        ("completion/complete", None, {"ref": {"type": "ref/prompt"}}),
        ("subscriptions/listen", None, {"notifications": []}),
        ("subscriptions/listen", None, {"notifications": {"toolsListChanged": 1}}),
    ],
)
def test_what_is_of_no_member_is_refused_by_the_gateway(
    method: str, name: str | None, params: dict[str, Any]
) -> None:
    error = ask(method, name, **params)

    assert (error["code"], error["data"]["gateway"]) == (-32602, "refused")


@pytest.mark.req("T-18/G")
def test_a_method_that_has_no_prefix_to_go_by_is_not_served() -> None:
    async def scenario() -> tuple[int, Any]:
        async with two() as there:
            error = await there.ask("tasks/get")
            return there.raw.status, error["code"]

    assert run(scenario()) == (404, -32601)


@pytest.mark.req("T-19/G")
def test_a_body_that_names_another_member_than_its_header_is_refused() -> None:
    async def scenario() -> tuple[int, Any, list[Any]]:
        async with two() as there:
            sent = body("tools/call", {"name": "maps.search", "arguments": {"text": "x"}})
            answer = await there.raw.ask(post(sent, lines("tools/call", "books.search")))
            return there.raw.status, answer["error"]["code"], answer["id"]

    assert run(scenario()) == (400, -32020, 7)


def test_rules_match_prefixed_names() -> None:
    deny = Rule(0, "no-maps", 1, "deny", names=(Pattern("maps.*"),))

    async def scenario() -> list[int]:
        async with two(rules=(deny,)) as there:
            found = []
            for name in ("maps.search", "books.search"):
                await there.ask("tools/call", name, name=name, arguments={"text": "x"})
                found.append(there.raw.status)
            return found

    assert run(scenario()) == [403, 200]


def test_what_is_logged_names_the_upstream_that_was_asked() -> None:
    async def scenario() -> list[tuple[Any, Any]]:
        async with two() as there:
            await there.ask("tools/call", "maps.search", name="maps.search", arguments={})
            await there.ask("tools/list")
            found = [json.loads(line) for line in there.gateway.lines]
            return [(each["upstream"], each["status"]) for each in found]

    assert run(scenario()) == [("at-maps", 200), ("all", 200)]


def test_earlier_revisions_are_refused_and_so_is_a_notification() -> None:
    async def scenario() -> list[Any]:
        async with two(legacy="inspect") as there:
            old = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
            head = lines("x", mcp_method=None, mcp_protocol_version=None)
            found = []
            first = await there.raw.ask(post(json.dumps(old).encode(), head))
            found += [there.raw.status, first["error"]["code"]]
            note = {"jsonrpc": "2.0", "method": "notifications/x", "params": {}}
            sent = post(json.dumps(note).encode(), lines("notifications/x"))
            found.append((await there.raw.ask(sent))["error"]["code"])
            return [*found, there.raw.status]

    assert run(scenario()) == [400, -32020, -32600, 400]


# Streams of one member.


@pytest.mark.req("P-01/G")
def test_progress_of_a_member_comes_before_its_answer() -> None:
    async def scenario() -> list[Any]:
        async with two() as there:
            params = {"name": "maps.count", "arguments": {"steps": 3}}
            sent = body("tools/call", params, progressToken="t")
            await there.raw.send(post(sent, lines("tools/call", "maps.count")))
            await there.raw.head()
            return await there.raw.events()

    *notes, last = run(scenario())

    assert notes
    assert all(note["params"]["progressToken"] == "t" for note in notes)
    assert last["result"]["structuredContent"] == 3


@pytest.mark.parametrize("streamed", [False, True])
def test_a_link_in_an_answer_can_be_read_where_the_answer_came_from(streamed: bool) -> None:
    async def scenario() -> tuple[Any, Any]:
        async with two() as there:
            params = {"name": "books.link", "arguments": {"streamed": streamed}}
            sent = body("tools/call", params, progressToken=1)
            await there.raw.send(post(sent, lines("tools/call", "books.link")))
            await there.raw.head()
            if streamed:
                assert there.raw.headers["content-type"] == "text/event-stream"
                answer = (await there.raw.events())[-1]
            else:
                answer = json.loads(await there.raw.body())
            uri = answer["result"]["content"][0]["uri"]
            return uri, await there.ask("resources/read", uri, uri=uri)

    uri, read = run(scenario())

    assert uri == "books+doc://one"
    assert read["contents"][0]["text"] == "one of books"


def test_a_longer_answer_than_may_be_held_passes_as_it_is() -> None:
    async def scenario() -> Any:
        async with two(max_answer=50) as there:
            return await there.ask("tools/call", "books.link", name="books.link", arguments={})

    assert run(scenario())["content"][0]["uri"] == "doc://one"


def call_of(name: str) -> bytes:
    return post(body("tools/call", {"name": name}), lines("tools/call", name))


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
def test_events_of_any_server_pass_as_they_come_and_links_in_them_are_prefixed(end: bytes) -> None:
    link = {"type": "resource_link", "uri": "doc://one", "name": "one"}
    result = {"jsonrpc": "2.0", "id": 7, "result": {"content": [link]}}
    first = b": here" + end + end + b"id: 5" + end + b'data: {"a":1}' + end + end
    last = b"event: message" + end + b"data: " + json.dumps(result).encode() + end + end

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + first)
        await seen.wait()
        # In pieces of which none is an event.
        for place in range(0, len(last), 50):
            writer.write(last[place : place + 50])
            await writer.drain()

    async def scenario() -> tuple[bytes, bytes]:
        async with one_and(serve) as (raw, _):
            await raw.send(call_of("bad.x"))
            await raw.head()
            while len(raw._chunks) < len(first):
                await raw._chunk()
            begun, raw._chunks = raw._chunks, b""
            seen.set()
            return begun, await raw.body()

    seen = asyncio.Event()
    begun, rest = run(scenario())

    assert begun == first
    assert b'"uri":"bad+doc://one"' in rest
    assert rest.startswith(b"data: ")


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
def test_a_member_that_breaks_off_is_never_taken_for_one_that_is_done(kind: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind
        writer.write(head + b"9\r\ndata: {}\n\r\n")

    async def scenario() -> int:
        async with one_and(serve) as (raw, _):
            await raw.send(call_of("bad.x"))
            status = await raw.head()
            if kind == b"application/json":
                return status
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await raw.body()
            return 0

    assert run(scenario()) == (502 if kind == b"application/json" else 0)


# Members that fail.


@contextlib.asynccontextmanager
async def one_and(other: Any, **more: Any) -> AsyncIterator[tuple[Raw, Opened]]:
    """A good member and one that does as it is told."""
    async with (
        served(make_server("books")) as port,
        scripted(other) as second,
        opened(policy_for({"books": port, "bad": second}, **more)) as gateway,
        connect(gateway.port) as raw,
    ):
        yield raw, gateway


async def answer_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    await reader.read()


async def answer_401(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")


async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")


async def say_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]"
    writer.write(head)


@pytest.mark.parametrize("other", [answer_nothing, answer_401, break_off, say_nonsense])
def test_a_member_that_fails_is_missing_from_a_list_which_says_so(other: Any) -> None:
    async def scenario() -> tuple[int, Any, str]:
        async with one_and(other, wait=0.2) as (raw, gateway):
            answer = await raw.ask(post(body("tools/list"), lines("tools/list")))
            return raw.status, answer["result"], json.loads(gateway.lines[0])["reason"]

    status, result, reason = run(scenario())

    assert status == 200
    assert reason.startswith("member 'bad': ")
    assert [each["name"].partition(".")[0] for each in result["tools"]] == ["books"] * 3
    assert list(result["_meta"]["mcpost/unavailable"]) == ["bad"]
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


def test_a_strict_aggregate_gives_all_or_says_who_is_missing() -> None:
    async def scenario() -> tuple[int, Any, str]:
        async with one_and(answer_401, strict=True) as (raw, _):
            answer = await raw.ask(post(body("tools/list"), lines("tools/list")))
            return raw.status, answer, raw.headers["mcpost-gateway"]

    status, answer, mark = run(scenario())

    assert (status, mark, answer["id"]) == (502, "failed", 7)
    assert "'bad'" in answer["error"]["message"]


def test_if_no_member_answers_nobody_does() -> None:
    async def scenario() -> tuple[int, Any]:
        async with opened(policy_for({"a": 9, "b": 9})) as gateway, connect(gateway.port) as raw:
            answer = await raw.ask(post(body("tools/list"), lines("tools/list")))
            return raw.status, answer["error"]["message"]

    status, said = run(scenario())

    assert status == 502
    assert said.count("the upstream cannot be reached") == 2


def test_a_member_without_a_method_has_an_empty_part() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        error = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32601, "message": "no"}}
        data = json.dumps(error).encode()
        kind = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data)
        writer.write(b"HTTP/1.1 404 Not Found\r\n" + kind + data)

    async def scenario() -> Any:
        async with one_and(refuse, strict=True) as (raw, _):
            return await raw.ask(post(body("prompts/list"), lines("prompts/list")))

    result = run(scenario())["result"]

    assert [each["name"] for each in result["prompts"]] == ["books.greet"]
    assert (result["cacheScope"], "mcpost/unavailable" in result["_meta"]) == ("public", False)


def test_a_member_may_answer_a_list_with_a_stream_and_forget_to_end_it() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
        answer = {"jsonrpc": "2.0", "id": 7, "result": {"tools": [{"name": "x"}]}}
        writer.write(HEAD + note + b"data: %b\n\n" % json.dumps(answer).encode())
        await reader.read()

    async def scenario() -> Any:
        async with one_and(serve, wait=0.2, strict=True) as (raw, _):
            return await raw.ask(post(body("tools/list"), lines("tools/list")))

    assert run(scenario())["result"]["tools"][-1] == {"name": "bad.x"}


@pytest.mark.req("T-15/G")
def test_a_client_that_leaves_ends_what_members_were_asked() -> None:
    left = 0

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        await read_request(reader)
        asked.set()
        try:
            await reader.read()
        finally:
            left += 1

    async def scenario() -> list[Any]:
        async with one_and(wait) as (raw, gateway):
            await raw.send(post(body("tools/list"), lines("tools/list")))
            await asked.wait()
            await raw.close(reset=True)
            await until(lambda: left)
            await until(lambda: gateway.lines)
            merging = gateway.running.shared.aggregated.merging
            return [json.loads(gateway.lines[0])["status"], len(merging)]

    asked = asyncio.Event()
    assert run(scenario()) == [0, 0]


def test_authorization_goes_to_those_members_alone_that_it_is_meant_for() -> None:
    heads: dict[str, bytes] = {}

    def note(name: str) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads[name], _ = await read_request(reader)
            writer.write(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")

        return serve

    async def scenario() -> None:
        async with (
            scripted(note("ours")) as first,
            scripted(note("theirs")) as second,
            opened(policy_for({"ours": first, "theirs": second}, audience=("ours",))) as gateway,
            connect(gateway.port) as raw,
        ):
            token = ("authorization", "Bearer a")
            await raw.ask(post(body("tools/list"), lines("tools/list", None, token)))

    run(scenario())

    assert b"authorization: Bearer a" in heads["ours"]
    assert b"authorization" not in heads["theirs"]


def test_the_lists_of_members_may_be_cached() -> None:
    async def scenario() -> tuple[Any, Any]:
        async with two(cached=True) as there:
            first = await there.ask("tools/list")
            await there.gateway.running.shared.generation.close()
            return first, await there.ask("tools/list")

    first, second = run(scenario())

    # The second came from memory alone: no connection could be made any more.
    assert 0 < second.pop("ttlMs") <= first.pop("ttlMs")
    assert first == second


def test_those_who_list_at_once_ask_each_cached_member_once() -> None:
    asked: list[str] = []
    opens = asyncio.Event()

    def slow(name: str) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                _, sent = await read_request(reader)
                asked.append(name)
                await opens.wait()
                tools = {"resultType": "complete", "tools": [{"name": name}], "ttlMs": 60_000}
                result = {**tools, "cacheScope": "public"}
                message = {"jsonrpc": "2.0", "id": json.loads(sent)["id"], "result": result}
                data = json.dumps(message).encode()
                kind = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\n" + kind % len(data) + data)

        return serve

    async def scenario() -> tuple[list[Any], list[str]]:
        async with (
            scripted(slow("x")) as first,
            scripted(slow("y")) as second,
            opened(policy_for({"a": first, "b": second}, cached=True)) as gateway,
        ):
            raws = [
                Raw(*await asyncio.open_connection("127.0.0.1", gateway.port)) for _ in range(6)
            ]
            for number, raw in enumerate(raws):
                await raw.send(post(body("tools/list", id=number), lines("tools/list")))
            await until(lambda: len(gateway.running.shared.aggregated.merging) == len(raws))
            await until(lambda: len(asked) == 2)
            # The one who asks leaves; another one asks instead.
            await raws[0].close(reset=True)
            await until(lambda: len(asked) == 4)
            opens.set()
            found = []
            for raw in raws[1:]:
                await raw.head()
                answer = json.loads(await raw.body())
                found.append((answer["id"], [each["name"] for each in answer["result"]["tools"]]))
                await raw.close()
            return found, sorted(asked)

    found, counted = run(scenario())

    assert found == [(number, ["a.x", "b.y"]) for number in range(1, 6)]
    assert counted == ["x", "x", "y", "y"]


def test_a_member_whose_part_is_longer_than_may_be_is_missing() -> None:
    async def scenario() -> Any:
        async with two(max_answer=100) as there:
            answer = await there.raw.ask(post(body("tools/list"), lines("tools/list")))
            return answer["error"]["message"]

    assert run(scenario()).count("its answer is too long") == 2


@pytest.mark.req("T-15/G")
def test_cut_at_random_nothing_runs_twice_and_nothing_is_left_behind() -> None:
    random = Random(5)
    ran: Counter[str] = Counter()

    async def scenario() -> tuple[Counter[str], list[int]]:
        async with two(cached=True) as there:
            for server in there.servers.values():

                @server.tool
                async def note(key: str) -> str:
                    ran[key] += 1
                    await asyncio.sleep(0)
                    return key

            port, shared = there.gateway.port, there.gateway.running.shared

            async def one(number: int) -> None:
                async with connect(port) as raw:
                    key = str(number)
                    sent = random.choice(
                        [
                            post(
                                body(
                                    "tools/call",
                                    {"name": "maps.note", "arguments": {"key": key}},
                                ),
                                lines("tools/call", "maps.note"),
                            ),
                            post(body("tools/list", id=number), lines("tools/list")),
                            post(body("server/discover"), lines("server/discover")),
                            listen(number, toolsListChanged=True),
                        ]
                    )
                    cut = random.random() < 0.5
                    await raw.send(sent[: random.randrange(len(sent))] if cut else sent)
                    if not cut:
                        for _ in range(random.randrange(4)):
                            await asyncio.sleep(0)
                    await raw.close(reset=random.random() < 0.5)

            for start in range(0, 600, 30):
                if start == 300:
                    assert there.gateway.running.reload()
                await asyncio.gather(*(one(start + each) for each in range(30)))
            await until(lambda: not shared.running and not shared.aggregated.merging)
            groups = shared.generation.groups.values()
            left = [group.endpoints[0].running for group in groups]
            return ran, [*left, len(shared.cached.store._flights)]

    counted, left = run(scenario(), 120, debug=False)

    assert counted
    assert set(counted.values()) == {1}
    assert left == [0, 0, 0]


def test_a_policy_that_is_read_again_drops_no_listen() -> None:
    async def scenario() -> str:
        policies: list[Policy] = []
        servers = {name: make_server(name) for name in ("books", "maps", "more")}
        async with contextlib.AsyncExitStack() as stack:
            ports = {n: await stack.enter_async_context(served(s)) for n, s in servers.items()}
            policies.append(policy_for({"books": ports["books"], "maps": ports["maps"]}))
            gateway = await stack.enter_async_context(opened(lambda: policies[-1]))
            raw = await stack.enter_async_context(connect(gateway.port))
            await raw.send(listen(toolsListChanged=True))
            await raw.head()
            await raw.event()
            policies.append(policy_for({"more": ports["more"]}))
            assert gateway.running.reload()
            servers["maps"].notify_tools_changed()
            heard: str = (await raw.event())["method"]
            other = await stack.enter_async_context(connect(gateway.port))
            names = (await other.ask(post(body("tools/list"), lines("tools/list"))))["result"]
            assert {each["name"].partition(".")[0] for each in names["tools"]} == {"more"}
            return heard

    assert run(scenario()) == "notifications/tools/list_changed"


# Listening.


@pytest.mark.req("P-04/G")
def test_a_listen_is_acknowledged_once_and_hears_all_members() -> None:
    async def scenario() -> tuple[Any, list[Any]]:
        async with two() as there:
            uris = ["books+doc://one", "nobody+doc://one", "maps+doc://one"]
            await there.raw.send(listen("me", toolsListChanged=True, resourceSubscriptions=uris))
            await there.raw.head()
            acknowledged = await there.raw.event()
            there.servers["maps"].notify_tools_changed()
            heard = [await there.raw.event()]
            there.servers["books"].notify_resource_updated("doc://one")
            heard.append(await there.raw.event())
            assert there.gateway.running.shared.streams() == 1
            return acknowledged, heard

    acknowledged, heard = run(scenario())

    assert acknowledged["method"] == ACKNOWLEDGED
    assert acknowledged["params"] == {
        "_meta": {SUBSCRIPTION: "me"},
        "notifications": {
            "toolsListChanged": True,
            "resourceSubscriptions": ["books+doc://one", "maps+doc://one"],
        },
    }
    assert [each["method"] for each in heard] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]
    assert all(each["params"]["_meta"][SUBSCRIPTION] == "me" for each in heard)
    assert heard[1]["params"]["uri"] == "books+doc://one"


@pytest.mark.req("P-05/G")
def test_if_one_member_ends_a_listen_all_of_it_ends_the_same_way() -> None:
    async def scenario() -> list[Any]:
        servers = {name: make_server(name) for name in ("books", "maps")}
        async with served(servers["books"]) as first:
            async with served(servers["maps"]) as second:
                policy = policy_for({"books": first, "maps": second})
                stack = contextlib.AsyncExitStack()
                gateway = await stack.enter_async_context(opened(policy))
                raw = await stack.enter_async_context(connect(gateway.port))
                await raw.send(listen(5, toolsListChanged=True))
                await raw.head()
                await raw.event()
            async with stack:
                return await raw.events()

    (last,) = run(scenario())

    assert last == {
        "jsonrpc": "2.0",
        "id": 5,
        "result": {"resultType": "complete", "_meta": {SUBSCRIPTION: 5}},
    }


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def acknowledge(**honoured: Any) -> bytes:
    params = {"_meta": {SUBSCRIPTION: 7}, "notifications": honoured}
    note = {"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params}
    return b"data: %b\n\n" % json.dumps(note).encode()


@pytest.mark.req("P-05/G")
def test_if_one_member_breaks_off_the_client_sees_a_cut() -> None:
    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + acknowledge(toolsListChanged=True))
        await broken.wait()

    async def scenario() -> bool:
        async with one_and(listens) as (raw, _):
            await raw.send(listen(toolsListChanged=True))
            await raw.head()
            await raw.event()
            broken.set()
            # A chunked body without its last chunk is not whole.
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await raw.events()
            return True

    broken = asyncio.Event()
    assert run(scenario())


def test_no_notice_comes_before_the_acknowledgement_and_none_that_was_not_asked_for() -> None:
    notes = (
        b'data: {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}\n\n'
        b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
    )

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + notes + acknowledge(toolsListChanged=True) + notes)
        said.set()
        await reader.read()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await said.wait()
        await asyncio.sleep(0.05)  # so that the early one is heard first
        writer.write(HEAD + acknowledge(toolsListChanged=True))
        await reader.read()

    async def scenario() -> list[Any]:
        async with (
            scripted(early) as first,
            scripted(late) as second,
            opened(policy_for({"a": first, "b": second})) as gateway,
            connect(gateway.port) as raw,
        ):
            await raw.send(listen(toolsListChanged=True))
            await raw.head()
            return [(await raw.event())["method"] for _ in range(2)]

    said = asyncio.Event()
    assert run(scenario()) == [ACKNOWLEDGED, "notifications/tools/list_changed"]


@pytest.mark.parametrize("strict", [False, True])
def test_a_member_that_does_not_answer_in_time_has_no_part_in_a_listen(strict: bool) -> None:
    async def scenario() -> Any:
        async with one_and(answer_nothing, wait=0.2, strict=strict) as (raw, _):
            await raw.send(listen(toolsListChanged=True))
            await raw.head()
            if strict:
                return raw.status, json.loads(await raw.body())["error"]["code"]
            acknowledged = (await raw.event())["params"]
            return raw.status, acknowledged["_meta"], acknowledged["notifications"]

    found = run(scenario())

    if strict:
        assert found == (502, -32603)
    else:
        status, meta, honoured = found
        assert (status, honoured) == (200, {"toolsListChanged": True})
        assert meta["mcpost/unavailable"] == {"bad": "no answer within 0.2 s"}


def test_if_no_member_listens_the_listen_is_refused() -> None:
    async def scenario() -> tuple[int, Any]:
        async with opened(policy_for({"a": 9})) as gateway, connect(gateway.port) as raw:
            answer = await raw.ask(listen(toolsListChanged=True))
            return raw.status, answer["id"]

    assert run(scenario()) == (502, 7)


@pytest.mark.req("T-15/G")
def test_a_listener_that_leaves_ends_the_listens_of_all_members() -> None:
    async def scenario() -> tuple[int, int]:
        async with two() as there:
            async with connect(there.gateway.port) as other:
                await other.send(listen(toolsListChanged=True))
                await other.head()
                await other.event()
                await other.close(reset=True)
            groups = there.gateway.running.shared.generation.groups.values()
            await until(lambda: not any(g.endpoints[0].running for g in groups))
            return there.gateway.running.shared.streams(), len(there.gateway.lines)

    assert run(scenario()) == (0, 1)


def test_a_slow_listener_makes_the_members_wait_and_misses_nothing() -> None:
    count, uri = 300, "a:" + "x" * 100_000
    params = {"uri": uri, "_meta": {SUBSCRIPTION: 7}}
    note = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
    event = b"data: %b\n\n" % json.dumps(note).encode()

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + acknowledge(resourceSubscriptions=[uri]))
        for _ in range(count):
            writer.write(event)
            await writer.drain()
        await reader.read()

    async def scenario() -> tuple[int, int]:
        async with (
            scripted(flood) as port,
            opened(policy_for({"a": port})) as gateway,
            connect(gateway.port) as raw,
        ):
            await raw.send(listen(resourceSubscriptions=[f"a+{uri}"]))
            await raw.head()
            await raw.event()
            (fan,) = gateway.running.shared.aggregated.merging
            await until(fan.asked.exchange.pending)
            most = heard = 0
            while heard < count:
                most = max(most, fan.asked.exchange.pending())
                heard += (await raw.event())["params"]["uri"] == f"a+{uri}"
            return heard, most

    heard, most = run(scenario(), debug=False)

    assert heard == count
    # Of 30 MB the gateway has held no more than a few of what a socket brings at once.
    assert most < 3_000_000


# The whole way.


def test_our_client_works_through_an_aggregate() -> None:
    async def scenario() -> tuple[list[str], str, Any]:
        async with two() as there:
            url = f"http://127.0.0.1:{there.gateway.port}/mcp"
            async with Client(url) as client:
                names = [tool.name for tool in await client.tools()]
                answer = await client.call("books.search", {"text": "x", "region": "é"})
                async with client.listen(tools=True) as changes:
                    there.servers["maps"].notify_tools_changed()
                    change = await anext(changes)
                return names, answer.content[0].text, type(change).__name__

    names, text, change = run(scenario())

    assert len(names) == 6
    assert (text, change) == ("books found x in é", "ToolsChanged")
