"""A stream that is cut wherever it can be: every event is heard once, in order."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from mcpost.client import Client
from tests.e2e.client_legacy.peer import Ask, Peer, Stream, peer, words
from tests.e2e.client_legacy.test_http import progress
from tests.helpers.loop import run

EVENTS = 8


class Cutting:
    """Serves a call of eight events, and cuts each connection after some bytes."""

    def __init__(self, cuts: random.Random | int) -> None:
        self._cuts = cuts
        self._call: Any = None

    def __call__(self, server: Peer, ask: Ask, stream: Stream) -> Any:
        if ask.method == "tools/call":
            self._call = ask.message["id"]
            self._send(stream, "id: s-0\nretry: 1\ndata: \n\n", 0, is_whole=True)
        elif ask.verb == "GET":
            self._send(stream, "", int(ask.headers["last-event-id"].partition("-")[2]))
        else:
            return server.usual(ask)
        return None

    def _send(self, stream: Stream, opening: str, after: int, *, is_whole: bool = False) -> None:
        events = [self._event(number) for number in range(after + 1, EVENTS + 2)]
        size = self._cuts if isinstance(self._cuts, int) else self._cuts.randrange(300)
        # Some connections carry no whole event, and none in a row carries nothing.
        text = "".join(events)[: max(size, 0 if is_whole else len(events[0]))]
        stream.begin()
        stream.raw(opening + text)

    def _event(self, number: int) -> str:
        last = words(self._call, "done")
        body = last if number > EVENTS else progress(self._call, number)
        return f"id: s-{number}\ndata: {json.dumps({'jsonrpc': '2.0', **body})}\n\n"


def call(cuts: random.Random | int) -> tuple[str, list[float]]:
    heard: list[float] = []

    async def main() -> str:
        async with peer(Cutting(cuts)) as server, Client(server.url, era="legacy") as client:
            return (await client.call("x", progress=lambda p: heard.append(p.progress))).text

    return run(main()), heard


@pytest.mark.req("L-02/C")
@pytest.mark.parametrize("size", [0, 1, 50, 130, 131, 132, 133, 250, 400])
def test_cut_after_so_many_bytes(size: int) -> None:
    assert call(size) == ("done", [1, 2, 3, 4, 5, 6, 7, 8])


@pytest.mark.req("L-02/C")
@pytest.mark.parametrize("seed", range(8))
def test_cut_at_random_bytes(seed: int) -> None:
    assert call(random.Random(seed)) == ("done", [1, 2, 3, 4, 5, 6, 7, 8])
