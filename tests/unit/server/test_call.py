from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from mcpost import Context, Server, ServerLimits, ToolError
from mcpost.errors import MissingCapability, UsageError
from mcpost.server.call import Principal
from mcpost.server.progress import ProgressGate
from tests.helpers.calls import answer, call_tool, make_call
from tests.helpers.loop import run

Notes = list[dict[str, Any]]


class Clock:
    """A loop that has a clock of ours and runs a timer when we say so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, action: Callable[[], None]) -> Clock:
        self.timers.append(action)
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        due, self.timers = self.timers, []
        for action in due:
            action()


def gate(token: int | str = "t", *, rate: float = 10, burst: int = 2) -> tuple[Any, Notes, Clock]:
    notes: Notes = []
    clock = Clock()
    limits = ServerLimits(progress_rate=rate, progress_burst=burst)
    made = ProgressGate(token, lambda note: notes.append(json.loads(note)), limits, clock)  # type: ignore[arg-type]
    return made, notes, clock


def values(notes: Notes) -> list[float]:
    return [note["params"]["progress"] for note in notes]


@pytest.mark.req("P-01/S")
@pytest.mark.parametrize("token", [0, "", "abc", 2**60, -1])
def test_progress_carries_the_token_of_the_request(token: int | str) -> None:
    made, notes, _ = gate(token)

    made.tell(1, 4, "a quarter")

    assert notes == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {
                "progressToken": token,
                "progress": 1,
                "total": 4,
                "message": "a quarter",
            },
        }
    ]


@pytest.mark.req("P-01/S")
@pytest.mark.parametrize(
    ("told", "sent"),
    [
        ([5, 3, 5, 6], [5, 6]),
        ([0, 0, 0.5], [0, 0.5]),
        ([-2, -1], [-2, -1]),
        ([1, float("nan"), float("inf"), 2], [1, 2]),
        ([float("-inf"), 1], [1]),
    ],
)
def test_progress_increases(told: list[float], sent: list[float]) -> None:
    made, notes, _ = gate(burst=10)

    for each in told:
        made.tell(each, None, None)

    assert values(notes) == sent


@pytest.mark.req("P-01/S")
def test_a_flood_is_thinned_out_and_its_newest_word_waits() -> None:
    made, notes, clock = gate(rate=10, burst=2)
    for each in range(1, 8):
        made.tell(each, None, None)

    assert values(notes) == [1, 2]
    clock.pass_time(0.1)
    assert values(notes) == [1, 2, 7]


@pytest.mark.req("P-01/S")
def test_progress_is_free_again_after_a_pause() -> None:
    made, notes, clock = gate(rate=10, burst=2)
    made.tell(1, None, None)
    made.tell(2, None, None)
    clock.pass_time(60)
    for each in (3, 4, 5):
        made.tell(each, None, None)

    assert values(notes) == [1, 2, 3, 4]


@pytest.mark.req("P-01/S")
def test_what_waits_goes_before_the_end_and_nothing_after_it() -> None:
    made, notes, clock = gate(rate=10, burst=1)
    for each in (1, 2, 3):
        made.tell(each, None, None)

    made.close()
    made.tell(4, None, None)
    clock.pass_time(1)

    assert values(notes) == [1, 3]


@pytest.mark.req("P-01/S")
def test_numbers_of_other_kinds_are_told_as_json_numbers() -> None:
    made, notes, _ = gate()

    made.tell(Fraction(1, 2), Decimal(4), None)

    assert (notes[0]["params"]["progress"], notes[0]["params"]["total"]) == (0.5, 4)


@pytest.mark.req("P-01/S")
@pytest.mark.parametrize("total", [float("nan"), float("inf")])
def test_a_total_that_is_no_number_is_left_out(total: float) -> None:
    made, notes, _ = gate()

    made.tell(1, total, None)

    assert "total" not in notes[0]["params"]


def make_server(**limits: Any) -> Server:
    server = Server("speaks", limits=ServerLimits(**limits))

    @server.tool
    async def count(ctx: Context, steps: int = 3) -> str:
        for step in range(steps):
            await ctx.progress(step + 1, steps, f"step {step + 1}")
        return "done"

    @server.tool
    def count_in_thread(ctx: Context, steps: int = 3) -> str:
        for step in range(steps):
            ctx.progress(step + 1, steps)
        return "done"

    @server.tool
    async def speak(ctx: Context) -> str:
        for level in ("debug", "info", "notice", "warning", "error", "critical"):
            ctx.log(level, {"at": level}, "books")
        return "done"

    return server


@pytest.mark.req("P-01/S")
@pytest.mark.parametrize("name", ["count", "count_in_thread"])
def test_progress_goes_out_in_order_before_the_result(name: str) -> None:
    notes: Notes = []

    result = run(call_tool(make_server(), name, notes=notes, progressToken=0))

    assert values(notes) == [1, 2, 3]
    assert result["content"][0]["text"] == "done"


@pytest.mark.req("P-01/S")
@pytest.mark.parametrize("name", ["count", "count_in_thread"])
@pytest.mark.parametrize("token", [{}, {"progressToken": True}, {"progressToken": None}])
def test_without_a_token_there_is_no_progress(name: str, token: dict[str, Any]) -> None:
    notes: Notes = []

    run(call_tool(make_server(), name, notes=notes, **token))

    assert notes == []


@pytest.mark.req("P-01/S")
def test_a_flood_from_a_thread_is_bounded_and_ends_with_its_newest() -> None:
    notes: Notes = []
    server = make_server(progress_burst=50, progress_rate=100)

    run(call_tool(server, "count_in_thread", {"steps": 20_000}, notes=notes, progressToken=1))

    told = values(notes)
    assert told == sorted(set(told))
    assert len(told) < 5_000
    assert told[-1] == 20_000


@pytest.mark.req("P-01/S")
def test_progress_told_by_the_loop_and_by_a_thread_increases() -> None:
    notes: Notes = []
    server = Server("speaks")

    @server.tool
    async def both(ctx: Context) -> str:
        thread = asyncio.to_thread(lambda: [ctx.progress(each) for each in range(0, 400, 2)])
        task = asyncio.ensure_future(thread)
        for each in range(1, 400, 2):
            ctx.progress(each)
            await asyncio.sleep(0)
        await task
        return "done"

    run(call_tool(server, "both", notes=notes, progressToken=1))

    assert values(notes) == sorted(set(values(notes)))


@pytest.mark.req("P-01/S", "P-07/S", "T-11/S")
def test_nothing_is_said_after_the_end() -> None:
    notes: Notes = []
    server = Server("speaks")
    kept: list[Context] = []

    @server.tool
    async def leak(ctx: Context) -> str:
        kept.append(ctx)
        return "done"

    async def main() -> None:
        await call_tool(
            server,
            "leak",
            notes=notes,
            progressToken=1,
            **{"io.modelcontextprotocol/logLevel": "debug"},
        )
        kept[0].progress(1)
        kept[0].error("late")
        thread = threading.Thread(target=lambda: (kept[0].progress(2), kept[0].error("late")))
        thread.start()
        await asyncio.to_thread(thread.join)
        await asyncio.sleep(0)

    run(main())
    # The loop is closed now; a thread that still speaks is not hurt by that.
    thread = threading.Thread(target=lambda: (kept[0].progress(3), kept[0].error("late")))
    thread.start()
    thread.join()

    assert notes == []


@pytest.mark.req("P-07/S")
@pytest.mark.parametrize(
    ("asked", "heard"),
    [
        (None, []),
        ("debug", ["debug", "info", "notice", "warning", "error", "critical"]),
        ("warning", ["warning", "error", "critical"]),
        ("emergency", []),
    ],
)
def test_log_messages_go_to_who_asked_for_their_level(asked: str | None, heard: list[str]) -> None:
    notes: Notes = []
    more = {} if asked is None else {"io.modelcontextprotocol/logLevel": asked}

    run(call_tool(make_server(), "speak", notes=notes, **more))

    assert [note["params"]["level"] for note in notes] == heard
    for note in notes:
        assert note["method"] == "notifications/message"
        assert note["params"]["logger"] == "books"


@pytest.mark.req("P-07/S")
def test_the_usual_levels_have_a_method_each() -> None:
    notes: Notes = []
    call = make_call("tools/call", notes=notes, **{"io.modelcontextprotocol/logLevel": "debug"})
    context = Context(call, ServerLimits(), None)  # type: ignore[arg-type]

    for say in (context.debug, context.info, context.warning, context.error):
        say({"n": 1})

    assert [note["params"] for note in notes] == [
        {"level": level, "data": {"n": 1}} for level in ("debug", "info", "warning", "error")
    ]


@pytest.mark.req("P-07/S")
def test_a_level_that_is_none_is_the_authors_mistake() -> None:
    context = Context(make_call("tools/call"), ServerLimits(), None)  # type: ignore[arg-type]

    with pytest.raises(UsageError, match="no log level"):
        context.log("loud", "x")


@pytest.mark.req("P-01/S")
def test_progress_is_told_before_a_failure_too() -> None:
    notes: Notes = []
    server = Server("speaks", limits=ServerLimits(progress_burst=1, progress_rate=0.001))

    @server.tool
    async def fail(ctx: Context) -> str:
        for each in (1, 2, 3):
            ctx.progress(each)
        raise ToolError("no")

    run(call_tool(server, "fail", notes=notes, progressToken=1))

    assert values(notes) == [1, 3]


@pytest.mark.req("J-04/S", "J-05/S", "J-06/S")
def test_a_handler_sees_what_the_request_says() -> None:
    server, seen = Server("sees"), {}
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @server.tool
    async def look(ctx: Context) -> None:
        seen.update(
            meta=ctx.meta["x.example/y"],
            info=ctx.client_info and ctx.client_info.name,
            version=ctx.protocol_version,
            principal=ctx.principal,
            id=ctx.request_id,
            trace=ctx.trace,
            headers=ctx.headers,
        )

    async def main() -> None:
        call = make_call(
            "tools/call",
            {"name": "look"},
            principal="ann",
            traceparent=trace,
            **{
                "x.example/y": 5,
                "io.modelcontextprotocol/clientInfo": {"name": "cli", "version": "1"},
            },
        )
        call.headers = [(b"mcp-method", b"tools/call"), (b"x-a", b"1"), (b"x-a", b"2")]
        await answer(server, call)

    run(main())

    assert seen == {
        "meta": 5,
        "info": "cli",
        "version": "2026-07-28",
        "principal": Principal("ann"),
        "id": 7,
        "trace": {"traceparent": trace},
        "headers": {"mcp-method": "tools/call", "x-a": "2"},
    }


@pytest.mark.req("J-04/S")
@pytest.mark.parametrize("info", [None, 5, {}, {"name": 5, "version": "1"}])
def test_a_client_that_says_nothing_readable_of_itself_is_served(info: object) -> None:
    call = make_call("tools/call", **{"io.modelcontextprotocol/clientInfo": info})

    assert Context(call, ServerLimits(), None).client_info is None  # type: ignore[arg-type]


@pytest.mark.req("T-15/S")
def test_a_thread_sees_that_its_caller_has_left() -> None:
    server, began, seen = Server("stops"), threading.Event(), threading.Event()

    @server.tool
    def work(ctx: Context) -> None:
        began.set()
        while not ctx.cancelled:
            pass
        seen.set()
        ctx.raise_if_cancelled()

    async def main() -> None:
        call = make_call("tools/call", {"name": "work"})
        task = asyncio.ensure_future(answer(server, call))
        await asyncio.to_thread(began.wait, 5)
        call.cancelled = True
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())

    assert seen.wait(5)


@pytest.mark.req("T-21/S")
def test_a_handler_can_require_a_capability() -> None:
    server = Server("needs")

    @server.tool
    async def needs(ctx: Context) -> str:
        ctx.require({"sampling": {}, "roots": {}})
        return "has"

    with pytest.raises(MissingCapability) as caught:
        run(call_tool(server, "needs", capabilities={"roots": {}}))

    assert caught.value.data == {"requiredCapabilities": {"sampling": {}}}
    assert run(call_tool(server, "needs", capabilities={"roots": {}, "sampling": {}}))
