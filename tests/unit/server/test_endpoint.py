"""The order of refusals, and what each of them says (mcpost.server.endpoint, .gate)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mcpost import Context, Principal, Server
from mcpost.errors import Refused
from mcpost.limits import ServerLimits
from mcpost.server.endpoint import Endpoint
from mcpost.server.head import Head
from mcpost.server.settings import Settings
from tests.helpers.http import CALL_ADD, VERSION, RecordingDoor, body, head, lines, make_server
from tests.helpers.loop import run


def make(server: Server | None = None, **settings: Any) -> Endpoint:
    server = server or make_server()
    return Endpoint(server.features, server.bus, Settings.make(**settings))


def ask(
    sent: bytes,
    headers: list[tuple[bytes, bytes]],
    endpoint: Endpoint | None = None,
) -> RecordingDoor:
    """Bring one POST to an endpoint, its head checked first."""
    door = RecordingDoor()

    async def bring() -> None:
        served = endpoint or make()
        found = head(headers)
        refusal = served.check_head(found)
        if refusal is not None:
            door.answer(refusal)
            return
        rest = served.begin(found, sent, door)
        if rest is not None:
            await rest

    run(bring())
    return door


def refusal(headers: list[tuple[bytes, bytes]], method: str = "POST", **settings: Any) -> Any:
    return make(**settings).check_head(head(headers, method))


LIST = lines("tools/list")


@pytest.mark.req("T-09/S", "T-10/S", "J-02/S", "J-04/S")
def test_a_request_is_answered_by_one_json_object() -> None:
    door = ask(body("tools/call", CALL_ADD), lines("tools/call", "add"))

    assert door.status == 200
    assert (b"content-type", b"application/json") in door.answers[0].headers
    assert door.json["id"] == 7
    assert door.json["result"]["resultType"] == "complete"
    assert door.json["result"]["structuredContent"] == 3
    assert b"\n" not in door.answers[0].body


@pytest.mark.req("V-01/S")
def test_discover_tells_versions_capabilities_and_how_long_that_holds() -> None:
    result = ask(body("server/discover"), lines("server/discover")).json["result"]

    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "small"
    assert type(result["ttlMs"]) is int
    assert result["cacheScope"] in ("public", "private")


@pytest.mark.req("T-01/S", "T-02/S")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS", "PATCH"])
def test_other_methods_than_post_are_not_allowed(method: str) -> None:
    answer = refusal(LIST, method)

    assert answer.status == 405
    assert (b"allow", b"POST") in answer.headers
    assert b'"id"' not in answer.body


@pytest.mark.req("T-02/S", "J-05/S")
def test_session_ids_and_last_event_ids_are_ignored() -> None:
    headers = lines("tools/list", None, ("mcp-session-id", "x"), ("last-event-id", "9"))
    door = ask(body("tools/list"), headers)

    assert door.status == 200
    assert not any(name == b"mcp-session-id" for name, _ in door.answers[0].headers)


@pytest.mark.req("T-03/S")
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, None),
        ("http://localhost:5173", None),
        ("http://127.0.0.1", None),
        ("http://[::1]:3000", None),
        ("https://app.example.com", None),
        ("https://app.example.com:443", None),
        ("https://app.example.com:8443", 403),
        ("http://app.example.com", 403),
        ("http://localhost:5173.evil.com", 403),
        ("https://evil.com", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_only_pages_of_allowed_origins_may_call(origin: str | None, status: int | None) -> None:
    answer = refusal(lines("x", origin=origin), origins=["https://app.example.com"])

    assert (answer and answer.status) == status


@pytest.mark.req("T-03/S")
def test_two_origin_lines_are_nobodys() -> None:
    headers = lines("x", None, ("origin", "http://localhost"), ("origin", "http://localhost"))

    assert refusal(headers).status == 403


@pytest.mark.req("T-03/S")
def test_pages_of_a_configured_public_host_may_call() -> None:
    headers = lines("x", host="mcp.example.com", origin="https://mcp.example.com")

    assert refusal(headers).status == 403
    assert refusal(headers, hosts=["mcp.example.com"]) is None


@pytest.mark.req("T-04/S")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", None),
        ("localhost:8000", None),
        ("127.0.0.1", None),
        ("[::1]:8000", None),
        ("mcp.example.com", None),
        ("evil.com", 403),
        ("localhost.evil.com", 403),
        (None, 403),
    ],
)
def test_a_host_that_is_not_ours_is_refused(host: str | None, status: int | None) -> None:
    answer = refusal(lines("x", host=host), hosts=["mcp.example.com"])

    assert (answer and answer.status) == status


@pytest.mark.req("T-07/S")
@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/jsonp", "application/json; charset=utf-16"],
)
def test_what_is_not_sent_as_json_is_415(content_type: str | None) -> None:
    assert refusal(lines("x", content_type=content_type)).status == 415


@pytest.mark.req("T-07/S")
def test_json_may_be_sent_with_parameters() -> None:
    assert refusal(lines("x", content_type="application/json; charset=UTF-8")) is None


@pytest.mark.req("T-07/S")
def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_read() -> None:
    limits = ServerLimits(max_body=100)

    assert refusal(lines("x", content_length="100"), limits=limits) is None
    answer = refusal(lines("x", content_length="101"), limits=limits)
    assert answer.status == 413
    assert (b"connection", b"close") in answer.headers


@pytest.mark.req("T-06/S")
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (None, None),
        ("*/*", None),
        ("application/*", None),
        ("text/event-stream", None),
        ("application/json;q=0.1", None),
        ("text/html", 406),
        ("application/json;q=0, text/event-stream;q=0", 406),
    ],
)
def test_406_is_only_for_who_takes_neither_form(accept: str | None, status: int | None) -> None:
    answer = refusal(lines("x", accept=accept))

    assert (answer and answer.status) == status
    assert answer is None or b"application/json, text/event-stream" in answer.body


@pytest.mark.req("T-07/S", "J-01/S", "J-03/S")
@pytest.mark.parametrize(
    ("sent", "code"),
    [
        pytest.param(b"", -32700, id="empty"),
        pytest.param(b"{", -32700, id="not JSON"),
        pytest.param(b'"\xff"', -32700, id="not UTF-8"),
        pytest.param(b'{"jsonrpc":"2.0","id":NaN,"method":"x"}', -32700, id="NaN"),
        pytest.param(b"[]", -32600, id="batch"),
        pytest.param(b'{"id":null,"jsonrpc":"2.0","method":"x"}', -32600, id="null id"),
        pytest.param(b'{"id":1.5,"jsonrpc":"2.0","method":"x"}', -32600, id="float id"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600, id="a response"),
    ],
)
def test_what_is_no_message_is_400_without_an_id(sent: bytes, code: int) -> None:
    door = ask(sent, LIST)

    assert door.status == 400
    assert door.json["error"]["code"] == code
    assert "id" not in door.json


@pytest.mark.req("T-07/S")
def test_a_bad_message_whose_id_can_be_read_gets_it_back() -> None:
    door = ask(b'{"jsonrpc":"1.0","id":"a","method":"tools/list"}', LIST)

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (400, "a", -32600)


@pytest.mark.req("T-20/S")
@pytest.mark.parametrize(
    "missing",
    [
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
    ],
)
def test_a_missing_field_of_meta_is_named(missing: str) -> None:
    door = ask(body("tools/list", **{missing: None}), LIST)

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (400, 7, -32602)
    assert missing in door.json["error"]["message"]


@pytest.mark.req("T-16/S", "T-19/S", "T-22/S")
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(lines("tools/call", "add", mcp_protocol_version=None), id="no version"),
        pytest.param(lines("tools/call", "add", mcp_protocol_version="2025-11-25"), id="version"),
        pytest.param(lines("tools/call", "add", mcp_method=None), id="no method"),
        pytest.param(lines("TOOLS/CALL", "add"), id="another method"),
        pytest.param(lines("tools/call"), id="no name"),
        pytest.param(lines("tools/call", "Add"), id="another name"),
        pytest.param(lines("tools/call", "add", ("mcp-name", "add")), id="name twice"),
        pytest.param(lines("tools/call", "add\xe9"), id="raw bytes"),
    ],
)
def test_headers_that_disagree_with_the_body_are_refused(
    headers: list[tuple[bytes, bytes]],
) -> None:
    door = ask(body("tools/call", CALL_ADD), headers)

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (400, 7, -32020)


@pytest.mark.req("H-09/S", "H-11/S")
@pytest.mark.parametrize(
    ("more", "status"),
    [
        ((), 400),
        ((("mcp-param-region", "us"),), 400),
        ((("mcp-param-region", "eu"),), 200),
        ((("mcp-param-region", "=?base64?ZXU=?="),), 200),
        ((("mcp-param-region", "=?base64?ZXU?="),), 400),
        ((("mcp-param-region", "eu"), ("mcp-param-other", "x")), 200),
    ],
)
def test_mirrored_parameters_are_compared(more: Any, status: int) -> None:
    params = {"name": "where", "arguments": {"region": "eu"}}

    assert ask(body("tools/call", params), lines("tools/call", "where", *more)).status == status


@pytest.mark.req("T-17/S")
def test_a_version_that_is_not_served_is_answered_with_those_that_are() -> None:
    said = {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}
    door = ask(body("tools/list", **said), lines("tools/list", mcp_protocol_version="1999-01-01"))

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (400, 7, -32022)
    assert door.json["error"]["data"] == {"supported": ["2026-07-28"], "requested": "1999-01-01"}


@pytest.mark.req("T-18/S")
@pytest.mark.parametrize("method", ["nothing", "initialize", "ping", "logging/setLevel"])
def test_a_method_that_is_not_served_is_404(method: str) -> None:
    door = ask(body(method), lines(method))

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (404, 7, -32601)


@pytest.mark.req("T-17/S")
def test_a_client_of_an_earlier_revision_is_told_the_versions() -> None:
    sent = (
        b'{"jsonrpc":"2.0","id":0,"method":"initialize",'
        b'"params":{"protocolVersion":"2025-11-25","capabilities":{}}}'
    )
    headers = lines("initialize", mcp_protocol_version=None, mcp_method=None)
    error = ask(sent, headers).json["error"]

    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}


@pytest.mark.req("T-21/S")
def test_a_missing_capability_is_400_though_a_handler_found_it_missing() -> None:
    door = ask(body("tools/call", {"name": "ask"}), lines("tools/call", "ask"))

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (400, 7, -32021)
    assert door.json["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.req("T-23/S")
def test_what_fails_inside_a_served_method_is_200() -> None:
    unknown = ask(body("tools/call", {"name": "none"}), lines("tools/call", "none"))
    failed = ask(body("tools/call", {"name": "fail"}), lines("tools/call", "fail"))

    assert (unknown.status, unknown.json["error"]["code"]) == (200, -32602)
    assert (failed.status, failed.json["result"]["isError"]) == (200, True)
    assert b"secret" not in failed.answers[0].body


@pytest.mark.req("T-08/S")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param(lines("notifications/x"), 202, id="agreeing"),
        pytest.param(lines("x", mcp_method=None, mcp_protocol_version=None), 202, id="bare"),
        pytest.param(lines("notifications/y"), 400, id="another method"),
        pytest.param(lines("notifications/x", mcp_protocol_version="1"), 400, id="version"),
    ],
)
def test_a_notification_is_accepted_or_refused(
    headers: list[tuple[bytes, bytes]], status: int
) -> None:
    door = ask(b'{"jsonrpc":"2.0","method":"notifications/x"}', headers)

    assert door.status == status
    assert (door.answers[0].body == b"") is (status == 202)


@pytest.mark.req("T-01/S")
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        pytest.param({"method": "GET"}, 405, id="method before all"),
        pytest.param({"origin": "null"}, 403, id="origin before who calls"),
        pytest.param({}, 401, id="who calls before the media type"),
        pytest.param({"authorization": "yes"}, 415, id="media type before size"),
        pytest.param({"authorization": "yes", "content_type": "application/json"}, 413, id="size"),
        pytest.param(
            {
                "authorization": "yes",
                "content_type": "application/json",
                "content_length": "1",
            },
            406,
            id="what is accepted last",
        ),
    ],
)
def test_refusals_of_the_head_come_in_their_order(changes: dict[str, str], status: int) -> None:
    async def authenticate(found: Any) -> Principal:
        if found.get(b"authorization") != b"yes":
            raise Refused(401, "who are you?", ((b"www-authenticate", b"Bearer"),))
        return Principal("me")

    method = changes.pop("method", "POST")
    worst = {"content_type": "text/html", "content_length": "99999999", "accept": "text/html"}
    found = head(lines("x", **{**worst, **changes}), method)
    answer = run(make(authenticate=authenticate).check_caller(found))

    assert answer is not None
    assert answer.status == status


@pytest.mark.req("F-06/S")
def test_the_principal_reaches_the_handler() -> None:
    server = make_server()

    @server.tool
    async def who(ctx: Context) -> str:
        return ctx.principal.id if ctx.principal is not None else "nobody"

    async def authenticate(found: Head) -> Principal:
        return Principal("me")

    async def scenario() -> RecordingDoor:
        endpoint = make(server, authenticate=authenticate)
        found, door = head(lines("tools/call", "who")), RecordingDoor()
        assert await endpoint.check_caller(found) is None
        rest = endpoint.begin(found, body("tools/call", {"name": "who"}), door)
        assert rest is None
        return door

    assert run(scenario()).json["result"]["content"] == [{"type": "text", "text": "me"}]


@pytest.mark.req("T-24/S")
def test_a_preflight_allows_what_the_tools_mirror() -> None:
    asked = "content-type,mcp-method,mcp-param-region,x-other"
    headers = lines(
        "x",
        origin="https://app.example.com",
        access_control_request_method="POST",
        access_control_request_headers=asked,
    )
    answer = refusal(headers, "OPTIONS", origins=["https://app.example.com"])
    found = dict(answer.headers)
    allowed = found[b"access-control-allow-headers"].lower().split(b", ")

    assert answer.status == 204
    assert found[b"access-control-allow-origin"] == b"https://app.example.com"
    assert b"POST" in found[b"access-control-allow-methods"]
    assert {b"mcp-protocol-version", b"mcp-name", b"mcp-method", b"content-type"} < set(allowed)
    assert b"mcp-param-region" in allowed
    assert b"x-other" not in allowed


@pytest.mark.req("T-24/S", "T-03/S")
def test_a_preflight_of_another_origin_is_refused() -> None:
    headers = lines("x", origin="https://evil.com", access_control_request_method="POST")
    answer = refusal(headers, "OPTIONS", origins=["https://app.example.com"])

    assert answer.status == 403
    assert not any(name.startswith(b"access-control") for name, _ in answer.headers)


@pytest.mark.req("T-24/S")
def test_a_page_may_read_answers_and_refusals() -> None:
    headers = lines("nothing", origin="https://app.example.com")
    answer = ask(body("nothing"), headers, make(origins=["https://app.example.com"])).answers[0]
    found = dict(answer.headers)

    assert answer.status == 404
    assert found[b"access-control-allow-origin"] == b"https://app.example.com"
    assert b"www-authenticate" in found[b"access-control-expose-headers"].lower()
    assert found[b"vary"] == b"Origin"


@pytest.mark.req("T-24/S")
def test_answers_vary_by_origin_where_pages_may_call() -> None:
    endpoint = make(origins=["https://app.example.com"])

    assert (b"vary", b"Origin") in ask(body("tools/list"), LIST, endpoint).answers[0].headers


@pytest.mark.req("T-06/S")
def test_who_takes_only_streams_gets_a_stream_of_one_event() -> None:
    headers = lines("tools/call", "add", accept="text/event-stream")
    door = ask(body("tools/call", CALL_ADD), headers)

    assert door.heads[0][0] == 200
    assert [event["result"]["structuredContent"] for event in door.events] == [3]
    assert door.ended


@pytest.mark.req("T-06/S")
def test_who_takes_only_json_gets_no_progress() -> None:
    headers = lines("tools/call", "count", accept="application/json")
    sent = body("tools/call", {"name": "count", "arguments": {"steps": 3}}, progressToken=1)
    door = ask(sent, headers)

    assert door.json["result"]["structuredContent"] == 3
    assert not door.heads


@pytest.mark.req("T-06/S", "P-04/S")
def test_a_listen_needs_a_caller_that_takes_streams() -> None:
    headers = lines("subscriptions/listen", accept="application/json")
    door = ask(body("subscriptions/listen", {"notifications": {}}), headers)

    assert (door.status, door.json["id"]) == (406, 7)


@pytest.mark.req("T-18/S", "P-04/S")
def test_a_server_without_changes_to_tell_has_no_listen() -> None:
    endpoint = make(Server("bare"))
    door = ask(
        body("subscriptions/listen", {"notifications": {}}),
        lines("subscriptions/listen"),
        endpoint,
    )

    assert (door.status, door.json["error"]["code"]) == (404, -32601)


@pytest.mark.req("T-25/S")
def test_calls_over_the_bound_wait_and_those_over_the_queue_are_sent_away() -> None:
    limits = replace(ServerLimits(), max_calls=1, max_queued=1, retry_after=3)
    server = make_server()
    hold = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await hold.wait()
        return "done"

    async def scenario() -> list[RecordingDoor]:
        endpoint = make(server, limits=limits)
        doors = [RecordingDoor() for _ in range(3)]
        tasks = []
        for door in doors:
            found = head(lines("tools/call", "wait"))
            rest = endpoint.begin(found, body("tools/call", {"name": "wait"}), door)
            if rest is not None:
                tasks.append(asyncio.create_task(rest))
                await asyncio.sleep(0)
        assert doors[2].answers
        assert not doors[0].answers
        hold.set()
        await asyncio.gather(*tasks)
        return doors

    doors = run(scenario())

    assert [door.status for door in doors] == [200, 200, 503]
    assert (b"retry-after", b"3") in doors[2].answers[0].headers
    assert doors[2].json["id"] == 7


@pytest.mark.req("J-05/S")
def test_one_endpoint_serves_several_event_loops() -> None:
    endpoint = make()

    for _ in range(3):
        assert ask(body("tools/call", CALL_ADD), lines("tools/call", "add"), endpoint).status == 200
    assert len(endpoint._rooms) == 1


@pytest.mark.req("T-16/S")
def test_a_header_of_an_earlier_revision_leads_no_call_around_the_checks() -> None:
    server = make_server()
    endpoint = server.asgi("/mcp").endpoint
    headers = lines("tools/call", "search", mcp_protocol_version="2025-11-25")
    door = ask(body("tools/call", CALL_ADD), headers, endpoint)

    assert (door.status, door.json["id"], door.json["error"]["code"]) == (400, 7, -32020)
    assert VERSION in door.json["error"]["message"]
