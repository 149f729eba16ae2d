"""The parameters of a function: which the caller gives, and as what.

Spec: server/tools, "Tool" (F-01); patterns/mrtr (P-06).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, get_args, get_origin

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from mcpost.errors import UsageError
from mcpost.server.marks import Ask
from mcpost.server.signature.chains import straighten
from mcpost.server.signature.docstrings import read_docstring
from mcpost.server.signature.hints import (
    ask_of,
    bare,
    bound_keywords,
    is_context,
    name_of,
    resolve_hints,
)
from mcpost.server.signature.models import CONFIG, Adapter, make_adapter, make_schema

__all__ = ("Asked", "Parameters", "read_parameters")

_EMPTY = inspect.Parameter.empty


@dataclass(slots=True)
class Asked:
    """A parameter that is asked for before the function runs."""

    resolve: Callable[..., Any]
    """Gives the value, or the question for it."""
    hint: Any
    """The type of the value."""
    needs: tuple[str, ...]
    """The parameters that `resolve` takes."""
    context: str | None
    """The one among its parameters that takes the Context."""


@dataclass(slots=True)
class Parameters:
    """The parameters of one function."""

    owner: str
    """The function's name, for errors."""
    fields: dict[str, Any] = field(default_factory=dict)
    """The hints of those that the caller gives, by name."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Their defaults, where they have one."""
    extra: Any = None
    """The hint of `**kwargs`; `None` where there is none."""
    context: str | None = None
    """Name of the one that takes the Context."""
    asks: dict[str, Asked] = field(default_factory=dict)
    """Those that are asked for."""
    prose: str | None = None
    """The docstring without its sections."""
    returns: Any = None
    """The return annotation, resolved."""
    schema: dict[str, Any] = field(default_factory=dict)
    """JSON Schema of the arguments, an object."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a caller gives, in order."""
        return tuple(self.schema.get("properties", ()))

    @property
    def required(self) -> frozenset[str]:
        """The names that a caller has to give."""
        return frozenset(self.schema.get("required", ()))

    def compile(self) -> Adapter:
        """Make the schema, legal for marks, and the adapter that checks arguments.

        Raises:
            UsageError: A hint has no schema.
            BadMark: A mark in a model that contains itself.
        """
        more: Any = {"closed": True} if self.extra is None else {"extra_items": self.extra}
        make: Any = TypedDict  # not one that a type checker could know
        arguments = make("arguments", self.fields, **more)
        arguments.__pydantic_config__ = CONFIG
        adapter = make_adapter(arguments, self.owner)
        self.schema = make_schema(adapter, self.owner)
        properties = self.schema.setdefault("properties", {})
        for name, default in self.defaults.items():
            if name in properties and default is not None:
                _tell_default(properties[name], default)
        straighten(self.schema)
        return adapter


def _tell_default(schema: dict[str, Any], default: Any) -> None:
    try:
        schema.setdefault("default", to_jsonable_python(default))
    except (PydanticSerializationError, ValueError):
        # A default that JSON cannot say is the function's own business.
        return


def read_parameters(function: Callable[..., Any], *, context_type: type) -> Parameters:
    """Read the parameters of a function.

    Args:
        function: The function, or any callable with a signature.
        context_type: The class whose annotation marks the context parameter.

    Returns:
        The parameters, not yet compiled.

    Raises:
        UsageError: `*args`, a positional-only parameter, a hint that cannot be resolved, or an
            asked parameter that needs what is not there.
    """
    owner = name_of(function)
    hints = resolve_hints(function, owner, context_type)
    documented = read_docstring(function)
    found = Parameters(owner, prose=documented.prose, returns=hints.get("return"))
    for parameter in _parameters(function, owner):
        hint = hints.get(parameter.name, Any)
        ask = ask_of(hint)
        if parameter.kind is parameter.VAR_KEYWORD:
            found.extra = hint
        elif is_context(hint, context_type):
            found.context = parameter.name
        elif ask is not None:
            found.asks[parameter.name] = _asked(ask, bare(hint), context_type)
        else:
            found.fields[parameter.name] = _field(
                parameter, hint, documented.parameters.get(parameter.name)
            )
            if parameter.default is not _EMPTY and not isinstance(parameter.default, FieldInfo):
                found.defaults[parameter.name] = parameter.default
    for name, asked in found.asks.items():
        unknown = set(asked.needs) - found.fields.keys() - found.asks.keys()
        if unknown:
            raise UsageError(
                f"{owner}: what asks for {name!r} takes {', '.join(sorted(unknown))}, and there is"
                " no such parameter"
            )
    return found


def _parameters(function: Callable[..., Any], owner: str) -> Iterator[inspect.Parameter]:
    bound = bound_keywords(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{owner}: it has no signature that can be read: {error}") from error
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise UsageError(
                f"{owner}: {parameter} cannot be filled, since arguments come by name; give every"
                " parameter a name that a caller can use"
            )
        if parameter.name not in bound:
            yield parameter


def _asked(ask: Ask, hint: Any, context_type: type) -> Asked:
    owner = repr(ask)
    hints = resolve_hints(ask.resolve, owner, context_type)
    context: str | None = None
    needs: list[str] = []
    for parameter in _parameters(ask.resolve, owner):
        if is_context(hints.get(parameter.name), context_type):
            context = parameter.name
        elif parameter.kind is not parameter.VAR_KEYWORD:
            needs.append(parameter.name)
    return Asked(ask.resolve, hint, tuple(needs), context)


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
    """Make a field of a parameter: what it is, what is said of it, and whether it may be absent."""
    default = parameter.default
    if isinstance(default, FieldInfo):
        hint = Annotated[hint, default]
    elif description and not _is_described(hint):
        hint = Annotated[hint, Field(description=description)]
    if default is _EMPTY or isinstance(default, FieldInfo):
        return hint
    return NotRequired[hint]


def _is_described(hint: Any) -> bool:
    return any(
        isinstance(extra, FieldInfo) and extra.description
        for extra in (get_args(hint)[1:] if get_origin(hint) is Annotated else ())
    )
