"""Arguments that are mirrored into headers, and tools whose marks break the rules."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcpost.client import Client
from mcpost.errors import ConnectionLost, RpcError, UsageError
from tests.helpers.hostile import CLOSE, Hostile, failure, good, page
from tests.helpers.loop import run


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def marked(header: str, kind: str = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header}


class Tools:
    """A server with a list of tools; each call is answered well."""

    def __init__(self, *tools: dict[str, Any]) -> None:
        self.tools = list(tools)
        self.server = Hostile(answer=self.answer)

    def answer(self, message: dict[str, Any]) -> list[Any] | None:
        if message["method"] == "tools/list":
            return [page(good(message["id"], tools=self.tools, ttlMs=60000))]
        return None

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.server.requests]


async def call(arguments: dict[str, Any], **properties: Any) -> list[str]:
    """Call a tool; gives the mirrored lines of its request."""
    tools = Tools(tool("t", **properties))
    async with tools.server as server, Client(server.url, era="modern") as client:
        await client.call("t", arguments)
        head = server.heads[-1].decode("latin-1")
    return [line for line in head.split("\r\n") if line.startswith("Mcp-Param-")]


@pytest.mark.req("H-01/C", "H-06/C", "H-07/C", "H-08/C")
@pytest.mark.parametrize(
    ("value", "line"),
    [
        pytest.param("us-west1", "Mcp-Param-X: us-west1", id="plain"),
        pytest.param("Hello, 世界", "Mcp-Param-X: =?base64?SGVsbG8sIOS4lueVjA==?=", id="not ASCII"),
        pytest.param(" padded ", "Mcp-Param-X: =?base64?IHBhZGRlZCA=?=", id="outer blanks"),
        pytest.param("line1\nline2", "Mcp-Param-X: =?base64?bGluZTEKbGluZTI=?=", id="line break"),
        pytest.param(
            "=?base64?literal?=", "Mcp-Param-X: =?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", id="sentinel"
        ),
        pytest.param("", "Mcp-Param-X: ", id="empty"),
        pytest.param(None, None, id="null"),
    ],
)
def test_the_encoding_table_comes_out_exactly(value: str | None, line: str | None) -> None:
    assert run(call({"x": value}, x=marked("X"))) == ([] if line is None else [line])


@pytest.mark.req("H-01/C", "H-03/C", "H-04/C", "H-06/C")
def test_integers_booleans_and_nested_parameters_are_mirrored() -> None:
    nested = {"type": "object", "properties": {"deep": marked("Deep")}}
    lines = run(
        call(
            {"n": 4e15, "m": -7, "b": False, "o": {"deep": "x"}, "free": "y"},
            n=marked("N", "integer"),
            m=marked("M", "integer"),
            b=marked("B", "boolean"),
            o=nested,
            free={"type": "string"},
        )
    )

    assert lines == [
        "Mcp-Param-N: 4000000000000000",
        "Mcp-Param-M: -7",
        "Mcp-Param-B: false",
        "Mcp-Param-Deep: x",
    ]


@pytest.mark.req("H-04/C")
@pytest.mark.parametrize("value", [2**53, -(2**53), 1.5])
def test_a_number_that_no_header_can_carry_is_refused_and_nothing_is_sent(value: float) -> None:
    with pytest.raises(UsageError):
        run(call({"n": value}, n=marked("N", "integer")))


@pytest.mark.req("H-02/C", "H-03/C", "H-05/C")
def test_a_tool_with_a_bad_mark_is_left_out_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = Tools(
        tool("good", x=marked("X")),
        tool("empty", x=marked("")),
        tool("number", x=marked("X", "number")),
        tool("blank", x=marked("a b")),
        tool("twice", x=marked("Same"), y=marked("sAME")),
        tool("array", x={"type": "array", "items": marked("X")}),
        {"name": "malformed"},
    )

    async def main() -> list[str]:
        async with tools.server as server, Client(server.url, era="modern", cache=False) as client:
            await client.tools()
            return [each.name for each in await client.tools()]

    with caplog.at_level(logging.WARNING, "mcpost.client"):
        assert run(main()) == ["good"]
    texts = [record.getMessage() for record in caplog.records if "is left out" in record.message]
    for name in ("empty", "number", "blank", "twice", "array"):
        assert len([text for text in texts if f"'{name}'" in text]) == 1


def test_a_tool_that_is_not_known_is_looked_up_once() -> None:
    tools = Tools(tool("t", x=marked("X")))

    async def main() -> None:
        async with tools.server as server, Client(server.url, era="modern") as client:
            await client.call("t", {"x": "1"})
            await client.call("t", {"x": "2"})
            await client.call("hidden")
            await client.call("hidden")

    run(main())
    assert tools.methods == ["tools/list", *["tools/call"] * 4]


def test_a_server_without_a_list_is_called_all_the_same() -> None:
    def answer(message: dict[str, Any]) -> list[Any] | None:
        if message["method"] == "tools/list":
            return [page(failure(message["id"], -32601), status=404)]
        return None

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url) as client:
            await client.call("t")
            await client.call("t")
            assert len(server.requests) == 3

    run(main())


def test_a_list_that_is_lost_says_that_the_call_was_not_made() -> None:
    def answer(message: dict[str, Any]) -> list[Any] | None:
        return [CLOSE] if message["method"] == "tools/list" else None

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url) as client:
            with pytest.raises(ConnectionLost) as caught:
                await client.call("t")
            assert caught.value.sent == "no"

    run(main())


@pytest.mark.req("H-12/C")
def test_a_mismatch_refreshes_the_list_and_retries_once() -> None:
    tools = Tools(tool("t"))
    tools.server = Hostile(answer=lambda message: refuse_without_region(message))

    def refuse_without_region(message: dict[str, Any]) -> list[Any] | None:
        if message["method"] == "tools/list":
            return tools.answer(message)
        if b"Mcp-Param-Region: eu" not in tools.server.heads[-1]:
            return [page(failure(message["id"], -32020), status=400)]
        return None

    async def main() -> None:
        async with tools.server as server, Client(server.url, era="modern") as client:
            await client.tools()
            tools.tools = [tool("t", region=marked("Region"))]
            await client.call("t", {"region": "eu"})

        ids = [message["id"] for message in server.requests]
        assert tools.methods == ["tools/list", "tools/call", "tools/list", "tools/call"]
        assert len(set(ids)) == 4

    run(main())


@pytest.mark.req("H-12/C")
def test_a_mismatch_that_stays_is_an_error() -> None:
    def answer(message: dict[str, Any]) -> list[Any] | None:
        if message["method"] == "tools/call":
            return [page(failure(message["id"], -32020), status=400)]
        return None

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url) as client:
            with pytest.raises(RpcError) as caught:
                await client.call("t")
            calls = [each for each in server.requests if each["method"] == "tools/call"]
            assert (caught.value.code, len(calls)) == (-32020, 2)

    run(main())
