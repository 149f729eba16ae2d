"""The short way of a call says what the way of all calls says (mcpost.server.express)."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from mcpost import Server, ToolError
from mcpost.errors import InvalidParams, NotFound
from mcpost.limits import ServerLimits
from mcpost.server.endpoint import Endpoint
from mcpost.server.express import Express
from mcpost.server.questions import Elicit, InputRequired
from mcpost.server.settings import Settings
from mcpost.types import CallResult, TextContent
from tests.helpers.http import CALL_ADD, RecordingDoor, body, head, lines
from tests.helpers.loop import run

pytestmark = pytest.mark.req("T-10/S", "T-16/S", "T-23/S")


NAME = {"type": "object", "properties": {"name": {"type": "string"}}}
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LEVEL = "io.modelcontextprotocol/logLevel"


class Odd:
    """What has no JSON form."""


async def add(a: int, b: int) -> int:
    return a + b


async def waits(a: int, b: int) -> int:
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return a + b


async def says(a: int, b: int) -> str:
    return f"{a} and {b}"


async def whole(a: int, b: int) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": "x"}], "_meta": {"own": a}, "isError": b == 2}


async def fails(a: int, b: int) -> int:
    raise ToolError("not today")


async def breaks(a: int, b: int) -> int:
    raise LookupError("secret")


async def breaks_late(a: int, b: int) -> int:
    await asyncio.sleep(0)
    raise LookupError("secret")


async def leaves(a: int, b: int) -> int:
    raise SystemExit(3)


async def refuses(a: int, b: int) -> int:
    raise InvalidParams("these will not do")


async def misses(a: int, b: int) -> int:
    raise NotFound("no such book")


async def unsayable(a: int, b: int) -> Any:
    return {"odd": Odd()}


async def broken(a: int, b: int) -> int:
    return "text"  # type: ignore[return-value]


async def infinite(a: int, b: int) -> Any:
    return [float("nan")]


async def groups(a: int, b: int) -> int:
    raise ExceptionGroup("both", [LookupError("a"), LookupError("b")])


async def cancelled(a: int, b: int) -> int:
    raise asyncio.CancelledError


async def asks(a: int, b: int) -> Any:
    return InputRequired({"name": Elicit("Who?", NAME)}, state=a)


async def times(a: int, b: int) -> int:
    async with asyncio.timeout(5):
        await asyncio.sleep(0)
    return a


@dataclass
class Book:
    title: str
    content: str


class Shelf(BaseModel):
    books: list[Book]
    content: list[str] = []


class Note(TypedDict):
    content: list[str]


class Kind(enum.Enum):
    NOVEL = "novel"


async def gives_a_dataclass(a: int, b: int) -> Book:
    return Book("Ulysses", 'long \u2028 "quoted"')


async def gives_a_model(a: int, b: int) -> Shelf:
    return Shelf(books=[Book("A", "é")])


async def gives_a_dictionary(a: int, b: int) -> Note:
    return {"content": ["x"]}


async def gives_a_list(a: int, b: int) -> list[Book]:
    return [Book("A", "b")]


async def gives_an_enum(a: int, b: int) -> Kind:
    return Kind.NOVEL


async def gives_nothing(a: int, b: int) -> int | None:
    return None


async def gives_no_number(a: int, b: int) -> float:
    return float("inf")


async def gives_a_whole_result(a: int, b: int) -> int:
    return CallResult(content=[], structured_content=3)  # type: ignore[return-value]


async def gives_half_a_pair(a: int, b: int) -> str:
    return "\ud800"


async def gives_text_and_more(a: int, b: int) -> str | int:
    return "text" if a else 1


async def gives_a_block(a: int, b: int) -> TextContent:
    return TextContent("x")


def plain(a: int, b: int) -> int:
    return a + b


def plain_breaks(a: int, b: int) -> int:
    raise LookupError("secret")


def plain_fails(a: int, b: int) -> int:
    raise ToolError("not today")


def plain_gives_a_coroutine(a: int, b: int) -> Any:
    return add(a, b)


def plain_stops(a: int, b: int) -> int:
    return next(iter(()))


async def gives_bytes(a: int, b: int) -> Any:
    return b"bytes"


async def knows_its_task(a: int, b: int) -> bool:
    return asyncio.current_task() is not None


FUNCTIONS = [
    add,
    waits,
    says,
    whole,
    fails,
    breaks,
    breaks_late,
    leaves,
    refuses,
    misses,
    unsayable,
    broken,
    infinite,
    groups,
    cancelled,
    asks,
    times,
    knows_its_task,
    gives_a_dataclass,
    gives_a_model,
    gives_a_dictionary,
    gives_a_list,
    gives_an_enum,
    gives_nothing,
    gives_no_number,
    gives_a_whole_result,
    gives_half_a_pair,
    gives_text_and_more,
    gives_a_block,
    gives_bytes,
    plain,
    plain_breaks,
    plain_fails,
    plain_gives_a_coroutine,
    plain_stops,
]

ARGUMENTS: list[Any] = [
    {"a": 1, "b": 2},
    {"a": 1},
    {"a": "x", "b": 2},
    {"a": 1.0, "b": 2},
    {"a": 1, "b": 2, "c": 3},
    {},
    None,
    [1, 2],
]


def serve(express: bool, function: Callable[..., Any], **limits: Any) -> Endpoint:
    server = Server("small", limits=ServerLimits(**limits), request_state_key=b"k" * 32)
    server.add_tool(function)
    offer = server.features.tools.get(function.__name__)
    assert offer is not None
    assert offer.is_express
    offer.is_express = express
    return Endpoint(server.features, server.bus, Settings.make(limits=ServerLimits(**limits)))


def ask(endpoint: Endpoint, sent: bytes, headers: list[tuple[bytes, bytes]]) -> RecordingDoor:
    door = RecordingDoor()

    async def bring() -> None:
        found = head(headers)
        assert endpoint.check_head(found) is None
        rest = endpoint.begin(found, sent, door)
        if rest is not None:
            await rest

    run(bring())
    return door


def both(
    function: Callable[..., Any], sent: bytes, headers: list[tuple[bytes, bytes]]
) -> tuple[RecordingDoor, RecordingDoor]:
    return (
        ask(serve(True, function), sent, headers),
        ask(serve(False, function), sent, headers),
    )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_whatever_a_function_does_both_ways_say_the_same(function: Callable[..., Any]) -> None:
    name = function.__name__
    sent = body("tools/call", {"name": name, "arguments": {"a": 1, "b": 2}})

    short, long = both(function, sent, lines("tools/call", name))

    assert short.answers == long.answers
    assert len(short.answers) == 1


def test_a_function_that_asks_for_input_does_so_on_both_ways() -> None:
    params = {"name": "asks", "arguments": {"a": 1, "b": 2}}
    sent = body("tools/call", params, **{CAPABILITIES: {"elicitation": {}}})

    short, long = (door.json["result"] for door in both(asks, sent, lines("tools/call", "asks")))

    assert short["resultType"] == "input_required"
    # It says when it was made.
    assert short.pop("requestState")
    assert long.pop("requestState")
    assert short == long


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_caller_that_takes_streams_only_gets_the_same_stream(
    function: Callable[..., Any],
) -> None:
    name = function.__name__
    sent = body("tools/call", {"name": name, "arguments": {"a": 1, "b": 2}})

    short, long = both(function, sent, lines("tools/call", name, accept="text/event-stream"))

    assert short.heads == long.heads
    assert short.chunks == long.chunks
    assert short.answers == long.answers


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_whatever_the_arguments_are_both_ways_say_the_same(arguments: Any) -> None:
    sent = body("tools/call", {"name": "add", "arguments": arguments})

    short, long = both(add, sent, lines("tools/call", "add"))

    assert short.answers == long.answers


@pytest.mark.parametrize(
    "meta",
    [
        {VERSION: None},
        {VERSION: "2026-07-29"},
        {VERSION: 1},
        {CAPABILITIES: None},
        {CAPABILITIES: []},
        {LEVEL: "info"},
        {LEVEL: "loud"},
        {"progressToken": 1},
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    ],
)
def test_whatever_meta_says_both_ways_say_the_same(meta: dict[str, Any]) -> None:
    short, long = both(add, body("tools/call", CALL_ADD, **meta), lines("tools/call", "add"))

    assert short.answers == long.answers


@pytest.mark.parametrize(
    "changed",
    [
        {"mcp_name": "other"},
        {"mcp_name": None},
        {"mcp_name": "=?base64?YWRk?="},
        {"mcp_name": "add "},
        {"mcp_name": "ADD"},
        {"mcp_method": "tools/list"},
        {"mcp_method": None},
        {"mcp_protocol_version": "2025-11-25"},
        {"mcp_protocol_version": None},
        {"mcp_param_region": "eu"},
    ],
)
def test_whatever_the_headers_say_both_ways_say_the_same(changed: dict[str, Any]) -> None:
    headers = lines("tools/call", "add", **changed)

    short, long = both(add, body("tools/call", CALL_ADD), headers)

    assert short.answers == long.answers


def test_doubled_headers_are_refused_on_both_ways() -> None:
    headers = [*lines("tools/call", "add"), (b"mcp-name", b"add")]

    short, long = both(add, body("tools/call", CALL_ADD), headers)

    assert short.answers == long.answers
    assert short.status == 400


@pytest.mark.parametrize("params", [{"requestState": "forged"}, {"inputResponses": {}}])
def test_an_answer_to_a_question_takes_the_long_way(params: dict[str, Any]) -> None:
    sent = body("tools/call", {**CALL_ADD, **params})

    short, long = both(add, sent, lines("tools/call", "add"))

    assert short.answers == long.answers


def test_a_server_without_a_place_does_not_begin() -> None:
    endpoint = serve(True, add, max_calls=1, max_queued=0)
    room: Any = endpoint._enter
    door = RecordingDoor()

    async def bring() -> None:
        found = head(lines("tools/call", "add"))
        assert endpoint.check_head(found) is None
        here = room(asyncio.get_running_loop())
        here.crew.admission.enter()
        assert endpoint.begin(found, body("tools/call", CALL_ADD), door) is None
        here.crew.admission.leave()

    run(bring())
    assert door.status == 503


def test_a_call_that_has_to_wait_has_a_place_until_its_end() -> None:
    endpoint = serve(True, waits)

    async def bring() -> None:
        door = RecordingDoor()
        found = head(lines("tools/call", "waits"))
        assert endpoint.check_head(found) is None
        sent = body("tools/call", {**CALL_ADD, "name": "waits"})
        rest = endpoint.begin(found, sent, door)
        admission = endpoint._here().crew.admission
        assert admission.running == 1
        assert rest is not None
        await rest
        assert admission.running == 0
        assert door.status == 200

    run(bring())


def test_most_calls_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    begin = Express.begin

    def noted(self: Express, offer: Any, *args: Any) -> Any:
        begun.append(offer.function.name)
        return begin(self, offer, *args)

    monkeypatch.setattr(Express, "begin", noted)

    ask(serve(True, add), body("tools/call", CALL_ADD), lines("tools/call", "add"))

    assert begun == ["add"]
