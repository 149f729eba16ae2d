"""The validators of arguments: one compiled call each, on every request.

Spec: server/tools, "Tool" (F-01); server/prompts, "Getting a Prompt" (F-03).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from mcpost.errors import InvalidParams
from mcpost.schema import Validator
from mcpost.server.signature.models import Adapter, explain, integral
from mcpost.wire.fields import SAFE_INTEGER
from mcpost.wire.mirror import Mirror, value_at

__all__ = ("Bind", "bounded", "by_schema", "json_validator", "text_validator")

Bind = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Checks arguments and gives keyword arguments; raises InvalidParams."""


def json_validator(adapter: Adapter) -> Bind:
    """Make the validator of a tool's arguments, which are JSON."""
    validate_json = adapter.validator.validate_json
    encode = msgspec.json.encode

    def validate(arguments: Mapping[str, Any]) -> dict[str, Any]:
        # Through JSON text, since only there a strict reader takes a date from text.
        try:
            return validate_json(encode(arguments), strict=True)  # type: ignore[no-any-return]
        except ValidationError as error:
            problem = error
        plain = integral(arguments)
        try:
            return validate_json(encode(plain), strict=True)  # type: ignore[no-any-return]
        except ValidationError:
            raise InvalidParams(explain(problem, arguments)) from problem

    return validate


def text_validator(adapter: Adapter) -> Bind:
    """Make the validator of arguments that are text: a prompt's, and those of a URI.

    Text becomes what the hint says; a list or object is JSON in the text.
    """
    validate_python = adapter.validator.validate_python

    def validate(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return validate_python(dict(arguments))  # type: ignore[no-any-return]
        except ValidationError as error:
            problem = error
        parsed = {name: _parsed(value) for name, value in arguments.items()}
        try:
            return validate_python(parsed)  # type: ignore[no-any-return]
        except ValidationError:
            raise InvalidParams(explain(problem, dict(arguments))) from problem

    return validate


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def by_schema(validator: Validator, whole: str | None, names: frozenset[str] | None) -> Bind:
    """Make the validator of a tool whose author wrote the input schema.

    Args:
        validator: The schema, compiled.
        whole: Name of the parameter that takes all arguments as one dictionary, if one does.
        names: Names of the parameters that take one argument each; `None` for any.
    """

    def validate(arguments: Mapping[str, Any]) -> dict[str, Any]:
        problem = validator.check(arguments)
        if problem is not None:
            raise InvalidParams(problem)
        if whole is not None:
            return {whole: dict(arguments)}
        return {name: value for name, value in arguments.items() if names is None or name in names}

    return validate


_RANGE: Final = "a mirrored integer lies within -(2^53-1) .. 2^53-1"


def bounded(bind: Bind, mirror: Mirror) -> Bind:
    """Hold mirrored integers to the range that headers have (H-04)."""
    paths = [mark.path for mark in mirror.marks if mark.type == "integer"]
    if not paths:
        return bind

    def validate(arguments: Mapping[str, Any]) -> dict[str, Any]:
        for path in paths:
            value = value_at(arguments, path)
            if isinstance(value, (int, float)) and not -SAFE_INTEGER <= value <= SAFE_INTEGER:
                raise InvalidParams(f"{'.'.join(path)}: {_RANGE}")
        return bind(arguments)

    return validate
