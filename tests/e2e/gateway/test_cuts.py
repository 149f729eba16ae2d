"""Ten thousand requests whose clients and upstream break off anywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.gateway.cutting import Caller, Fate, Upstream, fate_of, ids_of, is_complete
from tests.e2e.gateway.gateways import allow_all, opened
from tests.helpers.loop import run
from tests.helpers.until import until

AT_ONCE = 40
OPEN = Path("/proc/self/fd")


def check_answer(number: int, fate: Fate, got: bytes, ran: int) -> None:
    """Compare what a client got, and how often its request ran, with what was bound to be."""
    where = f"request {number}, {fate}: ran {ran} times, answer {got!r}"
    if not fate.is_whole:
        assert ran == 0, where
        assert b"200 OK" not in got, where
        return
    if fate.leaves_after is not None:
        # Whoever resets at once may take back what it has sent.
        assert ran == 1 or (ran == 0 and fate.leaves_after == 0), where
        return
    assert ran == 1, where
    head, _, body = got.partition(b"\r\n\r\n")
    if fate.is_answered:
        assert is_complete(got), where
        assert head.startswith(b"HTTP/1.1 200 "), where
        assert ids_of(got) == {number}, where
    elif head.startswith(b"HTTP/1.1 502 "):
        assert json.loads(body)["error"]["data"]["sent"] in ("maybe", "yes"), where
    else:
        # A stream that broke off: no end of it is taken for the right one.
        assert head.startswith(b"HTTP/1.1 200 "), where
        assert not is_complete(got), where


async def call_all(seed: int, count: int) -> None:
    upstream = Upstream(seed)
    server = await upstream.listen()
    got: dict[int, bytes] = {}
    async with opened(allow_all(server.sockets[0].getsockname()[1])) as gateway:
        numbers = iter(range(count))

        async def work(numbers: Iterator[int]) -> None:
            caller = Caller(gateway.port, seed)
            for number in numbers:
                got[number] = await caller.send(number)
            await caller.close()

        await asyncio.gather(*(work(numbers) for _ in range(AT_ONCE)))
        gauges = gateway.running.gauges
        # Neither a client that has left nor an upstream that broke off keeps anything.
        await until(lambda: not gauges()["running_requests"] and not gauges()["client_connections"])
        await until(lambda: gauges()["upstream_connections"] == len(upstream.open))
        assert gauges()["open_streams"] == 0
        assert len(upstream.open) <= AT_ONCE
    await until(lambda: not upstream.open)
    server.close()
    await server.wait_closed()
    for number, answer in got.items():
        check_answer(number, fate_of(seed, number), answer, upstream.ran[number])
    assert len(got) == count


@pytest.mark.parametrize("seed", range(4))
def test_no_request_runs_twice_or_is_stuck_whatever_breaks(seed: int) -> None:
    before = sum(1 for _ in OPEN.iterdir()) if OPEN.exists() else 0

    run(call_all(seed, 2500), 600, debug=False)

    assert not OPEN.exists() or sum(1 for _ in OPEN.iterdir()) == before
