"""One function, compiled for its use as a tool, prompt, resource or completion.

Spec: server/tools, "Tool" (F-01, H-01 to H-04, H-14).
"""

from __future__ import annotations

import inspect
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, Literal

from mcpost.errors import BadMark, UsageError
from mcpost.schema import compile_schema
from mcpost.server.signature.arguments import (
    Bind,
    bounded,
    by_schema,
    json_validator,
    text_validator,
)
from mcpost.server.signature.hints import name_of, underlying
from mcpost.server.signature.outputs import output_model
from mcpost.server.signature.parameters import Asked, Parameters, read_parameters
from mcpost.server.signature.results import Shape, encode_members, shape_result
from mcpost.wire.mirror import EMPTY, Mirror, compile_mirror, looks_secret

__all__ = ("Function", "SecretMirroredWarning", "compile_function")

Json = dict[str, Any]


class SecretMirroredWarning(UserWarning):
    """A mirrored parameter reads like a secret, which every intermediary would see (H-14)."""


class Function:
    """A function with its schema, validator and shape; made by `compile_function`.

    Attributes:
        call: The function itself.
        name: The name it is known by.
        description: What its docstring says before its sections.
        parameters: Its parameters.
        input_schema: JSON Schema of its arguments.
        output_schema: JSON Schema of its structured content, `None` where it has none.
        mirror: The compiled marks of its input schema.
        is_async: Whether calling it gives an awaitable.
        is_simple: Whether it is called with what the caller gives, and nothing else.
        bind: Checks arguments and gives keyword arguments; raises InvalidParams.
    """

    __slots__ = (
        "_shape",
        "bind",
        "call",
        "description",
        "input_schema",
        "is_async",
        "is_simple",
        "mirror",
        "name",
        "output_schema",
        "parameters",
    )

    def __init__(self, call: Callable[..., Any], parameters: Parameters, shape: Shape) -> None:
        self.call = call
        self.name = shape.tool
        self.description = parameters.prose
        self.parameters = parameters
        self.input_schema = parameters.schema
        self.output_schema = shape.schema
        self.mirror: Mirror = EMPTY
        self.is_async = _is_async(call)
        self.is_simple = parameters.context is None and not parameters.asks
        self.bind: Bind = dict
        self._shape = shape

    @property
    def context(self) -> str | None:
        """Name of the parameter that takes the Context."""
        return self.parameters.context

    @property
    def asks(self) -> dict[str, Asked]:
        """Parameters that are asked for before the call."""
        return self.parameters.asks

    def encode_members(self, value: Any) -> bytes | None:
        """Write the members of `result`, where that is simple; raises InternalError as it does."""
        return encode_members(self._shape, value)

    def result(self, value: Any) -> Json:
        """Shape what the function returned; see `shape_result`."""
        return shape_result(self._shape, value)


def compile_function(
    function: Callable[..., Any],
    *,
    context_type: type,
    name: str | None = None,
    strict: bool = True,
    input_schema: Json | None = None,
    output_schema: Json | Literal[False] | None = None,
    apart: tuple[type, ...] = (),
) -> Function:
    """Compile a function.

    Args:
        function: The function; plain or `async`, a method, a partial or a callable object.
        context_type: The class whose annotation marks the context parameter.
        name: Name to know it by; the function's own by default.
        strict: Whether arguments are JSON; otherwise they are text (prompts, URI templates).
        input_schema: A JSON Schema to serve instead of the one the hints make; arguments are
            checked against it and handed over as they are: each to the parameter of its name, or
            all as one dictionary where the function has a single parameter of another name.
        output_schema: A JSON Schema of the structured content; `False` for none. By default the
            return annotation makes it.
        apart: Classes of returned values that are no results; the output schema leaves them out.

    Returns:
        The compiled function.

    Raises:
        UsageError: The signature or a schema cannot be used.
        BadMark: A mark breaks a rule.

    Spec: server/tools, "Tool" (F-01, H-01 to H-04).
    """
    target = underlying(function)
    if any(map(_is_generator, (target, getattr(target, "__call__", None)))):  # noqa: B004
        raise UsageError(
            f"{name or name_of(function)}: a generator has no one result; return the value, and"
            " tell progress with ctx.progress"
        )
    parameters = read_parameters(function, context_type=context_type)
    name = name or parameters.owner
    try:
        bind = _bind(parameters, input_schema, strict=strict)
        mirror = compile_mirror(parameters.schema)
    except BadMark as error:
        raise BadMark(error.path, error.rule, tool=name) from error
    compiled = Function(function, parameters, _shape(name, parameters, output_schema, apart))
    compiled.bind = bounded(bind, mirror)
    compiled.mirror = mirror
    _warn_of_secrets(name, mirror)
    return compiled


def _is_generator(function: Any) -> bool:
    return inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)


def _is_async(function: Callable[..., Any]) -> bool:
    target = underlying(function)
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(
        getattr(target, "__call__", None)  # noqa: B004 - an object's method is asked for
    )


def _bind(parameters: Parameters, schema: Json | None, *, strict: bool) -> Bind:
    """Make the validator of arguments, and the schema that callers see."""
    if schema is None:
        adapter = parameters.compile()
        return json_validator(adapter) if strict else text_validator(adapter)
    if schema.get("type") != "object":
        raise UsageError(f'{parameters.owner}: an input schema has "type": "object" at its root')
    validator = compile_schema(schema)
    parameters.schema = schema
    names = frozenset(parameters.fields)
    told = set(schema.get("properties", ()))
    if parameters.extra is not None:
        return by_schema(validator, None, None)
    if len(names) == 1 and not names & told:
        return by_schema(validator, next(iter(names)), None)
    unknown = told - names
    unfilled = names - parameters.defaults.keys() - set(schema.get("required", ()))
    if unknown or unfilled:
        raise UsageError(
            f"{parameters.owner}: the input schema and the parameters differ in"
            f" {', '.join(sorted(unknown | unfilled))}; what the function needs is in 'required',"
            " and what the schema has is a parameter (or take all in one dictionary, or **kwargs)"
        )
    return by_schema(validator, None, names)


def _shape(
    name: str,
    parameters: Parameters,
    schema: Json | Literal[False] | None,
    apart: tuple[type, ...],
) -> Shape:
    if schema is False:
        return Shape(name)
    if schema is not None:
        compile_schema(schema)  # what is wrong with it is said now
        return Shape(name, schema)
    found = output_model(parameters.returns, apart, name)
    return Shape(name) if found is None else Shape(name, found[1], found[0])


def _warn_of_secrets(name: str, mirror: Mirror) -> None:
    for mark in mirror.marks:
        if looks_secret(mark.path[-1]) or looks_secret(mark.name):
            warnings.warn(
                f"tool {name!r}: {'.'.join(mark.path)} reads like a secret, and the header"
                f" Mcp-Param-{mark.name} shows it to every intermediary",
                SecretMirroredWarning,
                stacklevel=_level_of_author(),
            )


def _level_of_author() -> int:
    """Find how far up the code stands that registers a tool, seen from who calls this."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
        level += 1
    return level


def _is_ours(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("mcpost.")
