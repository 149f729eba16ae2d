from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost import ServerLimits
from mcpost.server.progress import ProgressGate

TOLD = st.tuples(
    st.one_of(st.integers(-(2**53), 2**53), st.floats()),
    st.floats(0, 0.5),
)


class Clock:
    """A loop whose time we pass; timers that are due run in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, action: Callable[[], None]) -> Clock:
        self.timers.append((self.now + seconds, action))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.timers and self.timers[0][0] <= end:
            self.now, action = self.timers.pop(0)
            action()
        self.now = end


@pytest.mark.req("P-01/S")
@given(st.lists(TOLD, max_size=60), st.integers(1, 5))
def test_whatever_is_told_progress_increases_ends_with_the_newest_and_is_thinned_out(
    told: list[tuple[float, float]], burst: int
) -> None:
    sent: list[Any] = []
    clock = Clock()
    limits = ServerLimits(progress_rate=10, progress_burst=burst)
    gate = ProgressGate(1, lambda note: sent.append(json.loads(note)), limits, clock)  # type: ignore[arg-type]
    for value, pause in told:
        gate.tell(value, None, None)
        clock.pass_time(pause)
    gate.close()
    clock.pass_time(60)

    values = [note["params"]["progress"] for note in sent]
    accepted = [value for value, _ in told if math.isfinite(value)]
    assert all(before < after for before, after in pairwise(values))
    assert values[-1:] == ([max(accepted)] if accepted else [])
    # One more for what waited at the end, and one for what rounding gives.
    assert len(values) <= burst + 10 * sum(pause for _, pause in told) + 2
