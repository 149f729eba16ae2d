"""The type hints of a function, resolved, and what stands in them that is ours.

Spec: server/tools, "Tool" (F-01).
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from mcpost.errors import UsageError
from mcpost.server.marks import Ask

__all__ = (
    "ask_of",
    "bare",
    "bound_keywords",
    "is_context",
    "members",
    "name_of",
    "resolve_hints",
    "underlying",
)


def underlying(function: Callable[..., Any]) -> Any:
    """Give the function that partial applications stand around."""
    target: Any = function
    while isinstance(target, (functools.partial, functools.partialmethod)):
        target = target.func
    return target


def bound_keywords(function: Callable[..., Any]) -> set[str]:
    """Give the names that partial applications have filled, which are not the caller's to give."""
    names: set[str] = set()
    target: Any = function
    while isinstance(target, (functools.partial, functools.partialmethod)):
        names.update(target.keywords)
        target = target.func
    return names


def name_of(function: Callable[..., Any]) -> str:
    """Give a function's own name; of a callable object, that of its class."""
    target = underlying(function)
    return str(getattr(target, "__name__", type(target).__name__))


def resolve_hints(
    function: Callable[..., Any], name: str, context_type: type | None = None
) -> dict[str, Any]:
    """Resolve the hints of a function, those written as text too.

    Args:
        function: The function.
        name: Its name, for the error.
        context_type: A class that is known by its name even where only type checkers import it.

    Raises:
        UsageError: A name in a hint is not there.
    """
    target = underlying(function)
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = type(target).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except NameError:
        names = _names_around()
    if context_type is not None:
        names.setdefault(context_type.__name__, context_type)
    try:
        return get_type_hints(target, localns=names, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"{name}: a type hint cannot be resolved: {error}; import it where the function is"
        ) from error


def _names_around() -> dict[str, Any]:
    """Give the names where a function was made that are not in its module, as in a test's body."""
    names: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        is_ours = str(frame.f_globals.get("__name__", "")).startswith("mcpost.")
        if not is_ours and frame.f_locals is not frame.f_globals:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def bare(hint: Any) -> Any:
    """Give a hint without its annotations."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint


def members(hint: Any) -> tuple[Any, ...]:
    """Give the members of a union, or the one type."""
    hint = bare(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(part for each in get_args(hint) for part in members(each))
    return (hint,)


def is_context(hint: Any, context_type: type) -> bool:
    """Whether a hint names the context, optional or annotated too."""
    return any(isinstance(each, type) and issubclass(each, context_type) for each in members(hint))


def ask_of(hint: Any) -> Ask | None:
    """Give the mark that says that a parameter is asked for."""
    if get_origin(hint) is not Annotated:
        return None
    return next((extra for extra in get_args(hint)[1:] if isinstance(extra, Ask)), None)
