"""What the live page is told: bounded, and nothing while nobody watches (mcpost.gateway.live)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.gateway import live as module
from mcpost.gateway.access_log import Note
from mcpost.gateway.decide import Verdict, read_facts
from mcpost.gateway.live import BOUNDS, MAX_WATCHERS, WINDOW, Live


class Out:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.behind = 0

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def pending(self) -> int:
        return self.behind

    @property
    def snapshots(self) -> list[Any]:
        parts = b"".join(self.written).split(b"\n\n")
        return [json.loads(each[6:]) for each in parts if each.startswith(b"data: {")]


def make() -> Live:
    return Live(lambda: {"open_streams": 3})


def note(name: str = "search", action: Any = "allow", ago: float = 0.0, **more: Any) -> Note:
    headers = [(b"mcp-method", b"tools/call"), (b"mcp-name", name.encode())]
    facts = read_facts(headers, "127.0.0.1")
    return Note("POST", facts, Verdict(action, **more), time.perf_counter() - ago)


def test_a_snapshot_says_what_has_been_since_the_one_before() -> None:
    live, out = make(), Out()
    live.enter(out)
    live.add(note(rule="reading", upstream="library"), 200, 1000.5)
    live.add(note(action="refuse", reason="stands twice"), 400, 1000.6)
    live.tick(1001)
    live.tick(1001.5)

    first, second = out.snapshots
    assert first["gauges"] == {"open_streams": 3}
    assert [each["verdict"] for each in first["requests"]] == ["allow", "refuse"]
    assert first["requests"][0] | {"ms": 0} == {
        "at": 1000500,
        "method": "tools/call",
        "name": "search",
        "verdict": "allow",
        "rule": "reading",
        "reason": None,
        "upstream": "library",
        "status": 200,
        "cache": None,
        "client": "127.0.0.1",
        "ms": 0,
    }
    assert [each["reason"] for each in first["refused"]] == ["stands twice"]
    assert second["requests"] == second["refused"] == []
    # Of what was let through alone a latency says something.
    assert [(each["name"], each["minute"]) for each in second["tools"]] == [
        ("tools/call search", 1)
    ]


def test_rows_beyond_the_bound_are_counted() -> None:
    live, out = make(), Out()
    live.enter(out)
    for number in range(1000):
        live.add(note(f"n{number}"), 200, 1000)
    live.tick(1001)

    (found,) = out.snapshots
    assert len(found["requests"]) == module.MAX_ROWS
    assert found["more"] == 1000 - module.MAX_ROWS
    assert len(found["tools"]) == module.MAX_NAMES + 1
    assert found["tools"][0]["name"] == "(others)"
    assert sum(each["minute"] for each in found["tools"]) == 1000


def test_a_long_name_is_cut() -> None:
    live, out = make(), Out()
    live.enter(out)
    live.add(note("x" * 5000), 200, 1000)
    live.tick(1001)

    assert len(out.snapshots[0]["requests"][0]["name"]) == module.MAX_TEXT


def test_a_slow_page_loses_snapshots_and_is_told_how_many() -> None:
    live, slow, quick = make(), Out(), Out()
    live.enter(slow)
    live.enter(quick)
    slow.behind = module.MAX_BEHIND + 1
    for at in range(3):
        live.tick(at)
    slow.behind = 0
    live.tick(3)

    assert len(quick.snapshots) == 4
    assert len(slow.snapshots) == 1
    assert slow.written[0].startswith(b"event: lost\ndata: 3\n\ndata: {")


def test_pages_are_bounded_and_a_place_becomes_free() -> None:
    live = make()
    watchers = [live.enter(Out()) for _ in range(MAX_WATCHERS)]

    assert live.enter(Out()) is None
    assert watchers[0] is not None
    live.leave(watchers[0])
    assert live.enter(Out()) is not None


def test_with_the_last_page_everything_is_forgotten() -> None:
    live = make()
    watcher = live.enter(Out())
    assert watcher is not None
    assert live.is_watched
    live.add(note(), 200, 1000)
    live.leave(watcher)
    out = Out()

    assert not live.is_watched
    live.enter(out)
    live.tick(1001)
    assert out.snapshots[0]["requests"] == out.snapshots[0]["tools"] == []


def test_a_minute_later_a_name_is_gone() -> None:
    live, out = make(), Out()
    live.enter(out)
    live.add(note(), 200, 1000)
    for at in range(WINDOW + 1):
        live.tick(at)

    assert out.snapshots[WINDOW - 2]["tools"]
    assert out.snapshots[-1]["tools"] == []


@pytest.mark.parametrize(("status", "failed"), [(200, 0), (400, 0), (502, 1), (0, 1)])
def test_what_failed_is_counted(status: int, failed: int) -> None:
    live, out = make(), Out()
    live.enter(out)
    live.add(note(), status, 1000)
    live.tick(1001)

    assert out.snapshots[0]["tools"][0]["failed"] == failed


@given(
    st.lists(
        st.lists(st.tuples(st.floats(0, 100_000), st.booleans()), max_size=5),
        max_size=WINDOW + 30,
    )
)
def test_the_window_counts_what_is_in_it(ticks: list[list[tuple[float, bool]]]) -> None:
    pace = module._Pace()
    for number, calls in enumerate(ticks):
        for milliseconds, failed in calls:
            pace.add(number, milliseconds, failed=failed)
    until = len(ticks) - WINDOW
    pace.forget(until)
    inside = [call for calls in ticks[max(until, 0) :] for call in calls]

    assert pace.count == len(inside) == sum(pace.spread)
    assert pace.failed == sum(failed for _, failed in inside)
    if inside:
        half = sorted(ms for ms, _ in inside)[(len(inside) + 1) // 2 - 1]
        bound = pace.within(0.5)
        assert bound == next((each for each in BOUNDS if half <= each), None)
