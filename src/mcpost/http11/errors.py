"""What went wrong on a connection, as one tree.

```
HttpError
├─ Malformed(status, reason)     the peer's bytes break a rule; a server answers it, a call fails
├─ Misuse                        the program that uses this engine made a mistake; never sent
└─ CallFailed(sent)              no response could be had
   ├─ ConnectFailed              ├─ TimedOut(phase, seconds)
   ├─ PoolFull                   └─ BadResponse
   └─ ConnectionLost
```
"""

from __future__ import annotations

from typing import Literal

__all__ = (
    "BadResponse",
    "CallFailed",
    "ConnectFailed",
    "ConnectionLost",
    "HttpError",
    "Malformed",
    "Misuse",
    "Phase",
    "PoolFull",
    "Sent",
    "TimedOut",
)

Sent = Literal["no", "maybe", "yes"]
"""Whether the upstream may have seen the request: `yes` once a byte of a response has come."""

Phase = Literal["wait", "connect", "head", "idle", "total"]
"""What was waited for when a deadline passed."""


class HttpError(Exception):
    """Root of the tree."""


class Malformed(HttpError):
    """Bytes of the peer that are no message of HTTP/1.1, or one above a limit.

    Args:
        status: The status that a server answers with before it closes.
        reason: The rule that is broken, as a short sentence.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Misuse(HttpError):
    """A step that is not allowed now, or a header that this engine writes by itself."""


class CallFailed(HttpError):
    """No response, or no whole one.

    Args:
        message: What happened, and where.
        sent: Whether the upstream may have seen the request.
    """

    def __init__(self, message: str, sent: Sent) -> None:
        super().__init__(message)
        self.sent: Sent = sent


class ConnectFailed(CallFailed):
    """No connection could be made; the upstream has seen nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "no")


class PoolFull(CallFailed):
    """Too many requests wait for a connection already; the upstream has seen nothing."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} requests wait for a connection already", "no")


class ConnectionLost(CallFailed):
    """The connection ended before the response was complete."""


class BadResponse(CallFailed):
    """The response is no HTTP/1.1, or above a limit."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "yes")


class TimedOut(CallFailed):
    """A deadline passed.

    Args:
        phase: What was waited for.
        seconds: The deadline, in seconds.
        sent: As for `CallFailed`.
    """

    def __init__(self, phase: Phase, seconds: float, sent: Sent) -> None:
        super().__init__(f"no answer within {seconds:g} s (phase: {phase})", sent)
        self.phase: Phase = phase
        self.seconds = seconds
