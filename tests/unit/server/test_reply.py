"""One answer's life through a door, and the calls behind it (mcpost.server.reply, .work)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from mcpost import Context, Server
from mcpost.errors import InternalError, InvalidParams, MissingCapability
from mcpost.limits import ServerLimits
from mcpost.server.endpoint import Endpoint
from mcpost.server.pulse import Lane
from mcpost.server.reply import Reply, Terms
from mcpost.server.settings import Settings
from mcpost.wire.exchange import State
from tests.helpers.http import RecordingDoor, body, head, lines, make_server
from tests.helpers.loop import run_by_the_clock as run

NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'


def make(door: RecordingDoor, *, keep_alive: float = 0, max_buffer: int = 1000) -> Reply:
    lane: Lane[Reply] = Lane(asyncio.get_running_loop(), keep_alive, Reply.silence)
    return Reply(door, 7, head(lines("x")), Terms(lane, max_buffer))


class Running:
    """A call of a tool on an endpoint, with the door that its answer goes to."""

    def __init__(
        self,
        server: Server,
        name: str,
        arguments: dict[str, Any] | None = None,
        limits: ServerLimits = ServerLimits(),
        **meta: Any,
    ) -> None:
        self.endpoint = Endpoint(server.features, server.bus, Settings.make(limits=limits))
        self.door = RecordingDoor()
        sent = body("tools/call", {"name": name, "arguments": arguments or {}}, **meta)
        rest = self.endpoint.begin(head(lines("tools/call", name)), sent, self.door)
        assert rest is not None
        self.task = asyncio.create_task(rest)

    async def watched(self) -> None:
        """Wait until the peer is watched."""
        await self.door.until(lambda: self.door.gone is not None)


@pytest.mark.req("T-10/S", "T-11/S", "T-12/S", "T-14/S")
def test_a_note_opens_a_stream_that_the_result_ends() -> None:
    async def scenario() -> RecordingDoor:
        door = RecordingDoor()
        reply = make(door)
        reply.note(NOTE)
        reply.result({"resultType": "complete"})
        return door

    door = run(scenario())

    assert door.heads == [
        (
            200,
            {
                b"content-type": b"text/event-stream",
                b"cache-control": b"no-store",
                b"x-accel-buffering": b"no",
            },
        )
    ]
    assert b"".join(door.chunks) == (
        b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
        b'data: {"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}\n\n'
    )
    assert door.ended
    assert not door.answers


@pytest.mark.req("T-21/S")
@pytest.mark.parametrize(
    ("error", "status"),
    [(InvalidParams("x"), 200), (InternalError("x"), 200), (MissingCapability("x", {}), 400)],
)
def test_before_the_first_word_an_error_has_its_own_status(error: Any, status: int) -> None:
    async def scenario() -> RecordingDoor:
        door = RecordingDoor()
        make(door).error(error)
        return door

    door = run(scenario())

    assert (door.status, door.json["id"]) == (status, 7)


@pytest.mark.req("T-11/S", "T-15/S")
def test_nothing_is_said_once_the_peer_has_left() -> None:
    async def scenario() -> tuple[Reply, RecordingDoor]:
        door = RecordingDoor()
        reply = make(door)
        reply.note(NOTE)
        reply.gone()
        reply.note(NOTE)
        reply.result({})
        reply.silence()
        return reply, door

    reply, door = run(scenario())

    assert reply.state is State.CLOSED
    assert len(door.events) == 1
    assert not door.ended


@pytest.mark.req("T-13/S")
def test_silence_makes_comments_and_no_events() -> None:
    async def scenario() -> RecordingDoor:
        door = RecordingDoor()
        reply = make(door, keep_alive=0.02)
        reply.note(NOTE)
        await door.until(lambda: door.comments >= 3)
        reply.result({})
        said = len(door.chunks)
        await asyncio.sleep(0.05)
        assert len(door.chunks) == said
        return door

    assert len(run(scenario()).events) == 2


@pytest.mark.req("T-13/S")
def test_a_call_that_stays_silent_for_an_interval_becomes_a_stream() -> None:
    async def scenario() -> RecordingDoor:
        limits = ServerLimits(keep_alive=0.05)
        call = Running(make_server(), "count", {"steps": 1, "delay": 0.2}, limits)
        await call.task
        return call.door

    door = run(scenario())

    assert door.heads[0][0] == 200
    assert door.comments >= 1
    assert [event["id"] for event in door.events] == [7]


@pytest.mark.req("T-15/S")
def test_a_slow_reader_loses_progress_first_and_then_its_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> tuple[Reply, RecordingDoor]:
        door = RecordingDoor()
        door.reads = False
        reply = make(door, max_buffer=400)
        for _ in range(10):
            reply.note(PROGRESS)
        assert 100 < door.pending() < 200
        for _ in range(10):
            reply.note(NOTE)
        return reply, door

    reply, door = run(scenario())

    assert door.aborted
    assert reply.state is State.CLOSED
    assert door.pending() < 400 + 2 * len(NOTE)
    assert "unread" in caplog.text


@pytest.mark.req("T-15/S")
def test_a_call_of_some_milliseconds_is_watched_and_cancelled_when_its_caller_leaves() -> None:
    server = make_server()
    seen: list[str] = []

    @server.tool
    async def wait(ctx: Context) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(f"cancelled {ctx.cancelled}")
            raise
        return "no"

    async def scenario() -> RecordingDoor:
        call = Running(server, "wait")
        await call.watched()
        call.door.gone()
        await call.task
        assert call.task.cancelling() == 0
        return call.door

    door = run(scenario())

    assert seen == ["cancelled True"]
    assert not door.answers
    assert not door.chunks


@pytest.mark.req("T-15/S")
def test_a_handler_that_minds_no_cancellation_is_not_heard_either() -> None:
    server = make_server()

    @server.tool
    async def stubborn(ctx: Context) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ctx.info("still here")
        return "done"

    async def scenario() -> RecordingDoor:
        call = Running(server, "stubborn", **{"io.modelcontextprotocol/logLevel": "debug"})
        await call.watched()
        call.door.gone()
        await call.task
        return call.door

    door = run(scenario())

    assert not door.answers
    assert not door.chunks


@pytest.mark.req("T-23/S")
def test_a_cancellation_of_the_handlers_own_is_an_error_and_no_silence() -> None:
    server = make_server()

    @server.tool
    async def at_once() -> str:
        raise asyncio.CancelledError

    @server.tool
    async def later() -> str:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    async def scenario() -> RecordingDoor:
        call = Running(server, "later")
        await call.task
        return call.door

    door = run(scenario())

    assert (door.status, door.json["error"]["code"]) == (200, -32603)
    assert run(_answer_at_once(server)).json["error"]["code"] == -32603


async def _answer_at_once(server: Server) -> RecordingDoor:
    endpoint = Endpoint(server.features, server.bus, Settings.make())
    door = RecordingDoor()
    sent = body("tools/call", {"name": "at_once"})
    assert endpoint.begin(head(lines("tools/call", "at_once")), sent, door) is None
    return door


@pytest.mark.req("T-15/S")
def test_a_cancellation_from_outside_goes_on_outwards() -> None:
    async def scenario() -> None:
        call = Running(make_server(), "count", {"steps": 1, "delay": 60})
        await asyncio.sleep(0.01)
        call.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.task
        assert call.endpoint._here().crew.admission.running == 0

    run(scenario())


@pytest.mark.req("T-23/S")
def test_a_call_that_takes_too_long_is_stopped_and_answered() -> None:
    async def scenario() -> RecordingDoor:
        limits = ServerLimits(call_timeout=0.05)
        call = Running(make_server(), "count", {"steps": 1, "delay": 60}, limits)
        await call.task
        return call.door

    door = run(scenario())

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (200, 7, -32603)
    assert "longer" in door.json["error"]["message"]


@pytest.mark.req("P-05/S")
def test_a_drain_lets_calls_finish_within_their_grace_and_stops_the_others() -> None:
    async def scenario() -> list[RecordingDoor]:
        server = make_server()
        quick = Running(server, "count", {"steps": 1, "delay": 0.05})
        slow = Running(server, "count", {"steps": 1, "delay": 60})
        await asyncio.sleep(0)
        await quick.endpoint.drain(2)
        await slow.endpoint.drain(0.05)
        await asyncio.gather(quick.task, slow.task)
        return [quick.door, slow.door]

    quick, slow = run(scenario())

    assert quick.json["result"]["structuredContent"] == 1
    assert slow.json["error"]["code"] == -32603
    assert "shutting down" in slow.json["error"]["message"]


@pytest.mark.req("T-25/S")
def test_a_caller_that_leaves_the_queue_takes_no_place() -> None:
    async def scenario() -> None:
        limits = replace(ServerLimits(), max_calls=1)
        server = make_server()
        first = Running(server, "count", {"steps": 1, "delay": 60}, limits)
        first.endpoint._here().crew.admission.enter_nowait()
        door = RecordingDoor()
        sent = body("tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}})
        rest = first.endpoint.begin(head(lines("tools/call", "add")), sent, door)
        assert rest is not None
        waiting = asyncio.create_task(rest)
        await door.until(lambda: door.gone is not None)
        assert first.endpoint._here().crew.admission.waiting == 1
        door.gone()
        await waiting
        assert first.endpoint._here().crew.admission.waiting == 0
        first.task.cancel()
        await asyncio.gather(first.task, return_exceptions=True)

    run(scenario())


@pytest.mark.req("T-25/S")
def test_a_call_that_waits_too_long_for_a_place_is_503() -> None:
    async def scenario() -> RecordingDoor:
        limits = replace(ServerLimits(), max_calls=0, queue_timeout=0.02)
        call = Running(make_server(), "add", {"a": 1, "b": 2}, limits)
        await call.task
        return call.door

    door = run(scenario())

    assert (door.status, door.json["id"]) == (503, 7)
    assert (b"retry-after", b"1") in door.answers[0].headers


@pytest.mark.req("T-23/S")
def test_what_cannot_be_written_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> RecordingDoor:
        server = make_server()
        endpoint = Endpoint(server.features, server.bus, Settings.make())
        endpoint._here().crew = replace(endpoint._here().crew, handle=lambda call: {"x": object()})
        door = RecordingDoor()
        assert endpoint.begin(head(lines("tools/list")), body("tools/list"), door) is None
        return door

    with caplog.at_level(logging.ERROR):
        door = run(scenario())

    assert (door.status, door.json["error"]["code"]) == (200, -32603)
    assert "tools/list failed" in caplog.text
