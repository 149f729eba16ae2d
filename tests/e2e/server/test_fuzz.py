"""Whatever comes, the server lives, leaves nothing behind, and answers well."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpost.limits import ServerLimits
from mcpost.server.asgi import AsgiApp
from tests.helpers.fuzz import Sent, check_answer, check_events, make_request
from tests.helpers.http import call, make_server, post
from tests.helpers.loop import run
from tests.helpers.raw import connect
from tests.helpers.serving import serving
from tests.helpers.until import DEADLINE

EXAMPLES = 210
REQUESTS = 100
"""Requests of one example: in all there are more than 20,000."""


class Exchange:
    """One request to an ASGI application, whose peer leaves when it likes."""

    def __init__(self, random: Random, sent: Sent) -> None:
        self.sent = sent
        self.status = 0
        self.content = b""
        self.is_stream = False
        self.complete = False
        self._random = random
        self._parts = self._cut(sent.body)
        self._turns = random.choice([0, 1, 2, 5])
        self._leaves_early = random.random() < 0.1
        self._left = False

    def _cut(self, data: bytes) -> list[bytes]:
        cuts = sorted(
            self._random.randrange(len(data) + 1) for _ in range(self._random.choice([0, 0, 1, 3]))
        )
        ends = [*cuts, len(data)]
        return [data[start:end] for start, end in zip([0, *cuts], ends, strict=True)]

    async def receive(self) -> dict[str, Any]:
        if self._random.random() < 0.3:
            await asyncio.sleep(0)
        if self._parts and not (self._leaves_early and self._random.random() < 0.5):
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        # Then the peer leaves, sooner or later: a listen ends by nothing else.
        for _ in range(self._turns):
            await asyncio.sleep(0)
        self._left = True
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self._left and self._random.random() < 0.5:
            raise OSError("the peer has left")
        if self._random.random() < 0.2:
            await asyncio.sleep(0)
        assert not self.complete, self.sent
        if message["type"] == "http.response.start":
            assert not self.status, self.sent
            self.status = message["status"]
            kinds = [value for name, value in message["headers"] if name == b"content-type"]
            self.is_stream = kinds == [b"text/event-stream"]
        else:
            assert self.status, self.sent
            self.content += message["body"]
            self.complete = not message.get("more_body", False)

    def check(self) -> None:
        if self.is_stream:
            check_events(self.sent, self.content)
        elif self.complete:
            check_answer(
                self.sent, self.status, b"" if self.sent.method == "HEAD" else self.content
            )
        else:
            assert self._left, self.sent

    async def go(self, app: Callable[..., Awaitable[None]]) -> None:
        headers = [*self.sent.headers]
        if not any(name == b"content-length" for name, _ in headers):
            headers.append((b"content-length", b"%d" % len(self.sent.body)))
        scope = {
            "type": "http",
            "http_version": self._random.choice(["1.1", "2"]),
            "method": self.sent.method,
            "path": self._random.choice(["/mcp"] * 20 + ["/mcp/", "/", "/mcpx"]),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
        }
        # As its own task, as in a server: what is cancelled in it must not come out.
        await asyncio.wait_for(app(scope, self.receive, self.send), DEADLINE)


def make_app() -> AsgiApp:
    limits = ServerLimits(max_body=20_000, keep_alive=0.01)
    return make_server(limits).asgi("/mcp", hosts=[], legacy=False)


@pytest.mark.req("T-07/S", "T-15/S", "J-01/S", "J-03/S", "T-11/S")
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**64))
def test_every_request_gets_a_good_answer_and_leaves_nothing(seed: int) -> None:
    random = Random(seed)

    async def scenario() -> None:
        app = make_app()
        at_once = random.choice([1, 1, 5, 20])
        for _ in range(0, REQUESTS, at_once):
            exchanges = [Exchange(random, make_request(random)) for _ in range(at_once)]
            tasks = [asyncio.create_task(exchange.go(app)) for exchange in exchanges]
            await asyncio.gather(*tasks)
            for exchange in exchanges:
                exchange.check()
        room = app.endpoint._here()
        assert not room.crew.running
        assert room.crew.admission.running == 0
        assert len(room.listens) == 0
        assert len(room.crew.terms.keep_alive) == 0

    run(scenario(), debug=False)


@pytest.mark.req("T-07/S", "T-15/S")
@settings(max_examples=10, deadline=None, database=None)
@given(seed=st.integers(0, 2**64))
def test_a_server_lives_through_what_comes_over_sockets(seed: int) -> None:
    random = Random(seed)

    async def scenario() -> Any:
        app = make_app()
        async with serving(app) as port:
            for _ in range(50):
                sent = make_request(random)
                data = post(sent.body, sent.headers)
                data = data.replace(b"POST", sent.method.encode(), 1)
                if random.random() < 0.3:
                    data = data[: random.randrange(len(data) + 1)]
                async with connect(port) as connection:
                    await connection.send(data)
                    await asyncio.sleep(random.choice([0, 0, 0.002]))
                    if random.random() < 0.3:
                        await connection.close(reset=True)
            async with connect(port) as connection:
                return await connection.ask(call("add", {"a": 1, "b": 2}))

    assert run(scenario(), debug=False)["result"]["structuredContent"] == 3
