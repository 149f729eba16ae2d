"""Compiling a function as a server does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcpost.server.signature import Function, compile_function


class Context:
    """Stands for the class whose annotation marks the context parameter."""


def compiled(function: Callable[..., Any], **options: Any) -> Function:
    return compile_function(function, context_type=Context, **options)
