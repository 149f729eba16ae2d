"""Spans of the gateway's requests (mcpost.gateway.spans)."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcpost.gateway.policy_read import read_policy
from mcpost.gateway.spans import Spans
from tests.e2e.gateway.gateways import allow_all, opened, small
from tests.helpers.http import body, lines, post
from tests.helpers.loop import run
from tests.helpers.raw import connect
from tests.helpers.until import until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"

DENY = """
default = "deny"
[[listeners]]
name = "main"
bind = "127.0.0.1:0"
[upstreams.here]
endpoints = ["http://127.0.0.1:1/mcp"]
"""


def ask(name: str = "add", *more: tuple[str, str]) -> bytes:
    sent = body("tools/call", {"name": name, "arguments": {"a": 1, "b": 2}})
    return post(sent, lines("tools/call", name, *more))


def spans_of(policy: Any, *requests: bytes) -> list[ReadableSpan]:
    """Send requests through a gateway, and give the spans that it wrote."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def scenario() -> None:
        async with small() as port:
            found = policy(port) if callable(policy) else policy
            async with opened(found) as gateway, connect(gateway.port) as raw:
                gateway.running.shared.spans = Spans(provider.get_tracer("test"))
                for request in requests:
                    await raw.ask(request)
                await until(lambda: len(exporter.get_finished_spans()) == len(requests))

    run(scenario())
    return list(exporter.get_finished_spans())


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.req("J-06/S")
def test_a_request_is_a_span_of_its_callers_trace() -> None:
    parent = ("traceparent", f"00-{TRACE}-{PARENT}-01")

    (span,) = spans_of(allow_all, ask("add", parent))

    assert span.name == "tools/call add"
    assert span.kind is SpanKind.SERVER
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == PARENT
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.start_time < span.end_time
    assert attributes(span) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "network.protocol.name": "http",
        "client.address": "127.0.0.1",
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "add",
        "mcp.protocol.version": "2026-07-28",
        "mcpost.gateway.verdict": "allow",
        "mcpost.gateway.rule": "default",
        "mcpost.gateway.upstream": "here",
    }
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("line", ["", "nonsense", f"00-{'0' * 32}-{PARENT}-01", "\xff" * 10])
def test_without_a_trace_that_can_be_read_a_span_begins_one(line: str) -> None:
    (span,) = spans_of(allow_all, ask("add", ("traceparent", line)))

    assert span.parent is None


def test_heads_that_come_again_have_spans_of_their_own() -> None:
    first, second = spans_of(allow_all, ask(), ask())

    assert first.context is not None
    assert second.context is not None
    assert first.context.trace_id != second.context.trace_id


def test_a_denied_name_is_an_attribute_and_no_name_of_a_span() -> None:
    (span,) = spans_of(read_policy(DENY), ask("drop_everything"))

    assert span.name == "tools/call"
    assert attributes(span)["mcpost.gateway.verdict"] == "deny"
    assert attributes(span)["gen_ai.tool.name"] == "drop_everything"
    assert attributes(span)["error.type"] == "403"
    # RFC and conventions agree: a mistake of the client is no error of this side.
    assert span.status.status_code is StatusCode.UNSET


def test_an_upstream_that_is_not_there_is_an_error() -> None:
    (span,) = spans_of(read_policy(DENY.replace('"deny"', '"allow"\nupstream = "here"')), ask())

    assert attributes(span)["http.response.status_code"] == 502
    assert attributes(span)["error.type"] == "502"
    assert span.status.status_code is StatusCode.ERROR


def test_without_an_sdk_nothing_is_imported() -> None:
    script = """
import sys
from mcpost.gateway.spans import Spans
assert Spans.of_program() is None
assert "opentelemetry.trace" not in sys.modules
import opentelemetry.sdk.trace
assert Spans.of_program() is not None
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
