"""From a function, and what is said of it, to what a server offers.

Spec: server/tools, server/resources, server/prompts, "Data Types" (F-01 to F-03).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar

import msgspec

from mcpost.errors import UsageError
from mcpost.server.context import Context
from mcpost.server.offers import (
    CacheHints,
    PromptOffer,
    ResourceOffer,
    TemplateOffer,
    ToolOffer,
)
from mcpost.server.questions import InputRequired
from mcpost.server.templates import Template
from mcpost.types import (
    Annotations,
    Icon,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    Tool,
    ToolAnnotations,
)

if TYPE_CHECKING:
    from mcpost.server.signature import Function

__all__ = (
    "PromptOptions",
    "ResourceOptions",
    "ToolOptions",
    "make_completion",
    "make_prompt",
    "make_resource",
    "make_tool",
)

Json = dict[str, Any]

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ToolOptions(TypedDict, total=False):
    """What can be said of a tool besides its function."""

    name: str | None
    title: str | None
    description: str | None
    annotations: ToolAnnotations | Json | None
    icons: Sequence[Icon]
    input_schema: Json | None
    output_schema: Json | Literal[False] | None
    meta: Json | None


class ResourceOptions(TypedDict, total=False):
    """What can be said of a resource besides its URI and function."""

    name: str | None
    title: str | None
    description: str | None
    mime_type: str | None
    size: int | None
    annotations: Annotations | Json | None
    icons: Sequence[Icon]
    cache: CacheHints
    meta: Json | None


class PromptOptions(TypedDict, total=False):
    """What can be said of a prompt besides its function."""

    name: str | None
    title: str | None
    description: str | None
    icons: Sequence[Icon]
    meta: Json | None


def make_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    annotations: ToolAnnotations | Json | None = None,
    icons: Sequence[Icon] = (),
    input_schema: Json | None = None,
    output_schema: Json | Literal[False] | None = None,
    meta: Json | None = None,
) -> ToolOffer:
    """Make a tool of a function.

    Raises:
        UsageError: The signature, a schema or the name cannot be used.
        BadMark: A mirrored parameter breaks a rule (H-02 to H-04).

    Spec: server/tools, "Tool", "Tool Names" (F-01).
    """
    compiled = _compile(function, name=name, input_schema=input_schema, output_schema=output_schema)
    if _TOOL_NAME.fullmatch(compiled.name) is None:
        raise UsageError(
            f"{compiled.name!r} is no name for a tool: it has up to 128 letters and digits of"
            " ASCII, and _ . -"
        )
    definition = Tool(
        compiled.name,
        compiled.input_schema,
        title=title,
        description=description or compiled.description,
        output_schema=compiled.output_schema,
        annotations=_struct(annotations, ToolAnnotations),
        icons=list(icons) or None,
        meta=meta,
    )
    is_express = compiled.is_simple and not compiled.mirror.marks
    return ToolOffer(definition, compiled, is_express)


def make_resource(
    uri: str,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    annotations: Annotations | Json | None = None,
    icons: Sequence[Icon] = (),
    cache: CacheHints = CacheHints(),
    meta: Json | None = None,
) -> ResourceOffer | TemplateOffer:
    """Make a resource of a function, or a family of resources where the URI is a template.

    Raises:
        UsageError: The template or the signature cannot be used.

    Spec: server/resources, "Resource", "Resource Templates" (F-02).
    """
    template = Template(uri)
    compiled = _compile(function, name=name, strict=False)
    unfilled = compiled.parameters.required - set(template.names)
    unknown = set(template.names) - set(compiled.parameters.names)
    if unfilled or unknown:
        raise UsageError(
            f"{compiled.name}: the template {uri!r} has {sorted(template.names)}, the function"
            f" takes {sorted(compiled.parameters.names)}"
        )
    members: Json = {
        "name": compiled.name,
        "title": title,
        "description": description or compiled.description,
        "mime_type": mime_type,
        "annotations": _struct(annotations, Annotations),
        "icons": list(icons) or None,
        "meta": meta,
    }
    if template.names:
        return TemplateOffer(ResourceTemplate(uri, **members), compiled, cache, template)
    return ResourceOffer(Resource(uri, size=size, **members), compiled, cache)


def make_prompt(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[Icon] = (),
    meta: Json | None = None,
) -> PromptOffer:
    """Make a prompt of a function.

    Raises:
        UsageError: The signature cannot be used.

    Spec: server/prompts, "Prompt" (F-03).
    """
    compiled = _compile(function, name=name, strict=False)
    parameters = compiled.parameters
    described = parameters.schema["properties"]
    arguments = [
        PromptArgument(
            each,
            description=described.get(each, {}).get("description"),
            required=each in parameters.required,
        )
        for each in parameters.names
    ]
    definition = Prompt(
        compiled.name,
        title=title,
        description=description or compiled.description,
        arguments=arguments or None,
        icons=list(icons) or None,
        meta=meta,
    )
    return PromptOffer(definition, compiled)


def make_completion(function: Callable[..., Any]) -> Function:
    """Compile a function that completes an argument.

    Raises:
        UsageError: It does not take the text so far, or needs more than the other arguments.

    Spec: utilities/completion (F-03).
    """
    compiled = _compile(function, strict=False)
    names = compiled.parameters.names
    if not names or compiled.parameters.required - {names[0], "arguments"}:
        raise UsageError(
            f"{compiled.name}: a completion takes the text so far, and may take `arguments` and a"
            " Context"
        )
    return compiled


def _compile(function: Callable[..., Any], **options: Any) -> Function:
    if not callable(function):
        raise UsageError(
            f"{function!r} is no function; options go by name, as in name={function!r}"
        )
    # Imported here: it loads pydantic.
    from mcpost.server.signature import compile_function

    # A function that may ask returns its answer or its questions; only the answer has a schema.
    return compile_function(function, context_type=Context, apart=(InputRequired,), **options)


Hints = TypeVar("Hints")


def _struct(value: Any, kind: type[Hints]) -> Hints | None:
    """Take hints as our Struct, as JSON, or as another package's model of the same shape."""
    if value is None or isinstance(value, kind):
        return value
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{kind.__name__}: {error}") from error
