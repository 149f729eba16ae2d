"""One attempt at a call: what was sent, what was heard, and what may be concluded from it.

A call is tried once, or several times where its caller said so; each attempt is a request of its
own with an id of its own. Whether the server may have run it depends on how far the attempt came,
and that is this table. `sent` is what the retry rule reads.

| state | an error here says | |
| --- | --- | --- |
| idle | `sent="no"` | nothing left this machine |
| sent | `sent="maybe"` | the request was written, and nothing came back |
| heard | `sent="yes"` | the server has answered in part |
| done | - | the response is here |
| lost | - | it will not come |

Spec: streamable-http, "Receiving Messages" (T-09, T-14).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from mcpost.errors import IllegalMove, Sent
from mcpost.wire.jsonrpc import Id, Notification, Response

__all__ = ("TABLE", "Attempt", "Event", "Outgoing", "Reply", "State", "step")


class State(enum.Enum):
    """How far an attempt came."""

    IDLE = "idle"
    SENT = "sent"
    HEARD = "heard"
    DONE = "done"
    LOST = "lost"


class Event(enum.Enum):
    """What happens to an attempt."""

    SEND = "send"
    """The request is handed to the network."""
    SIGN = "sign"
    """A sign of life: the head of an answer, a piece of its body."""
    FINAL = "final"
    """The response is whole."""
    DROP = "drop"
    """The attempt is over without it: an error, a deadline, a caller who went away."""


TABLE: Final[dict[tuple[State, Event], State]] = {
    (State.IDLE, Event.SEND): State.SENT,
    (State.IDLE, Event.DROP): State.LOST,
    (State.SENT, Event.SIGN): State.HEARD,
    (State.SENT, Event.DROP): State.LOST,
    # A redirect or a renewed credential sends the same request once more: it was refused.
    (State.HEARD, Event.SEND): State.SENT,
    (State.HEARD, Event.SIGN): State.HEARD,
    (State.HEARD, Event.FINAL): State.DONE,
    (State.HEARD, Event.DROP): State.LOST,
    (State.DONE, Event.DROP): State.DONE,
    (State.LOST, Event.DROP): State.LOST,
}
"""Every legal move; what is not here is illegal."""

_SENT: Final[dict[State, Sent]] = {State.IDLE: "no", State.SENT: "maybe", State.HEARD: "yes"}


def step(state: State, event: Event) -> State:
    """Tell what an event does to an attempt.

    Raises:
        IllegalMove: The event is not possible in this state: a bug of this package.
    """
    following = TABLE.get((state, event))
    if following is None:
        raise IllegalMove(state.value, event.value)
    return following


class Outgoing(NamedTuple):
    """A request, as a transport gets it."""

    id: Id
    method: str
    params: dict[str, Any]
    """With their `_meta`."""
    lines: list[tuple[str, str]]
    """The mirrored header lines, which only HTTP carries."""


class Reply(NamedTuple):
    """The response to a request, and the HTTP status that carried it."""

    response: Response
    status: int = 0
    """0 where the transport has none."""


Hear = Callable[[Notification], Awaitable[None] | None]


class Attempt:
    """One attempt, from the side of whoever waits for it.

    Args:
        hear: Gets each notification of this request, in order; what it returns is awaited before
            the next one is given, so a slow hearer slows the stream.

    A transport says what happens with `sending`, `heard` and `finish`; the deadline of the call
    reads `state`, `last_sign` and `paused`.
    """

    __slots__ = ("comments", "hear", "last_sign", "paused", "state")

    def __init__(self, now: float, hear: Hear | None = None) -> None:
        self.hear = hear
        self.state = State.IDLE
        self.last_sign = now
        """Loop time of the last sign of life, or of the start."""
        self.comments = 0
        """Comments that the stream has had: signs of life, and of a server that gives them."""
        self.paused = False
        """Whether the wait is for something else than the server: a person, a credential."""

    @property
    def sent(self) -> Sent:
        """Whether the server may have received the request."""
        return _SENT.get(self.state, "yes")

    def sending(self, now: float) -> None:
        """The request is handed to the network now."""
        self.state = step(self.state, Event.SEND)
        self.last_sign = now

    def heard(self, now: float) -> None:
        """The server gave a sign of life."""
        if self.state is not State.HEARD:
            self.state = step(self.state, Event.SIGN)
        self.last_sign = now

    def finish(self) -> None:
        """The response is whole."""
        self.state = step(self.state, Event.FINAL)

    def drop(self) -> None:
        """The attempt is over."""
        self.state = step(self.state, Event.DROP)

    def restart(self, now: float) -> None:
        """Begin anew: the answer refused the wire, not the call, and another wire is taken."""
        self.state = State.IDLE
        self.last_sign = now

    def resume(self, now: float) -> None:
        """The wait is for the server again."""
        self.paused = False
        self.last_sign = now
