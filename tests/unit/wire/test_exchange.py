"""One answer's life."""

from __future__ import annotations

import itertools

import pytest

from mcpost.errors import IllegalMove
from mcpost.wire.exchange import TABLE, Effect, Event, State, step

U, S, A, C = State.UNDECIDED, State.STREAMING, State.ANSWERED, State.CLOSED

MOVES = [
    (U, Event.NOTE, S, (Effect.START_STREAM, Effect.SEND_EVENT)),
    (U, Event.SILENCE, S, (Effect.START_STREAM, Effect.SEND_COMMENT)),
    (U, Event.FINAL, A, (Effect.SEND_JSON,)),
    (U, Event.GONE, C, (Effect.CANCEL,)),
    (S, Event.NOTE, S, (Effect.SEND_EVENT,)),
    (S, Event.SILENCE, S, (Effect.SEND_COMMENT,)),
    (S, Event.FINAL, A, (Effect.SEND_LAST_EVENT, Effect.END)),
    (S, Event.GONE, C, (Effect.CANCEL,)),
    (A, Event.SILENCE, A, ()),
    (A, Event.GONE, C, ()),
    (C, Event.NOTE, C, (Effect.DROP,)),
    (C, Event.SILENCE, C, ()),
    (C, Event.FINAL, C, (Effect.DROP,)),
    (C, Event.GONE, C, ()),
]


@pytest.mark.req("T-10/S", "T-11/S", "T-13/S", "T-15/S")
@pytest.mark.parametrize(("state", "event", "after", "effects"), MOVES)
def test_each_legal_move(
    state: State, event: Event, after: State, effects: tuple[Effect, ...]
) -> None:
    assert step(state, event) == (after, effects)


@pytest.mark.req("T-11/S", "P-01/S")
@pytest.mark.parametrize("event", [Event.NOTE, Event.FINAL])
def test_nothing_is_said_after_the_final_response(event: Event) -> None:
    with pytest.raises(IllegalMove) as caught:
        step(State.ANSWERED, event)
    assert (caught.value.state, caught.value.event) == ("answered", event.value)


def test_every_pair_of_state_and_event_is_decided() -> None:
    illegal = set(itertools.product(State, Event)) - set(TABLE)

    assert illegal == {(A, Event.NOTE), (A, Event.FINAL)}
