"""Types as pydantic and msgspec see them: a JSON Schema, a reader and a writer each.

Values are JSON and are checked as JSON: strictly, so that `"5"` is no integer, while a date comes
from text, an enum from its value, a tuple from an array and bytes from Base64. `5.0` is an
integer, as it is to JSON Schema.

Spec: basic/index, "JSON Schema Usage" (J-07).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning
from pydantic_core import PydanticSerializationError

from mcpost.errors import InvalidParams, UsageError

__all__ = (
    "Adapter",
    "Model",
    "StructModel",
    "explain",
    "integral",
    "make_adapter",
    "make_schema",
)

Adapter = TypeAdapter[Any]

CONFIG: Final = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
"""Bytes are Base64 wherever they stand, since text cannot hold all of them."""

_UNUSABLE: Final = (
    PydanticSchemaGenerationError,
    PydanticUserError,
    AttributeError,
    NameError,
    TypeError,
)
_MAX_PROBLEMS: Final = 5
_PLAIN: Final = frozenset({"bool", "int", "float", "str", "date", "datetime", "none"})


class _PlainSchema(GenerateJsonSchema):
    """Schemas without the titles that only repeat a name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """No title is made of a field's name."""
        del schema
        return False


def make_adapter(hint: Any, owner: str) -> Adapter:
    """Compile a type hint; raises UsageError, which names the owner, if it cannot be read."""
    try:
        return TypeAdapter(hint, config=CONFIG)
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise _no_schema(owner, error) from error
    except _UNUSABLE as error:
        raise _no_schema(owner, error) from error
    try:
        return TypeAdapter(hint)  # it has a configuration of its own
    except _UNUSABLE as error:
        raise _no_schema(owner, error) from error


def make_schema(adapter: Adapter, owner: str, *, output: bool = False) -> dict[str, Any]:
    """Make the JSON Schema of what a type takes, or of what it gives."""
    try:
        with warnings.catch_warnings():
            # A default that JSON cannot say is left out, and is nobody's mistake.
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
            schema = adapter.json_schema(
                mode="serialization" if output else "validation", schema_generator=_PlainSchema
            )
    except _UNUSABLE as error:
        raise _no_schema(owner, error) from error
    schema.pop("title", None)
    return schema


def _no_schema(owner: str, error: Exception) -> UsageError:
    reason = str(error).partition("\n")[0]
    return UsageError(f"{owner}: a type hint has no JSON Schema: {reason}")


def integral(value: Any) -> Any:
    """Write integral numbers as integers, at any depth: `5.0` as `5`.

    Raises:
        InvalidParams: The value is nested too deeply.
    """
    try:
        return _integral(value)
    except RecursionError as error:
        raise InvalidParams("the value is nested too deeply") from error


def _integral(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _integral(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_integral(each) for each in value]
    return value


def explain(error: ValidationError, data: Any) -> str:
    """Say what is wrong with a value, by places in the value and without the validator's inside.

    Args:
        error: What the validator found.
        data: The value.
    """
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    sentences: dict[str, list[str]] = {}
    for problem in problems:
        path = _path(problem["loc"], data, is_named=problem["type"] in _NAMED)
        sentences.setdefault(path, []).append(_OURS.get(problem["type"], problem["msg"]))
    told = [f"{path}: {', or: '.join(found)}" for path, found in sentences.items()]
    if len(told) > _MAX_PROBLEMS:
        told[_MAX_PROBLEMS:] = [f"and {len(told) - _MAX_PROBLEMS} more"]
    return "; ".join(told)


# Problems whose last step names something that is not in the value.
_NAMED: Final = frozenset({"missing"})
_OURS: Final = {
    "missing": "is required",
    "extra_forbidden": "there is no such parameter",
    "json_invalid": "is nested too deeply",  # the text is ours, so nothing else is wrong with it
}


def _path(steps: tuple[int | str, ...], data: Any, *, is_named: bool) -> str:
    """Spell a place; steps that are no part of the value name branches of a validator."""
    found: list[str] = []
    for position, step in enumerate(steps):
        is_index = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if is_index or (isinstance(data, dict) and step in data):
            data = data[step]
        elif not (is_named and position == len(steps) - 1):
            continue
        found.append(str(step))
    return ".".join(found) or "the value"


class Model:
    """A type that values are read as and written from.

    Args:
        hint: A type hint.
        owner: Whose type it is, for errors.

    Raises:
        UsageError: The type has no JSON Schema.
    """

    __slots__ = ("_adapter", "_owner", "_warnings", "hint")

    def __init__(self, hint: Any, owner: str = "") -> None:
        self.hint = hint
        self._owner = owner or repr(hint)
        self._adapter = make_adapter(hint, self._owner)
        # A model is not checked again when it is written, but it may have been changed since it
        # was made. What has no such inside is spared the search, which costs most of the time.
        is_plain = self._adapter.core_schema["type"] in _PLAIN
        self._warnings: Any = True if is_plain else "error"

    def schema(self, *, output: bool = False) -> dict[str, Any]:
        """Make its JSON Schema, of what it takes or of what it gives."""
        return make_schema(self._adapter, self._owner, output=output)

    def load(self, value: Any) -> Any:
        """Read a JSON value as the type; raises InvalidParams."""
        try:
            return self._adapter.validate_json(msgspec.json.encode(integral(value)), strict=True)
        except ValidationError as error:
            raise InvalidParams(explain(error, value)) from error

    def dump(self, value: Any) -> Any:
        """Write a value of the type as JSON value; raises InvalidParams where it is none."""
        try:
            checked = self._adapter.validator.validate_python(value, from_attributes=True)
            return self._adapter.serializer.to_python(
                checked, mode="json", by_alias=True, warnings=self._warnings
            )
        except ValidationError as error:
            raise InvalidParams(explain(error, value)) from error
        except (PydanticSerializationError, ValueError) as error:
            raise InvalidParams("something in it is not of its type any more") from error


class StructModel:
    """The model of a msgspec Struct, with the schema that msgspec makes."""

    __slots__ = ("hint",)

    def __init__(self, hint: Any) -> None:
        self.hint = hint

    def schema(self, *, output: bool = False) -> dict[str, Any]:
        """Make its JSON Schema."""
        del output
        (schema,), definitions = msgspec.json.schema_components(
            [self.hint], ref_template="#/$defs/{name}"
        )
        return {**schema, "$defs": definitions} if definitions else schema

    def dump(self, value: Any) -> Any:
        """Write a value as JSON value; raises InvalidParams where it is not of the type."""
        try:
            # By way of JSON values, since a Struct does not check itself.
            checked = msgspec.convert(msgspec.to_builtins(value), self.hint)
            return msgspec.to_builtins(checked)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise InvalidParams(str(error)) from error
