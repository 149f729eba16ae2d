"""The events that are kept for clients that come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.limits import ServerLimits
from mcpost.server.legacy.store import MemoryStore


@pytest.mark.req("L-02/S")
def test_the_events_of_one_stream_after_a_number_are_given_in_order() -> None:
    store = MemoryStore(ServerLimits())
    for number in (1, 2, 3):
        for stream in ("1", "2"):
            store.append("s", stream, number, b"%b-%d" % (stream.encode(), number))

    assert store.after("s", "2", 1) == [(2, b"2-2"), (3, b"2-3")]
    assert store.after("s", "2", 3) == []


@pytest.mark.req("L-02/S")
def test_of_what_is_not_there_nothing_is_known() -> None:
    store = MemoryStore(ServerLimits())
    store.append("s", "1", 1, b"x")

    assert store.after("s", "2", 0) is None
    assert store.after("t", "1", 0) is None


def test_a_session_over_its_number_loses_its_own_oldest() -> None:
    store = MemoryStore(ServerLimits(max_session_events=2))
    store.append("other", "1", 1, b"x")
    for number in (1, 2, 3):
        store.append("s", "1", number, b"x")

    assert store.after("s", "1", 0) == [(2, b"x"), (3, b"x")]
    assert store.after("other", "1", 0) == [(1, b"x")]


def test_over_the_bound_of_all_those_lose_theirs_that_had_nothing_new_for_longest() -> None:
    store = MemoryStore(ServerLimits(max_stored_bytes=3000))
    for session, number in (("a", 1), ("b", 1), ("a", 2), ("c", 1)):
        store.append(session, "1", number, b"x" * 700)

    assert store.after("b", "1", 0) is None
    assert store.after("a", "1", 0) == [(1, b"x" * 700), (2, b"x" * 700)]


def test_an_event_that_is_larger_than_the_bound_is_not_kept() -> None:
    store = MemoryStore(ServerLimits(max_session_bytes=100))
    store.append("s", "1", 1, b"x" * 101)

    assert store.after("s", "1", 0) is None
    assert store.size == 0


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 400)) | st.sampled_from("abc"),
        max_size=60,
    )
)
def test_the_bounds_hold_and_the_size_is_that_of_what_is_kept(moves: list[object]) -> None:
    limits = ServerLimits(max_session_events=5, max_session_bytes=1500, max_stored_bytes=2500)
    store = MemoryStore(limits)
    for number, move in enumerate(moves, 1):
        if isinstance(move, tuple):
            store.append(move[0], "1", number, b"x" * move[1])
        else:
            store.drop(str(move))
        kept = [each for name in "abc" for each in store.after(name, "1", 0) or []]
        assert store.size == sum(len(message) + 160 for _, message in kept)
        assert store.size <= 2500
        assert all(len(store.after(name, "1", 0) or []) <= 5 for name in "abc")
