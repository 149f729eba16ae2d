"""The caller's trace goes with the request, and costs nothing where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider

from mcpost.client.trace import current_trace
from tests.helpers.until import DEADLINE


@pytest.mark.req("J-06/C")
def test_a_current_span_is_told() -> None:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("work") as span:
        trace = current_trace()

    assert trace is not None
    identity = span.get_span_context()
    assert trace["traceparent"].startswith(f"00-{identity.trace_id:032x}-{identity.span_id:016x}-")


@pytest.mark.req("J-06/C")
def test_without_a_span_there_is_nothing_to_tell() -> None:
    assert current_trace() is None


def test_a_program_without_telemetry_loads_none_of_it() -> None:
    code = (
        "import sys; import mcpost.client; from mcpost.client.trace import current_trace;"
        "current_trace();"
        "assert not [m for m in ('opentelemetry', 'pydantic', 'jsonschema_rs', 'urllib.request')"
        " if m in sys.modules]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE)
