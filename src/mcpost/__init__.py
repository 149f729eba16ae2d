"""The Model Context Protocol over HTTP, revision 2026-07-28: one URL, every message one POST.

The names here are the public face; they are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpost.errors import (
        McpostError,
        NotFound,
        ToolError,
    )
    from mcpost.limits import ServerLimits
    from mcpost.server.app import Server
    from mcpost.server.call import Context, Principal
    from mcpost.server.marks import Ask, Mirror
    from mcpost.server.offers import CacheHints
    from mcpost.server.questions import Elicit, InputRequired, Roots, Sample

__all__ = (
    "Ask",
    "CacheHints",
    "Context",
    "Elicit",
    "InputRequired",
    "McpostError",
    "Mirror",
    "NotFound",
    "Principal",
    "Roots",
    "Sample",
    "Server",
    "ServerLimits",
    "ToolError",
)

__version__ = "0.1.0"

_HOMES = {
    "Ask": "mcpost.server.marks",
    "CacheHints": "mcpost.server.offers",
    "Context": "mcpost.server.call",
    "Elicit": "mcpost.server.questions",
    "InputRequired": "mcpost.server.questions",
    "McpostError": "mcpost.errors",
    "Mirror": "mcpost.server.marks",
    "NotFound": "mcpost.errors",
    "Principal": "mcpost.server.call",
    "Roots": "mcpost.server.questions",
    "Sample": "mcpost.server.questions",
    "Server": "mcpost.server.app",
    "ServerLimits": "mcpost.limits",
    "ToolError": "mcpost.errors",
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
