"""One channel that all requests share."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.client.attempt import Attempt, Outgoing
from mcpost.client.channel import Channel
from mcpost.errors import BadReply, ConnectionLost, RpcError, TooLarge, TransportError
from mcpost.limits import ClientLimits, WireLimits
from mcpost.wire.jsonrpc import Notification, Request
from tests.helpers.loop import run

SMALL = WireLimits(max_stdio_line=200)


class Bench:
    """A channel, what was written to it, and calls on it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.stray: list[Any] = []
        self.channel = Channel(
            self.written.append, self._drain, limits=ClientLimits(max_notes=2), wire_limits=SMALL
        )
        self.channel.stray = self.stray.append

    async def _drain(self) -> None:
        """Nothing is held back."""

    def call(self, request_id: int, heard: list[Notification] | None = None) -> asyncio.Task[Any]:
        hear = None if heard is None else heard.append
        attempt = Attempt(asyncio.get_running_loop().time(), hear)
        out = Outgoing(request_id, "tools/call", {"_meta": {}}, [])
        return asyncio.ensure_future(self.channel.request(out, attempt))


def on_bench(work: Callable[[Bench], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work(Bench())

    return run(main())


async def outcome(task: asyncio.Task[Any]) -> Any:
    try:
        return (await task).response.result
    except (TransportError, RpcError) as error:
        return type(error)


ANSWERS = b'{"jsonrpc":"2.0","id":2,"result":{"n":2}}\n{"jsonrpc":"2.0","id":1,"result":{"n":1}}\n'


@pytest.mark.req("I-01/C")
@given(st.sets(st.integers(1, len(ANSWERS) - 1)))
def test_answers_find_their_requests_however_they_are_cut(cuts: set[int]) -> None:
    async def work(bench: Bench) -> Any:
        calls = [bench.call(1), bench.call(2)]
        await asyncio.sleep(0)
        places = [0, *sorted(cuts), len(ANSWERS)]
        for start, end in itertools.pairwise(places):
            bench.channel.feed(ANSWERS[start:end])
        return [await outcome(call) for call in calls]

    assert on_bench(work) == [{"n": 1}, {"n": 2}]


@pytest.mark.req("I-04/C")
@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"x":"' + b"x" * 300 + b'"}}\n', TooLarge),
        (b'{"jsonrpc":"2.0","id":1,"result":[}\n', BadReply),
        (b'{"jsonrpc":"2.0","id":1,"result":7}\n', BadReply),
    ],
)
def test_a_line_that_cannot_be_read_costs_one_request(line: bytes, error: type) -> None:
    async def work(bench: Bench) -> Any:
        calls = [bench.call(1), bench.call(2)]
        await asyncio.sleep(0)
        bench.channel.feed(line + b'{"jsonrpc":"2.0","id":2,"result":{}}\n')
        return [await outcome(call) for call in calls]

    assert on_bench(work) == [error, {}]


@pytest.mark.req("I-03/C")
def test_the_end_of_the_channel_is_the_end_of_all_that_wait() -> None:
    async def work(bench: Bench) -> Any:
        call = bench.call(1)
        await asyncio.sleep(0)
        bench.channel.feed(b'{"jsonrpc"')
        bench.channel.end("it died")
        with pytest.raises(ConnectionLost, match=r"it died \(in the midst of a line of 10 bytes\)"):
            await call
        return await outcome(bench.call(2))

    assert on_bench(work) is ConnectionLost


def test_what_belongs_to_no_request_goes_elsewhere() -> None:
    async def work(bench: Bench) -> Any:
        bench.channel.feed(
            b'{"jsonrpc":"2.0","id":"q","method":"ping"}\n'
            b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
            b'{"jsonrpc":"2.0","id":9,"result":{}}\n'
        )
        return bench.stray

    tools_changed = Notification("notifications/tools/list_changed", {})
    assert on_bench(work) == [Request("q", "ping", {}), tools_changed]


def test_of_a_slow_hearers_notifications_the_newest_are_kept() -> None:
    async def work(bench: Bench) -> Any:
        heard: list[Notification] = []
        call = bench.call(1, heard)
        await asyncio.sleep(0)
        for done in range(5):
            bench.channel.feed(
                b'{"jsonrpc":"2.0","method":"notifications/progress",'
                b'"params":{"progressToken":1,"progress":%d}}\n' % done
            )
        bench.channel.feed(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
        await call
        return [note.params["progress"] for note in heard]

    assert on_bench(work) == [3, 4]
