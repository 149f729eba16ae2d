"""Lines in, lines out: both eras on one channel, without a descriptor."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcpost import Server
from mcpost.limits import ServerLimits
from mcpost.server.channel import Channel
from mcpost.wire.lines import TooLong
from tests.helpers import http
from tests.helpers.legacy import Gates, call, cancel, initialize, make_server, request, text
from tests.helpers.loop import run
from tests.helpers.until import until


class Line:
    """A channel, and what it has said."""

    def __init__(self, server: Server | None = None, **options: Any) -> None:
        server = server or make_server()
        server.serving()
        self.said: list[Any] = []
        self.waiting = 0
        self.channel = Channel(
            server.features,
            server.bus,
            options.pop("limits", server.limits),
            write=lambda message: self.said.append(json.loads(message)),
            pending=lambda: self.waiting,
            **options,
        )

    def send(self, *messages: Any) -> None:
        for message in messages:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.channel.receive(line)

    async def answer(self, id: Any) -> Any:
        """Wait for the response with an id."""
        found: list[Any] = []

        def look() -> bool:
            found[:] = [each for each in self.said if each.get("id") == id]
            return bool(found)

        await until(look)
        return found[0]

    def codes(self) -> list[tuple[Any, int]]:
        return [(each.get("id"), each["error"]["code"]) for each in self.said]


def modern(method: str, params: dict[str, Any] | None = None, **options: Any) -> bytes:
    return http.body(method, params, **options)


def modern_call(name: str, id: Any = 7, **arguments: Any) -> bytes:
    return modern("tools/call", {"name": name, "arguments": arguments}, id=id)


def listen(id: Any, **wanted: Any) -> bytes:
    return modern("subscriptions/listen", {"notifications": wanted}, id=id)


@pytest.mark.req("V-05/S", "L-05/S")
def test_both_eras_are_served_side_by_side() -> None:
    async def check() -> None:
        line = Line()
        line.send(modern_call("add", id=1, a=1, b=2), initialize(), call("add", id=2, a=1, b=2))

        assert (await line.answer(1))["result"]["structuredContent"] == 3
        assert (await line.answer(2))["result"]["structuredContent"] == {"result": 3}
        assert (await line.answer(0))["result"]["protocolVersion"] == "2025-11-25"

    run(check())


@pytest.mark.req("V-05/S")
def test_discover_is_answered_before_anything_else_was_said() -> None:
    async def check() -> None:
        line = Line()
        line.send(modern("server/discover"))

        assert line.said[0]["result"]["supportedVersions"] == ["2026-07-28"]

    run(check())


@pytest.mark.req("V-05/S")
@pytest.mark.parametrize(
    ("message", "code"),
    [
        pytest.param(request("tools/list"), -32602, id="neither era"),
        pytest.param(
            modern("tools/list", **{"io.modelcontextprotocol/protocolVersion": "1999-01-01"}),
            -32022,
            id="a version that is not served",
        ),
        pytest.param(modern("initialize"), -32601, id="initialize with modern meta"),
        pytest.param(modern("resources/subscribe"), -32601, id="a method that is gone"),
        pytest.param(
            modern("tools/list", **{"io.modelcontextprotocol/clientCapabilities": None}),
            -32602,
            id="a field is missing",
        ),
        pytest.param(listen(7, toolsListChanged=1), -32602, id="a filter that is none"),
    ],
)
def test_a_request_that_is_wrong_gets_its_error_with_its_id(message: Any, code: int) -> None:
    async def check() -> None:
        line = Line()
        line.send(message)

        assert line.codes() == [(7 if isinstance(message, bytes) else 1, code)]

    run(check())


@pytest.mark.req("V-05/S")
def test_without_the_earlier_revisions_initialize_is_told_what_is_served() -> None:
    async def check() -> None:
        line = Line(legacy=False)
        line.send(initialize(), request("ping"))

        assert line.codes() == [(0, -32022), (1, -32602)]

    run(check())


@pytest.mark.req("I-04/S")
@pytest.mark.parametrize(
    ("bad", "id", "code"),
    [
        pytest.param(b"garbage", None, -32700, id="no JSON"),
        pytest.param(b'{"jsonrpc":"2.0","id":5,"method":"pi', 5, -32700, id="torn"),
        pytest.param(b'{"jsonrpc":"2.0","id":5', None, -32700, id="torn in its id"),
        pytest.param(b'{"id":5,"method":"ping"}', 5, -32600, id="no jsonrpc"),
        pytest.param(b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]', None, -32600, id="batch"),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600, id="null id"),
        pytest.param(b"\xff\xfe", None, -32700, id="not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_read_costs_that_line_alone(bad: bytes, id: Any, code: int) -> None:
    async def check() -> None:
        line = Line()
        line.send(bad, request("ping", id=6))

        assert line.said[0].get("id") == id
        assert line.said[0]["error"]["code"] == code
        assert line.said[1] == {"jsonrpc": "2.0", "id": 6, "result": {}}

    run(check())


@pytest.mark.req("I-04/S")
def test_a_line_over_the_limit_is_answered_with_its_id() -> None:
    async def check() -> None:
        line = Line()
        line.channel.receive(TooLong(b'{"jsonrpc":"2.0","id":"big","method":"tools/call",', 100))

        assert line.codes() == [("big", -32700)]
        assert "100 bytes" in line.said[0]["error"]["message"]

    run(check())


@pytest.mark.req("P-02/S")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_cancelled_call_stops_and_nothing_more_is_said_of_it(era: str) -> None:
    async def check() -> None:
        gates = Gates()
        line = Line(make_server(gates=gates))
        if era == "legacy":
            line.send(initialize(), call("hold", id=7))
        else:
            line.send(modern_call("hold"))
        await gates.entered.wait()
        said = len(line.said)
        line.send(cancel(7))
        await until(lambda: gates.cancelled)
        await line.channel.drain(1)

        assert line.said[said:] == []

    run(check())


@pytest.mark.req("P-02/S")
def test_a_cancel_that_comes_with_its_request_counts() -> None:
    async def check() -> None:
        gates = Gates()
        line = Line(make_server(gates=gates))
        line.send(modern_call("hold"), cancel(7))
        await until(lambda: gates.cancelled)
        await line.channel.drain(1)

        assert line.said == []

    run(check())


@pytest.mark.req("P-02/S")
@pytest.mark.parametrize("id", [99, "7", None, 7.5, True, {"a": 1}])
def test_a_cancel_that_names_nothing_is_passed_over(id: Any) -> None:
    async def check() -> None:
        gates = Gates()
        line = Line(make_server(gates=gates))
        line.send(modern_call("hold"))
        await gates.entered.wait()
        line.send(cancel(id))
        gates.go.set()

        assert text(await line.answer(7)) == "held"

    run(check())


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_an_id_that_is_in_use_is_refused(era: str) -> None:
    async def check() -> None:
        gates = Gates()
        line = Line(make_server(gates=gates))
        line.send(initialize())
        held = modern_call("hold") if era == "modern" else call("hold", id=7)
        line.send(held, held)
        await gates.entered.wait()
        gates.go.set()
        await line.channel.drain(1)

        assert line.said[1]["error"]["code"] == -32600
        assert text(line.said[2]) == "held"

    run(check())


@pytest.mark.req("P-04/S")
def test_several_listens_are_told_apart_by_their_ids() -> None:
    async def check() -> None:
        server = make_server()
        line = Line(server)
        line.send(
            listen(1, toolsListChanged=True), listen("b", resourceSubscriptions=["both://one"])
        )
        server.notify_tools_changed()
        server.notify_resource_updated("both://one")
        await until(lambda: len(line.said) == 4)

        found = [
            (each["method"], each["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"])
            for each in line.said
        ]
        assert found == [
            ("notifications/subscriptions/acknowledged", 1),
            ("notifications/subscriptions/acknowledged", "b"),
            ("notifications/tools/list_changed", 1),
            ("notifications/resources/updated", "b"),
        ]

    run(check())


@pytest.mark.req("P-02/S", "P-04/S")
def test_a_listen_that_is_cancelled_hears_nothing_more() -> None:
    async def check() -> None:
        server = make_server()
        line = Line(server)
        line.send(listen(1, toolsListChanged=True), listen(2, toolsListChanged=True), cancel(1))
        server.notify_tools_changed()
        await until(lambda: len(line.said) == 3)
        await line.channel.drain(1)

        assert [each.get("id") for each in line.said[3:]] == [2, None]

    run(check())


@pytest.mark.req("P-05/S")
def test_a_drain_ends_listens_with_a_result_and_tells_of_them_alone() -> None:
    async def check() -> None:
        gates = Gates()
        line = Line(make_server(gates=gates))
        line.send(listen(1, toolsListChanged=True), modern_call("hold"))
        await gates.entered.wait()
        gates.go.set()
        await line.channel.drain(5)

        closing, cancelled, held = line.said[1:]
        assert closing["result"]["resultType"] == "complete"
        assert closing["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1
        assert (cancelled["method"], cancelled["params"]["requestId"]) == (
            "notifications/cancelled",
            1,
        )
        assert text(held) == "held"

    run(check())


@pytest.mark.req("I-02/S")
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_call_that_outlasts_the_grace_is_told_of_the_shutdown(era: str) -> None:
    async def check() -> None:
        gates = Gates()
        line = Line(make_server(gates=gates))
        line.send(initialize(), modern_call("hold") if era == "modern" else call("hold", id=7))
        await gates.entered.wait()
        await line.channel.drain(0.01)
        line.send(modern_call("add", id=8, a=1, b=1), call("add", id=9, a=1, b=1))

        assert gates.cancelled
        assert [each["error"]["message"] for each in line.said[1:]] == [
            "the server is shutting down"
        ] * 3

    run(check())


@pytest.mark.req("L-03/S", "L-05/S")
def test_a_question_of_a_legacy_call_is_a_request_on_the_channel() -> None:
    async def check() -> None:
        line = Line()
        line.send(initialize("2025-06-18", {"elicitation": {}}), call("greet"))
        await until(lambda: len(line.said) == 2)
        question = line.said[1]
        answer = {"action": "accept", "content": {"name": "Ann"}}
        line.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})

        assert question["method"] == "elicitation/create"
        assert question["params"].keys() == {"message", "requestedSchema"}
        assert text(await line.answer(1)) == "Hello, Ann"

    run(check())


@pytest.mark.req("L-05/S")
def test_a_question_of_a_modern_call_is_never_a_request() -> None:
    async def check() -> None:
        line = Line()
        capabilities = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
        params = {"name": "greet", "arguments": {}}
        line.send(modern("tools/call", params, **capabilities))

        assert (await line.answer(7))["result"]["resultType"] == "input_required"
        assert len(line.said) == 1

    run(check())


@pytest.mark.req("L-04/S")
def test_changes_are_told_to_an_open_session() -> None:
    async def check() -> None:
        server = make_server()
        line = Line(server)
        line.send(initialize())
        server.notify_tools_changed()
        await until(lambda: len(line.said) == 2)
        await line.channel.drain(1)

        assert line.said[1] == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    run(check())


def test_a_batch_of_2025_03_26_is_answered_by_one_line() -> None:
    async def check() -> None:
        line = Line()
        line.send(initialize("2025-03-26"), [request("ping"), call("add", id=2, a=1, b=2)])
        await until(lambda: len(line.said) == 2)

        assert [each["id"] for each in line.said[1]] == [1, 2]

    run(check())


@pytest.mark.req("T-25/S")
def test_more_calls_than_may_run_wait_and_more_than_may_wait_are_refused() -> None:
    async def check() -> None:
        gates = Gates()
        limits = ServerLimits(max_calls=1, max_queued=1)
        line = Line(make_server(limits, gates))
        line.send(modern_call("hold", id=1))
        await gates.entered.wait()
        line.send(modern_call("add", id=2, a=1, b=1))
        await asyncio.sleep(0)
        line.send(modern_call("add", id=3, a=1, b=1))
        gates.go.set()

        assert (await line.answer(3))["error"]["code"] == -32603
        assert text(await line.answer(1)) == "held"
        assert text(await line.answer(2)) == "2"

    run(check())


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_progress_is_dropped_for_a_reader_that_is_behind_and_answers_are_not(era: str) -> None:
    async def check() -> None:
        line = Line()
        line.send(initialize())
        line.waiting = 1 << 30
        if era == "legacy":
            line.send(call("count", id=7, steps=5, token=1))
        else:
            params = {"name": "count", "arguments": {"steps": 5}}
            line.send(modern("tools/call", params, progressToken=1))

        assert text(await line.answer(7)) == "5"
        assert len(line.said) == 2

    run(check())
