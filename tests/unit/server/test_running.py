from __future__ import annotations

import asyncio
import functools
import logging
import sys
import threading
from typing import Annotated, Any

import pytest

from mcpost import Ask, NotFound, Server, ToolError
from mcpost.errors import InternalError, InvalidParams, WireError
from tests.helpers.calls import call_tool
from tests.helpers.loop import run


def failing(error: BaseException, *, is_async: bool = True, **options: Any) -> Server:
    server = Server("fails", **options)

    def fail() -> str:
        raise error

    async def fail_on_loop() -> str:
        raise error

    server.add_tool(fail_on_loop if is_async else fail, name="fail")
    return server


@pytest.mark.req("T-23/S", "F-01/S")
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("secret"),
        SystemExit("secret"),
        KeyError("secret"),
        ExceptionGroup("secret", [OSError()]),
    ],
)
def test_an_unexpected_exception_names_its_class_and_no_more(
    error: BaseException, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "mcpost.server"):
        result = run(call_tool(failing(error, is_async=is_async), "fail"))

    assert result["isError"] is True
    assert type(error).__name__ in result["content"][0]["text"]
    assert "secret" not in str(result)
    assert "secret" in caplog.text


@pytest.mark.req("T-23/S")
def test_the_text_is_told_where_the_server_says_so() -> None:
    server = failing(ValueError("secret"), expose_errors=True)

    assert "secret" in run(call_tool(server, "fail"))["content"][0]["text"]


@pytest.mark.req("T-23/S", "F-01/S")
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("error", [ToolError("the shelf is empty"), NotFound("the shelf is empty")])
def test_a_failure_meant_for_the_caller_is_told(error: Exception, is_async: bool) -> None:
    result = run(call_tool(failing(error, is_async=is_async), "fail"))

    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "the shelf is empty"}]


@pytest.mark.req("T-23/S", "J-03/S")
@pytest.mark.parametrize("error", [InvalidParams("no such day"), InternalError("down")])
def test_a_protocol_error_of_a_handler_is_the_answer(error: WireError) -> None:
    with pytest.raises(type(error), match=error.message):
        run(call_tool(failing(error), "fail"))


def test_plain_functions_run_in_threads_and_async_ones_on_the_loop() -> None:
    server, where = Server("runs"), {}

    @server.tool
    def plain() -> None:
        where["plain"] = threading.current_thread()

    @server.tool
    async def on_loop() -> None:
        where["on loop"] = threading.current_thread()

    run(call_tool(server, "plain"))
    run(call_tool(server, "on_loop"))

    assert where["plain"] is not threading.main_thread()
    assert where["on loop"] is threading.main_thread()


def test_every_kind_of_function_is_run() -> None:
    server = Server("runs")

    class Adder:
        def __init__(self, base: int) -> None:
            self.base = base

        def add(self, a: int) -> int:
            return self.base + a

        async def __call__(self, a: int) -> int:
            return self.base + a

    async def late(a: int) -> int:
        await asyncio.sleep(0)
        return a

    server.add_tool(Adder(1).add, name="method")
    server.add_tool(Adder(2), name="object")
    server.add_tool(functools.partial(late), name="partial")
    server.add_tool(lambda a: late(a), name="returns_coroutine")

    texts = [
        run(call_tool(server, name, {"a": 10}))["content"][0]["text"]
        for name in ("method", "object", "partial", "returns_coroutine")
    ]

    assert texts == ["11", "12", "10", "10"]


@pytest.mark.req("T-15/S")
def test_cancellation_reaches_the_handler() -> None:
    server, ended = Server("stops"), []

    @server.tool
    async def forever() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        task = asyncio.ensure_future(call_tool(server, "forever"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())

    assert ended == ["cancelled"]


@pytest.mark.req("P-06/S")
def test_parameters_that_ask_for_one_another_are_a_failure() -> None:
    server = Server("asks")

    async def tie(a: Annotated[Any, Ask(lambda b: b)], b: Annotated[Any, Ask(lambda a: a)]) -> None:
        return None

    server.add_tool(tie)

    with pytest.raises(InternalError, match="ask for one another"):
        run(call_tool(server, "tie"))


@pytest.mark.req("J-06/S")
def test_a_trace_is_current_where_somebody_looks_at_it() -> None:
    pytest.importorskip("opentelemetry.trace")
    from opentelemetry import trace

    server, seen = Server("traces"), []

    @server.tool
    async def look() -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)

    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    run(call_tool(server, "look", traceparent=parent))
    run(call_tool(server, "look", traceparent="00-nonsense"))
    run(call_tool(server, "look"))

    assert seen == [0x0AF7651916CD43DD8448EB211C80319C, 0, 0]


@pytest.mark.req("J-06/S")
def test_without_opentelemetry_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry")]:
        monkeypatch.delitem(sys.modules, name)
    server = Server("traces")

    @server.tool
    async def look() -> None:
        return None

    run(call_tool(server, "look", traceparent="00-" + "1" * 32 + "-" + "1" * 16 + "-01"))

    assert not [name for name in sys.modules if name.startswith("opentelemetry")]
