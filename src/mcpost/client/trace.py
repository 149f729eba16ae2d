"""The trace context of the caller, for the request's `_meta`.

Costs a dictionary lookup where the program does not use OpenTelemetry, and never imports it.

Spec: basic/index, "OpenTelemetry trace context" (J-06).
"""

from __future__ import annotations

import sys

from mcpost.wire.meta import TRACE_KEYS

__all__ = ("current_trace",)


def current_trace() -> dict[str, str] | None:
    """Give `traceparent` and what belongs to it, `None` where no span is current."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or not trace.get_current_span().get_span_context().is_valid:
        return None
    # Imported here: the program has loaded the API, so this costs little.
    from opentelemetry.propagate import inject

    carrier: dict[str, str] = {}
    inject(carrier)
    return {key: carrier[key] for key in TRACE_KEYS if key in carrier}
