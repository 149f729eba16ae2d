"""When a call is made once more, and after how long.

A call that was lost may have run; so it is repeated only where its caller says that it may be. What
a server refuses with the words "come back in a second" has not run, and is repeated by default.

Every repetition is a request of its own, under a new id.

Spec: streamable-http, "Receiving Messages" (T-14); RFC 9110, 9.2.2, 10.2.3.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from mcpost.errors import BadReply, Busy, ConnectionLost, Timeout, TransportError, UsageError

__all__ = ("NEVER", "WHEN_BUSY", "Reason", "Retry", "read_retry")

Reason = Literal["busy", "unsent", "lost", "timeout"]

# What a proxy says of a server that it could not reach or that fell silent.
_PROXY: Final = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retry:
    """A policy for repeating a call.

    `await client.call("reindex", retry=Retry(attempts=5))`
    """

    attempts: int = 3
    """How often the call is made at most, the first time included."""

    backoff: float = 0.25
    """Seconds before the second attempt; each further wait is twice as long."""

    max_backoff: float = 20.0
    """Seconds that a wait grows to at most."""

    jitter: float = 0.5
    """Share of a wait that is left to chance, so that many clients do not come back at once."""

    on: frozenset[Reason] = frozenset({"busy", "unsent", "lost"})
    """What the call is repeated for.

    `busy`: 429, or 503 with `Retry-After`: refused, not run. `unsent`: nothing left this machine.
    `lost`: the connection ended before the response, or a proxy lost the server (502, 503, 504):
    the call **may have run**. `timeout`: no sign of life: it may still be running.
    """

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.attempts < 1 or self.backoff < 0 or not 0 <= self.jitter <= 1:
            raise UsageError("a retry has attempts >= 1, backoff >= 0 and jitter from 0 to 1")

    def wait(
        self,
        error: TransportError,
        made: int,
        chance: Callable[[], float] = random.random,
    ) -> float | None:
        """Tell how long to wait before the next attempt.

        Args:
            error: How the last one failed.
            made: Attempts made so far.
            chance: Gives a number from 0 to 1.

        Returns:
            Seconds, or `None` where the call is not to be repeated.
        """
        if made >= self.attempts or _reason(error) not in self.on:
            return None
        wait = min(self.backoff * 2.0 ** min(made - 1, 30), self.max_backoff)
        wait *= 1 - self.jitter * chance()
        if isinstance(error, Busy) and error.retry_after is not None:
            # Never before the server's time; the share of chance comes on top of it.
            wait += error.retry_after
        return wait


NEVER: Final = Retry(attempts=1)
"""The call is made once, whatever happens."""

WHEN_BUSY: Final = Retry(on=frozenset({"busy"}))
"""The default: only what the server has refused to take is sent again."""


def read_retry(value: Retry | int | bool | None, default: Retry) -> Retry:
    """Read what a caller gives for `retry`.

    Args:
        value: A policy; a number of attempts; `True` for the usual policy, `False` for none;
            `None` for the default.
        default: The default.
    """
    if value is None:
        return default
    if isinstance(value, Retry):
        return value
    if value is True:
        return Retry()
    return Retry(attempts=value) if value else NEVER


def _reason(error: TransportError) -> Reason | None:
    if isinstance(error, Busy):
        return "busy" if error.status == 429 or error.retry_after is not None else "lost"
    if isinstance(error, BadReply):
        return "lost" if error.status in _PROXY else None
    if isinstance(error, Timeout) and error.phase == "total":
        return None
    if error.sent == "no":
        return "unsent"
    if isinstance(error, ConnectionLost):
        return "lost"
    return "timeout" if isinstance(error, Timeout) else None
