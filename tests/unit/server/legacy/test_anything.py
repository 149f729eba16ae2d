"""Whatever comes is answered, over HTTP and on a channel, and what comes next is too."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcpost.server.channel import Channel
from tests.helpers.legacy import Http, initialize, make_server, request
from tests.helpers.loop import run

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
METHODS = st.sampled_from(
    [
        "initialize",
        "ping",
        "tools/call",
        "tools/list",
        "resources/read",
        "resources/subscribe",
        "logging/setLevel",
        "completion/complete",
        "subscriptions/listen",
        "server/discover",
        "notifications/cancelled",
        "notifications/initialized",
    ]
)
META = st.fixed_dictionaries(
    {},
    optional={
        "io.modelcontextprotocol/protocolVersion": st.just("2026-07-28") | VALUES,
        "io.modelcontextprotocol/clientCapabilities": st.just({}) | VALUES,
        "progressToken": VALUES,
    },
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["add", "greet", "none"]) | VALUES,
        "arguments": st.just({"a": 1, "b": 2}) | VALUES,
        "uri": st.just("both://one") | VALUES,
        "level": st.just("debug") | VALUES,
        "requestId": VALUES,
        "cursor": VALUES,
        "notifications": st.just({"toolsListChanged": True}) | VALUES,
        "_meta": META | VALUES,
    },
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers(0, 5) | VALUES,
        "method": METHODS | st.text(max_size=8),
        "params": PARAMS | VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)
BODIES = (MESSAGES | st.lists(MESSAGES, max_size=3) | VALUES).map(
    lambda value: json.dumps(value).encode()
)
LINES = (BODIES | st.binary(max_size=40)).map(lambda body: body.replace(b"\n", b" "))
QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)


@QUICK
@given(st.lists(LINES, max_size=8), st.sampled_from(["2025-11-25", "2025-03-26", None]))
@example([b'[{"jsonrpc":"2.0","id":1,"method":"ping"}, 5]'], "2025-03-26")
def test_a_channel_goes_on_after_any_line(lines: list[bytes], version: str | None) -> None:
    async def check() -> None:
        said: list[Any] = []
        server = make_server()
        channel = Channel(
            server.features,
            server.bus,
            server.limits,
            write=lambda message: said.append(json.loads(message)),
        )
        if version is not None:
            channel.receive(json.dumps(initialize(version)).encode())
        for line in lines:
            channel.receive(line)
        said.clear()
        channel.receive(json.dumps(request("ping", id="last")).encode())

        assert {"jsonrpc": "2.0", "id": "last", "result": {}} in said
        await channel.drain(0)

    run(check(), debug=False)


@QUICK
@given(
    st.lists(BODIES | st.binary(max_size=40), max_size=4),
    st.sampled_from(["2025-11-25", "2025-03-26"]),
    st.sampled_from(["application/json, text/event-stream", "application/json"]),
)
def test_any_body_gets_an_answer(bodies: list[bytes], version: str, accept: str) -> None:
    async def check() -> None:
        over = Http(make_server())
        session = over.open(version)
        for body in bodies:
            door = over.send(body, session, accept=accept, mcp_protocol_version=version)
            await asyncio.sleep(0)
            assert door.answers or door.heads or over.tasks
        await over.endpoint.drain(0)
        await asyncio.gather(*over.tasks)

    run(check(), debug=False)
