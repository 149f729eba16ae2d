"""Progress of one call, on its way to the caller.

What an author says of progress is taken as it comes; what goes on the wire always increases, is
thinned out where it floods (a token bucket: the newest takes the place of the one that waits), and
ends with the handler. Work in threads may tell progress too: it is handed to the loop in order.

Spec: patterns/progress (P-01).
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from mcpost.limits import ServerLimits
from mcpost.wire.jsonrpc import encode

__all__ = ("ProgressGate", "call_on_loop")

_Told = tuple[float, float | None, str | None]


def call_on_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., None], *values: object
) -> None:
    """Call a function on a loop, from another thread; a loop that is closed hears nothing."""
    try:
        loop.call_soon_threadsafe(function, *values)
    except RuntimeError:
        return


class ProgressGate:
    """Decides what of a call's progress is sent, and when.

    Args:
        token: The request's progress token; 0 and "" are tokens like others.
        notify: Sends one encoded notification; called on the loop.
        limits: Its `progress_rate` and `progress_burst`.
        loop: The loop of the call, running in this thread.
    """

    __slots__ = (
        "_allowance",
        "_burst",
        "_closed",
        "_is_handing_over",
        "_last",
        "_loop",
        "_notify",
        "_pause",
        "_posted",
        "_prefix",
        "_refilled",
        "_thread",
        "_timer",
        "_total",
        "_total_tail",
        "_waiting",
    )

    def __init__(
        self,
        token: int | str,
        notify: Callable[[bytes], None],
        limits: ServerLimits,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._notify = notify
        self._loop = loop
        self._thread = threading.get_ident()
        self._closed = False
        self._prefix: Final = (
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'
            + encode(token)
            + b',"progress":'
        )
        self._last = -math.inf
        self._total: float | None = None
        self._total_tail = b""
        self._burst: Final = limits.progress_burst
        self._pause: Final = 1 / limits.progress_rate
        self._allowance = float(self._burst)
        self._refilled = loop.time()
        self._waiting: _Told | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._posted: deque[_Told] = deque()
        self._is_handing_over = False

    def tell(self, progress: float, total: float | None, message: str | None) -> None:
        """Take a word of progress; from any thread."""
        if threading.get_ident() != self._thread:
            self._post((progress, total, message))
            return
        if not self._last < progress < math.inf or self._closed:
            return
        self._last = progress
        if self._waiting is None and (self._allowance >= 1 or self._refill()):
            self._allowance -= 1
            if message is None and total is self._total and type(progress) is int:
                # As most are, and again and again.
                self._notify(b"%b%d%b}}" % (self._prefix, progress, self._total_tail))
            else:
                self._send(progress, total, message)
            return
        self._waiting = (progress, total, message)
        if self._timer is None:
            self._timer = self._loop.call_later(self._pause, self._release)

    def close(self) -> None:
        """Send what waits, and nothing from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting is not None:
            self._send(*self._waiting)
            self._waiting = None
        self._closed = True

    def _post(self, told: _Told) -> None:
        # Compared here as well, so that a value that is no number fails where it was told.
        if not self._last < told[0] or self._closed:
            return
        if len(self._posted) >= self._burst:
            # The loop does not keep up with this thread: the newest is what it needs to hear.
            self._posted.clear()
        self._posted.append(told)
        if not self._is_handing_over:
            self._is_handing_over = True
            call_on_loop(self._loop, self._take_posted)

    def _take_posted(self) -> None:
        # Lowered first: what is posted from here on either is still taken below or is handed over.
        self._is_handing_over = False
        while True:
            try:
                told = self._posted.popleft()
            except IndexError:
                return
            self.tell(*told)

    def _refill(self) -> bool:
        now = self._loop.time()
        grown = self._allowance + (now - self._refilled) / self._pause
        self._allowance = min(self._burst, grown)
        self._refilled = now
        # Not 1: a timer of one pause must not miss it by what floats lose.
        return self._allowance >= 0.999

    def _release(self) -> None:
        self._timer = None
        if not self._refill():
            self._timer = self._loop.call_later(self._pause, self._release)
            return
        self._allowance -= 1
        if self._waiting is not None:
            self._send(*self._waiting)
            self._waiting = None

    def _send(self, progress: float, total: float | None, message: str | None) -> None:
        # Other kinds of numbers (of numpy, Decimal) are none to JSON.
        exact = type(progress) is int or type(progress) is float
        value = encode(progress if exact else float(progress))
        if total is None or total == self._total:
            tail = b"" if total is None else self._total_tail
        elif math.isfinite(total):
            exact = type(total) is int or type(total) is float
            # It is the same in most words of one call.
            tail = self._total_tail = b',"total":' + encode(total if exact else float(total))
            self._total = total
        else:
            tail = b""
        if message is not None:
            tail += b',"message":' + encode(str(message))
        self._notify(b"%b%b%b}}" % (self._prefix, value, tail))
