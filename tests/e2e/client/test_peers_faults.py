"""The faults that other clients fail at: each hurts one call, and is told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from mcpost.client import Client, Retry
from mcpost.errors import BadReply, Busy, ConnectionLost, Denied, LegacyServer
from tests.helpers.hostile import (
    CLOSE,
    HANG,
    RESET,
    Hostile,
    event,
    failure,
    good,
    head,
    note,
    page,
    stream,
)
from tests.helpers.loop import run
from tests.helpers.until import until


@pytest.mark.parametrize("wrong", [99, "1"], ids=["foreign", "text"])
def test_an_answer_to_another_request_fails_the_call_at_once(wrong: object) -> None:
    async def main() -> None:
        async with (
            Hostile(lambda i: [page(good(wrong))]) as server,
            Client(server.url, era="modern") as client,
        ):
            with pytest.raises(BadReply, match="not to 1"):
                await client.request("tools/call", {"name": "fault"})

    run(main())


@pytest.mark.req("T-14/C")
def test_a_busy_server_is_asked_again_when_it_says() -> None:
    def answer(message: dict[str, Any]) -> list[bytes] | None:
        first = len(server.requests) == 1
        return [head(503, "Retry-After: 0", "Content-Length: 0")] if first else None

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            await client.request("tools/call", {"name": "x"})

        first, second = server.requests
        assert first["id"] != second["id"]
        assert first["params"] == second["params"]

    server = Hostile(answer=answer)
    run(main())


def test_one_reset_hurts_one_call_and_no_other() -> None:
    async def main() -> None:
        async with (
            Hostile(lambda i: [RESET]) as server,
            Client(server.url, era="modern", cache=False) as client,
        ):
            calls = [client.request("tools/call", {"name": "good"}) for _ in range(10)]
            faulty = client.request("tools/call", {"name": "fault"})

            *results, lost = await asyncio.gather(*calls, faulty, return_exceptions=True)

            assert all(isinstance(each, dict) for each in results)
            assert isinstance(lost, ConnectionLost)
            await client.discover()

    run(main())


@pytest.mark.req("T-14/C")
@pytest.mark.parametrize("event_id", [b"", b"id: 7\n"], ids=["no event id", "an event id"])
def test_a_stream_cut_is_lost_at_once_and_never_resumed(event_id: bytes) -> None:
    async def main() -> None:
        fault = lambda i: [stream(event_id + event(note("notifications/x"))), CLOSE]  # noqa: E731
        async with Hostile(fault) as server, Client(server.url, era="modern") as client:
            with pytest.raises(ConnectionLost) as caught:
                await client.request("tools/call", {"name": "fault"})

            assert caught.value.sent == "yes"
            assert len(server.requests) == 1
            assert b"last-event-id" not in server.heads[0].lower()

    run(main())


@pytest.mark.req("T-14/C")
def test_a_stream_cut_is_asked_again_under_a_new_id_where_the_caller_says_so() -> None:
    async def main() -> None:
        fault = lambda i: [stream(), CLOSE] if i < 3 else [page(good(i))]  # noqa: E731
        async with Hostile(fault) as server, Client(server.url, era="modern") as client:
            await client.request("tools/call", {"name": "fault"}, retry=Retry(backoff=0))

            assert [message["id"] for message in server.requests] == [1, 2, 3]

    run(main())


@pytest.mark.req("V-03/C")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(head(403, "Content-Length: 0"), Denied, id="403"),
        pytest.param(head(503, "Content-Length: 0"), Busy, id="503"),
        pytest.param(head(500, "Content-Length: 0"), BadReply, id="500"),
        pytest.param(head(406, "Content-Length: 0"), BadReply, id="406"),
        pytest.param(page(failure(1, -32020), status=400), Exception, id="-32020"),
        pytest.param(page(failure(1, -32021), status=400), Exception, id="-32021"),
    ],
)
def test_a_refusal_of_a_modern_server_is_no_sign_of_a_legacy_one(
    answer: bytes, error: type[Exception]
) -> None:
    async def main() -> None:
        async with Hostile(lambda i: [answer]) as server, Client(server.url) as client:
            with pytest.raises(error) as caught:
                await client.request("tools/call", {"name": "fault"})

            assert not isinstance(caught.value, LegacyServer)
            assert {message["method"] for message in server.requests} == {"tools/call"}

    run(main())


def test_a_slow_login_of_one_call_blocks_no_call_that_has_a_token() -> None:
    login = asyncio.Event()

    class Login:
        """Has a token for all, and asks a person for a stronger one after a 403."""

        async def headers(self) -> Mapping[str, str]:
            return {"Authorization": "Bearer weak"}

        async def refused(self, denied: Denied, used: Mapping[str, str]) -> bool:
            await login.wait()
            return False

    async def main() -> None:
        async with (
            Hostile(lambda i: [head(403, "Content-Length: 0")]) as server,
            Client(server.url, auth=Login(), era="modern", cache=False) as client,
        ):
            slow = asyncio.ensure_future(client.request("tools/call", {"name": "fault"}))
            for _ in range(5):
                await client.discover()

            assert not slow.done()
            login.set()
            with pytest.raises(Denied):
                await slow

    run(main())


def test_a_server_that_dies_during_a_call_ends_it_at_once() -> None:
    async def main() -> None:
        async with (
            Hostile(lambda i: [HANG]) as server,
            Client(server.url, era="modern") as client,
        ):
            call = asyncio.ensure_future(client.request("tools/call", {"name": "fault"}))
            await until(lambda: server.requests)
            await server.close()

            with pytest.raises(ConnectionLost):
                await call

    run(main())
