"""Listens: acknowledged, typed, opened again after a break, and told that they were away."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mcpost.client import Client, Retry
from mcpost.errors import BadReply, ConnectFailed, RpcError, UsageError
from mcpost.types import (
    PromptsChanged,
    Reconnected,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
)
from tests.helpers.hostile import (
    CLOSE,
    HANG,
    Forever,
    Hostile,
    event,
    failure,
    good,
    note,
    page,
    stream,
)
from tests.helpers.loop import run
from tests.helpers.until import until

FAST = Retry(attempts=50, backoff=0.01)


def told(request_id: int, what: str, **params: Any) -> bytes:
    meta = {"io.modelcontextprotocol/subscriptionId": request_id}
    return event(note(f"notifications/{what}", _meta=meta, **params))


def acknowledged(request_id: int, **honoured: Any) -> bytes:
    return stream(told(request_id, "subscriptions/acknowledged", notifications=honoured))


def listening(*streams: list[Any]) -> Hostile:
    """A server that plays these streams to its listens, one after the other; then it hangs."""
    rest = list(streams)

    def answer(message: dict[str, Any]) -> list[Any] | None:
        if message["method"] != "subscriptions/listen":
            return None
        i = message["id"]
        steps = rest.pop(0) if rest else [HANG]
        start = acknowledged(i, toolsListChanged=True, resourceSubscriptions=["a:b"])
        return [start, *(step(i) if callable(step) else step for step in steps)]

    return Hostile(answer=answer)


def tools_changed(i: int) -> bytes:
    return told(i, "tools/list_changed")


@pytest.mark.req("P-04/C")
def test_changes_are_typed_and_the_request_says_what_is_wanted() -> None:
    server = listening(
        [
            tools_changed,
            lambda i: told(i, "prompts/list_changed"),
            lambda i: told(i, "resources/list_changed"),
            lambda i: told(i, "resources/updated", uri="a:b"),
            lambda i: told(i, "resources/updated"),
            lambda i: told(i, "message", data="x"),
            HANG,
        ]
    )

    async def main() -> list[object]:
        async with (
            server,
            Client(server.url, era="modern") as client,
            client.listen(tools=True, prompts=True, resources=True, uris=["a:b"]) as changes,
        ):
            assert changes.honoured == {
                "toolsListChanged": True,
                "resourceSubscriptions": ["a:b"],
            }
            return [await anext(changes) for _ in range(4)]

    assert run(main()) == [
        ToolsChanged(),
        PromptsChanged(),
        ResourcesChanged(),
        ResourceUpdated("a:b"),
    ]
    assert server.requests[0]["params"]["notifications"] == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["a:b"],
    }


@pytest.mark.req("P-04/C")
def test_what_the_server_does_not_honour_is_told(caplog: pytest.LogCaptureFixture) -> None:
    server = listening()

    async def main() -> None:
        async with server, Client(server.url) as client, client.listen(tools=True, prompts=True):
            pass

    with caplog.at_level(logging.WARNING, "mcpost.client"):
        run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "the server does not tell of promptsListChanged"
    ]


@pytest.mark.req("P-04/C")
def test_a_change_before_the_acknowledgement_is_no_listen() -> None:
    server = Hostile(answer=lambda message: [stream(tools_changed(message["id"])), HANG])

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            with pytest.raises(BadReply, match="acknowledges"):
                await client.listen(tools=True).open()

    run(main())


@pytest.mark.req("P-05/C", "T-14/C")
def test_a_broken_stream_is_opened_again_and_says_that_it_was_away() -> None:
    server = listening([tools_changed, 0.02, CLOSE], [CLOSE], [tools_changed, HANG])

    async def main() -> list[object]:
        async with (
            server,
            Client(server.url, era="modern") as client,
            client.listen(tools=True, retry=FAST) as changes,
        ):
            first = await anext(changes)
            second = await anext(changes)
            # Two breaks in a row are one absence or two, as the reader sees them.
            third = await anext(changes)
            if isinstance(third, Reconnected):
                third = await anext(changes)
            return [first, type(second), third]

    assert run(main()) == [ToolsChanged(), Reconnected, ToolsChanged()]
    ids = [message["id"] for message in server.requests]
    assert len(set(ids)) == 3


@pytest.mark.req("P-05/C")
def test_a_listen_that_the_server_ends_is_over() -> None:
    server = listening([tools_changed, lambda i: event(good(i)), CLOSE])

    async def main() -> list[object]:
        async with (
            server,
            Client(server.url, era="modern") as client,
            client.listen(tools=True) as changes,
        ):
            return [change async for change in changes]

    assert run(main()) == [ToolsChanged()]
    assert len(server.requests) == 1


def test_a_listen_for_ever_goes_on_after_the_servers_end() -> None:
    server = listening([lambda i: event(good(i)), CLOSE], [tools_changed, HANG])

    async def main() -> list[object]:
        async with (
            server,
            Client(server.url, era="modern") as client,
            client.listen(tools=True, retry=FAST, forever=True) as changes,
        ):
            return [type(await anext(changes)), await anext(changes)]

    assert run(main()) == [Reconnected, ToolsChanged()]


def test_a_first_failure_is_raised_and_not_mended() -> None:
    async def main() -> None:
        async with Hostile(lambda i: []) as server:
            url = server.url
        async with Client(url, era="modern") as client:
            with pytest.raises(ConnectFailed):
                await client.listen(tools=True, retry=FAST).open()

    run(main())


def test_what_a_provider_of_credentials_raises_comes_out_of_the_listen() -> None:
    def fail() -> dict[str, str]:
        raise OSError("no keyring")

    async def main() -> None:
        async with Hostile() as server, Client(server.url, auth=fail) as client:
            with pytest.raises(OSError, match="keyring"):
                await client.listen(tools=True).open()

    run(main())


@pytest.mark.req("P-04/C")
def test_several_listens_stand_beside_one_another() -> None:
    server = listening([tools_changed, HANG], [lambda i: told(i, "prompts/list_changed"), HANG])

    async def main() -> set[object]:
        async with (
            server,
            Client(server.url, era="modern") as client,
            client.listen(tools=True) as one,
            client.listen(prompts=True) as other,
        ):
            return {await anext(one), await anext(other)}

    assert run(main()) == {ToolsChanged(), PromptsChanged()}


def test_a_server_that_cannot_listen_says_so() -> None:
    server = Hostile(answer=lambda m: [page(failure(m["id"], -32601), status=404)])

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            with pytest.raises(RpcError):
                await client.listen(tools=True).open()
            with pytest.raises(UsageError):
                client.listen()

    run(main())


def test_attempts_to_open_again_end_where_the_policy_says() -> None:
    server = listening([CLOSE])

    async def main() -> None:
        async with Client(server_url, era="modern") as client:
            policy = Retry(attempts=3, backoff=0.01)
            async with client.listen(tools=True, retry=policy) as changes:
                await server.close()
                with pytest.raises(ConnectFailed):
                    await anext(changes)

    async def outer() -> None:
        nonlocal server_url
        async with server:
            server_url = server.url
            await main()

    server_url = ""
    run(outer())


@pytest.mark.req("T-13/C", "P-03/C")
def test_a_listen_outlives_the_limits_of_a_call() -> None:
    server = listening([1.2, tools_changed, HANG])

    async def main() -> object:
        async with (
            server,
            Client(server.url, era="modern", timeout=0.5, max_timeout=0.6) as client,
            client.listen(tools=True) as changes,
        ):
            return await anext(changes)

    assert run(main()) == ToolsChanged()


def test_changes_that_wait_are_kept_once() -> None:
    prompts_changed = lambda i: told(i, "prompts/list_changed")  # noqa: E731
    server = listening([lambda i: tools_changed(i) * 1000, prompts_changed, HANG])

    async def main() -> list[object]:
        async with (
            server,
            Client(server.url, era="modern") as client,
            client.listen(tools=True) as changes,
        ):
            await until(lambda: changes.waiting == 2)
            return [await anext(changes), await anext(changes)]

    assert run(main()) == [ToolsChanged(), PromptsChanged()]


def test_a_server_that_makes_up_changes_has_to_wait() -> None:
    numbers = iter(range(10**9))

    def updates(i: int) -> bytes:
        return b"".join(told(i, "resources/updated", uri=f"x:{next(numbers)}") for _ in range(5000))

    server = listening([updates, HANG])

    async def main() -> None:
        async with (
            server,
            Client(server.url, era="modern") as client,
            client.listen(uris=["x:1"]) as changes,
        ):
            await until(lambda: changes.waiting > 1000)
            await asyncio.sleep(0.05)
            assert changes.waiting < 1100
            for _ in range(5000):
                await anext(changes)

    run(main())


def test_closing_the_client_ends_its_listens() -> None:
    server = listening([Forever(b":\n\n", 0.01)])

    async def main() -> None:
        async with server:
            async with Client(server.url, era="modern") as client:
                changes = client.listen(tools=True)
                await changes.open()
                waiting = asyncio.ensure_future(anext(changes))
                await asyncio.sleep(0)
            with pytest.raises(StopAsyncIteration):
                await waiting

    run(main())


@pytest.mark.req("F-05/C")
def test_what_is_kept_is_dropped_when_a_change_or_a_break_is_heard() -> None:
    change, end = asyncio.Event(), asyncio.Event()
    streams = listening([change, tools_changed, end, CLOSE], [HANG])
    listen = streams._answering

    def answer(message: dict[str, Any]) -> list[Any] | None:
        assert listen is not None
        steps = listen(message)
        body = good(message["id"], tools=[], ttlMs=60_000)
        return [page(body)] if steps is None else list(steps)

    server = Hostile(answer=answer)

    async def main() -> None:
        async with (
            server,
            Client(server.url, era="modern") as client,
            client.listen(tools=True, retry=FAST) as changes,
        ):
            for expected, happens in ((1, change), (2, end), (3, None)):
                await client.tools()
                await client.tools()
                lists = [each for each in server.requests if each["method"] == "tools/list"]
                assert len(lists) == expected
                if happens is not None:
                    happens.set()
                    await anext(changes)

    run(main())
