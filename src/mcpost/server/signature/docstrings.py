"""What a docstring says of a function and of its parameters (Google, NumPy, Sphinx, Epydoc).

Spec: server/tools, "Tool" (F-01): the description is a hint for the model.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from docstring_parser import ParseError, parse

__all__ = ("Documented", "read_docstring")


class Documented(NamedTuple):
    """A docstring, taken apart."""

    prose: str | None
    """What stands before the first section; `None` where there is nothing."""
    parameters: dict[str, str]
    """The descriptions by parameter."""


def read_docstring(function: Callable[..., Any]) -> Documented:
    """Take a function's docstring apart; one that cannot be parsed is prose as a whole."""
    text = inspect.getdoc(function)
    is_instance = not inspect.isroutine(function) and not inspect.isclass(function)
    if is_instance and text == inspect.getdoc(type(function)):
        # The class of a callable object or of a partial says what it is, not what this one does.
        text = inspect.getdoc(type(function).__call__) if _has_own_call(function) else None
    if not text:
        return Documented(None, {})
    try:
        parsed = parse(text)
    except ParseError:
        return Documented(text, {})
    parts = (parsed.short_description, parsed.long_description)
    prose = "\n\n".join(part for part in parts if part)
    return Documented(
        prose or None,
        {each.arg_name: each.description for each in parsed.params if each.description},
    )


def _has_own_call(function: Callable[..., Any]) -> bool:
    return inspect.isfunction(getattr(type(function), "__call__", None))  # noqa: B004 - its code
