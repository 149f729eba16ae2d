"""The ASGI door over sockets: mounted anywhere, streams, limits, and who leaves (server.asgi)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import fastapi
import pytest
import starlette.applications
import starlette.middleware
import starlette.middleware.gzip
import starlette.routing

from mcpost import Context, Principal, Server
from mcpost.errors import Refused, UsageError
from mcpost.limits import ServerLimits
from mcpost.server.asgi import mount
from tests.helpers.http import CALL_ADD, body, call, lines, listen, make_server, post
from tests.helpers.loop import run
from tests.helpers.raw import Raw, connect
from tests.helpers.serving import serving
from tests.helpers.until import DEADLINE

ADD = call("add", {"a": 1, "b": 2})


@contextlib.asynccontextmanager
async def raw(server: Server, **options: Any) -> AsyncIterator[Raw]:
    async with serving(server.asgi("/mcp", **options)) as port, connect(port) as connection:
        yield connection


async def status_at(port: int, path: str) -> int:
    async with connect(port) as connection:
        await connection.send(post(body("tools/call", CALL_ADD), lines("tools/call", "add"), path))
        return await connection.head()


def mounted(kind: str) -> Any:
    server = make_server()
    if kind == "starlette":
        app = starlette.applications.Starlette()
        mount(app, "/api/mcp", server.asgi("/api/mcp"))
    elif kind == "starlette, within a mount":
        route = starlette.routing.Mount("/api", app=server.asgi("/mcp"))
        app = starlette.applications.Starlette(routes=[route])
    elif kind == "starlette, with middleware":
        middleware = starlette.middleware.Middleware(starlette.middleware.gzip.GZipMiddleware)
        app = starlette.applications.Starlette(middleware=[middleware])
        mount(app, "/api/mcp", server.asgi("/api/mcp"))
    elif kind == "fastapi":
        app = fastapi.FastAPI()
        mount(app, "/api/mcp", server.asgi("/api/mcp"))
    else:
        return server.asgi("/api/mcp")
    return app


@pytest.mark.req("T-01/S")
@pytest.mark.parametrize(
    "kind",
    [
        "alone",
        "starlette",
        "starlette, within a mount",
        "starlette, with middleware",
        "fastapi",
    ],
)
def test_it_mounts_anywhere_and_takes_both_spellings_without_a_redirect(kind: str) -> None:
    async def scenario() -> list[int]:
        async with serving(mounted(kind)) as port:
            paths = ("/api/mcp", "/api/mcp/", "/api/mcp/x", "/other")
            return [await status_at(port, path) for path in paths]

    assert run(scenario()) == [200, 200, 404, 404]


@pytest.mark.req("T-01/S")
def test_a_path_of_nothing_answers_wherever_it_is_mounted() -> None:
    async def scenario() -> list[int]:
        app = starlette.applications.Starlette(
            routes=[starlette.routing.Mount("/here", app=make_server().asgi())]
        )
        async with serving(app) as port:
            return [await status_at(port, path) for path in ("/here/", "/here/there")]

    assert run(scenario()) == [200, 200]


@pytest.mark.req("T-01/S")
def test_a_path_starts_with_a_slash() -> None:
    with pytest.raises(UsageError):
        make_server().asgi("mcp")


@pytest.mark.req("T-01/S")
def test_it_answers_the_lifespan_where_it_is_the_root() -> None:
    async def scenario() -> int:
        async with serving(make_server().asgi("/mcp"), lifespan="on") as port:
            return await status_at(port, "/mcp")

    assert run(scenario()) == 200


@pytest.mark.req("T-10/S", "T-11/S", "P-01/S")
def test_progress_comes_before_the_result_and_the_stream_ends() -> None:
    async def scenario() -> list[Any]:
        async with raw(make_server()) as connection:
            await connection.send(call("count", {"steps": 3}, progressToken=0))
            assert await connection.head() == 200
            assert connection.headers["content-type"] == "text/event-stream"
            events = await connection.events()
            # The connection is good for another request.
            assert (await connection.ask(ADD))["result"]["structuredContent"] == 3
            return events

    events = run(scenario())

    assert [event["params"]["progress"] for event in events[:-1]] == [1, 2, 3]
    assert events[-1]["id"] == 7


@pytest.mark.req("T-10/S")
def test_the_first_event_is_on_its_way_while_the_handler_goes_on() -> None:
    async def scenario() -> None:
        server = make_server()
        heard = asyncio.Event()

        @server.tool
        async def wait(ctx: Context) -> str:
            ctx.progress(1)
            await heard.wait()
            return "heard"

        async with raw(server) as connection:
            await connection.send(call("wait", progressToken="t"))
            await connection.head()
            event = await connection.event()
            assert event["params"] == {"progressToken": "t", "progress": 1}
            heard.set()
            assert [each["id"] for each in await connection.events()] == [7]

    run(scenario())


@pytest.mark.req("T-10/S", "P-01/S")
def test_progress_of_a_thread_is_on_its_way_at_once_too() -> None:
    async def scenario() -> list[Any]:
        server = make_server()

        @server.tool
        def work(ctx: Context) -> str:
            for step in range(3):
                ctx.progress(step)
            return "done"

        async with raw(server) as connection:
            await connection.send(call("work", progressToken=1))
            await connection.head()
            return await connection.events()

    assert [event.get("id") for event in run(scenario())] == [None, None, None, 7]


@pytest.mark.req("T-13/S")
def test_a_50_ms_keep_alive_gives_comments_and_no_event() -> None:
    async def scenario() -> list[bytes | None]:
        limits = ServerLimits(keep_alive=0.05)
        async with raw(make_server(), limits=limits) as connection:
            await connection.send(listen(toolsListChanged=True))
            await connection.head()
            await connection.event()
            return await connection.parts(5)

    assert run(scenario()) == [b":"] * 5


@pytest.mark.req("T-15/S")
@pytest.mark.parametrize("token", [1, None], ids=["stream", "plain JSON"])
@pytest.mark.parametrize("reset", [False, True], ids=["close", "reset"])
def test_a_caller_that_leaves_stops_the_work(
    token: int | None, reset: bool, caplog: pytest.LogCaptureFixture
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

        async with raw(server) as connection:
            await connection.send(call("job", progressToken=token))
            await asyncio.wait_for(sixth.wait(), DEADLINE)
            await connection.close(reset=reset)
            await asyncio.wait_for(stopped.wait(), DEADLINE)

    with caplog.at_level(logging.WARNING):
        run(scenario())

    # To the end it would be minutes.
    assert len(done) < 9_999
    assert not caplog.records


@pytest.mark.req("T-15/S")
def test_a_thread_can_see_that_its_caller_has_left() -> None:
    async def scenario() -> bool:
        server = make_server()
        begun, seen = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        @server.tool
        def work(ctx: Context) -> str:
            loop.call_soon_threadsafe(begun.set)
            while not ctx.cancelled:
                pass
            loop.call_soon_threadsafe(seen.set)
            return "left"

        async with raw(server) as connection:
            await connection.send(call("work"))
            await asyncio.wait_for(begun.wait(), DEADLINE)
            await connection.close()
            return await asyncio.wait_for(seen.wait(), DEADLINE)

    assert run(scenario())


@pytest.mark.req("T-15/S", "P-04/S")
def test_a_listener_that_leaves_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        server = make_server()
        app = server.asgi("/mcp")
        async with serving(app) as port, connect(port) as first, connect(port) as second:
            for connection in (first, second):
                await connection.send(listen(toolsListChanged=True))
                await connection.head()
                await connection.event()
            await first.close()
            server.notify_tools_changed()
            event = await second.event()
            assert event["method"] == "notifications/tools/list_changed"
        # The server waits for its requests: none of the two is held any more.
        assert len(app.endpoint._here().listens) == 0

    with caplog.at_level(logging.WARNING):
        run(scenario())

    assert not caplog.records


@pytest.mark.req("P-05/S")
def test_a_drain_ends_open_listens_with_their_result() -> None:
    async def scenario() -> list[Any]:
        app = make_server().asgi("/mcp")
        async with serving(app) as port, connect(port) as connection:
            await connection.send(listen("mine", toolsListChanged=True))
            await connection.head()
            await connection.event()
            await app.drain()
            return await connection.events()

    events = run(scenario())

    assert [event["id"] for event in events] == ["mine"]
    assert events[0]["result"]["resultType"] == "complete"


@pytest.mark.req("T-04/S", "T-15/S")
def test_an_idle_listen_has_no_task_but_the_servers_own() -> None:
    async def scenario() -> int:
        app = make_server().asgi("/mcp")
        async with serving(app) as port, connect(port) as connection:
            before = len(asyncio.all_tasks())
            await connection.send(listen(toolsListChanged=True))
            await connection.head()
            await connection.event()
            await asyncio.sleep(0)
            return len(asyncio.all_tasks()) - before

    assert run(scenario()) == 1


@pytest.mark.req("T-07/S")
def test_a_body_that_turns_out_too_large_is_413() -> None:
    async def scenario() -> int:
        async with raw(make_server(), limits=ServerLimits(max_body=1000)) as connection:
            head = b"POST /mcp HTTP/1.1\r\n" + b"".join(
                b"%b: %b\r\n" % line for line in lines("tools/list")
            )
            await connection.send(head + b"transfer-encoding: chunked\r\n\r\n")
            await connection.send(b"1f4\r\n" + b" " * 500 + b"\r\n")
            await connection.send(b"1f5\r\n" + b" " * 501 + b"\r\n")
            await connection.head()
            await connection.body()
            assert await connection.is_closed()
            return connection.status

    assert run(scenario()) == 413


@pytest.mark.req("T-07/S")
def test_a_body_over_the_limit_is_refused_before_it_is_sent() -> None:
    async def scenario() -> int:
        async with raw(make_server(), limits=ServerLimits(max_body=1000)) as connection:
            sent = post(b"", [*lines("x"), (b"expect", b"100-continue")])
            await connection.send(sent.replace(b"content-length: 0", b"content-length: 1001"))
            return await connection.head()

    assert run(scenario()) == 413


@pytest.mark.req("T-07/S")
def test_a_body_that_does_not_come_is_408() -> None:
    async def scenario() -> int:
        async with raw(make_server(), limits=ServerLimits(body_timeout=0.05)) as connection:
            await connection.send(ADD[:-5])
            await connection.head()
            await connection.body()
            assert await connection.is_closed()
            return connection.status

    assert run(scenario()) == 408


@pytest.mark.req("T-07/S")
def test_a_body_may_come_in_pieces() -> None:
    async def scenario() -> Any:
        async with raw(make_server()) as connection:
            for piece in (ADD[:-100], ADD[-100:-50], ADD[-50:-1]):
                await connection.send(piece)
                await asyncio.sleep(0.01)
            return await connection.ask(ADD[-1:])

    assert run(scenario())["result"]["structuredContent"] == 3


@pytest.mark.req("T-15/S")
def test_who_leaves_in_the_midst_of_a_body_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with raw(make_server()) as connection:
            await connection.send(ADD[:-5])
            await asyncio.sleep(0.01)

    with caplog.at_level(logging.WARNING):
        run(scenario())

    assert not caplog.records


@pytest.mark.req("T-19/S", "H-07/S")
def test_blanks_around_a_header_value_are_no_part_of_it() -> None:
    async def scenario() -> Any:
        async with raw(make_server()) as connection:
            return await connection.ask(
                post(body("tools/call", CALL_ADD), lines("tools/call", "  add  "))
            )

    assert run(scenario())["result"]["structuredContent"] == 3


@pytest.mark.req("F-06/S")
def test_who_does_not_say_who_they_are_gets_401() -> None:
    async def authenticate(head: Any) -> Principal:
        if head.get(b"authorization") is None:
            raise Refused(401, "show a token", ((b"www-authenticate", b"Bearer"),))
        return Principal("me")

    async def scenario() -> tuple[int, str, int]:
        async with raw(make_server(), authenticate=authenticate) as connection:
            await connection.ask(ADD)
            refused = connection.status, connection.headers["www-authenticate"]
            sent = post(
                body("tools/call", CALL_ADD),
                lines("tools/call", "add", ("authorization", "Bearer x")),
            )
            await connection.ask(sent)
            return (*refused, connection.status)

    assert run(scenario()) == (401, "Bearer", 200)


@pytest.mark.req("T-15/S")
def test_a_slow_reader_costs_no_more_than_its_bound() -> None:
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
        async with raw(server, limits=limits) as connection:
            meta = {"io.modelcontextprotocol/logLevel": "debug"}
            await connection.send(call("flood", **meta))
            return await asyncio.wait_for(stopped.wait(), DEADLINE)

    assert run(scenario())


@pytest.mark.req("T-07/S")
@pytest.mark.parametrize("version", ["1.1", "2"])
def test_only_http_1_is_told_to_close_the_connection(version: str) -> None:
    async def scenario() -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b" " * 600, "more_body": True}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "http_version": version,
            "method": "POST",
            "path": "/mcp",
            "headers": lines("tools/list"),
        }
        await make_server().asgi("/mcp", limits=ServerLimits(max_body=1000))(scope, receive, send)
        return sent

    start = run(scenario())[0]

    assert start["status"] == 413
    assert ((b"connection", b"close") in start["headers"]) is (version == "1.1")


@pytest.mark.req("P-05/S")
def test_a_listen_ends_well_where_the_server_takes_its_task_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> list[Any]:
        app = make_server().asgi("/mcp")
        async with contextlib.AsyncExitStack() as stack:
            async with serving(app, timeout_graceful_shutdown=0.1) as port:
                connection = await stack.enter_async_context(connect(port))
                await connection.send(listen("mine", toolsListChanged=True))
                await connection.head()
                await connection.event()
            return await connection.events()

    with caplog.at_level(logging.ERROR, logger="mcpost.server"):
        events = run(scenario())

    assert [event["id"] for event in events] == ["mine"]
    assert not [record for record in caplog.records if record.exc_info]
