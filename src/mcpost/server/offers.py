"""What one tool, resource, template or prompt is: its definition and its function.

Spec: server/tools, server/resources, server/prompts, "Data Types" (F-01 to F-03).
"""

from __future__ import annotations

import mimetypes
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from mcpost.errors import InternalError
from mcpost.server.templates import Template
from mcpost.types import (
    Completion,
    Prompt,
    PromptMessage,
    PromptResult,
    ReadResult,
    Resource,
    ResourceTemplate,
    Tool,
)
from mcpost.wire.jsonrpc import encode
from mcpost.wire.versions import Era

if TYPE_CHECKING:
    from mcpost.server.signature import Function

__all__ = (
    "CacheHints",
    "PromptOffer",
    "ResourceOffer",
    "TemplateOffer",
    "ToolOffer",
    "completion_result",
    "define_tool",
    "prompt_result",
    "read_result",
    "wrap_structured",
)

Scope = Literal["public", "private"]

_MAX_COMPLETIONS: Final = 100


@dataclass(frozen=True, slots=True)
class CacheHints:
    """How long and by whom an answer may be kept (F-05).

    Spec: utilities/caching.
    """

    ttl_ms: int = 0
    """Milliseconds for which the answer is fresh; 0 is stale at once."""
    scope: Scope = "private"
    """`public` only where the answer is the same for every caller."""


@dataclass(slots=True)
class ToolOffer:
    """A tool."""

    definition: Tool
    function: Function
    is_express: bool = False
    """Whether it may take the short way: see `mcpost.server.express`."""


@dataclass(slots=True)
class ResourceOffer:
    """A resource with a fixed URI."""

    definition: Resource
    function: Function
    cache: CacheHints


@dataclass(slots=True)
class TemplateOffer:
    """A family of resources."""

    definition: ResourceTemplate
    function: Function
    cache: CacheHints
    template: Template


@dataclass(slots=True)
class PromptOffer:
    """A prompt."""

    definition: Prompt
    function: Function


def define_tool(offer: ToolOffer, era: Era) -> Any:
    """Give a tool's definition as an era's list shows it.

    The earlier revisions know structured objects only; another structure is put into one there.
    """
    schema = offer.definition.output_schema
    if era is Era.MODERN or schema is None or schema.get("type") == "object":
        return offer.definition
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
    }
    if "$defs" in schema:
        outer["$defs"] = schema["$defs"]
    definition: Tool = msgspec.structs.replace(offer.definition, output_schema=outer)
    return definition


def wrap_structured(result: dict[str, Any]) -> None:
    """Put structured content that is no object into one, for the earlier revisions."""
    if "structuredContent" in result and not isinstance(result["structuredContent"], dict):
        result["structuredContent"] = {"result": result["structuredContent"]}


def read_result(value: Any, uri: str, mime_type: str | None) -> dict[str, Any]:
    """Make the result of `resources/read` of what a function returned.

    Args:
        value: Text, bytes, contents or a list of contents, a whole `ReadResult`, or data, which
            becomes JSON text.
        uri: The URI that was read.
        mime_type: The type that the resource was registered with.

    Raises:
        InternalError: The value cannot be said in JSON.
    """
    if isinstance(value, ReadResult):
        whole: dict[str, Any] = msgspec.to_builtins(value)
        whole.setdefault("contents", [])
        return whole
    values = value if isinstance(value, (list, tuple)) and _all_contents(value) else [value]
    return {"contents": [_contents(each, uri, mime_type) for each in values]}


def _all_contents(values: Any) -> bool:
    return bool(values) and all(_is_contents(each) for each in values)


def _is_contents(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "uri" in value and ("text" in value or "blob" in value)
    return hasattr(value, "uri") and (hasattr(value, "text") or hasattr(value, "blob"))


def _contents(value: Any, uri: str, mime_type: str | None) -> dict[str, Any]:
    if _is_contents(value):
        contents: dict[str, Any] = _plain(value, uri)
        if mime_type is not None:
            contents.setdefault("mimeType", mime_type)
        return contents
    if isinstance(value, str):
        return {"uri": uri, "mimeType": mime_type or _guess(uri, "text/plain"), "text": value}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {
            "uri": uri,
            "mimeType": mime_type or _guess(uri, "application/octet-stream"),
            "blob": b64encode(value).decode("ascii"),
        }
    text = encode(_plain(value, uri)).decode()
    return {"uri": uri, "mimeType": mime_type or "application/json", "text": text}


def _guess(uri: str, default: str) -> str:
    return mimetypes.guess_type(uri)[0] or default


def _plain(value: Any, owner: str) -> Any:
    # Imported here: results are shaped by the room that knows all kinds of values.
    from mcpost.server.signature.results import plain

    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return plain(value, owner)


def prompt_result(value: Any, name: str, description: str | None) -> dict[str, Any]:
    """Make the result of `prompts/get` of what a function returned.

    Args:
        value: Text (a user's message), a message or a list of messages, or a `PromptResult`.
            Messages of other packages are taken by their shape.
        name: Name of the prompt.
        description: Its description, which the result repeats.

    Raises:
        InternalError: The value is none of these.
    """
    if isinstance(value, PromptResult):
        result: dict[str, Any] = msgspec.to_builtins(value)
        result.setdefault("messages", [])
        return result
    values = value if isinstance(value, (list, tuple)) else [value]
    whole = {"messages": [_message(each, name) for each in values]}
    return whole if description is None else {"description": description, **whole}


def _message(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, str):
        return {"role": "user", "content": {"type": "text", "text": value}}
    if isinstance(value, PromptMessage):
        message: dict[str, Any] = msgspec.to_builtins(value)
        return message
    plain = _plain(value, name)
    if isinstance(plain, dict):
        if "role" in plain and "content" in plain:
            content = plain["content"]
            if isinstance(content, str):
                plain = {**plain, "content": {"type": "text", "text": content}}
            return plain
        if "type" in plain:
            return {"role": "user", "content": plain}
    raise InternalError(f"prompt {name!r} returned something that is no message")


def completion_result(value: Any) -> dict[str, Any]:
    """Make the `completion` of what a function returned: at most 100 values.

    Args:
        value: A list of values, best first, or a `Completion`; `None` is no value.

    Raises:
        InternalError: The value is neither.

    Spec: utilities/completion, "CompleteResult" (F-03).
    """
    if isinstance(value, Completion):
        values = value.values
        completion: dict[str, Any] = msgspec.to_builtins(value)
    elif value is None or isinstance(value, (list, tuple)):
        values = [str(each) for each in value or ()]
        completion = {"total": len(values)} if len(values) > _MAX_COMPLETIONS else {}
    else:
        raise InternalError("a completion returned no list of values")
    completion["values"] = values[:_MAX_COMPLETIONS]
    if len(values) > _MAX_COMPLETIONS:
        completion["hasMore"] = True
    return completion
