"""The Model Context Protocol over HTTP, revision 2026-07-28: one URL, every message one POST.

The names here are the public face; each is loaded when it is first used, so that importing the
package costs next to nothing. Content blocks and results are in `mcpost.types`, the whole tree of
errors in `mcpost.errors`, the rules without any I/O in `mcpost.wire`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from mcpost.version import __version__ as __version__

if TYPE_CHECKING:
    from mcpost.client.client import Client
    from mcpost.client.retry import Retry
    from mcpost.errors import (
        McpostError,
        NotFound,
        RpcError,
        ToolError,
        ToolFailed,
        TransportError,
        UsageError,
    )
    from mcpost.limits import ClientLimits, ServerLimits
    from mcpost.server.app import Server
    from mcpost.server.call import Principal
    from mcpost.server.context import Context
    from mcpost.server.marks import Ask, Mirror
    from mcpost.server.offers import CacheHints
    from mcpost.server.questions import Elicit, InputRequired, Roots, Sample

__all__ = (
    "Ask",
    "CacheHints",
    "Client",
    "ClientLimits",
    "Context",
    "Elicit",
    "InputRequired",
    "McpostError",
    "Mirror",
    "NotFound",
    "Principal",
    "Retry",
    "Roots",
    "RpcError",
    "Sample",
    "Server",
    "ServerLimits",
    "ToolError",
    "ToolFailed",
    "TransportError",
    "UsageError",
)

_HOMES: Final = {
    "Ask": "mcpost.server.marks",
    "CacheHints": "mcpost.server.offers",
    "Client": "mcpost.client.client",
    "ClientLimits": "mcpost.limits",
    "Context": "mcpost.server.context",
    "Elicit": "mcpost.server.questions",
    "InputRequired": "mcpost.server.questions",
    "McpostError": "mcpost.errors",
    "Mirror": "mcpost.server.marks",
    "NotFound": "mcpost.errors",
    "Principal": "mcpost.server.call",
    "Retry": "mcpost.client.retry",
    "Roots": "mcpost.server.questions",
    "RpcError": "mcpost.errors",
    "Sample": "mcpost.server.questions",
    "Server": "mcpost.server.app",
    "ServerLimits": "mcpost.limits",
    "ToolError": "mcpost.errors",
    "ToolFailed": "mcpost.errors",
    "TransportError": "mcpost.errors",
    "UsageError": "mcpost.errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mcpost' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
