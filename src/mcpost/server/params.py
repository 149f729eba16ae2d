"""Members of a request's parameters, read or refused.

Spec: basic/index, "Error Codes" (T-23, J-03).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpost.errors import InvalidParams

__all__ = ("read_object", "read_text", "resource_not_found")


def read_text(params: Mapping[str, Any], name: str) -> str:
    """Read a member that has to be there and be text; raises InvalidParams."""
    value = params.get(name)
    if type(value) is not str:
        raise InvalidParams(f'"{name}" has to be a string')
    return value


def read_object(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Read a member that is an object, `{}` where it is not there; raises InvalidParams."""
    value = params.get(name)
    if value is None:
        return {}
    if type(value) is not dict:
        raise InvalidParams(f'"{name}" has to be an object')
    return value


def resource_not_found(uri: str, reason: str = "") -> InvalidParams:
    """Make the error of a resource that there is not: -32602 with its URI, never -32002 (F-02)."""
    return InvalidParams(reason or f"there is no resource {uri!r}", {"uri": uri})
