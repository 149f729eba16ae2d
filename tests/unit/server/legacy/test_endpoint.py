"""POST, GET and DELETE of the earlier revisions, beside the current one."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest

from mcpost.limits import ServerLimits
from tests.helpers import http
from tests.helpers.legacy import (
    Gates,
    Http,
    call,
    cancel,
    events,
    initialize,
    make_server,
    messages,
    request,
    text,
)
from tests.helpers.loop import run, run_by_the_clock
from tests.helpers.until import until


def header(door: http.RecordingDoor, name: bytes) -> bytes | None:
    return dict(door.answers[-1].headers).get(name)


@pytest.mark.req("L-01/S")
def test_initialize_opens_a_session_with_an_id_of_128_bits() -> None:
    async def check() -> None:
        door = Http(make_server()).send(initialize())

        assert door.status == 200
        assert re.fullmatch(rb"[0-9a-f]{32}", header(door, b"mcp-session-id") or b"")
        assert door.json["result"] == {
            "protocolVersion": "2025-11-25",
            "capabilities": {
                "tools": {"listChanged": True},
                "resources": {"subscribe": True, "listChanged": True},
                "logging": {},
            },
            "serverInfo": {"name": "both", "version": "1"},
            "instructions": "Be kind.",
        }

    run(check())


@pytest.mark.req("L-01/S")
@pytest.mark.parametrize(
    ("asked", "settled"),
    [
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2030-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ],
)
def test_the_version_that_is_asked_for_is_settled_if_it_is_served(asked: str, settled: str) -> None:
    async def check() -> None:
        door = Http(make_server()).send(initialize(asked))

        assert door.json["result"]["protocolVersion"] == settled

    run(check())


@pytest.mark.req("L-01/S")
def test_an_initialize_that_is_wrong_opens_nothing() -> None:
    async def check() -> None:
        door = Http(make_server()).send(request("initialize", {"capabilities": {}}))

        assert (door.status, door.json["error"]["code"]) == (400, -32602)
        assert header(door, b"mcp-session-id") is None

    run(check())


@pytest.mark.req("L-01/S")
def test_what_comes_without_a_session_is_400() -> None:
    async def check() -> None:
        door = Http(make_server()).send(request("tools/list"), mcp_protocol_version="2025-11-25")

        assert (door.status, door.json["id"], door.json["error"]["code"]) == (400, 1, -32600)

    run(check())


@pytest.mark.req("L-01/S")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_an_unknown_session_is_404(method: str) -> None:
    async def check() -> None:
        message = request("tools/list") if method == "POST" else None
        door = Http(make_server()).send(message, "0" * 32, method=method)

        assert door.status == 404

    run(check())


@pytest.mark.req("L-01/S")
def test_a_session_of_somebody_else_is_404() -> None:
    async def check() -> None:
        over = Http(make_server())
        session = over.open(principal="ann")

        assert over.send(request("ping"), session, principal="ann").status == 200
        assert over.send(request("ping"), session, principal="bob").status == 404
        assert over.send(request("ping"), session).status == 404

    run(check())


@pytest.mark.req("L-01/S")
def test_delete_ends_a_session_and_its_calls() -> None:
    async def check() -> None:
        gates = Gates()
        over = Http(make_server(gates=gates))
        session = over.open()
        door = over.send(call("hold"), session)
        await gates.entered.wait()

        assert over.send(None, session, method="DELETE").status == 200
        await until(lambda: gates.cancelled)
        assert door.ended
        assert messages(door) == []
        assert over.send(request("ping"), session).status == 404

    run(check())


@pytest.mark.req("L-01/S")
def test_a_notification_gets_202() -> None:
    async def check() -> None:
        over = Http(make_server())
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        door = over.send(note, over.open())

        assert (door.status, door.answers[0].body) == (202, b"")

    run(check())


@pytest.mark.req("L-04/S")
def test_a_ping_is_answered_with_nothing_but_an_empty_object() -> None:
    async def check() -> None:
        over = Http(make_server())
        door = over.send(request("ping"), over.open())

        assert door.json == {"jsonrpc": "2.0", "id": 1, "result": {}}

    run(check())


@pytest.mark.req("L-02/S")
def test_a_stream_starts_with_an_id_to_come_back_with() -> None:
    async def check() -> None:
        over = Http(make_server())
        door = over.send(call("add", a=1, b=2), over.open())
        await until(lambda: door.ended)

        assert door.chunks[0] == b"id: 1-0\nretry: 1000\ndata: \n\n"
        assert [id for id, _ in events(door)] == ["1-0", "1-1"]
        assert door.heads[0][1][b"content-type"] == b"text/event-stream"

    run(check())


@pytest.mark.req("L-02/S")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-03-26"])
def test_clients_that_could_not_read_an_empty_event_get_none(version: str) -> None:
    async def check() -> None:
        over = Http(make_server())
        session = over.open(version)
        door = over.send(call("count", steps=2, token=5), session, mcp_protocol_version=version)
        await until(lambda: door.ended)

        assert None not in dict(events(door)).values()
        assert len(messages(door)) == 3

    run(check())


@pytest.mark.req("L-05/S")
def test_results_have_the_shape_of_their_revision() -> None:
    async def check() -> None:
        over = Http(make_server())
        session = over.open()
        listed = messages(over.send(request("tools/list"), session))

        schema = listed[0]["result"]["tools"][0]["outputSchema"]
        assert listed[0]["result"].keys() == {"tools"}
        assert schema["properties"] == {"result": {"type": "integer"}}

    run(check())


@pytest.mark.req("L-05/S")
def test_structured_content_is_an_object() -> None:
    async def check() -> None:
        over = Http(make_server())
        door = over.send(call("add", a=1, b=2), over.open())
        await until(lambda: door.ended)

        assert messages(door)[0]["result"] == {
            "content": [{"type": "text", "text": "3"}],
            "structuredContent": {"result": 3},
        }

    run(check())


@pytest.mark.req("L-02/S")
def test_leaving_is_no_cancel() -> None:
    async def check() -> None:
        gates = Gates()
        over = Http(make_server(gates=gates))
        session = over.open()
        door = over.send(call("hold", token="t"), session)
        await gates.entered.wait()
        door.gone()
        gates.go.set()
        again = over.get(session, last_event_id="1-1")
        await until(lambda: again.ended)

        assert not gates.cancelled
        assert gates.runs == 1
        assert text(messages(again)[-1]) == "held"

    run(check())


@pytest.mark.req("L-02/S")
def test_a_cancel_by_name_ends_the_call_and_nothing_is_said_of_it() -> None:
    async def check() -> None:
        gates = Gates()
        over = Http(make_server(gates=gates))
        session = over.open()
        door = over.send(call("hold", id="x"), session)
        await gates.entered.wait()

        assert over.send(cancel("x"), session).status == 202
        await until(lambda: door.ended)
        assert gates.cancelled
        assert messages(door) == []

    run(check())


@pytest.mark.req("L-02/S")
def test_a_cancel_in_another_session_does_nothing() -> None:
    async def check() -> None:
        gates = Gates()
        over = Http(make_server(gates=gates))
        session, other = over.open(), over.open()
        door = over.send(call("hold"), session)
        await gates.entered.wait()
        over.send(cancel(1), other)
        gates.go.set()
        await until(lambda: door.ended)

        assert text(messages(door)[-1]) == "held"

    run(check())


@pytest.mark.req("L-02/S")
def test_a_handler_may_let_the_connection_go_before_the_result() -> None:
    async def check() -> None:
        gates = Gates()
        over = Http(make_server(gates=gates))
        session = over.open()
        door = over.send(call("leave"), session)
        await until(lambda: door.ended)
        again = over.get(session, last_event_id=events(door)[0][0])
        gates.go.set()
        await until(lambda: again.ended)

        assert messages(door) == []
        assert [text(each) for each in messages(again)] == ["left"]

    run(check())


@pytest.mark.req("L-02/S")
@pytest.mark.parametrize("named", ["7-0", "junk", "1-", "-1", "1-1-1", "\u0661-1"])
def test_a_last_event_id_of_no_stream_is_400(named: str) -> None:
    async def check() -> None:
        over = Http(make_server())

        assert over.get(over.open(), last_event_id=named).status == 400

    run(check())


@pytest.mark.req("L-02/S")
def test_only_the_stream_that_is_named_is_replayed() -> None:
    async def check() -> None:
        over = Http(make_server())
        session = over.open()
        doors = [over.send(call("count", id=n, steps=2, token=n), session) for n in (1, 2)]
        await until(lambda: all(door.ended for door in doors))
        again = over.get(session, last_event_id="2-1")

        assert again.ended
        assert messages(again) == messages(doors[1])[1:]

    run(check())


@pytest.mark.req("L-02/S")
def test_another_session_cannot_have_the_events_of_this_one() -> None:
    async def check() -> None:
        over = Http(make_server())
        session, other = over.open(), over.open()
        door = over.send(call("add", a=1, b=2), session)
        await until(lambda: door.ended)

        assert over.get(other, last_event_id="1-0").status == 400

    run(check())


@pytest.mark.req("L-02/S")
def test_get_takes_a_stream_or_is_406() -> None:
    async def check() -> None:
        over = Http(make_server())
        session = over.open()

        assert over.get(session, accept="application/json").status == 406
        assert over.get(session, accept="text/event-stream").heads[0][0] == 200

    run(check())


@pytest.mark.req("T-02/S", "V-05/S")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("version", [None, "2026-07-28", "1999-01-01"])
def test_get_and_delete_that_are_not_of_a_session_are_405(method: str, version: str | None) -> None:
    async def check() -> None:
        door = Http(make_server()).send(None, method=method, mcp_protocol_version=version)

        assert (door.status, header(door, b"allow")) == (405, b"POST")

    run(check())


@pytest.mark.req("L-04/S")
def test_changes_are_told_on_the_stream_of_get_alone() -> None:
    async def check() -> None:
        server = make_server()
        over = Http(server)
        session = over.open()
        first = over.get(session)
        over.send(request("resources/subscribe", {"uri": "both://one"}), session)
        server.notify_tools_changed()
        server.notify_resource_updated("both://one")
        server.notify_resource_updated("both://two")
        await until(lambda: len(messages(first)) == 2)

        assert messages(first) == [
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
            {
                "jsonrpc": "2.0",
                "method": "notifications/resources/updated",
                "params": {"uri": "both://one"},
            },
        ]

    run(check())


@pytest.mark.req("L-04/S")
def test_after_unsubscribe_nothing_is_told() -> None:
    async def check() -> None:
        server = make_server()
        over = Http(server)
        session = over.open()
        stream = over.get(session)
        for method in ("resources/subscribe", "resources/unsubscribe"):
            over.send(request(method, {"uri": "both://one"}), session)
        server.notify_resource_updated("both://one")
        server.notify_tools_changed()
        await until(lambda: messages(stream))

        assert [each["method"] for each in messages(stream)] == ["notifications/tools/list_changed"]

    run(check())


@pytest.mark.req("L-02/S")
def test_what_changes_before_get_is_told_by_it_once() -> None:
    async def check() -> None:
        server = make_server()
        over = Http(server)
        session = over.open()
        for _ in range(3):
            server.notify_tools_changed()
            await asyncio.sleep(0.01)
        stream = over.get(session)

        assert [id for id, _ in events(stream)] == ["0-0", "0-1"]

    run(check())


@pytest.mark.req("L-02/S")
def test_a_second_get_takes_over_and_nothing_is_said_twice() -> None:
    async def check() -> None:
        server = make_server()
        over = Http(server)
        session = over.open()
        first = over.get(session)
        server.notify_tools_changed()
        await until(lambda: messages(first))
        second = over.get(session)
        server.notify_resources_changed()
        await until(lambda: messages(second))

        assert first.ended
        assert len(messages(first)) == 1
        assert [each["method"] for each in messages(second)] == [
            "notifications/resources/list_changed"
        ]

    run(check())


@pytest.mark.req("L-03/S")
def test_a_question_goes_on_the_stream_of_its_call_and_the_answer_is_posted() -> None:
    async def check() -> None:
        over = Http(make_server())
        session = over.open(capabilities={"elicitation": {}})
        door = over.send(call("greet"), session)
        await until(lambda: messages(door))
        question = messages(door)[0]
        answer = {"action": "accept", "content": {"name": "Ann"}}
        posted = over.send({"jsonrpc": "2.0", "id": question["id"], "result": answer}, session)
        await until(lambda: door.ended)

        assert question["method"] == "elicitation/create"
        assert (posted.status, posted.answers[0].body) == (202, b"")
        assert text(messages(door)[-1]) == "Hello, Ann"

    run(check())


@pytest.mark.req("L-03/S")
def test_an_answer_of_another_session_answers_nothing() -> None:
    async def check() -> None:
        over = Http(make_server())
        session, other = (over.open(capabilities={"elicitation": {}}) for _ in range(2))
        door = over.send(call("greet"), session)
        await until(lambda: messages(door))
        answer = {"action": "accept", "content": {"name": "Eve"}}
        message = {"jsonrpc": "2.0", "id": messages(door)[0]["id"]}
        over.send({**message, "result": answer}, other)
        over.send({**message, "error": {"code": -1, "message": "no"}}, session)
        await until(lambda: door.ended)

        assert messages(door)[-1]["error"]["message"] == "the client answered with an error: no"

    run(check())


@pytest.mark.req("L-03/S")
def test_a_client_without_the_capability_is_not_asked() -> None:
    async def check() -> None:
        over = Http(make_server())
        door = over.send(call("greet"), over.open())
        await until(lambda: door.ended)

        assert [each["error"]["code"] for each in messages(door)] == [-32600]

    run(check())


@pytest.mark.req("L-02/S")
def test_a_client_that_takes_no_stream_gets_json() -> None:
    async def check() -> None:
        over = Http(make_server())
        session = over.open(capabilities={"elicitation": {}})
        counted = over.send(call("count", steps=3, token=1), session, accept="application/json")
        asked = over.send(call("greet"), session, accept="application/json")
        await asyncio.gather(*over.tasks)

        assert text(counted.json) == "3"
        assert asked.json["error"]["code"] == -32600
        assert counted.chunks == asked.chunks == []

    run(check())


@pytest.mark.req("L-01/S")
def test_a_client_that_takes_only_streams_gets_them() -> None:
    async def check() -> None:
        door = Http(make_server()).send(initialize(), accept="text/event-stream")

        assert door.heads[0][1][b"mcp-session-id"]
        assert door.events[0]["result"]["protocolVersion"] == "2025-11-25"
        assert door.ended

    run(check())


@pytest.mark.req("L-01/S")
def test_batches_are_of_2025_03_26_alone() -> None:
    async def check() -> None:
        over = Http(make_server())
        batch = [request("ping", id=1), call("add", id=2, a=1, b=2), request("none", id=3), 4]
        old = over.send(batch, over.open("2025-03-26"), accept="application/json")
        new = over.send(batch, over.open("2025-06-18"))
        await asyncio.gather(*over.tasks)

        assert [each.get("id") for each in old.json] == [1, 2, 3, None]
        assert [each.get("error", {}).get("code") for each in old.json] == [
            None,
            None,
            -32601,
            -32600,
        ]
        assert (new.status, new.json["error"]["code"]) == (400, -32600)

    run(check())


@pytest.mark.req("L-01/S")
def test_a_batch_of_notifications_gets_202() -> None:
    async def check() -> None:
        over = Http(make_server())
        door = over.send([cancel(1), cancel(2)], over.open("2025-03-26"))

        assert door.status == 202

    run(check())


@pytest.mark.parametrize("body", [b"[]", b"[1,", b"[" + b"1," * 100 + b"1]"])
def test_a_batch_that_is_none_is_400(body: bytes) -> None:
    async def check() -> None:
        over = Http(make_server())

        assert over.send(body, over.open("2025-03-26")).status == 400

    run(check())


@pytest.mark.parametrize("body", [b"{", b'{"jsonrpc":"2.0","id":1}', b'"text"', b"\xff"])
def test_a_body_that_is_no_message_is_400(body: bytes) -> None:
    async def check() -> None:
        over = Http(make_server())
        door = over.send(body, over.open())

        assert door.status == 400
        assert door.json["error"]["code"] in (-32600, -32700)

    run(check())


@pytest.mark.req("V-05/S")
def test_a_modern_request_is_never_of_a_session() -> None:
    async def check() -> None:
        over = Http(make_server())
        modern = http.body("tools/list")
        head = http.head(http.lines("tools/list", None, ("mcp-session-id", over.open())))
        door = http.RecordingDoor()
        over.endpoint.begin(head, modern, door)

        assert door.json["result"]["resultType"] == "complete"
        assert header(door, b"mcp-session-id") is None

    run(check())


@pytest.mark.req("V-05/S", "T-16/S")
def test_no_session_leads_a_modern_body_around_the_agreement_check() -> None:
    async def check() -> None:
        over = Http(make_server())
        door = over.send(http.body("tools/call", http.CALL_ADD), over.open())

        assert (door.status, door.json["error"]["code"]) == (400, -32020)

    run(check())


@pytest.mark.req("T-19/S")
@pytest.mark.parametrize(
    ("lines", "agrees"),
    [
        pytest.param({}, True, id="none"),
        pytest.param({"mcp_method": "tools/call"}, True, id="the method"),
        pytest.param({"mcp_method": "tools/call", "mcp_name": "where"}, True, id="both"),
        pytest.param({"mcp_param_region": "eu"}, True, id="a parameter"),
        pytest.param({"mcp_method": "tools/list"}, False, id="another method"),
        pytest.param({"mcp_name": "add"}, False, id="another name"),
        pytest.param({"mcp_param_region": "us"}, False, id="another parameter"),
    ],
)
def test_mirrored_headers_that_nobody_asked_for_agree_or_are_refused(
    lines: dict[str, str], agrees: bool
) -> None:
    async def check() -> None:
        over = Http(http.make_server())
        door = over.send(call("where", region="eu"), over.open(), **lines)

        assert bool(door.heads) is agrees
        assert agrees or (door.status, door.json["error"]["code"]) == (400, -32020)
        await asyncio.gather(*over.tasks)

    run(check())


@pytest.mark.req("T-02/S")
def test_without_the_earlier_revisions_initialize_is_told_what_is_served() -> None:
    async def check() -> None:
        over = Http(make_server(), legacy=False)
        door = over.send(initialize())

        assert (door.status, door.json["error"]["code"]) == (400, -32022)
        assert door.json["error"]["data"]["supported"] == ["2026-07-28"]

    run(check())


@pytest.mark.req("T-24/S")
def test_a_page_of_an_allowed_origin_may_use_sessions() -> None:
    async def check() -> None:
        over = Http(make_server())
        asked = {"host": "127.0.0.1", "origin": "http://localhost:3000"}
        lines = [(key.encode(), value.encode()) for key, value in asked.items()]
        answer = over.endpoint.check_head(http.head(lines, "OPTIONS"))

        assert answer is not None
        assert dict(answer.headers)[b"access-control-allow-methods"] == b"POST, GET, DELETE"
        assert b"Mcp-Session-Id" in dict(answer.headers)[b"access-control-allow-headers"]

    run(check())


@pytest.mark.req("L-01/S")
def test_over_the_bound_the_longest_unused_session_ends() -> None:
    async def check() -> None:
        over = Http(make_server(), ServerLimits(max_sessions=2))
        first, second = over.open(), over.open()
        over.send(request("ping"), first)
        third = over.open()

        found = [over.send(request("ping"), each).status for each in (first, second, third)]
        assert found == [200, 404, 200]

    run(check())


@pytest.mark.req("L-01/S")
def test_an_initialize_that_would_be_too_much_to_remember_is_413() -> None:
    async def check() -> None:
        over = Http(make_server())

        assert over.send(initialize(capabilities={"x": "y" * 70_000})).status == 413

    run(check())


@pytest.mark.req("L-01/S")
def test_where_all_sessions_are_in_use_one_more_is_503() -> None:
    async def check() -> None:
        over = Http(make_server(), ServerLimits(max_sessions=1))
        over.get(over.open())
        door = over.send(initialize())

        assert (door.status, header(door, b"retry-after")) == (503, b"1")

    run(check())


@pytest.mark.req("L-01/S")
def test_an_idle_session_expires_and_one_with_a_stream_does_not() -> None:
    async def check() -> None:
        over = Http(make_server(), ServerLimits(session_idle=0.05))
        idle, used = over.open(), over.open()
        over.get(used)
        await asyncio.sleep(0.12)

        assert over.send(request("ping"), idle).status == 404
        assert over.send(request("ping"), used).status == 200

    run_by_the_clock(check())


@pytest.mark.req("L-02/S")
def test_a_reader_that_does_not_read_is_cut_off_and_may_resume() -> None:
    async def check() -> None:
        limits = replace(ServerLimits(), max_stream_buffer=2000)
        over = Http(make_server(limits), limits)
        session = over.open()
        door = over.send(call("count", steps=60, token=1), session)
        door.reads = False
        await until(lambda: door.aborted)
        read = [int(id.partition("-")[2]) for id, _ in events(door)]
        again = over.get(session, last_event_id=f"1-{read[-1]}")
        await until(lambda: again.ended)

        assert len(messages(door)) + len(messages(again)) == 61
        assert text(messages(again)[-1]) == "60"

    run(check())


@pytest.mark.req("L-02/S")
def test_silent_streams_are_kept_alive_by_comments() -> None:
    async def check() -> None:
        over = Http(make_server(), ServerLimits(keep_alive=0.02))
        stream = over.get(over.open())
        await until(lambda: stream.comments >= 2)

    run(check())


@pytest.mark.req("L-01/S")
def test_a_drain_gives_calls_their_grace_and_ends_streams() -> None:
    async def check() -> None:
        gates = Gates()
        over = Http(make_server(gates=gates))
        session = over.open()
        stream, door = over.get(session), over.send(call("hold"), session)
        await gates.entered.wait()
        draining = asyncio.create_task(over.endpoint.drain(5))
        await until(lambda: stream.ended)
        refused = over.send(initialize())
        gates.go.set()
        await draining

        assert text(messages(door)[-1]) == "held"
        assert refused.status == 503

    run(check())


@pytest.mark.req("L-01/S")
def test_a_call_that_outlasts_the_grace_is_told_of_the_shutdown() -> None:
    async def check() -> None:
        gates = Gates()
        over = Http(make_server(gates=gates))
        door = over.send(call("hold"), over.open())
        await gates.entered.wait()
        await over.endpoint.drain(0.01)

        assert gates.cancelled
        assert messages(door)[-1]["error"]["message"] == "the server is shutting down"

    run(check())


@pytest.mark.req("L-05/S")
def test_what_a_handler_fails_with_is_told_in_the_revision_s_own_codes() -> None:
    async def ask(over: Http, message: Any) -> Any:
        door = over.send(message, over.open())
        await until(lambda: door.ended)
        return messages(door)[-1]

    async def check() -> None:
        over = Http(make_server())

        missing = await ask(over, request("resources/read", {"uri": "both://none"}))
        failed = await ask(over, call("fail"))
        assert missing["error"]["code"] == -32002
        assert failed["result"]["isError"] is True
        assert "secret" not in str(failed)

    run(check())
