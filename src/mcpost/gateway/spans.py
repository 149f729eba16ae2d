"""A span for each request, for OpenTelemetry: part of the trace that its `traceparent` line names.

A program that uses OpenTelemetry has loaded its SDK (`opentelemetry-instrument mcpost gateway …`
does); where none is loaded nothing is imported, and a request costs nothing. A span is written once
its request has ended. The line goes on to the upstream as it came: a server of this revision reads
the trace from `_meta`, in the body, which is not the gateway's to change. So the server's span and
the gateway's have the same parent, the caller's.

Spec: basic/index, "OpenTelemetry trace context" (J-06); W3C Trace Context; OpenTelemetry semantic
conventions for HTTP servers and for MCP.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mcpost.version import __version__
from mcpost.wire.meta import TRACE_KEYS, trace_context

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from mcpost.gateway.access_log import Note

__all__ = ("Spans",)

_NAMED: Final = {
    "tools/call": "gen_ai.tool.name",
    "prompts/get": "gen_ai.prompt.name",
    "resources/read": "mcp.resource.uri",
}


class Spans:
    """Writes the spans of one gateway.

    Args:
        tracer: Makes them.
    """

    __slots__ = ("_tracer",)

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @classmethod
    def of_program(cls) -> Spans | None:
        """Use the tracer provider of the program; `None` where no SDK is loaded."""
        if "opentelemetry.sdk.trace" not in sys.modules:
            return None
        from opentelemetry.trace import get_tracer

        return cls(get_tracer("mcpost.gateway", __version__))

    def add(self, note: Note, status: int, *, broken: bool = False) -> None:
        """Write the span of a request that has ended now.

        Args:
            note: The request.
            status: What the client was told; 0 where it left before.
            broken: Whether the answer was cut off on the upstream's side.
        """
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        ended = time.time_ns()
        facts, verdict = note.facts, note.verdict
        # A name that nobody has let through may be anything, and many.
        named = verdict.action == "allow" and facts.name is not None
        span = self._tracer.start_span(
            f"{facts.method or note.http_method}{f' {facts.name}' if named else ''}",
            context=extract(_carried(note.fields or {})),
            kind=SpanKind.SERVER,
            attributes=_attributes(note, status),
            start_time=ended - int(note.seconds() * 1e9),
        )
        if broken or status >= 500:
            span.set_attribute("error.type", str(status) if status >= 500 else "upstream_cut")
            span.set_status(Status(StatusCode.ERROR))
        elif status >= 400:
            # The client's mistake, which is no error of this side.
            span.set_attribute("error.type", str(status))
        span.end(ended)


def _carried(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    found = {
        key: fields[key.encode()].decode("latin-1") for key in TRACE_KEYS if key.encode() in fields
    }
    return trace_context(found)


def _attributes(note: Note, status: int) -> dict[str, Any]:
    facts, verdict = note.facts, note.verdict
    found = {
        "http.request.method": note.http_method,
        "http.response.status_code": status or None,
        "network.protocol.name": "http",
        "client.address": facts.peer,
        "mcp.method.name": facts.method,
        "mcp.protocol.version": facts.version,
        "mcpost.gateway.verdict": verdict.action,
        "mcpost.gateway.rule": verdict.rule or None,
        "mcpost.gateway.upstream": verdict.upstream,
        "mcpost.gateway.cache": note.cache,
    }
    kind = _NAMED.get(facts.method or "")
    if kind is not None:
        found[kind] = facts.name
    return {key: value for key, value in found.items() if value is not None}
