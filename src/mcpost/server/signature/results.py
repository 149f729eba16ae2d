"""From what a tool's function returns to the result of its call.

A value becomes content; where the tool has an output schema, or the value is an object, it also
becomes `structuredContent`, and its JSON text is the content's twin of it.

Spec: server/tools, "Tool Result", "Structured Content" (F-01).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mcpost.errors import InternalError, InvalidParams
from mcpost.schema import Validator, compile_schema
from mcpost.server.signature.outputs import BLOCKS, KINDS, AnyModel
from mcpost.types import CallResult

__all__ = ("Shape", "encode_members", "plain", "shape_result")

_RESULT_MEMBERS: Final = frozenset({"content", "structuredContent", "isError", "_meta"})
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})

# What content of each kind has to have; other data may say `type` too.
_NEEDED: Final = {
    "text": {"text"},
    "image": {"data", "mimeType"},
    "audio": {"data", "mimeType"},
    "resource_link": {"uri", "name"},
    "resource": {"resource"},
}


class Shape:
    """How the results of one tool are shaped.

    Args:
        tool: The tool's name.
        schema: Its output schema, `None` for none.
        model: What the returned value is, where the annotation says so; it keeps to the schema.
            Without one the schema is the author's, and values are checked against it.
    """

    __slots__ = ("_validator", "model", "schema", "tool")

    def __init__(
        self, tool: str, schema: dict[str, Any] | None = None, model: AnyModel | None = None
    ) -> None:
        self.tool = tool
        self.schema = schema
        self.model = model
        self._validator: Validator | None = None

    def check(self, value: Any) -> str | None:
        """Check structured content against the output schema; `None` if it keeps to it."""
        if self._validator is None:
            self._validator = compile_schema(self.schema or {})
        return self._validator.check(value)

    def broken(self, problem: str) -> InternalError:
        """Make the error of a tool that did not keep what its output schema promises."""
        return InternalError(
            f"tool {self.tool!r} returned what its output schema does not allow: {problem}"
        )


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
    model = shape.model
    if type(value) not in _SCALARS:
        whole = _whole_result(value, shape, is_dict_data=model is not None)
        if whole is not None:
            return whole
    if model is not None:
        try:
            structured = model.dump(value)
        except InvalidParams as error:
            raise shape.broken(error.message) from error
        text = _encode(structured, shape.tool)
        return {"content": [_text(text)], "structuredContent": structured}
    if shape.schema is None:
        content = _content(value, shape.tool)
        if content is not None:
            return {"content": content}
    text = _encode(value, shape.tool)
    structured = msgspec.json.decode(text)
    result = {"content": [_text(text)], "structuredContent": structured}
    if shape.schema is not None:
        problem = shape.check(structured)
        if problem is not None:
            raise shape.broken(problem)
    elif not isinstance(structured, dict):
        # Without a schema only an object is structured content: earlier revisions know no other.
        del result["structuredContent"]
    return result


def encode_members(shape: Shape, value: Any) -> bytes | None:
    """Write the members that `shape_result` makes, where that is simple.

    What is structured is then written once, and not again with the whole answer.

    Args:
        shape: The tool's shape.
        value: What the function returned.

    Returns:
        As in `"content":[...],"structuredContent":3`; `None` for what `shape_result` has to make.

    Raises:
        InternalError: As `shape_result`.
    """
    if type(value) is str:
        if shape.schema is not None:
            return None
        return b'"content":[{"type":"text","text":%b}]' % _ENCODER.encode(_said(value, shape.tool))
    if shape.model is None or (type(value) not in _SCALARS and _may_be_result(value)):
        return None
    try:
        structured = shape.model.dump(value)
    except InvalidParams as error:
        raise shape.broken(error.message) from error
    text = _encode(structured, shape.tool)
    return b'"content":[{"type":"text","text":%b}],"structuredContent":%b' % (
        _ENCODER.encode(text.decode()),
        text,
    )


def _may_be_result(value: Any) -> bool:
    return isinstance(value, CallResult) or hasattr(value, "content")


def _text(text: bytes) -> dict[str, Any]:
    """Make the text block that says a JSON value."""
    return {"type": "text", "text": text.decode()}


def _dump_other(value: Any) -> Any:
    """Write what msgspec does not know itself."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_dump_other)


def _encode(value: Any, owner: str) -> bytes:
    """Write a value as JSON; raises InternalError, which names the owner, if it has no JSON."""
    try:
        text = _ENCODER.encode(value)
        # The encoder writes what is not finite as null, which would be another value.
        if b"null" in text and not _is_finite(
            msgspec.to_builtins(value, str_keys=True, enc_hook=_dump_other)
        ):
            raise _unsayable(owner, "a number that is not finite")
    except (TypeError, ValueError, RecursionError) as error:
        raise _unsayable(owner, error) from error
    return text


def _is_finite(value: Any) -> bool:
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, float):
            if not math.isfinite(value):
                return False
        elif isinstance(value, dict):
            rest.extend(value.values())
        elif isinstance(value, (list, tuple)):
            rest.extend(value)
    return True


def _unsayable(owner: str, reason: object) -> InternalError:
    return InternalError(f"{owner!r} returned what JSON cannot say: {reason}")


def _whole_result(value: Any, shape: Shape, *, is_dict_data: bool) -> dict[str, Any] | None:
    """Take what is a result already: ours, another package's, or a dictionary with content."""
    result: dict[str, Any]
    if isinstance(value, CallResult):
        result = {"content": [], **plain(value, shape.tool)}
    elif isinstance(value, dict):
        found = None if is_dict_data else _result_of(value)
        if found is None:
            return None
        result = found
    elif hasattr(value, "model_dump") and hasattr(value, "content"):
        if not (hasattr(value, "is_error") or hasattr(value, "isError")):
            return None
        dumped = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        result = {name: each for name, each in dumped.items() if name in _RESULT_MEMBERS}
    else:
        return None
    if shape.schema is not None and not result.get("isError"):
        structured = result.setdefault("structuredContent", None)
        problem = shape.check(structured)
        if problem is not None:
            raise shape.broken(problem)
    if not result["content"] and "structuredContent" in result:
        result["content"] = [_text(_encode(result["structuredContent"], shape.tool))]
    return result


def _result_of(value: dict[str, Any]) -> dict[str, Any] | None:
    content = value.get("content")
    if not isinstance(content, list) or not value.keys() <= _RESULT_MEMBERS | {"resultType"}:
        return None
    blocks = [_block(each) for each in content]
    if None in blocks:
        return None
    result = {name: each for name, each in value.items() if name != "resultType"}
    return {**result, "content": blocks}


def _content(value: Any, tool: str) -> list[dict[str, Any]] | None:
    """Make content of text, numbers and blocks; `None` for what is data."""
    if isinstance(value, str):
        return [{"type": "text", "text": _said(value, tool)}]
    if value is None:
        return []
    if type(value) in _SCALARS:
        return [_text(_encode(value, tool))]
    block = _block(value)
    if block is not None:
        return [block]
    if isinstance(value, (list, tuple)):
        blocks = [_block(each) for each in value]
        if any(blocks):
            return [
                _as_block(each, tool) if block is None else block
                for each, block in zip(value, blocks, strict=True)
            ]
    return None


def _said(text: str, tool: str) -> str:
    """Refuse text that UTF-8 cannot say (half of a surrogate pair)."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _unsayable(tool, error) from error
    return text


def _as_block(value: Any, tool: str) -> dict[str, Any]:
    if isinstance(value, str):
        return {"type": "text", "text": _said(value, tool)}
    return _text(_encode(value, tool))


def _block(value: Any) -> dict[str, Any] | None:
    """Take a content block: ours, a dictionary, or another package's by its shape."""
    if type(value) in _SCALARS:
        return None
    block: dict[str, Any]
    if isinstance(value, BLOCKS):
        block = msgspec.to_builtins(value)
        return block
    if isinstance(value, dict):
        block = value
    elif getattr(value, "type", None) in KINDS and hasattr(value, "model_dump"):
        block = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    else:
        return None
    kind = block.get("type")
    if isinstance(kind, str) and _NEEDED.get(kind, {""}) <= block.keys():
        return block
    return None


def plain(value: Any, owner: str) -> Any:
    """Write a value as what JSON can say.

    Args:
        value: A dictionary, list, dataclass, Struct, model, date, enum, and the like.
        owner: Name of the tool, for the error.

    Raises:
        InternalError: Something in the value has no JSON form.
    """
    return msgspec.json.decode(_encode(value, owner))
