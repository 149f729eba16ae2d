"""One answer's life, as a table.

A server writes by it and a client accepts by it; the table does not know which of the two it
serves. All state logic of an answer is here. Effects are values: whoever does the I/O carries them
out, in their order.

Rules that a change must not break: nothing follows the final response (T-11, P-01); the HTTP
status is not decided before something is said (T-10); who has left hears nothing more (T-15).

Spec: streamable-http, "Receiving Messages", "Cancellation" (T-09 to T-11, T-13, T-15).
"""

from __future__ import annotations

import enum
from typing import Final

from mcpost.errors import IllegalMove

__all__ = ("TABLE", "Effect", "Event", "State", "step")


class State(enum.Enum):
    """Where an answer stands."""

    # A table is looked up with these for each event: the hash of an enum's name is slow.
    __hash__ = object.__hash__

    UNDECIDED = "undecided"
    """Nothing is said yet: it may become JSON or a stream."""
    STREAMING = "streaming"
    """The head of a stream is out."""
    ANSWERED = "answered"
    """The final response is out."""
    CLOSED = "closed"
    """The peer has left."""


class Event(enum.Enum):
    """What happens to an answer."""

    __hash__ = object.__hash__

    NOTE = "note"
    """A notification of this request: progress, log, acknowledgement, change."""
    SILENCE = "silence"
    """A keep-alive interval went by without a word."""
    FINAL = "final"
    """The response: a result or an error."""
    GONE = "gone"
    """The peer left."""


class Effect(enum.Enum):
    """What is to be done about it."""

    START_STREAM = "start the stream"
    SEND_EVENT = "send the event"
    SEND_COMMENT = "send a comment"
    SEND_JSON = "send the response as JSON, with its status"
    SEND_LAST_EVENT = "send the response as the last event"
    END = "end the stream"
    CANCEL = "cancel the work"
    DROP = "drop what came"


_Move = tuple[State, tuple[Effect, ...]]

TABLE: Final[dict[tuple[State, Event], _Move]] = {
    (State.UNDECIDED, Event.NOTE): (State.STREAMING, (Effect.START_STREAM, Effect.SEND_EVENT)),
    (State.UNDECIDED, Event.SILENCE): (State.STREAMING, (Effect.START_STREAM, Effect.SEND_COMMENT)),
    (State.UNDECIDED, Event.FINAL): (State.ANSWERED, (Effect.SEND_JSON,)),
    (State.UNDECIDED, Event.GONE): (State.CLOSED, (Effect.CANCEL,)),
    (State.STREAMING, Event.NOTE): (State.STREAMING, (Effect.SEND_EVENT,)),
    (State.STREAMING, Event.SILENCE): (State.STREAMING, (Effect.SEND_COMMENT,)),
    (State.STREAMING, Event.FINAL): (State.ANSWERED, (Effect.SEND_LAST_EVENT, Effect.END)),
    (State.STREAMING, Event.GONE): (State.CLOSED, (Effect.CANCEL,)),
    (State.ANSWERED, Event.SILENCE): (State.ANSWERED, ()),
    (State.ANSWERED, Event.GONE): (State.CLOSED, ()),
    (State.CLOSED, Event.NOTE): (State.CLOSED, (Effect.DROP,)),
    (State.CLOSED, Event.SILENCE): (State.CLOSED, ()),
    (State.CLOSED, Event.FINAL): (State.CLOSED, (Effect.DROP,)),
    (State.CLOSED, Event.GONE): (State.CLOSED, ()),
}
"""Every legal move; what is not here is illegal."""


def step(state: State, event: Event) -> _Move:
    """Tell what an event does to an answer.

    Args:
        state: Where the answer stands.
        event: What happens.

    Returns:
        The next state and the effects to carry out, in order.

    Raises:
        IllegalMove: A word after the final response, or a second one: a bug of whoever speaks.
    """
    move = TABLE.get((state, event))
    if move is None:
        raise IllegalMove(state.value, event.value)
    return move
