"""One function, compiled for its use as a tool, prompt, resource or completion.

Spec: server/tools, "Tool" (F-01, H-01 to H-04, H-14).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

from mcpost.errors import BadMark, InvalidParams, UsageError
from mcpost.schema import compile_schema
from mcpost.server.signature.hints import Asked, Parameters, read_parameters
from mcpost.server.signature.results import (
    Shape,
    author_shape,
    output_model,
    shape_result,
)
from mcpost.wire.mirror import Mirror, compile_mirror, looks_secret

__all__ = ("Function", "SecretMirroredWarning", "compile_function")


class SecretMirroredWarning(UserWarning):
    """A mirrored parameter reads like a secret, which every intermediary would see (H-14)."""


class Function:
    """A function with its schema, validator and shape.

    Made by `compile_function`.
    """

    __slots__ = (
        "bind",
        "call",
        "description",
        "input_schema",
        "is_async",
        "mirror",
        "name",
        "output_schema",
        "parameters",
        "shape",
    )

    def __init__(
        self, call: Callable[..., Any], name: str, parameters: Parameters, shape: Shape
    ) -> None:
        self.call = call
        self.name = name
        self.parameters = parameters
        self.bind: Callable[[Mapping[str, Any]], dict[str, Any]] = parameters.validate
        """Checks arguments and gives keyword arguments; raises InvalidParams."""
        self.is_async = _is_async(call)
        self.description = parameters.summary
        self.input_schema: dict[str, Any] = parameters.schema
        self.output_schema: dict[str, Any] | None = None
        self.mirror: Mirror = compile_mirror({})
        self.shape = shape

    @property
    def context(self) -> str | None:
        """Name of the parameter that takes the Context."""
        return self.parameters.context

    @property
    def asks(self) -> dict[str, Asked]:
        """Parameters that are asked for before the call."""
        return self.parameters.asks

    def result(self, value: Any) -> dict[str, Any]:
        """Shape what the function returned; see `shape_result`."""
        return shape_result(self.shape, value)


def _is_async(function: Callable[..., Any]) -> bool:
    if inspect.iscoroutinefunction(function):
        return True
    call = getattr(function, "__call__", None)  # noqa: B004 - an object's method is asked for
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(function, "func", None)
    )


def compile_function(
    function: Callable[..., Any],
    *,
    context_type: type,
    name: str | None = None,
    strict: bool = True,
    input_schema: dict[str, Any] | None = None,
    output_schema: dict[str, Any] | Literal[False] | None = None,
) -> Function:
    """Compile a function.

    Args:
        function: The function; plain or `async`.
        context_type: The class whose annotation marks the context parameter.
        name: Name to know it by; the function's own by default.
        strict: Whether arguments are JSON; otherwise they are text (prompts, URI templates).
        input_schema: A JSON Schema to serve instead of the one the hints make; arguments are
            checked against it and handed over as they are.
        output_schema: A JSON Schema of the structured content; `False` for none. By default the
            return annotation makes it.

    Returns:
        The compiled function.

    Raises:
        UsageError: The signature or a schema cannot be used.
        BadMark: A mark breaks a rule.

    Spec: server/tools, "Tool" (F-01, H-01 to H-04).
    """
    name = name or getattr(function, "__name__", None) or type(function).__name__
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(
            f"{name}: a generator cannot be called by name; return the value, and tell progress"
            " with ctx.progress"
        )
    parameters = read_parameters(function, context_type=context_type, strict=strict)
    if input_schema is not None:
        _take_schema(parameters, name, input_schema)
    compiled = Function(function, name, parameters, Shape(name))
    _set_output(compiled, output_schema)
    try:
        compiled.mirror = compile_mirror(compiled.input_schema)
    except BadMark as error:
        raise BadMark(error.path, error.rule, tool=name) from error
    for mark in compiled.mirror.marks:
        if looks_secret(mark.path[-1]) or looks_secret(mark.name):
            warnings.warn(
                f"tool {name!r}: {'.'.join(mark.path)} reads like a secret, and the header"
                f" Mcp-Param-{mark.name} shows it to every intermediary",
                SecretMirroredWarning,
                stacklevel=4,
            )
    return compiled


def _take_schema(parameters: Parameters, name: str, schema: dict[str, Any]) -> None:
    if schema.get("type") != "object":
        raise UsageError(f'{name}: the input schema of a tool has "type": "object" at its root')
    validator = compile_schema(schema)

    def validate(arguments: Mapping[str, Any]) -> dict[str, Any]:
        problem = validator.check(arguments)
        if problem is not None:
            raise InvalidParams(problem)
        return dict(arguments)

    parameters.schema = schema
    parameters.validate = validate


def _set_output(
    compiled: Function,
    output_schema: dict[str, Any] | Literal[False] | None,
) -> None:
    if output_schema is False:
        return
    if output_schema is not None:
        compiled.output_schema = output_schema
        compiled.shape = author_shape(compiled.name, output_schema)
        return
    found = output_model(compiled.parameters.returns)
    if found is not None:
        compiled.shape = Shape(compiled.name, model=found[0])
        compiled.output_schema = found[1]
