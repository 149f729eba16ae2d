"""From what a tool's function returns to the result of its call.

A value becomes content; where the tool has an output schema, or the value is an object, it also
becomes `structuredContent`, and its JSON text is the content's twin of it.

Spec: server/tools, "Tool Result", "Structured Content" (F-01).
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from mcpost.errors import InternalError, InvalidParams, UsageError
from mcpost.schema import Validator, compile_schema
from mcpost.server.signature.hints import Model
from mcpost.types import (
    AudioContent,
    CallResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

__all__ = ("Shape", "output_model", "plain", "shape_result")

_BLOCKS: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
_KINDS: Final = frozenset({"text", "image", "audio", "resource_link", "resource"})
_RESULT_MEMBERS: Final = frozenset({"content", "structuredContent", "isError", "_meta"})


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
            return msgspec.to_builtins(msgspec.convert(value, self.hint, from_attributes=True))
        except (msgspec.ValidationError, TypeError) as error:
            raise InvalidParams(str(error)) from error


@dataclasses.dataclass(slots=True)
class Shape:
    """How the results of one tool are shaped."""

    tool: str
    model: Model | StructModel | None = None
    """What the returned value is, where the hint says so."""
    validator: Validator | None = None
    """Checks structured content against a schema that the author wrote."""


def output_model(hint: Any) -> tuple[Model | StructModel, dict[str, Any]] | None:
    """Find the structure of a returned value.

    Args:
        hint: The return annotation.

    Returns:
        Its model and output schema; `None` where the hint is missing, text, content, a whole
        result, or a type without a schema.
    """
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if hint in (None, type(None), Any, str, bytes, object) or _is_content(hint):
        return None
    model = StructModel(hint) if _is_struct(hint) else None
    try:
        found = model or Model(hint)
        return found, found.schema(output=True)
    except (UsageError, TypeError):
        return None


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _is_content(hint: Any) -> bool:
    """Whether a hint names content blocks or a whole result, ours or another package's."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType, list, tuple):
        return any(_is_content(each) for each in get_args(hint))
    if not isinstance(hint, type):
        return False
    if issubclass(hint, (*_BLOCKS, CallResult)):
        return True
    fields = getattr(hint, "model_fields", None)
    if not isinstance(fields, Mapping):
        return False
    kind = fields.get("type")
    if kind is not None and kind.default in _KINDS:
        return True
    return "content" in fields and ("isError" in fields or "is_error" in fields)


def shape_result(shape: Shape, value: Any) -> dict[str, Any]:
    """Make the result of `tools/call` of what the function returned.

    Args:
        shape: The tool's shape.
        value: Text, a number, `None`, a content block or a list with some, a dictionary, list,
            dataclass or model, or a whole result. Blocks and results of other packages are taken
            by their shape.

    Returns:
        The result without the members that every result has.

    Raises:
        InternalError: The value cannot be said in JSON, or breaks the output schema: the tool
            promised something else.
    """
    whole = _whole_result(value, shape)
    if whole is not None:
        _check(shape, whole)
        return whole
    if shape.model is not None:
        try:
            structured = shape.model.dump(value)
        except InvalidParams as error:
            raise InternalError(
                f"tool {shape.tool!r} returned what its output schema does not allow:"
                f" {error.message}"
            ) from error
        return _structured(structured)
    if shape.validator is None:
        content = _content(value)
        if content is not None:
            return {"content": content}
    structured = plain(value, shape.tool)
    result = _structured(structured)
    _check(shape, result)
    if shape.validator is None and not isinstance(structured, dict):
        del result["structuredContent"]
    return result


def _structured(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return {"content": [{"type": "text", "text": text}], "structuredContent": value}


def _check(shape: Shape, result: dict[str, Any]) -> None:
    if shape.validator is None or result.get("isError"):
        return
    problem = shape.validator.check(result.get("structuredContent"))
    if problem is not None:
        raise InternalError(
            f"tool {shape.tool!r} returned what its output schema does not allow: {problem}"
        )


def _whole_result(value: Any, shape: Shape) -> dict[str, Any] | None:
    if isinstance(value, CallResult):
        result: dict[str, Any] = msgspec.to_builtins(value)
        result.setdefault("content", [])
        return result
    if isinstance(value, dict):
        if shape.model is None and isinstance(value.get("content"), list):
            blocks = value["content"]
            if value.keys() <= _RESULT_MEMBERS and all(_is_block(each) for each in blocks):
                return {**value, "content": [_block(each) for each in blocks]}
        return None
    if hasattr(value, "model_dump") and hasattr(value, "content"):
        if hasattr(value, "is_error") or hasattr(value, "isError"):
            dumped: dict[str, Any] = value.model_dump(
                mode="json", by_alias=True, exclude_none=True
            )
            return {name: each for name, each in dumped.items() if name in _RESULT_MEMBERS}
    return None


def _content(value: Any) -> list[dict[str, Any]] | None:
    """Make content of text, numbers and blocks; `None` for what is data."""
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if value is None:
        return []
    if isinstance(value, (bool, int, float)):
        return [{"type": "text", "text": msgspec.json.encode(value).decode()}]
    if _is_block(value):
        return [_block(value)]
    if isinstance(value, (list, tuple)) and any(_is_block(each) for each in value):
        return [block for each in value for block in _content(each) or [_as_text(each)]]
    return None


def _as_text(value: Any) -> dict[str, Any]:
    return {"type": "text", "text": msgspec.json.encode(plain(value, "")).decode()}


def _is_block(value: Any) -> bool:
    if isinstance(value, _BLOCKS):
        return True
    if isinstance(value, dict):
        return value.get("type") in _KINDS and len(value) > 1
    return hasattr(value, "model_dump") and getattr(value, "type", None) in _KINDS


def _block(value: Any) -> dict[str, Any]:
    block: dict[str, Any]
    if isinstance(value, dict):
        return value
    if isinstance(value, msgspec.Struct):
        block = msgspec.to_builtins(value)
    else:
        block = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return block


def plain(value: Any, owner: str) -> Any:
    """Write a value as what JSON can say.

    Args:
        value: A dictionary, list, dataclass, Struct, model, date, enum, and the like.
        owner: Name of the tool, for the error.

    Raises:
        InternalError: Something in the value has no JSON form.
    """
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_dump_model)
    except (TypeError, ValueError, RecursionError) as error:
        raise InternalError(f"tool {owner!r} returned what JSON cannot say: {error}") from error


def _dump_model(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def author_shape(tool: str, schema: dict[str, Any]) -> Shape:
    """Make the shape of a tool whose author wrote the output schema."""
    return Shape(tool, validator=compile_schema(schema))
