"""The serving process: its start, its signals, its drain (mcpost.server.run, .workers)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
from typing import Any

import pytest

from mcpost.errors import UsageError
from mcpost.server.run import Binding, serve
from tests.helpers.children import is_running
from tests.helpers.http import call, listen, make_server
from tests.helpers.loop import run
from tests.helpers.raw import Raw, connect
from tests.helpers.serving import child
from tests.helpers.until import DEADLINE, until

ENGINES = pytest.mark.parametrize("engine", ["native", "uvicorn"])
ADD = call("add", {"a": 1, "b": 2})


def busy(engine: str, workers: int = 1) -> tuple[str, ...]:
    return ("-m", "tests.e2e.server.busy", engine, str(workers))


async def begin(stack: contextlib.AsyncExitStack, port: int, sent: bytes) -> Raw:
    connection = await stack.enter_async_context(connect(port))
    await connection.send(sent)
    return connection


async def until_begun(port: int, calls: int) -> None:
    """Wait until the server runs so many calls."""
    async with asyncio.timeout(DEADLINE), connect(port) as connection:
        while (await connection.ask(call("begun")))["result"]["structuredContent"] < calls:
            pass  # each look is a request of its own


@pytest.mark.req("P-05/S")
@ENGINES
def test_sigterm_ends_listens_with_a_result_and_lets_calls_finish(engine: str) -> None:
    async def scenario() -> tuple[list[Any], list[Any], int, str]:
        async with (
            child(*busy(engine), GRACE="60") as served,
            contextlib.AsyncExitStack() as stack,
        ):
            listens = [
                await begin(stack, served.port, listen(n, toolsListChanged=True))
                for n in range(100)
            ]
            for connection in listens:
                await connection.head()
                await connection.event()
            calls = [
                await begin(stack, served.port, call("wait", {"seconds": 1})) for _ in range(10)
            ]
            await until_begun(served.port, 10)
            served.tell()
            ends = [await connection.events() for connection in listens]
            answers = []
            for connection in calls:
                await connection.head()
                answers.append(await connection.body())
            status = await served.end()
            return ends, answers, status, await served.errors()

    ends, answers, status, errors = run(scenario(), debug=False)

    assert [[event["id"] for event in events] for events in ends] == [[n] for n in range(100)]
    assert all(b'"waited"' in answer for answer in answers)
    assert status == 0
    assert errors == ""


@pytest.mark.req("P-05/S", "T-15/S")
@ENGINES
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("wait", {"seconds": 600}), ("stubborn", {}), ("block", {"seconds": 600})],
)
def test_no_call_keeps_the_process_alive(tool: str, arguments: dict[str, Any], engine: str) -> None:
    async def scenario() -> None:
        async with child(*busy(engine)) as served, contextlib.AsyncExitStack() as stack:
            await begin(stack, served.port, call(tool, arguments))
            await until_begun(served.port, 1)
            served.tell()
            # Much sooner than the call would end.
            await served.end()

    run(scenario(), debug=False)


@pytest.mark.req("P-05/S")
@ENGINES
def test_a_second_signal_ends_at_once(engine: str) -> None:
    async def scenario() -> int:
        async with (
            child(*busy(engine), GRACE="600") as served,
            contextlib.AsyncExitStack() as stack,
        ):
            await begin(stack, served.port, call("wait", {"seconds": 600}))
            await until_begun(served.port, 1)
            listening = await begin(stack, served.port, listen(toolsListChanged=True))
            await listening.head()
            served.tell(signal.SIGINT)
            # Its end shows that the first signal has arrived.
            await listening.events()
            served.tell(signal.SIGINT)
            return await served.end()

    assert run(scenario(), debug=False) == 130


@pytest.mark.req("P-05/S")
@ENGINES
def test_nothing_connects_once_the_drain_has_begun(engine: str) -> None:
    async def scenario() -> None:
        async with (
            child(*busy(engine), GRACE="60") as served,
            contextlib.AsyncExitStack() as stack,
        ):
            waiting = await begin(stack, served.port, call("wait", {"seconds": 1}))
            await until_begun(served.port, 1)
            listening = await begin(stack, served.port, listen(toolsListChanged=True))
            await listening.head()
            await listening.event()
            served.tell()
            await listening.events()
            with pytest.raises(OSError, match=r"refused|Connect"):
                await begin(stack, served.port, ADD)
            assert await waiting.head() == 200
            await waiting.body()

    run(scenario(), debug=False)


@pytest.mark.req("T-01/S")
@ENGINES
def test_several_workers_share_the_port_and_dead_ones_are_replaced(engine: str) -> None:
    async def scenario() -> tuple[list[int], int, str]:
        async with child(*busy(engine, 2)) as served:
            seen = []
            for _ in range(3):
                async with connect(served.port) as connection:
                    answer = await connection.ask(call("pid"))
                    seen.append(answer["result"]["structuredContent"])
                if len(seen) < 3:
                    os.kill(seen[-1], signal.SIGKILL)
                    # Until it is gone it may still take a connection.
                    await until(lambda: not is_running(seen[-1]))
            served.tell()
            return seen, await served.end(), await served.errors()

    seen, status, errors = run(scenario(), debug=False)

    assert len(set(seen)) == 3
    assert status == 0
    assert "shared bus" in errors
    assert "another one takes its place" in errors


@pytest.mark.req("T-04/S")
@ENGINES
def test_loopback_is_bound_and_other_hosts_are_refused_there(engine: str) -> None:
    async def scenario() -> list[int]:
        async with child(*busy(engine)) as served:
            found = []
            for host in (b"127.0.0.1", b"localhost:8000", b"evil.example"):
                async with connect(served.port) as connection:
                    await connection.send(ADD.replace(b"host: 127.0.0.1", b"host: " + host))
                    found.append(await connection.head())
            return found

    assert run(scenario(), debug=False) == [200, 200, 403]


@pytest.mark.req("T-04/S")
@pytest.mark.parametrize(
    ("host", "url", "loopback"),
    [
        ("127.0.0.1", r"http://127\.0\.0\.1:\d+/mcp", True),
        ("localhost", r"http://localhost:\d+/mcp", True),
        ("0.0.0.0", r"http://localhost:\d+/mcp", False),
    ],
)
def test_a_binding_knows_its_url_and_who_can_reach_it(
    host: str, url: str, *, loopback: bool
) -> None:
    binding = Binding.make(host, 0)

    try:
        assert re.fullmatch(url, binding.url("/mcp"))
        assert binding.is_loopback is loopback
        assert len({made.getsockname()[1] for made in binding.sockets}) == 1
    finally:
        binding.close()


@pytest.mark.req("T-04/S")
def test_an_address_that_cannot_be_bound_is_a_usage_error() -> None:
    taken = socket.create_server(("127.0.0.1", 0))

    with taken, pytest.raises(UsageError, match="cannot be bound"):
        serve(make_server(), port=taken.getsockname()[1])
    with pytest.raises(UsageError, match="cannot be bound"):
        serve(make_server(), host="no.such.host.invalid")
    with pytest.raises(UsageError, match="cannot be bound"):
        serve(make_server(), port=99999)


@pytest.mark.req("T-01/S")
def test_bad_options_are_refused_before_anything_is_served() -> None:
    with pytest.raises(UsageError, match="worker"):
        serve(make_server(), workers=0)
    with pytest.raises(UsageError, match="origin"):
        serve(make_server(), port=0, origins=["example"])
    with pytest.raises(UsageError, match="engine"):
        serve(make_server(), port=0, engine="apache")  # type: ignore[arg-type]
