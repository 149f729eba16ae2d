"""A stream of numbered events, over as many connections as it takes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpost.limits import ServerLimits
from mcpost.server.legacy.store import MemoryStore
from mcpost.server.legacy.streams import Carrier, Stream, parse_event_id
from mcpost.server.pulse import Lane
from tests.helpers.http import RecordingDoor
from tests.helpers.legacy import events
from tests.helpers.loop import run


def make_stream(*, primes: bool = True, max_buffer: int = 1 << 20) -> Stream:
    limits = ServerLimits()
    lane: Lane[Any] = Lane(asyncio.get_running_loop(), 0, Stream.silence)
    return Stream("4", Carrier("s", MemoryStore(limits), lane, max_buffer, 1000, primes))


def message(number: int) -> bytes:
    return json.dumps({"n": number}).encode()


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"0-0", ("0", 0)),
        (b"12-345", ("12", 345)),
        (b"", None),
        (b"1", None),
        (b"1-2-3", None),
        (b" 1-2", None),
        (b"1-2\n", None),
        (b"+1-2", None),
        (b"\xd9\xa1-1", None),
        (b"9" * 13 + b"-1", None),
    ],
)
def test_an_event_id_names_a_stream_and_a_place_in_it(value: bytes, found: Any) -> None:
    assert parse_event_id(value) == found


@pytest.mark.req("L-02/S")
def test_what_no_connection_carries_is_kept_for_the_next() -> None:
    async def check() -> None:
        stream = make_stream()
        stream.say(message(1))
        door = RecordingDoor()
        stream.open(door, ())
        stream.say(message(2))

        assert [(id, found and found["n"]) for id, found in events(door)] == [
            ("4-0", None),
            ("4-1", 1),
            ("4-2", 2),
        ]

    run(check())


@pytest.mark.req("L-02/S")
def test_a_message_goes_to_one_connection_alone() -> None:
    async def check() -> None:
        stream = make_stream(primes=False)
        first, second = RecordingDoor(), RecordingDoor()
        stream.open(first, ())
        stream.open(second, ())
        stream.say(message(1))

        assert first.ended
        assert (events(first), events(second)) == ([], [("4-1", {"n": 1})])

    run(check())


def test_the_leaving_of_an_older_connection_is_no_matter() -> None:
    async def check() -> None:
        stream = make_stream()
        first, second = RecordingDoor(), RecordingDoor()
        stream.open(first, ())
        stream.open(second, ())
        first.gone()
        assert stream.is_open
        second.gone()
        assert not stream.is_open

    run(check())


def test_what_is_asked_for_again_may_be_more_than_waits_otherwise() -> None:
    async def check() -> None:
        stream = make_stream(max_buffer=100)
        for number in range(50):
            stream.say(message(number))
        door = RecordingDoor()
        door.reads = False
        stream.open(door, (), 0)
        stream.say(message(50))

        assert not door.aborted
        assert len(events(door)) == 52

    run(check())


def test_a_stream_that_is_retired_keeps_nothing() -> None:
    async def check() -> None:
        stream = make_stream()
        stream.retire()
        stream.say(message(1))
        door = RecordingDoor()
        stream.open(door, (), 0)

        assert events(door) == [("4-0", None)]

    run(check())


MOVES = st.lists(
    st.sampled_from(["say", "note", "leave", "close", "resume", "resume from before"]), max_size=40
)


@pytest.mark.req("L-02/S")
@settings(deadline=None)
@given(MOVES)
def test_a_client_that_comes_back_sees_every_event_once_and_in_order(moves: list[str]) -> None:
    """The model: a client that reads all, or loses the last event of a connection that breaks."""

    async def check() -> None:
        stream = make_stream()
        said = 0
        seen: list[int] = []
        last = 0
        door = RecordingDoor()
        stream.open(door, ())

        def read(lost: int = 0) -> None:
            nonlocal last
            found = [int(id.partition("-")[2]) for id, data in events(door) if data is not None]
            kept = found[: len(found) - lost]
            seen.extend(kept)
            last = max([last, *kept])

        for move in [*moves, "resume"]:
            if move in ("say", "note"):
                said += 1
                getattr(stream, move)(message(said))
            elif move == "leave":
                door.gone()
            elif move == "close":
                stream.close()
            else:
                read(lost=1 if move == "resume from before" else 0)
                door = RecordingDoor()
                stream.open(door, (), last)
        read()

        assert seen == list(range(1, said + 1))

    run(check(), debug=False)
