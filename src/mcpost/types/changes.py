"""What is told without being asked: changes to lists and resources, progress, log messages.

Spec: patterns/subscriptions (P-04); patterns/progress (P-01); utilities/logging (P-07).
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = (
    "Change",
    "LogMessage",
    "Progress",
    "PromptsChanged",
    "Reconnected",
    "ResourceUpdated",
    "ResourcesChanged",
    "ToolsChanged",
)


class ToolsChanged(msgspec.Struct, frozen=True, tag="tools"):
    """The list of tools changed."""


class PromptsChanged(msgspec.Struct, frozen=True, tag="prompts"):
    """The list of prompts changed."""


class ResourcesChanged(msgspec.Struct, frozen=True, tag="resources"):
    """The list of resources or of their templates changed."""


class ResourceUpdated(msgspec.Struct, frozen=True, tag="resource"):
    """One resource changed."""

    uri: str


Change = ToolsChanged | PromptsChanged | ResourcesChanged | ResourceUpdated
"""A change that a server tells those who listen."""


class Reconnected(msgspec.Struct, frozen=True):
    """A listen was away and is back: changes in between were not heard."""

    seconds: float
    """How long it was away."""


class Progress(msgspec.Struct, frozen=True):
    """How far a call is."""

    progress: float
    total: float | None = None
    message: str | None = None


class LogMessage(msgspec.Struct, frozen=True):
    """A line of a server's log for one call."""

    level: str
    data: Any
    logger: str | None = None
