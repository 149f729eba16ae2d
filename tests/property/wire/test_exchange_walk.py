"""Every walk through an answer's life keeps its promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.errors import IllegalMove
from mcpost.wire.exchange import Effect, Event, State, step

SPOKEN = {
    Effect.START_STREAM, Effect.SEND_EVENT, Effect.SEND_COMMENT, Effect.SEND_JSON,
    Effect.SEND_LAST_EVENT, Effect.END,
}  # fmt: skip


def walk(events: list[Event]) -> list[Effect]:
    """Take all events that are legal, and give the effects."""
    state = State.UNDECIDED
    effects: list[Effect] = []
    for event in events:
        try:
            state, more = step(state, event)
        except IllegalMove:
            assert state is State.ANSWERED
            continue
        effects.extend(more)
    return effects


@pytest.mark.req("T-09/S", "T-10/S", "T-11/S", "T-15/S")
@given(st.lists(st.sampled_from(Event)))
def test_one_form_one_start_one_end_and_silence_afterwards(events: list[Event]) -> None:
    effects = walk(events)
    said = [effect for effect in effects if effect in SPOKEN]

    assert effects.count(Effect.CANCEL) <= 1
    assert said.count(Effect.START_STREAM) <= 1
    if Effect.SEND_JSON in said:
        assert said == [Effect.SEND_JSON]
    elif said:
        assert said[0] is Effect.START_STREAM
    if Effect.END in said:
        assert said[-2:] == [Effect.SEND_LAST_EVENT, Effect.END]
        assert Effect.CANCEL not in effects
    if Effect.CANCEL in effects:
        after = effects[effects.index(Effect.CANCEL) + 1 :]
        assert set(after) <= {Effect.DROP}
