"""The same rules through both doors: under uvicorn, and on our own engine (server.native)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mcpost import Context, Principal, Server
from mcpost.errors import Refused
from mcpost.limits import ServerLimits
from mcpost.server.native import NativeApp, open_native
from mcpost.server.settings import Settings
from tests.helpers.http import CALL_ADD, body, call, lines, listen, make_server, post
from tests.helpers.loop import run
from tests.helpers.raw import Raw, connect
from tests.helpers.serving import serving
from tests.helpers.until import DEADLINE

ADD = call("add", {"a": 1, "b": 2})
ADD_BODY = body("tools/call", CALL_ADD)
doors = pytest.mark.parametrize("door", ["asgi", "native"])


@contextlib.asynccontextmanager
async def opened(door: str, server: Server, **options: Any) -> AsyncIterator[tuple[int, Any]]:
    """Open a door; gives the port, and what drains it."""
    if door == "asgi":
        app = server.asgi("/mcp", **options)
        async with serving(app) as port:
            yield port, app.drain
        return
    settings = Settings.make(limits=options.pop("limits", server.limits), **options)
    native = NativeApp(server.endpoint(settings), "/mcp")
    listener = await open_native(native, host="127.0.0.1")
    try:
        yield listener.port, lambda: native.endpoint.drain(1)
    finally:
        await listener.close()


@contextlib.asynccontextmanager
async def raw(door: str, server: Server, **options: Any) -> AsyncIterator[Raw]:
    async with opened(door, server, **options) as (port, _), connect(port) as connection:
        yield connection


def asked(sent: bytes = ADD_BODY, **changed: str | None) -> bytes:
    return post(sent, lines("tools/call", "add", **changed))


@pytest.mark.req("T-01/S", "T-02/S", "T-03/S", "T-06/S", "T-07/S", "T-16/S", "T-17/S", "T-18/S")
@pytest.mark.req("T-19/S", "T-20/S", "T-21/S", "T-22/S", "T-23/S", "H-09/S")
@doors
@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        pytest.param(ADD, 200, None, id="a call"),
        pytest.param(ADD.replace(b"POST /mcp ", b"POST /mcp/ "), 200, None, id="with a slash"),
        pytest.param(ADD.replace(b"POST /mcp ", b"POST /%6dcp?a=b "), 200, None, id="encoded"),
        pytest.param(ADD.replace(b"POST /mcp ", b"POST /other "), 404, -32600, id="another path"),
        pytest.param(b"GET /mcp HTTP/1.1\r\nhost: a\r\n\r\n", 405, -32600, id="GET"),
        pytest.param(b"DELETE /mcp HTTP/1.1\r\nhost: a\r\n\r\n", 405, -32600, id="DELETE"),
        pytest.param(asked(origin="https://evil.example"), 403, -32600, id="origin"),
        pytest.param(asked(content_type="text/plain"), 415, -32600, id="content type"),
        pytest.param(asked(accept="text/html"), 406, -32600, id="accept"),
        pytest.param(asked(b"{"), 400, -32700, id="no JSON"),
        pytest.param(asked(b"[]"), 400, -32600, id="an array"),
        pytest.param(asked(mcp_name="other"), 400, -32020, id="another name"),
        pytest.param(asked(mcp_method=None), 400, -32020, id="no method header"),
        pytest.param(
            post(body("no/such"), lines("no/such")), 404, -32601, id="a method that is not served"
        ),
        pytest.param(call("ask"), 400, -32021, id="a missing capability"),
        pytest.param(call("nothing"), 200, -32602, id="an unknown tool"),
    ],
)
def test_a_request_gets_the_same_answer_at_every_door(
    door: str, sent: bytes, status: int, code: int | None
) -> None:
    async def scenario() -> tuple[int, Any]:
        async with raw(door, make_server()) as connection:
            answer = await connection.ask(sent)
            return connection.status, answer

    got, answer = run(scenario())

    assert (got, answer.get("error", {}).get("code")) == (status, code)


@pytest.mark.req("T-08/S")
@doors
def test_a_notification_is_accepted_without_a_body(door: str) -> None:
    async def scenario() -> tuple[int, bytes]:
        async with raw(door, make_server()) as connection:
            method = "notifications/cancelled"
            sent = json.dumps({"jsonrpc": "2.0", "method": method, "params": {}}).encode()
            await connection.send(post(sent, lines(method)))
            await connection.head()
            # What follows is the answer to the next request.
            return connection.status, await connection.ask(ADD)

    status, after = run(scenario())

    assert status == 202
    assert after["result"]["structuredContent"] == 3


@pytest.mark.req("T-10/S", "T-11/S", "P-01/S")
@doors
def test_progress_comes_before_the_result_and_the_stream_ends(door: str) -> None:
    async def scenario() -> list[Any]:
        async with raw(door, make_server()) as connection:
            await connection.send(call("count", {"steps": 3}, progressToken=0))
            assert await connection.head() == 200
            assert connection.headers["content-type"] == "text/event-stream"
            events = await connection.events()
            assert (await connection.ask(ADD))["result"]["structuredContent"] == 3
            return events

    events = run(scenario())

    assert [event["params"]["progress"] for event in events[:-1]] == [1, 2, 3]
    assert events[-1]["id"] == 7


@doors
def test_what_is_pipelined_behind_a_call_that_waits_is_answered_after_it(door: str) -> None:
    async def scenario() -> list[Any]:
        async with raw(door, make_server()) as connection:
            slow = call("count", {"steps": 2, "delay": 0.01})
            first = await connection.ask(slow + ADD + slow + ADD)
            rest = []
            for _ in range(3):
                await connection.head()
                rest.append(json.loads(await connection.body()))
            return [first, *rest]

    answers = run(scenario())

    assert [each["result"]["structuredContent"] for each in answers] == [2, 3, 2, 3]


@pytest.mark.req("T-13/S")
@doors
def test_a_silent_listen_is_kept_alive_by_comments(door: str) -> None:
    async def scenario() -> list[bytes | None]:
        limits = ServerLimits(keep_alive=0.05)
        async with raw(door, make_server(), limits=limits) as connection:
            await connection.send(listen(toolsListChanged=True))
            await connection.head()
            await connection.event()
            return await connection.parts(5)

    assert run(scenario()) == [b":"] * 5


@pytest.mark.req("T-15/S")
@doors
@pytest.mark.parametrize("token", [1, None], ids=["stream", "plain JSON"])
@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
def test_a_caller_that_leaves_stops_the_work(
    door: str, token: int | None, reset: bool, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[int] = []

    async def scenario() -> None:
        server = make_server()
        sixth, stopped = asyncio.Event(), asyncio.Event()

        @server.tool
        async def job(ctx: Context) -> int:
            try:
                for step in range(10_000):
                    done.append(step)
                    ctx.progress(step + 1, 10_000)
                    if step == 5:
                        sixth.set()
                    await asyncio.sleep(0.03)
            finally:
                stopped.set()
            return 10_000

        async with raw(door, server) as connection:
            await connection.send(call("job", progressToken=token))
            await asyncio.wait_for(sixth.wait(), DEADLINE)
            await connection.close(reset=reset)
            await asyncio.wait_for(stopped.wait(), DEADLINE)

    with caplog.at_level(logging.WARNING):
        run(scenario())

    # To the end it would be minutes.
    assert len(done) < 9_999
    assert not caplog.records


@pytest.mark.req("P-05/S")
@doors
def test_a_drain_ends_open_listens_with_their_result(door: str) -> None:
    async def scenario() -> list[Any]:
        async with opened(door, make_server()) as (port, drain), connect(port) as connection:
            await connection.send(listen("mine", toolsListChanged=True))
            await connection.head()
            await connection.event()
            await drain()
            return await connection.events()

    events = run(scenario())

    assert [event["id"] for event in events] == ["mine"]
    assert events[0]["result"]["resultType"] == "complete"


@pytest.mark.req("T-15/S")
def test_an_idle_listen_has_no_task_at_the_native_door() -> None:
    async def scenario() -> int:
        async with opened("native", make_server()) as (port, _), connect(port) as connection:
            before = len(asyncio.all_tasks())
            await connection.send(listen(toolsListChanged=True))
            await connection.head()
            await connection.event()
            return len(asyncio.all_tasks()) - before

    assert run(scenario()) == 0


@pytest.mark.req("T-07/S")
@doors
def test_a_body_that_turns_out_too_large_is_413(door: str) -> None:
    async def scenario() -> Any:
        async with raw(door, make_server(), limits=ServerLimits(max_body=1000)) as connection:
            head = b"POST /mcp HTTP/1.1\r\n" + b"".join(
                b"%b: %b\r\n" % line for line in lines("tools/list")
            )
            await connection.send(head + b"transfer-encoding: chunked\r\n\r\n")
            await connection.send(b"1f4\r\n" + b" " * 500 + b"\r\n")
            await connection.send(b"1f5\r\n" + b" " * 501 + b"\r\n")
            await connection.head()
            answer = json.loads(await connection.body())
            assert await connection.is_closed()
            return connection.status, answer["error"]["code"]

    assert run(scenario()) == (413, -32600)


@pytest.mark.req("T-07/S")
@doors
def test_a_body_over_the_limit_is_refused_before_it_is_sent(door: str) -> None:
    async def scenario() -> int:
        async with raw(door, make_server(), limits=ServerLimits(max_body=1000)) as connection:
            sent = post(b"", [*lines("x"), (b"expect", b"100-continue")])
            await connection.send(sent.replace(b"content-length: 0", b"content-length: 1001"))
            return await connection.head()

    assert run(scenario()) == 413


@pytest.mark.req("T-07/S")
@doors
def test_a_body_that_does_not_come_is_408(door: str) -> None:
    async def scenario() -> int:
        async with raw(door, make_server(), limits=ServerLimits(body_timeout=0.05)) as connection:
            await connection.send(ADD[:-5])
            await connection.head()
            await connection.body()
            assert await connection.is_closed()
            return connection.status

    assert run(scenario()) == 408


@pytest.mark.req("T-19/S", "H-07/S")
@doors
def test_blanks_around_a_header_value_are_no_part_of_it(door: str) -> None:
    async def scenario() -> Any:
        async with raw(door, make_server()) as connection:
            return await connection.ask(asked(mcp_name="  add \t "))

    assert run(scenario())["result"]["structuredContent"] == 3


@pytest.mark.req("F-06/S")
@doors
@pytest.mark.parametrize("cut", [10_000, 150], ids=["whole", "the body later"])
def test_who_does_not_say_who_they_are_gets_401(door: str, cut: int) -> None:
    async def authenticate(head: Any) -> Principal:
        await asyncio.sleep(0)
        if head.get(b"authorization") is None:
            raise Refused(401, "show a token", ((b"www-authenticate", b"Bearer"),))
        return Principal("me")

    async def scenario() -> tuple[int, str, Any]:
        async with raw(door, make_server(), authenticate=authenticate) as connection:
            await connection.send(ADD[:-cut])
            await connection.ask(ADD[-cut:])
            refused = connection.status, connection.headers["www-authenticate"]
            sent = asked(authorization="Bearer x")
            await connection.send(sent[:-cut])
            return (*refused, await connection.ask(sent[-cut:]))

    status, challenge, answer = run(scenario())

    assert (status, challenge) == (401, "Bearer")
    assert answer["result"]["structuredContent"] == 3


@pytest.mark.req("F-06/S")
def test_the_body_of_who_is_refused_is_not_asked_for() -> None:
    async def authenticate(head: Any) -> Principal:
        await asyncio.sleep(0)
        raise Refused(401, "nobody may")

    async def scenario() -> int:
        async with raw("native", make_server(), authenticate=authenticate) as connection:
            sent = asked(expect="100-continue")
            await connection.send(sent[: sent.index(b"\r\n\r\n") + 4])
            return await connection.head()

    assert run(scenario()) == 401


@pytest.mark.req("T-15/S")
@doors
def test_a_slow_reader_costs_no_more_than_its_bound(door: str) -> None:
    async def scenario() -> bool:
        server = make_server()
        stopped = asyncio.Event()

        @server.tool
        async def flood(ctx: Context) -> str:
            try:
                while True:
                    ctx.info("x" * 10_000)
                    await asyncio.sleep(0)
            finally:
                stopped.set()

        limits = ServerLimits(max_stream_buffer=100_000)
        async with raw(door, server, limits=limits) as connection:
            meta = {"io.modelcontextprotocol/logLevel": "debug"}
            await connection.send(call("flood", **meta))
            return await asyncio.wait_for(stopped.wait(), DEADLINE)

    assert run(scenario())


def test_what_is_no_http_is_refused_in_json_at_the_native_door() -> None:
    async def scenario() -> tuple[int, Any]:
        async with raw("native", make_server()) as connection:
            answer = await connection.ask(b"POST /mcp HTTP/1.1\r\nhost : a\r\n\r\n")
            return connection.status, answer["error"]["code"]

    assert run(scenario()) == (400, -32600)


def test_a_request_that_breaks_the_server_ends_its_connection() -> None:
    async def scenario() -> bool:
        failed = asyncio.Event()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.set())
        app = NativeApp(make_server().endpoint(Settings.make()), "/mcp")

        def fail(*_: Any) -> None:
            raise ZeroDivisionError

        app.endpoint.begin = fail  # type: ignore[method-assign]
        listener = await open_native(app, host="127.0.0.1")
        async with connect(listener.port) as connection:
            await connection.send(ADD)
            closed = await connection.is_closed()
        await listener.close()
        return closed

    assert run(scenario())
