"""How far an attempt came decides what its failure says."""

from __future__ import annotations

import pytest

from mcpost.client.attempt import TABLE, Attempt, Event, State, step
from mcpost.errors import IllegalMove


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_event_moves_or_is_illegal(state: State, event: Event) -> None:
    if (state, event) in TABLE:
        assert step(state, event) in State
    else:
        with pytest.raises(IllegalMove):
            step(state, event)


@pytest.mark.req("T-14/C")
def test_what_may_have_run_follows_from_how_far_it_came() -> None:
    attempt = Attempt(0.0)
    assert attempt.sent == "no"

    attempt.sending(1.0)
    assert attempt.sent == "maybe"

    attempt.heard(2.0)
    assert (attempt.sent, attempt.last_sign) == ("yes", 2.0)

    attempt.finish()
    assert attempt.state is State.DONE


def test_a_request_that_was_refused_may_be_sent_once_more() -> None:
    attempt = Attempt(0.0)
    attempt.sending(1.0)
    attempt.heard(2.0)

    attempt.sending(3.0)

    assert attempt.sent == "maybe"
