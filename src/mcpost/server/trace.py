"""The trace that a request belongs to, as the current context of OpenTelemetry.

A program that uses OpenTelemetry has imported it; where it has not, nothing is imported and nothing
is done.

Spec: basic/index, "OpenTelemetry trace context" (J-06).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from mcpost.wire.meta import trace_context

__all__ = ("enter_trace",)


def enter_trace(meta: Mapping[str, Any]) -> Callable[[], None] | None:
    """Make the trace of a request the current one.

    Args:
        meta: The request's `_meta`.

    Returns:
        A function that leaves it again, to be called in the same task; `None` where there is no
        trace, or nobody who would look at it.
    """
    if "opentelemetry.trace" not in sys.modules:
        return None
    carrier = trace_context(meta)
    if not carrier:
        return None
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(carrier))
    return lambda: context.detach(token)
