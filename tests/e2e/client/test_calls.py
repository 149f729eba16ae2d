"""A call's life: progress, logs, input, cancellation, and its end with the client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcpost.client import Client, Elicitation, Retry
from mcpost.errors import BadReply, ConnectFailed, ConnectionLost, RpcError, Timeout, ToolFailed
from mcpost.limits import ClientLimits
from mcpost.types import LogMessage, Progress
from tests.helpers.hostile import CLOSE, HANG, Hostile, event, good, head, note, page, stream
from tests.helpers.loop import run
from tests.helpers.until import until


def progress(token: object, value: object, **more: object) -> bytes:
    return event(note("notifications/progress", progressToken=token, progress=value, **more))


def serve(*parts: Any) -> Hostile:
    """A server whose every call is a stream of these parts; a function is given the id."""

    def answer(message: dict[str, Any]) -> list[Any] | None:
        if message["method"] != "tools/call":
            return None
        return [each(message["id"]) if callable(each) else each for each in (stream(), *parts)]

    return Hostile(answer=answer)


def end(request_id: int) -> bytes:
    return event(good(request_id))


@pytest.mark.req("P-01/C")
def test_progress_is_heard_in_order_and_only_ones_own() -> None:
    heard: list[Progress] = []
    server = serve(
        lambda i: progress(i, 1, total=4, message="one"),
        lambda i: progress(i + 7, 2),
        lambda i: progress(i, 2.5),
        lambda i: progress(i, 2),
        lambda i: progress(i, "x"),
        lambda i: progress(i, 4),
        end,
    )

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            await client.call("t", progress=heard.append)

    run(main())
    assert heard == [Progress(1, 4, "one"), Progress(2.5), Progress(4)]
    meta = server.requests[-1]["params"]["_meta"]
    assert meta["progressToken"] == server.requests[-1]["id"]


@pytest.mark.req("P-01/C", "P-07/C")
def test_nothing_is_asked_for_that_nobody_hears() -> None:
    server = serve(lambda i: progress(i, 1), event(note("notifications/message", data="x")), end)

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            await client.call("t")

    run(main())
    meta = server.requests[-1]["params"]["_meta"]
    assert set(meta) == {
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/clientInfo",
    }


def test_a_slow_hearer_slows_the_stream_and_loses_nothing() -> None:
    heard: list[float] = []
    server = serve(lambda i: b"".join(progress(i, each) for each in range(1, 501)), end)

    async def hear(progress: Progress) -> None:
        await asyncio.sleep(0)
        heard.append(progress.progress)

    async def main() -> None:
        limits = ClientLimits(max_notes=10)
        async with server, Client(server.url, era="modern", limits=limits) as client:
            await client.call("t", progress=hear)

    run(main())
    assert heard == list(range(1, 501))


def test_what_a_callback_raises_ends_the_call_and_its_stream() -> None:
    server = serve(lambda i: progress(i, 1), HANG)

    def hear(progress: Progress) -> None:
        raise LookupError("mine")

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            with pytest.raises(LookupError, match="mine"):
                await client.call("t", progress=hear)
            await server.gone.wait()

    run(main())


@pytest.mark.req("P-07/C")
def test_logs_are_asked_for_by_level_and_heard() -> None:
    heard: list[LogMessage] = []
    server = serve(event(note("notifications/message", level="error", logger="db", data=[1])), end)

    async def main() -> None:
        async with (
            server,
            Client(server.url, era="modern", on_log=heard.append, log_level="warning") as client,
        ):
            await client.call("t")

    run(main())
    assert heard == [LogMessage("error", [1], "db")]
    meta = server.requests[-1]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/logLevel"] == "warning"


@pytest.mark.req("T-15/C", "P-03/C")
@pytest.mark.parametrize("way", ["task", "deadline", "handle", "client"])
@pytest.mark.parametrize("answer", [stream(), b""], ids=["a stream", "no answer yet"])
def test_who_leaves_a_call_closes_its_connection_at_once(way: str, answer: bytes) -> None:
    server = Hostile(lambda i: [answer, HANG])

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            # Short enough to be waited for, long enough for the request to be sent before it.
            timeout = 0.5 if way == "deadline" else None
            handle = client.start("fault", timeout=timeout)
            await until(lambda: any(each["method"] == "tools/call" for each in server.requests))
            if way == "task":
                handle.task.cancel()
            elif way == "handle":
                handle.cancel()
            elif way == "client":
                await client.close()
            with pytest.raises((asyncio.CancelledError, Timeout, ConnectionLost)):
                await handle
            await server.gone.wait()

    run(main())


def test_a_closed_client_ends_the_calls_of_other_tasks_and_makes_no_more() -> None:
    async def main() -> None:
        async with Hostile(lambda i: [HANG]) as server:
            async with Client(server.url, era="modern") as client:
                call = asyncio.ensure_future(client.request("tools/call", {"name": "fault"}))
                await until(lambda: server.requests)
            with pytest.raises(ConnectionLost, match="closed"):
                await call
            with pytest.raises(ConnectFailed, match="closed"):
                await client.discover()

    run(main())


@pytest.mark.req("P-01/C")
def test_a_handle_follows_the_progress_and_gives_the_result() -> None:
    server = serve(lambda i: progress(i, 1), 0.01, lambda i: progress(i, 2), end)

    async def main() -> list[float]:
        async with server, Client(server.url, era="modern") as client:
            handle = client.start("t", {"a": 1})
            seen = [each.progress async for each in handle.progress]
            assert (await handle).is_error is False
            assert handle.is_done
            return seen

    assert run(main()) == [1, 2]


@pytest.mark.req("P-03/C")
def test_further_attempts_stay_within_the_deadline_of_the_call() -> None:
    async def main() -> None:
        policy = Retry(attempts=1_000, backoff=0.02, jitter=0.0)
        async with Hostile(lambda i: [CLOSE]) as server, Client(server.url, era="modern") as client:
            with pytest.raises((ConnectionLost, Timeout)):
                await client.request("tools/call", {"name": "fault"}, retry=policy, max_timeout=1.0)
            assert 1 < len(server.requests) < 12

    run(main())


@pytest.mark.req("T-14/C")
@pytest.mark.parametrize(
    ("annotations", "trusted", "calls"),
    [
        ({"idempotentHint": True}, True, 3),
        ({"readOnlyHint": True}, True, 3),
        ({"idempotentHint": True}, False, 1),
        ({}, True, 1),
    ],
)
def test_a_tool_is_called_again_by_its_own_word_only_where_that_is_trusted(
    annotations: dict[str, bool], trusted: bool, calls: int
) -> None:
    tool = {"name": "fault", "inputSchema": {"type": "object"}, "annotations": annotations}

    def answer(message: dict[str, Any]) -> list[Any]:
        if message["method"] == "tools/list":
            return [page(good(message["id"], tools=[tool]))]
        return [CLOSE]

    async def main() -> None:
        async with (
            Hostile(answer=answer) as server,
            Client(server.url, era="modern", trust_annotations=trusted) as client,
        ):
            with pytest.raises(ConnectionLost):
                await client.call("fault")
            assert len(server.requests) == 1 + calls

    run(main())


# Rounds of input.

QUESTION = {
    "method": "elicitation/create",
    "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
}


def asking(*results: dict[str, Any]) -> Hostile:
    """A server that gives these results to the calls of a tool, one after the other."""
    rest = list(results)

    def answer(message: dict[str, Any]) -> list[Any] | None:
        if message["method"] not in ("tools/call", "prompts/get", "resources/read"):
            return None
        return [page(good(message["id"], **(rest.pop(0) if rest else {})))]

    return Hostile(answer=answer)


ASKED = {"resultType": "input_required", "inputRequests": {"q": QUESTION}, "requestState": 'a"\\ü='}


@pytest.mark.req("P-06/C", "J-01/C")
def test_input_is_given_in_a_new_request_and_the_state_comes_back_as_it_was() -> None:
    server = asking(ASKED)

    async def main() -> None:
        async with (
            server,
            Client(server.url, era="modern", on_elicit=lambda q: {"sure": True}) as client,
        ):
            await client.request("tools/call", {"name": "x", "arguments": {"a": 1}})

    run(main())
    first, second = server.requests
    assert first["id"] != second["id"]
    assert "requestState" not in first["params"]
    assert second["params"]["requestState"] == 'a"\\ü='
    assert second["params"]["inputResponses"] == {
        "q": {"action": "accept", "content": {"sure": True}}
    }
    assert second["params"]["arguments"] == {"a": 1}


@pytest.mark.req("P-06/C")
def test_a_round_that_names_no_state_is_sent_none_and_only_the_latest_counts() -> None:
    server = asking(ASKED, {"resultType": "input_required", "requestState": "b"}, {})

    async def main() -> None:
        async with server, Client(server.url, era="modern", on_elicit=lambda q: {}) as client:
            await client.request("prompts/get", {"name": "x"})

    run(main())
    last = server.requests[2]["params"]
    assert last["requestState"] == "b"
    assert "inputResponses" not in last


@pytest.mark.req("P-06/C")
def test_input_that_was_not_declared_ends_the_call() -> None:
    server = asking(ASKED)

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            with pytest.raises(BadReply, match="did not declare"):
                await client.request("tools/call", {"name": "x"})
            assert len(server.requests) == 1

    run(main())


@pytest.mark.req("P-06/C", "J-02/C")
def test_a_list_may_not_ask_for_input() -> None:
    def answer(message: dict[str, Any]) -> list[Any]:
        return [page(good(message["id"], **ASKED))]

    async def main() -> None:
        async with (
            Hostile(answer=answer) as server,
            Client(server.url, era="modern", on_elicit=lambda q: {}) as client,
        ):
            with pytest.raises(BadReply, match="resultType"):
                await client.tools()

    run(main())


@pytest.mark.req("P-06/C")
def test_a_server_that_asks_for_ever_is_left() -> None:
    server = asking(*[ASKED] * 99)

    async def main() -> None:
        limits = ClientLimits(max_input_rounds=3)
        async with (
            server,
            Client(server.url, era="modern", limits=limits, on_elicit=lambda q: {}) as client,
        ):
            with pytest.raises(BadReply, match="max_input_rounds"):
                await client.request("tools/call", {"name": "x"})
            assert len(server.requests) == 4

    run(main())


@pytest.mark.req("P-03/C")
def test_a_person_may_take_longer_than_a_server_may_be_silent() -> None:
    server = asking(ASKED)

    async def think(question: Elicitation) -> dict[str, Any]:
        await asyncio.sleep(1.0)
        return {}

    async def main() -> None:
        async with server, Client(server.url, era="modern", on_elicit=think) as client:
            await client.request("tools/call", {"name": "x"}, timeout=0.5)

    run(main())


# Results.


@pytest.mark.req("F-01/C")
def test_a_failure_of_the_tool_is_a_result_and_raised_only_where_asked_for() -> None:
    result = {"isError": True, "content": [{"type": "text", "text": "no such book"}]}
    server = asking(result, result)

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            assert (await client.call("t")).is_error
            with pytest.raises(ToolFailed, match="no such book"):
                await client.call("t", raise_on_error=True)

    run(main())


@pytest.mark.req("F-01/C", "J-07/C")
@pytest.mark.parametrize(
    ("schema", "content", "problem"),
    [
        ({"type": "object", "required": ["n"]}, {"n": 1}, None),
        ({"type": "object", "required": ["n"]}, {}, "promises"),
        ({"type": "object", "required": ["n"]}, None, "promises"),
        ({"$ref": "https://example.com/schema"}, {}, "promises"),
    ],
)
def test_structured_content_is_held_to_its_schema(
    schema: dict[str, Any], content: Any, problem: str | None
) -> None:
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}

    def answer(message: dict[str, Any]) -> list[Any]:
        if message["method"] == "tools/list":
            return [page(good(message["id"], tools=[tool]))]
        return [page(good(message["id"], structuredContent=content))]

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url, era="modern") as client:
            if problem is None:
                assert (await client.call("t")).data == content
            else:
                with pytest.raises(BadReply, match=problem):
                    await client.call("t")

    run(main())


@pytest.mark.req("F-01/C")
def test_structured_content_is_read_as_a_type_where_asked_for() -> None:
    from dataclasses import dataclass

    @dataclass
    class Book:
        title: str

    server = asking({"structuredContent": {"title": "Tide"}}, {"structuredContent": {"title": 7}})

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            assert (await client.call("t", into=Book)).data == Book("Tide")
            with pytest.raises(BadReply, match="title"):
                await client.call("t", into=Book)

    run(main())


def test_a_meta_of_ones_own_goes_with_the_call() -> None:
    server = asking({})

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            await client.call("t", meta={"com.example/tenant": "a"})

    run(main())
    meta = server.requests[-1]["params"]["_meta"]
    assert meta["com.example/tenant"] == "a"
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


def test_an_error_keeps_its_code_message_data_and_status() -> None:
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 7, "message": "seven", "data": {"a": 1}}}
    )

    async def main() -> None:
        answer = lambda message: [page(body.encode(), status=418)]  # noqa: E731
        async with Hostile(answer=answer) as server, Client(server.url, era="modern") as client:
            with pytest.raises(RpcError) as caught:
                await client.discover()
            error = caught.value
            assert (error.code, error.message, error.data, error.status) == (
                7,
                "seven",
                {"a": 1},
                418,
            )

    run(main())


def test_a_busy_server_gets_no_more_than_the_deadline_allows() -> None:
    async def main() -> None:
        busy = head(503, "Retry-After: 600", "Content-Length: 0")
        async with Hostile(lambda i: [busy]) as server, Client(server.url, era="modern") as client:
            with pytest.raises(BadReply, match="503"):
                await client.request("tools/call", {"name": "fault"}, max_timeout=500.0)
            assert len(server.requests) == 1

    run(main())


def test_a_callback_may_give_anything_back() -> None:
    server = serve(lambda i: progress(i, 1), end)

    async def main() -> None:
        async with server, Client(server.url, era="modern") as client:
            await client.call("t", progress=lambda each: each)  # type: ignore[arg-type,return-value]

    run(main())


def test_the_program_cannot_change_what_the_protocol_says_of_a_request() -> None:
    server = asking({})

    async def main() -> None:
        key = "io.modelcontextprotocol/protocolVersion"
        async with server, Client(server.url, era="modern") as client:
            await client.call("t", meta={key: "2025-11-25"})
            assert server.requests[-1]["params"]["_meta"][key] == "2026-07-28"

    run(main())


def test_a_call_that_waits_for_the_list_ends_with_its_client() -> None:
    def answer(message: dict[str, Any]) -> list[Any]:
        return [HANG]

    async def main() -> None:
        async with Hostile(answer=answer) as server:
            async with Client(server.url, era="modern") as client:
                calls = [client.start("t") for _ in range(3)]
                await until(lambda: server.requests)
            for call in calls:
                with pytest.raises((ConnectionLost, ConnectFailed), match="closed"):
                    await call

    run(main())
