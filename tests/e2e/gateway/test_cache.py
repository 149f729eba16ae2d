"""The shared cache of a gateway: who is answered from memory, and who never is."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mcpost import Server
from mcpost.gateway.policy import Listener, Policy, Rate, Rule, Upstream
from mcpost.limits import CacheLimits
from mcpost.server.native import NativeApp, open_native
from mcpost.server.offers import CacheHints
from mcpost.server.settings import Settings
from tests.e2e.gateway.gateways import Opened, opened, read_request, scripted
from tests.helpers.http import body, lines, post
from tests.helpers.loop import run
from tests.helpers.raw import Raw, connect
from tests.helpers.until import until

HIT, MISS = "hit", "miss"


def policy_for(port: int, **more: Any) -> Policy:
    """A policy with one cached upstream that everything is allowed to."""
    upstream = Upstream(
        "here",
        (f"http://127.0.0.1:{port}/mcp",),
        audience=more.pop("audience", False),
        cache=more.pop("cached", True),
    )
    given: dict[str, Any] = {"default": "allow", "upstream": "here"} | more
    return Policy((Listener("main", "127.0.0.1:0"),), {"here": upstream}, **given)


def ask_list(*more: tuple[str, str], id: Any = 7, method: str = "tools/list", **meta: Any) -> bytes:
    return post(body(method, id=id, **meta), lines(method, None, *more))


def result(**more: Any) -> dict[str, Any]:
    return {"resultType": "complete", "tools": [], "ttlMs": 60_000, "cacheScope": "public", **more}


class Upstreamed:
    """An upstream that counts what it is asked, and answers each request as it is told."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.result: Callable[[Any], dict[str, Any]] = lambda _: result()
        self.lines = b"content-type: application/json\r\n"
        self.status = b"200 OK"
        self.open = asyncio.Event()
        self.open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, sent = await read_request(reader)
            message = json.loads(sent)
            self.asked.append(message)
            await self.open.wait()
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": self.result(message)}
            data = json.dumps(answer).encode()
            head = b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n"
            writer.write(head % (self.status, self.lines, len(data)) + data)


@contextlib.asynccontextmanager
async def before(**policy: Any) -> AsyncIterator[tuple[Raw, Upstreamed, Opened]]:
    upstream = Upstreamed()
    async with (
        scripted(upstream.serve) as port,
        opened(policy_for(port, **policy)) as gateway,
        connect(gateway.port) as raw,
    ):
        yield raw, upstream, gateway


def ask_each(*sent: bytes, prepare: Any = None, **policy: Any) -> tuple[list[str | None], int]:
    """Send requests one after another; gives what the header said of each, and what went on."""

    async def scenario() -> tuple[list[str | None], int]:
        async with before(**policy) as (raw, upstream, _):
            if prepare is not None:
                prepare(upstream)
            said = []
            for each in sent:
                await raw.ask(each)
                said.append(raw.headers.get("x-mcpost-cache"))
            return said, len(upstream.asked)

    return run(scenario())


@pytest.mark.req("F-05/G")
def test_a_public_answer_is_given_again_with_the_id_of_each_request_and_its_age() -> None:
    async def scenario() -> tuple[Any, Any, str, int]:
        async with before() as (raw, upstream, _):
            first = await raw.ask(ask_list(id=1))
            second = await raw.ask(ask_list(id="two"))
            return first, second, raw.headers["age"], len(upstream.asked)

    first, second, age, count = run(scenario())

    assert (first["id"], second["id"], count) == (1, "two", 1)
    assert 0 < second["result"].pop("ttlMs") <= first["result"].pop("ttlMs")
    assert second["result"] == first["result"]
    assert int(age) >= 0


def test_it_is_off_unless_the_policy_says_so() -> None:
    assert ask_each(ask_list(), ask_list(), cached=False) == ([None, None], 2)


@pytest.mark.req("F-05/G")
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"cacheScope": "private"}, id="private"),
        pytest.param({"cacheScope": "Public"}, id="no scope that is known"),
        pytest.param({"cacheScope": None}, id="no scope"),
        pytest.param({"ttlMs": 0}, id="stale"),
        pytest.param({"ttlMs": -1}, id="negative"),
        pytest.param({"ttlMs": True}, id="no number"),
        pytest.param({"ttlMs": "60000"}, id="text"),
        pytest.param({"resultType": "input_required"}, id="asks for input"),
    ],
)
def test_what_is_not_for_all_is_asked_for_each_time(changed: dict[str, Any]) -> None:
    def prepare(upstream: Upstreamed) -> None:
        upstream.result = lambda _: result(**changed)

    assert ask_each(ask_list(), ask_list(), prepare=prepare) == ([MISS, MISS], 2)


@pytest.mark.parametrize(
    ("status", "head"),
    [
        (b"200 OK", b"content-type: application/json\r\ncache-control: no-store\r\n"),
        (b"200 OK", b"content-type: application/json\r\nset-cookie: a=b\r\n"),
        (b"200 OK", b"content-type: application/json\r\nvary: origin, Authorization\r\n"),
        (b"200 OK", b"content-type: application/json\r\nvary: *\r\n"),
        (b"200 OK", b"content-type: text/plain\r\n"),
        (b"404 Not Found", b"content-type: application/json\r\n"),
    ],
)
def test_an_answer_whose_head_forbids_it_is_not_kept(status: bytes, head: bytes) -> None:
    def prepare(upstream: Upstreamed) -> None:
        upstream.status, upstream.lines = status, head

    assert ask_each(ask_list(), ask_list(), prepare=prepare) == ([MISS, MISS], 2)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(ask_list(progressToken=1), id="progress"),
        pytest.param(ask_list(**{"io.modelcontextprotocol/logLevel": "debug"}), id="logs"),
        pytest.param(ask_list(("cache-control", "no-cache")), id="wants a fresh one"),
        pytest.param(ask_list(("cookie", "a=b")), id="cookie"),
        pytest.param(ask_list(("x-api-key", "a")), id="key"),
        pytest.param(
            post(body("tools/list"), lines("tools/list", accept="text/event-stream")), id="stream"
        ),
        pytest.param(
            post(body("tools/list", {"requestState": "x"}), lines("tools/list")), id="rounds"
        ),
        pytest.param(
            post(body("tools/list").replace(b'"params"', b'"x": 1, "params"'), lines("tools/list")),
            id="a member that nobody knows",
        ),
        pytest.param(
            post(
                body("tools/list").replace(
                    b'clientCapabilities": {}', b'clientCapabilities": {"a": 1, "a": 2}'
                ),
                lines("tools/list"),
            ),
            id="says something twice",
        ),
    ],
)
def test_who_asks_for_more_than_the_answer_is_never_given_a_kept_one(sent: bytes) -> None:
    said, count = ask_each(ask_list(), sent, sent, ask_list())

    assert (said, count) == ([MISS, None, None, HIT], 3)


def test_credentials_that_go_to_the_upstream_are_never_in_a_shared_entry() -> None:
    sent = ask_list(("authorization", "Bearer a"))

    assert ask_each(sent, sent, ask_list(), audience=True) == ([None, None, MISS], 3)
    # Where they end at the gateway, the upstream cannot tell two callers apart by them.
    assert ask_each(sent, ask_list(), audience=False) == ([MISS, HIT], 1)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ask_list(method="prompts/list"), id="method"),
        pytest.param(post(body("tools/list", {"cursor": "2"}), lines("tools/list")), id="cursor"),
        pytest.param(
            ask_list(**{"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}}),
            id="capabilities",
        ),
        pytest.param(
            ask_list(**{"io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"}}),
            id="client",
        ),
        pytest.param(ask_list(("accept-language", "de")), id="language"),
        pytest.param(ask_list(("origin", "https://a.example")), id="origin"),
        pytest.param(ask_list(("x-tenant", "a")), id="a header that nobody knows"),
        pytest.param(post(body("tools/list"), lines("tools/list", host="evil")), id="host"),
        pytest.param(post(body("tools/list"), lines("tools/list"), "/mcp?tenant=a"), id="query"),
        pytest.param(ask_list(**{"example.com/tenant": "a"}), id="a field of its own"),
    ],
)
def test_what_the_answer_may_turn_on_is_part_of_the_key(other: bytes) -> None:
    assert ask_each(ask_list(), other, other, ask_list()) == ([MISS, MISS, HIT, HIT], 2)


def test_the_trace_and_the_order_of_members_are_not() -> None:
    traced = ask_list(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    message = json.loads(body("tools/list"))
    turned = json.dumps(dict(reversed(message.items())), indent=2).encode()

    on_the_way = ask_list(("x-request-id", "5"), ("traceparent", "x"), ("via", "1.1 a"))

    said, _ = ask_each(ask_list(), traced, on_the_way, post(turned, lines("tools/list")))

    assert said == [MISS, HIT, HIT, HIT]


@pytest.mark.req("H-07/G")
def test_a_body_that_says_something_else_than_its_headers_is_refused_before_memory_is_asked() -> (
    None
):
    async def scenario() -> tuple[int, Any, int]:
        async with before() as (raw, upstream, _):
            await raw.ask(ask_list())
            answer = await raw.ask(post(body("prompts/list"), lines("tools/list")))
            return raw.status, answer["error"]["code"], len(upstream.asked)

    assert run(scenario()) == (400, -32020, 1)


def test_the_verdict_is_given_for_each_request_before_memory_is_asked() -> None:
    limit = Rule(0, "few", 1, "limit", rate=Rate(1, 60, 1))

    async def scenario() -> list[int]:
        async with before(rules=(limit,)) as (raw, _, _):
            found = []
            for _ in range(2):
                await raw.ask(ask_list())
                found.append(raw.status)
            return found

    assert run(scenario()) == [200, 429]


def test_figures_and_log_tell_hits_from_misses() -> None:
    async def scenario() -> tuple[dict[str, int], list[Any], int, int]:
        async with before() as (raw, _, gateway):
            for _ in range(3):
                await raw.ask(ask_list())
            shared = gateway.running.shared
            said = [json.loads(line).get("cache") for line in gateway.lines]
            gauges = gateway.running.gauges()
            return dict(shared.metrics.cache), said, gauges["cache_entries"], gauges["cache_bytes"]

    counted, said, entries, size = run(scenario())

    assert (counted, said) == ({MISS: 1, HIT: 2}, [MISS, HIT, HIT])
    assert entries == 1
    assert size > 0


# Several at once.


async def ask_at_once(gateway: Opened, upstream: Upstreamed, count: int) -> list[Raw]:
    """Ask the same on so many connections; the upstream has been asked once by then."""
    upstream.open.clear()
    raws = []
    for number in range(count):
        raw = Raw(*await asyncio.open_connection("127.0.0.1", gateway.port))
        await raw.send(ask_list(id=number))
        raws.append(raw)
    store = gateway.running.shared.cached.store
    await until(lambda: upstream.asked)
    await until(lambda: sum(len(f.waiting) for f in store._flights.values()) == count - 1)
    return raws


async def read_all(raws: list[Raw]) -> list[tuple[Any, int, str | None]]:
    found = []
    for raw in raws:
        await raw.head()
        answer = json.loads(await raw.body())
        found.append((answer.get("id"), raw.status, raw.headers.get("x-mcpost-cache")))
        await raw.close()
    return found


def test_many_who_ask_the_same_at_once_are_one_request_upstream() -> None:
    async def scenario() -> tuple[list[Any], int]:
        async with before() as (_, upstream, gateway):
            raws = await ask_at_once(gateway, upstream, 20)
            upstream.open.set()
            return await read_all(raws), len(upstream.asked)

    found, count = run(scenario())

    assert count == 1
    assert found[0] == (0, 200, MISS)
    assert found[1:] == [(number, 200, HIT) for number in range(1, 20)]


@pytest.mark.req("F-05/G")
def test_those_who_waited_for_a_private_answer_go_themselves() -> None:
    async def scenario() -> tuple[list[Any], list[Any]]:
        async with before() as (_, upstream, gateway):
            upstream.result = lambda message: result(cacheScope="private", whose=message["id"])
            raws = await ask_at_once(gateway, upstream, 5)
            upstream.open.set()
            found = []
            for raw in raws:
                await raw.head()
                found.append(json.loads(await raw.body())["result"]["whose"])
                await raw.close()
            return found, sorted(each["id"] for each in upstream.asked)

    assert run(scenario()) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_those_who_waited_for_a_stream_go_as_soon_as_it_begins() -> None:
    async def scenario() -> int:
        asked = 0

        async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            await read_request(reader)
            asked += 1
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n:\n\n"
            await begins.wait()
            writer.write(head)
            await reader.read()

        begins = asyncio.Event()
        async with (
            scripted(stream) as port,
            opened(policy_for(port)) as gateway,
            connect(gateway.port) as one,
            connect(gateway.port) as other,
        ):
            await one.send(ask_list())
            await until(lambda: asked)
            await other.send(ask_list())
            store = gateway.running.shared.cached.store
            await until(lambda: any(flight.waiting for flight in store._flights.values()))
            begins.set()
            await one.head()
            await other.head()
            return asked

    assert run(scenario()) == 2


def test_those_who_waited_for_an_upstream_that_fails_go_themselves() -> None:
    async def scenario() -> list[int]:
        asked = 0
        fails = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            _, sent = await read_request(reader)
            asked += 1
            if asked == 1:
                await fails.wait()
                return
            data = json.dumps({"jsonrpc": "2.0", "id": json.loads(sent)["id"], "result": result()})
            kind = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data)
            writer.write(b"HTTP/1.1 200 OK\r\n" + kind + data.encode())

        async with (
            scripted(serve) as port,
            opened(policy_for(port)) as gateway,
            connect(gateway.port) as one,
            connect(gateway.port) as other,
        ):
            await one.send(ask_list())
            await until(lambda: asked)
            await other.send(ask_list())
            store = gateway.running.shared.cached.store
            await until(lambda: any(flight.waiting for flight in store._flights.values()))
            fails.set()
            return [await one.head(), await other.head()]

    assert run(scenario()) == [502, 200]


def test_if_the_one_who_fetches_leaves_another_goes_instead() -> None:
    async def scenario() -> tuple[list[Any], int]:
        async with before() as (_, upstream, gateway):
            raws = await ask_at_once(gateway, upstream, 5)
            await raws[0].close(reset=True)
            await until(lambda: len(upstream.asked) == 2)
            upstream.open.set()
            return await read_all(raws[1:]), len(upstream.asked)

    found, count = run(scenario())

    assert count == 2
    assert [each[2] for each in found] == [MISS, HIT, HIT, HIT]


def test_one_who_waits_may_leave_and_is_noted() -> None:
    async def scenario() -> tuple[int, list[Any]]:
        async with before() as (_, upstream, gateway):
            raws = await ask_at_once(gateway, upstream, 2)
            await raws[1].close(reset=True)
            await until(lambda: gateway.lines)
            status = json.loads(gateway.lines[0])["status"]
            upstream.open.set()
            return status, await read_all(raws[:1])

    assert run(scenario()) == (0, [(0, 200, MISS)])


def test_nobody_waits_longer_than_the_policy_says() -> None:
    async def scenario() -> tuple[list[Any], int]:
        async with before(cache=CacheLimits(wait=0.05)) as (_, upstream, gateway):
            upstream.open.clear()
            async with connect(gateway.port) as one, connect(gateway.port) as other:
                await one.send(ask_list(id=1))
                await until(lambda: upstream.asked)
                await other.send(ask_list(id=2))
                await until(lambda: len(upstream.asked) == 2)
                upstream.open.set()
                return await read_all([one, other]), len(upstream.asked)

    found, count = run(scenario())

    assert ([each[2] for each in found], count) == ([MISS, MISS], 2)


def test_a_gateway_that_closes_leaves_nobody_waiting() -> None:
    async def scenario() -> list[bool]:
        async with before() as (_, upstream, gateway):
            raws = await ask_at_once(gateway, upstream, 4)
            await gateway.running.close()
            closed = [await raw.is_closed() for raw in raws]
            for raw in raws:
                await raw.close()
            return closed

    assert run(scenario()) == [True] * 4


def test_a_policy_that_is_read_again_begins_with_an_empty_cache() -> None:
    async def scenario() -> list[str]:
        async with before() as (raw, _, gateway):
            said = []
            for _ in range(2):
                await raw.ask(ask_list())
                said.append(raw.headers["x-mcpost-cache"])
                assert gateway.running.reload()
            return said

    assert run(scenario()) == [MISS, MISS]


# Before a real server.


def test_the_lists_and_public_resources_of_a_server_are_kept_and_its_calls_are_not() -> None:
    reads = 0

    async def scenario() -> list[tuple[str, str | None]]:
        server = Server("small", cache=CacheHints(60_000, "public"))

        @server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @server.resource("small://one", cache=CacheHints(60_000, "public"))
        def one() -> str:
            nonlocal reads
            reads += 1
            return "one"

        @server.resource("small://own", cache=CacheHints(60_000, "private"))
        def own() -> str:
            return "own"

        endpoint = server.endpoint(Settings.make())
        listener = await open_native(NativeApp(endpoint, "/mcp"), host="127.0.0.1")
        found = []
        try:
            async with (
                opened(policy_for(listener.port)) as gateway,
                connect(gateway.port) as raw,
            ):
                for method, name, params in (
                    ("server/discover", None, {}),
                    ("tools/list", None, {}),
                    ("resources/read", "small://one", {"uri": "small://one"}),
                    ("resources/read", "small://own", {"uri": "small://own"}),
                    ("tools/call", "add", {"name": "add", "arguments": {"a": 1, "b": 1}}),
                ):
                    for _ in range(2):
                        answer = await raw.ask(post(body(method, params), lines(method, name)))
                        assert "error" not in answer
                        found.append((name or method, raw.headers.get("x-mcpost-cache")))
        finally:
            await endpoint.drain(0.1)
            await listener.close()
        return found

    assert run(scenario()) == [
        ("server/discover", MISS),
        ("server/discover", HIT),
        ("tools/list", MISS),
        ("tools/list", HIT),
        ("small://one", MISS),
        ("small://one", HIT),
        ("small://own", MISS),
        ("small://own", MISS),
        ("add", None),
        ("add", None),
    ]
    assert reads == 1
