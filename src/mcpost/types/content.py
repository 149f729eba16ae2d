"""Content blocks: what tools return, prompts say and resources hold.

Spec: server/tools, "Tool Result"; server/prompts, "PromptMessage"; schema, `ContentBlock` (F-01).
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, Literal

import msgspec

__all__ = (
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "ContentBlock",
    "EmbeddedResource",
    "Icon",
    "ImageContent",
    "ResourceContents",
    "ResourceLink",
    "Role",
    "SamplingContent",
    "TextContent",
    "TextResourceContents",
    "ToolResultContent",
    "ToolUseContent",
)

Role = Literal["user", "assistant"]


class Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of what goes on the wire: camel-case names, and no member that says nothing."""


class Annotations(Wire):
    """Hints on how a client may use a block or a resource."""

    audience: list[Role] | None = None
    priority: float | None = None
    """From 0 (optional) to 1 (required)."""
    last_modified: str | None = None
    """ISO 8601."""


class Icon(Wire):
    """A picture for a user interface; `src` is an `https:` or `data:` URI."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["light", "dark"] | None = None


class TextContent(Wire, tag="text", tag_field="type"):
    """Text."""

    text: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class ImageContent(Wire, tag="image", tag_field="type"):
    """An image; `data` is Base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> ImageContent:
        """Make the block of the image's own bytes."""
        return cls(b64encode(data).decode("ascii"), mime_type)


class AudioContent(Wire, tag="audio", tag_field="type"):
    """Sound; `data` is Base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> AudioContent:
        """Make the block of the sound's own bytes."""
        return cls(b64encode(data).decode("ascii"), mime_type)


class ResourceLink(Wire, tag="resource_link", tag_field="type"):
    """A resource that can be read."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    """Bytes of the resource, where they are known."""
    icons: list[Icon] | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class TextResourceContents(Wire):
    """A resource's text."""

    uri: str
    text: str
    mime_type: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class BlobResourceContents(Wire):
    """A resource's bytes; `blob` is Base64."""

    uri: str
    blob: str
    mime_type: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    @classmethod
    def from_bytes(
        cls, uri: str, data: bytes, mime_type: str | None = None
    ) -> BlobResourceContents:
        """Make the contents of the resource's own bytes."""
        return cls(uri, b64encode(data).decode("ascii"), mime_type)


ResourceContents = TextResourceContents | BlobResourceContents
"""What a resource holds."""

if TYPE_CHECKING:
    AnyContents = ResourceContents
else:
    # The two differ by a member and not by a tag, so the reader leaves it to `resource_contents`.
    AnyContents = Any


def resource_contents(value: Any) -> ResourceContents:
    """Read contents as received: text where they have text, else bytes; typed ones stay.

    Raises:
        msgspec.ValidationError: They are neither.
    """
    if isinstance(value, ResourceContents):
        return value
    if isinstance(value, dict) and "text" in value:
        return msgspec.convert(value, TextResourceContents)
    return msgspec.convert(value, BlobResourceContents)


class EmbeddedResource(Wire, tag="resource", tag_field="type"):
    """A resource's contents, put into a message."""

    resource: AnyContents
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    def __post_init__(self) -> None:
        """Give the contents their type where they came as a plain object."""
        self.resource = resource_contents(self.resource)


class ToolUseContent(Wire, tag="tool_use", tag_field="type"):
    """A model's wish to use a tool, in sampling."""

    id: str
    name: str
    input: dict[str, Any]
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class ToolResultContent(Wire, tag="tool_result", tag_field="type"):
    """What a tool gave to a model, in sampling."""

    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Any = None
    is_error: bool = False
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
"""A part of a tool's result or of a prompt's message."""

SamplingContent = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
"""A part of a message between a server and a model."""
