"""What calls give back.

A client gets these; a server's handler may return them. `meta` is the result's `_meta`.

Spec: schema, `CallToolResult`, `ReadResourceResult`, `GetPromptResult`, `CompleteResult`,
`DiscoverResult`, `ElicitResult`, `CreateMessageResult` (F-01 to F-05, J-02, V-01).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mcpost.types.content import (
    AnyContents,
    BlobResourceContents,
    ContentBlock,
    Role,
    SamplingContent,
    TextContent,
    TextResourceContents,
    Wire,
    resource_contents,
)
from mcpost.types.features import Implementation, PromptMessage, Root

__all__ = (
    "CallResult",
    "Completion",
    "DiscoverResult",
    "ElicitResult",
    "PromptResult",
    "ReadResult",
    "RootsResult",
    "SampleResult",
)


def _no_blocks() -> list[ContentBlock]:
    # A factory of our own: an empty list that stands as a default would not be written.
    return []


class CallResult(Wire):
    """The result of `tools/call`."""

    content: list[ContentBlock] = msgspec.field(default_factory=_no_blocks)
    structured_content: Any = None
    """Any JSON value; `None` also where there is none."""
    is_error: bool = False
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    @property
    def text(self) -> str:
        """All text blocks, joined by line breaks."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

    @property
    def data(self) -> Any:
        """The structured content, or the text where there is none."""
        return self.text if self.structured_content is None else self.structured_content


class ReadResult(Wire):
    """The result of `resources/read`."""

    contents: list[AnyContents]
    ttl_ms: int | None = None
    cache_scope: Literal["public", "private"] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    def __post_init__(self) -> None:
        """Give the contents their types where they came as plain objects."""
        self.contents = [resource_contents(each) for each in self.contents]

    @property
    def text(self) -> str:
        """All text contents, joined by line breaks."""
        return "\n".join(
            each.text for each in self.contents if isinstance(each, TextResourceContents)
        )

    @property
    def blobs(self) -> list[BlobResourceContents]:
        """All contents that are bytes."""
        return [each for each in self.contents if isinstance(each, BlobResourceContents)]


class PromptResult(Wire):
    """The result of `prompts/get`."""

    messages: list[PromptMessage]
    description: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class Completion(Wire):
    """The result of `completion/complete`: at most 100 values."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class DiscoverResult(Wire):
    """The result of `server/discover`."""

    supported_versions: list[str]
    capabilities: dict[str, Any]
    instructions: str | None = None
    ttl_ms: int = 0
    cache_scope: Literal["public", "private"] = "private"
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    @property
    def server_info(self) -> Implementation | None:
        """Who the server says it is, where it says so."""
        info = (self.meta or {}).get("io.modelcontextprotocol/serverInfo")
        return msgspec.convert(info, Implementation) if isinstance(info, dict) else None


class ElicitResult(Wire):
    """A person's answer to an elicitation."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None

    @property
    def accepted(self) -> bool:
        """Whether the person answered what was asked."""
        return self.action == "accept"


class SampleResult(Wire):
    """A model's answer to a sampling request."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    model: str
    stop_reason: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")

    @property
    def text(self) -> str:
        """All text blocks, joined by line breaks."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(block.text for block in blocks if isinstance(block, TextContent))


class RootsResult(Wire):
    """The roots that a client offers."""

    roots: list[Root]
