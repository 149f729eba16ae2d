"""Upstreams and clients that break off: what the other side sees, and that nothing runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.e2e.gateway.gateways import Handler, allow_all, opened, read_request, scripted
from tests.helpers.http import call
from tests.helpers.loop import run
from tests.helpers.raw import connect
from tests.helpers.until import DEADLINE, until

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def says(*pieces: bytes, then: str = "cut") -> Handler:
    """An upstream that says this to each request, then breaks off or goes on in silence."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"".join(pieces))
        await writer.drain()
        if then == "wait":
            await reader.read()

    return answer


def ask(handler: Handler, **settings: Any) -> tuple[int, dict[str, str], Any]:
    """Call an upstream through a gateway; gives status, headers and JSON."""

    async def scenario() -> tuple[int, dict[str, str], Any]:
        async with (
            scripted(handler) as port,
            opened(allow_all(port), **settings) as gateway,
            connect(gateway.port) as raw,
        ):
            return (answer := await raw.ask(call("add"))) and (raw.status, raw.headers, answer)

    return run(scenario())


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"]
)
def test_an_upstream_that_breaks_off_before_its_body_is_a_bad_gateway(said: bytes) -> None:
    status, headers, answer = ask(says(said))

    assert (status, headers["mcpost-gateway"]) == (502, "failed")
    assert answer["error"]["data"]["sent"] == ("yes" if said else "maybe")


def test_an_upstream_that_speaks_no_http_is_a_bad_gateway() -> None:
    status, _, answer = ask(says(b"220 smtp.example ready\r\n\r\n"))

    assert status == 502
    assert answer["error"]["message"] == "the upstream's answer is no HTTP/1.1"


def test_an_upstream_that_is_too_slow_is_a_gateway_timeout() -> None:
    status, headers, answer = ask(says(then="wait"), head_timeout=0.3)

    assert (status, headers["mcpost-gateway"]) == (504, "failed")
    assert answer["error"]["data"] == {"gateway": "failed", "sent": "maybe"}


async def closed_port() -> int:
    async with scripted(says()) as port:
        return port


def test_an_upstream_that_is_down_is_a_bad_gateway_and_has_seen_nothing() -> None:
    async def scenario() -> tuple[int, Any]:
        policy = allow_all(await closed_port())
        async with opened(policy) as gateway, connect(gateway.port) as raw:
            return raw.status, (await raw.ask(call("add")), raw.status)

    _, (answer, status) = run(scenario())

    assert status == 502
    assert answer["error"]["data"]["sent"] == "no"


def test_a_call_goes_to_the_endpoint_that_is_up() -> None:
    async def scenario() -> list[int]:
        down = await closed_port()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await read_request(reader)
                writer.write(OK)

        async with (
            scripted(answer) as up,
            opened(allow_all(down, up)) as gateway,
            connect(gateway.port) as raw,
        ):
            return [raw.status for _ in range(6) if await raw.ask(call("add")) == {}]

    assert run(scenario()) == [200] * 6


def test_an_endpoint_that_says_it_is_not_well_is_passed_over() -> None:
    async def ill(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_request(reader)
        assert head.startswith(b"GET /healthz ")
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    async def scenario() -> dict[str, int]:
        async with scripted(ill) as port:
            policy = allow_all(port)
            upstream = replace(policy.upstreams["here"], health="/healthz")
            async with opened(replace(policy, upstreams={"here": upstream})) as gateway:
                await until(lambda: gateway.running.gauges()["upstream_endpoints_up"] == 0)
                return gateway.running.gauges()

    assert run(scenario())["upstream_endpoints_up"] == 0


@pytest.mark.parametrize("said", [b"", b"a\r\ndata: {}\n\n\xff\r\n", b"a\r\ndata: {}\n\n\r\n"])
def test_a_stream_that_breaks_off_never_ends_cleanly_for_the_client(said: bytes) -> None:
    async def scenario() -> bytes:
        async with (
            scripted(says(STREAM, said)) as port,
            opened(allow_all(port)) as gateway,
            connect(gateway.port) as raw,
        ):
            await raw.send(call("add"))
            got = b""
            with contextlib.suppress(ConnectionError):
                while piece := await asyncio.wait_for(raw._reader.read(1000), DEADLINE):
                    got += piece
            return got

    assert b"0\r\n\r\n" not in run(scenario())


def test_a_silent_stream_is_cut_after_its_time() -> None:
    async def scenario() -> str:
        async with (
            scripted(says(STREAM, b"a\r\ndata: {}\n\n\r\n", then="wait")) as port,
            opened(allow_all(port), idle_timeout=0.3) as gateway,
            connect(gateway.port) as raw,
        ):
            await raw.send(call("add"))
            await raw.head()
            await raw.event()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await raw.event()
            return str(json.loads(gateway.lines[0])["end"])

    assert run(scenario()) == "upstream cut the stream"


@pytest.mark.parametrize("cut", [1, 30, 250, -1])
def test_a_client_that_breaks_off_leaves_nothing_behind(cut: int) -> None:
    async def scenario() -> dict[str, int]:
        async with (
            scripted(says(then="wait")) as port,
            opened(allow_all(port)) as gateway,
            connect(gateway.port) as raw,
        ):
            await raw.send(call("add")[:cut])
            await until(lambda: gateway.running.gauges()["client_connections"] == 1)
            await raw.close(reset=True)
            await until(lambda: gateway.running.gauges()["client_connections"] == 0)
            return gateway.running.gauges()

    gauges = run(scenario())

    assert (gauges["running_requests"], gauges["upstream_connections"]) == (0, 0)


def test_a_slow_reader_makes_the_upstream_wait() -> None:
    sent = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(STREAM)
        for _ in range(400):
            writer.write(b"10000\r\n%b\r\n" % (b"x" * 0x10000))
            await writer.drain()
            sent += 0x10000

    async def scenario() -> int:
        async with (
            scripted(pour) as port,
            opened(allow_all(port)) as gateway,
            connect(gateway.port) as raw,
        ):
            raw._reader._limit = 1024  # type: ignore[attr-defined]
            await raw.send(call("add"))
            before = -1
            while before != sent or not sent:
                before = sent
                await asyncio.sleep(0.2)  # what does not happen has no event
            return sent

    assert run(scenario()) < 400 * 0x10000
