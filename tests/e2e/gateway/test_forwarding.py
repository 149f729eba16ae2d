"""Forwarding through the gateway: real servers behind it, and what crosses the hop."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from mcpost.gateway.door import Door
from mcpost.gateway.forward import Forward
from tests.e2e.gateway.gateways import allow_all, opened, read_request, scripted, talking
from tests.helpers.http import call, listen, post
from tests.helpers.loop import run
from tests.helpers.raw import connect
from tests.helpers.until import until


def seen_by_upstream(sent: bytes, **policy: Any) -> list[str]:
    """Send a request through a gateway; gives the head lines that its upstream got."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_request(reader)
        heads.append(head)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()

    async def scenario() -> None:
        async with (
            scripted(answer) as port,
            opened(allow_all(port, **policy)) as gateway,
            connect(gateway.port) as raw,
        ):
            await raw.ask(sent)

    run(scenario())
    return heads[0].decode("latin-1").split("\r\n")


def test_a_call_is_answered_as_by_the_server() -> None:
    async def scenario() -> tuple[int, Any]:
        async with talking() as (raw, _gateway):
            return await raw.ask(call("add", {"a": 1, "b": 2})), raw.status

    answer, status = run(scenario())

    assert (status, answer["result"]["structuredContent"]) == (200, 3)


def test_connections_to_the_upstream_are_used_again() -> None:
    async def scenario() -> int:
        async with talking() as (raw, gateway):
            for number in range(20):
                await raw.ask(call("add", {"a": number, "b": 2}))
            return gateway.running.gauges()["upstream_connections"]

    assert run(scenario()) == 1


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(call("add", {"a": 1, "b": 2}), id="answered at once"),
        pytest.param(call("count", {"steps": 2}, progressToken="p"), id="streamed"),
    ],
)
def test_a_request_leaves_nothing_to_the_garbage_collector(sent: bytes) -> None:
    async def scenario() -> int:
        async with talking() as (raw, gateway):
            for _ in range(3):
                await raw.send(sent)
                await raw.head()
                await raw.body()
            await until(lambda: not gateway.running.shared.running)
            return sum(isinstance(each, (Forward, Door)) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        assert run(scenario()) == 0
    finally:
        gc.enable()


def test_the_events_of_a_stream_arrive_one_by_one() -> None:
    async def scenario() -> list[str]:
        async with talking() as (raw, gateway):
            await raw.send(call("count", {"steps": 2, "delay": 0.05}, progressToken="p"))
            await raw.head()
            first = await raw.event()
            assert gateway.running.gauges()["open_streams"] == 1
            return [each.get("method", "result") for each in [first, *await raw.events()]]

    found = run(scenario())

    assert found == ["notifications/progress", "notifications/progress", "result"]


def test_a_client_that_leaves_closes_the_request_to_the_upstream() -> None:
    async def scenario() -> tuple[int, list[bytes]]:
        async with talking() as (raw, gateway):
            await raw.send(listen(toolsListChanged=True))
            await raw.head()
            await raw.event()
            await raw.close()
            await until(lambda: gateway.running.gauges()["upstream_connections"] == 0)
            return gateway.running.gauges()["running_requests"], gateway.lines

    running, lines = run(scenario())

    assert running == 0
    assert json.loads(lines[0])["end"] == "client left"


def test_the_servers_own_refusal_carries_no_mark_of_the_gateway() -> None:
    async def scenario() -> tuple[int, dict[str, str]]:
        async with talking() as (raw, _gateway):
            sent = call("add").replace(b"mcp-name: add", b"mcp-name: other")
            await raw.ask(sent)
            return raw.status, raw.headers

    status, headers = run(scenario())

    assert status == 400
    assert "mcpost-gateway" not in headers


def test_a_body_in_chunks_is_sent_on_in_chunks() -> None:
    sent = call("add", {"a": 1, "b": 2})
    head, _, body = sent.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length")]
    start = b"\r\n".join([*lines, b"transfer-encoding: chunked", b"", b""])

    async def scenario() -> Any:
        async with talking() as (raw, gateway):
            await raw.send(start + b"%x\r\n%b\r\n" % (10, body[:10]))
            await until(lambda: gateway.running.gauges()["upstream_connections"] == 1)
            rest = body[10:]
            return await raw.ask(b"%x\r\n%b\r\n0\r\n\r\n" % (len(rest), rest))

    assert run(scenario())["result"]["structuredContent"] == 3


@pytest.mark.req("H-11/G")
def test_unknown_parameters_and_other_lines_reach_the_upstream_unchanged() -> None:
    lines = seen_by_upstream(
        post(
            b"{}",
            [
                (b"host", b"public.example"),
                (b"mcp-protocol-version", b"2026-07-28"),
                (b"mcp-method", b"tools/call"),
                (b"mcp-name", b"add"),
                (b"mcp-param-unheard-of", b"=?base64?w6k=?="),
                (b"traceparent", b"00-1-2-01"),
            ],
        )
    )

    assert "mcp-param-unheard-of: =?base64?w6k=?=" in lines
    assert "traceparent: 00-1-2-01" in lines
    assert "via: 1.1 mcpost" in lines
    assert "x-forwarded-for: 127.0.0.1" in lines
    assert "x-forwarded-host: public.example" in lines
    assert 'forwarded: for=127.0.0.1;proto=http;host="public.example"' in lines
    assert not any(line.startswith("host: public") for line in lines)


@pytest.mark.parametrize(("audience", "reaches"), [(False, False), (True, True)])
def test_authorization_goes_only_where_it_is_meant_for(audience: bool, reaches: bool) -> None:
    sent = call("add").replace(b"accept:", b"authorization: Bearer x\r\naccept:", 1)

    lines = seen_by_upstream(sent, audience=audience)

    assert ("authorization: Bearer x" in lines) is reaches


def test_fields_of_one_connection_end_with_it() -> None:
    extra = b"connection: x-mine, keep-alive\r\nx-mine: 1\r\nkeep-alive: 5\r\nte: trailers\r\n"
    sent = call("add").replace(b"accept:", extra + b"proxy-authorization: Basic x\r\naccept:", 1)

    lines = seen_by_upstream(sent)

    names = {line.partition(":")[0] for line in lines}
    assert names.isdisjoint({"connection", "x-mine", "keep-alive", "te", "proxy-authorization"})


def test_connection_may_not_take_away_what_the_verdict_rests_on() -> None:
    async def scenario() -> tuple[Any, dict[str, str]]:
        async with talking() as (raw, _gateway):
            sent = call("add").replace(b"accept:", b"connection: mcp-name\r\naccept:", 1)
            return await raw.ask(sent), raw.headers

    answer, headers = run(scenario())

    assert headers["mcpost-gateway"] == "refused"
    assert "mcp-name" in answer["error"]["message"]
