"""Streams that tell of changes (mcpost.server.listen, .bus)."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from mcpost import Server
from mcpost.errors import InvalidParams
from mcpost.limits import ServerLimits
from mcpost.server.bus import MemoryBus, Missed
from mcpost.server.listen import read_filter
from mcpost.server.settings import Settings
from tests.helpers.http import RecordingDoor, body, head, lines, make_server
from tests.helpers.loop import run

ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
DECLARED = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
}


def nothing() -> None:
    """Do nothing: a tool that comes and goes."""


class Listening:
    """An endpoint whose listens go to recording doors."""

    def __init__(self, server: Server | None = None, limits: ServerLimits = ServerLimits()) -> None:
        self.server = server or make_server()
        self.endpoint = self.server.endpoint(Settings.make(limits=limits), legacy=False)

    def open(self, id: Any = 7, **wanted: Any) -> RecordingDoor:
        door = RecordingDoor()
        sent = body("subscriptions/listen", {"notifications": wanted}, id=id)
        rest = self.endpoint.begin(head(lines("subscriptions/listen")), sent, door)
        assert rest is None
        return door

    async def told(self) -> None:
        """Wait until what was published is told."""
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.mark.req("P-04/S")
def test_a_listen_is_acknowledged_first_with_what_is_honoured() -> None:
    async def scenario() -> RecordingDoor:
        return Listening().open("a", **ALL, resourceSubscriptions=["small://one", "small://one"])

    door = run(scenario())

    assert door.heads[0][0] == 200
    assert door.events == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "_meta": {"io.modelcontextprotocol/subscriptionId": "a"},
                "notifications": {
                    "toolsListChanged": True,
                    "resourcesListChanged": True,
                    "resourceSubscriptions": ["small://one"],
                },
            },
        }
    ]


@pytest.mark.req("P-04/S")
def test_each_stream_hears_what_it_asked_for_under_its_own_id() -> None:
    async def scenario() -> list[RecordingDoor]:
        listening = Listening()
        doors = [
            listening.open(1, toolsListChanged=True),
            listening.open("b", resourcesListChanged=True, resourceSubscriptions=["small://one"]),
            listening.open(1),
        ]
        listening.server.notify_tools_changed()
        listening.server.notify_resource_updated("small://one")
        listening.server.notify_resource_updated("small://two")
        await listening.told()
        return doors

    tools, resources, nothing = run(scenario())

    assert tools.events[1:] == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": 1}},
        }
    ]
    assert resources.events[1:] == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {
                "_meta": {"io.modelcontextprotocol/subscriptionId": "b"},
                "uri": "small://one",
            },
        }
    ]
    assert len(nothing.events) == 1


@pytest.mark.req("P-04/S")
def test_what_changes_several_times_in_one_turn_is_told_once() -> None:
    async def scenario() -> RecordingDoor:
        listening = Listening()
        door = listening.open(toolsListChanged=True)
        for name in ("x", "y", "z"):
            listening.server.add_tool(nothing, name=name)
        await listening.told()
        return door

    assert [event["method"] for event in run(scenario()).events[1:]] == [
        "notifications/tools/list_changed"
    ]


@pytest.mark.req("P-04/S")
def test_a_change_may_come_from_any_thread() -> None:
    async def scenario() -> RecordingDoor:
        listening = Listening()
        door = listening.open(toolsListChanged=True)
        thread = threading.Thread(target=listening.server.notify_tools_changed)
        thread.start()
        await asyncio.to_thread(thread.join)
        await listening.told()
        return door

    assert len(run(scenario()).events) == 2


@pytest.mark.req("P-05/S")
def test_a_server_that_ends_a_listen_says_so_with_a_result() -> None:
    async def scenario() -> RecordingDoor:
        listening = Listening()
        door = listening.open("a", toolsListChanged=True)
        await listening.endpoint.drain(0)
        listening.server.notify_tools_changed()
        await listening.told()
        return door

    door = run(scenario())

    assert door.ended
    assert door.events[1] == {
        "jsonrpc": "2.0",
        "id": "a",
        "result": {
            "resultType": "complete",
            "_meta": {
                "io.modelcontextprotocol/subscriptionId": "a",
                "io.modelcontextprotocol/serverInfo": {"name": "small", "version": "0"},
            },
        },
    }
    assert len(door.events) == 2


@pytest.mark.req("P-05/S", "T-25/S")
def test_a_server_that_is_ending_takes_no_more_listens_or_calls() -> None:
    async def scenario() -> list[RecordingDoor]:
        listening = Listening()
        await listening.endpoint.drain(0)
        door = RecordingDoor()
        assert listening.endpoint.begin(head(lines("tools/list")), body("tools/list"), door) is None
        return [listening.open(toolsListChanged=True), door]

    assert [door.status for door in run(scenario())] == [503, 503]


@pytest.mark.req("T-15/S", "P-04/S")
def test_a_listen_whose_caller_left_is_forgotten() -> None:
    async def scenario() -> tuple[RecordingDoor, int, int]:
        bus = MemoryBus()
        listening = Listening(make_server(bus=bus))
        doors = [listening.open(toolsListChanged=True) for _ in range(2)]
        assert len(bus._listeners) == 1
        doors[0].gone()
        listening.server.notify_tools_changed()
        await listening.told()
        assert len(doors[1].events) == 2
        doors[1].gone()
        return doors[0], len(listening.endpoint._here().listens), len(bus._listeners)

    door, left, subscribed = run(scenario())

    assert len(door.events) == 1
    assert (left, subscribed) == (0, 0)


@pytest.mark.req("P-04/S")
def test_after_a_gap_everything_counts_as_changed() -> None:
    async def scenario() -> RecordingDoor:
        bus = MemoryBus()
        listening = Listening(make_server(bus=bus))
        door = listening.open(toolsListChanged=True, resourceSubscriptions=["small://one"])
        bus.publish(Missed())
        await listening.told()
        return door

    assert [event["method"] for event in run(scenario()).events[1:]] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]


@pytest.mark.req("T-25/S")
def test_listens_over_the_bound_are_503() -> None:
    async def scenario() -> list[RecordingDoor]:
        listening = Listening(limits=replace(ServerLimits(), max_listens=1))
        return [listening.open(n, toolsListChanged=True) for n in range(2)]

    doors = run(scenario())

    assert doors[0].events
    assert (doors[1].status, doors[1].json["id"]) == (503, 1)
    assert (b"retry-after", b"1") in doors[1].answers[0].headers


@pytest.mark.req("P-04/S")
def test_a_notice_to_a_closed_loop_is_dropped() -> None:
    bus = MemoryBus()
    server = make_server(bus=bus)

    async def scenario() -> None:
        Listening(server).open(toolsListChanged=True)

    run(scenario())
    server.notify_tools_changed()

    assert not bus._listeners


@pytest.mark.req("P-04/S")
@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="no filter"),
        pytest.param({"notifications": []}, id="a list"),
        pytest.param({"notifications": {"toolsListChanged": 1}}, id="a number"),
        pytest.param({"notifications": {"resourceSubscriptions": "x"}}, id="one URI"),
        pytest.param({"notifications": {"resourceSubscriptions": [1]}}, id="no text"),
        pytest.param({"notifications": {"resourceSubscriptions": ["x"] * 1001}}, id="too many"),
    ],
)
def test_a_filter_that_is_none_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        read_filter(params, DECLARED, ServerLimits())


@pytest.mark.req("P-04/S")
def test_a_refused_filter_is_400_with_the_id() -> None:
    async def scenario() -> RecordingDoor:
        door = RecordingDoor()
        sent = body("subscriptions/listen")
        Listening().endpoint.begin(head(lines("subscriptions/listen")), sent, door)
        return door

    door = run(scenario())

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (400, 7, -32602)


@pytest.mark.req("P-04/S")
def test_what_is_not_declared_is_not_honoured() -> None:
    asked = {"notifications": {**ALL, "resourceSubscriptions": ["x"]}}

    assert read_filter(asked, {"prompts": {}, "tools": {}}, ServerLimits()) == {}
    assert read_filter(asked, DECLARED, ServerLimits()) == {
        "toolsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["x"],
    }
