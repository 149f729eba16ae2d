"""What servers offer, as their lists describe it.

Spec: server/tools, server/resources, server/prompts, "Data Types" (F-01 to F-03).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mcpost.types.content import (
    Annotations,
    ContentBlock,
    Icon,
    Role,
    SamplingContent,
    Wire,
)

__all__ = (
    "Implementation",
    "ModelHint",
    "ModelPreferences",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "Resource",
    "ResourceTemplate",
    "Root",
    "SamplingMessage",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
)


class Implementation(Wire):
    """Name and version of a client or server; told by itself, verified by nobody."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class ToolAnnotations(Wire):
    """Hints about a tool's behaviour, as its author gives them."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class Tool(Wire):
    """A tool."""

    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class Resource(Wire):
    """A resource."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    """Bytes, where they are known."""
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class ResourceTemplate(Wire):
    """A family of resources, named by a URI template (RFC 6570)."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class PromptArgument(Wire):
    """An argument of a prompt."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False


class Prompt(Wire):
    """A prompt."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class PromptMessage(Wire):
    """One message of a prompt."""

    role: Role
    content: ContentBlock


class SamplingMessage(Wire):
    """One message of a sampling request; its content is a block or a list of blocks."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class ModelHint(Wire):
    """A part of a model's name that a server would like."""

    name: str | None = None


class ModelPreferences(Wire):
    """What a server wants of a model; priorities from 0 to 1."""

    hints: list[ModelHint] | None = None
    """The first that fits is to be preferred."""
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class ToolChoice(Wire):
    """Whether a model may, must or must not use the tools of a sampling request."""

    mode: Literal["auto", "required", "none"] | None = None


class Root(Wire):
    """A directory or file that a client lets a server work in; a `file:` URI."""

    uri: str
    name: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
