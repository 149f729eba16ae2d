"""Which structure a function's return annotation promises.

A model, dataclass, TypedDict, Struct, enum, list, union and number have an output schema. Text,
content, whole results, and what says nothing (`Any`, `dict`, `list`) have none.

Spec: server/tools, "Output Schema" (F-01).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from mcpost.errors import UsageError
from mcpost.server.signature.chains import rooted
from mcpost.server.signature.hints import members
from mcpost.server.signature.models import Model, StructModel
from mcpost.types import (
    AudioContent,
    CallResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

__all__ = ("BLOCKS", "KINDS", "AnyModel", "output_model")

AnyModel = Model | StructModel

BLOCKS: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
"""Our classes of content."""

KINDS: Final = frozenset({"text", "image", "audio", "resource_link", "resource"})
"""What `type` says in content."""

_SILENT: Final = (Any, object, bytes, dict, list, tuple, Mapping, Sequence)


def output_model(
    hint: Any, apart: tuple[type, ...], owner: str
) -> tuple[AnyModel, dict[str, Any]] | None:
    """Find the structure that a return annotation promises.

    Args:
        hint: The return annotation.
        apart: Classes of returned values that are no results.
        owner: The function's name.

    Returns:
        Its model and its schema; `None` where it promises none.
    """
    parts = [each for each in members(hint) if not (isinstance(each, type) and each in apart)]
    if not parts or all(each in (str, None, type(None)) for each in parts):
        return None
    if any(_is_silent(each) or _is_content(each) for each in parts):
        return None
    # As written, if nothing was left out: annotations on the whole then count.
    whole = hint if len(parts) == len(members(hint)) else Union[tuple(parts)]  # noqa: UP007
    try:
        model: AnyModel = Model(whole, owner)
        return model, rooted(model.schema(output=True))
    except UsageError:
        pass
    try:
        model = StructModel(whole)
        return model, rooted(model.schema(output=True))
    except (TypeError, msgspec.ValidationError):
        return None


def _is_silent(hint: Any) -> bool:
    """Whether a hint says no more than what JSON says itself."""
    if hint in _SILENT:
        return True
    arguments = get_args(hint)
    return (
        get_origin(hint) in _SILENT
        and all(each in (Any, object, str) for each in arguments)
        and (any(each in (Any, object) for each in arguments))
    )


def _is_content(hint: Any) -> bool:
    """Whether a hint names content or a whole result, ours or another package's."""
    if get_origin(hint) is not None:
        return any(_is_content(part) for each in get_args(hint) for part in members(each))
    if not isinstance(hint, type):
        return False
    if issubclass(hint, (*BLOCKS, CallResult)):
        return True
    fields = getattr(hint, "model_fields", None)
    if not isinstance(fields, Mapping):
        return False
    kind = fields.get("type")
    if kind is not None and getattr(kind, "default", None) in KINDS:
        return True
    return "content" in fields and ("isError" in fields or "is_error" in fields)
