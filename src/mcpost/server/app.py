"""`Server`: where an author registers tools, resources, prompts and completions.

It knows no transport: `asgi` and `run` make doors to it.

Spec: server/tools, server/resources, server/prompts (F-01 to F-03).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, TypeVar, Unpack, overload

import msgspec

from mcpost.errors import UsageError
from mcpost.limits import ServerLimits
from mcpost.server.bus import Bus, MemoryBus
from mcpost.server.call import Context
from mcpost.server.features import Features
from mcpost.server.offers import (
    CacheHints,
    PromptOffer,
    ResourceOffer,
    TemplateOffer,
    ToolOffer,
)
from mcpost.server.running import Runner
from mcpost.server.sealing import Sealer
from mcpost.server.templates import Template
from mcpost.types import (
    Annotations,
    Icon,
    Implementation,
    Prompt,
    PromptArgument,
    PromptsChanged,
    Resource,
    ResourcesChanged,
    ResourceTemplate,
    ResourceUpdated,
    Tool,
    ToolAnnotations,
    ToolsChanged,
)

if TYPE_CHECKING:
    from mcpost.server.asgi import AsgiApp
    from mcpost.server.endpoint import Endpoint
    from mcpost.server.settings import Authenticate, Settings
    from mcpost.server.signature import Function

__all__ = ("Server",)

Handler = TypeVar("Handler", bound=Callable[..., Any])
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


class Server:
    """An MCP server.

    Args:
        name: Its name, as callers see it.
        version: Its version.
        title: A name for people.
        instructions: What a model should know of it as a whole.
        icons: Pictures for user interfaces.
        website_url: Where to read about it.
        limits: Its bounds.
        request_state_key: Key that seals the state of calls that ask for input, at least 16
            bytes; several keys to replace one: the first seals, all open. Replicas of one server
            share it. By default one is made that only this process knows.
        cache: Cache hints of `server/discover` and the lists; by default a minute, `public` without
            authentication and `private` with it.
        expose_errors: Whether callers are told the text of unexpected exceptions.
        bus: Where notices of change travel; by default within this process.

    Raises:
        UsageError: A name or key that cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        instructions: str | None = None,
        icons: Sequence[Icon] = (),
        website_url: str | None = None,
        limits: ServerLimits = ServerLimits(),
        request_state_key: bytes | Sequence[bytes] | None = None,
        cache: CacheHints | None = None,
        expose_errors: bool = False,
        bus: Bus | None = None,
    ) -> None:
        self.limits = limits
        self.bus: Bus = MemoryBus() if bus is None else bus
        info = Implementation(
            name, version, title=title, website_url=website_url, icons=list(icons) or None
        )
        self.features = Features(
            info,
            instructions,
            limits,
            lists=cache,
            sealer=Sealer(request_state_key, limits, audience=name),
            runner=Runner(limits, expose_errors=expose_errors),
        )
        self._served = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.features.info.name

    def __repr__(self) -> str:
        return f"Server({self.name!r})"

    @overload
    def tool(self, function: Handler, /) -> Handler: ...

    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Callable[[Handler], Handler]: ...

    def tool(self, function: Any = None, **options: Any) -> Any:
        """Register a function as a tool; with or without parentheses.

        The function may be plain, and then runs in a thread, or `async`. Its parameters make the
        input schema, its return annotation the output schema. What it may return is told in
        docs/server.md.

        Args:
            function: The function.
            options: `name`, `title`, `description`, `annotations`, `icons`, `input_schema` (a
                JSON Schema in place of the one of the hints), `output_schema` (likewise, or
                `False` for none) and `meta`.

        Returns:
            The function, unchanged.

        Raises:
            UsageError: The signature, a schema or the name cannot be used.
            BadMark: A mirrored parameter breaks a rule (H-02 to H-04).
        """

        def register(found: Handler) -> Handler:
            self.add_tool(found, **options)
            return found

        return register if function is None else register(function)

    def add_tool(
        self,
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
    ) -> None:
        """Register a function as a tool; see `tool`. Those who listen are told."""
        compiled = _compile(
            function, name=name, input_schema=input_schema, output_schema=output_schema
        )
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
        self.features.tools.add(compiled.name, ToolOffer(definition, compiled))
        self._changed(ToolsChanged())

    def remove_tool(self, name: str) -> None:
        """Remove a tool; raises UsageError where there is none. Those who listen are told."""
        self.features.tools.remove(name)
        self._changed(ToolsChanged())

    def resource(
        self, uri: str, **options: Unpack[ResourceOptions]
    ) -> Callable[[Handler], Handler]:
        """Register a function as a resource, or as a family of them.

        Args:
            uri: A URI, or a template: `books://{id}` names one segment, `files:///{+path}` the
                rest of a path. The function's parameters are the template's variables.
            options: `name`, `title`, `description`, `mime_type`, `size`, `annotations`, `icons`,
                `cache` (`CacheHints`) and `meta`.

        Returns:
            A decorator that leaves the function unchanged.

        Raises:
            UsageError: The template or the signature cannot be used.
        """

        def register(function: Handler) -> Handler:
            self.add_resource(uri, function, **options)
            return function

        return register

    def add_resource(
        self,
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
    ) -> None:
        """Register a function as a resource or a family of them; see `resource`."""
        template = Template(uri)
        compiled = _compile(function, name=name, strict=False)
        members: Json = {
            "name": compiled.name,
            "title": title,
            "description": description or compiled.description,
            "mime_type": mime_type,
            "annotations": _struct(annotations, Annotations),
            "icons": list(icons) or None,
            "meta": meta,
        }
        unfilled = compiled.parameters.required - set(template.names)
        unknown = set(template.names) - set(compiled.parameters.names)
        if unfilled or unknown:
            raise UsageError(
                f"{compiled.name}: the template {uri!r} has {sorted(template.names)}, the function"
                f" takes {sorted(compiled.parameters.names)}"
            )
        if template.names:
            family = ResourceTemplate(uri, **members)
            self.features.templates.add(uri, TemplateOffer(family, compiled, cache, template))
        else:
            single = Resource(uri, size=size, **members)
            self.features.resources.add(uri, ResourceOffer(single, compiled, cache))
        self._changed(ResourcesChanged())

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a family; raises UsageError where there is none."""
        if self.features.templates.get(uri) is not None:
            self.features.templates.remove(uri)
        else:
            self.features.resources.remove(uri)
        self._changed(ResourcesChanged())

    @overload
    def prompt(self, function: Handler, /) -> Handler: ...

    @overload
    def prompt(self, **options: Unpack[PromptOptions]) -> Callable[[Handler], Handler]: ...

    def prompt(self, function: Any = None, **options: Any) -> Any:
        """Register a function as a prompt; with or without parentheses.

        Args:
            function: Returns text, a message, a list of messages, or a `PromptResult`. Its
                parameters are the prompt's arguments, which callers give as text.
            options: `name`, `title`, `description`, `icons` and `meta`.

        Returns:
            The function, unchanged.

        Raises:
            UsageError: The signature or the name cannot be used.
        """

        def register(found: Handler) -> Handler:
            self.add_prompt(found, **options)
            return found

        return register if function is None else register(function)

    def add_prompt(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] = (),
        meta: Json | None = None,
    ) -> None:
        """Register a function as a prompt; see `prompt`. Those who listen are told."""
        compiled = _compile(function, name=name, strict=False)
        parameters = compiled.parameters
        arguments = [
            PromptArgument(
                each,
                description=parameters.schema["properties"].get(each, {}).get("description"),
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
        self.features.prompts.add(compiled.name, PromptOffer(definition, compiled))
        self._changed(PromptsChanged())

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt; raises UsageError where there is none. Those who listen are told."""
        self.features.prompts.remove(name)
        self._changed(PromptsChanged())

    def completion(self, target: str, argument: str) -> Callable[[Handler], Handler]:
        """Register a function that completes an argument.

        Args:
            target: Name of a prompt, or a resource template.
            argument: The argument or variable that is completed.

        The function's first parameter is what the caller has so far; one called `arguments` gets
        the other arguments. It returns the values, best first (100 at most are sent), or a
        `Completion`.

        Raises:
            UsageError: The signature cannot be used, or there is such a function already.
        """

        def register(function: Handler) -> Handler:
            self.add_completion(target, argument, function)
            return function

        return register

    def add_completion(self, target: str, argument: str, function: Callable[..., Any]) -> None:
        """Register a function that completes an argument; see `completion`."""
        if (target, argument) in self.features.completers:
            raise UsageError(f"{argument!r} of {target!r} has its completion already")
        compiled = _compile(function, strict=False)
        unfilled = compiled.parameters.required - {*compiled.parameters.names[:1], "arguments"}
        if unfilled or not compiled.parameters.names:
            raise UsageError(
                f"{compiled.name}: a completion takes the text so far, and may take `arguments`"
                " and a Context"
            )
        self.features.completers[target, argument] = compiled

    def notify_tools_changed(self) -> None:
        """Tell those who listen that the list of tools changed; from any thread."""
        self.bus.publish(ToolsChanged())

    def notify_prompts_changed(self) -> None:
        """Tell those who listen that the list of prompts changed; from any thread."""
        self.bus.publish(PromptsChanged())

    def notify_resources_changed(self) -> None:
        """Tell those who listen that the list of resources changed; from any thread."""
        self.bus.publish(ResourcesChanged())

    def notify_resource_updated(self, uri: str) -> None:
        """Tell those who listen to a resource that it changed; from any thread."""
        self.bus.publish(ResourceUpdated(uri))

    def _changed(self, change: ToolsChanged | PromptsChanged | ResourcesChanged) -> None:
        # Before the first door is made nobody listens, and a shared bus need not hear of it.
        if self._served:
            self.bus.publish(change)

    def asgi(
        self,
        path: str | None = None,
        *,
        origins: Sequence[str] = (),
        hosts: Sequence[str] | None = None,
        authenticate: Authenticate | None = None,
        limits: ServerLimits | None = None,
    ) -> AsgiApp:
        """Make the ASGI application of this server; it needs no lifespan and mounts anywhere.

        Args:
            path: The path it answers at, as in `/mcp`, with or without a slash at its end; every
                other path is 404. `None` answers at every path below the place of its mount.
            origins: Origins of web pages that may call, as in `https://app.example.com`, besides
                those of this machine.
            hosts: Names that `Host` may have, as in `mcp.example.com`, besides those of this
                machine; `None` does not look at `Host`.
            authenticate: Finds out who calls; see docs/server.md.
            limits: Bounds, by default those of the server.

        Raises:
            UsageError: An origin, host or path that is none.
        """
        # Imported here: a server that is only called in process has no door.
        from mcpost.server.asgi import AsgiApp
        from mcpost.server.settings import Settings

        settings = Settings.make(
            origins=origins, hosts=hosts, authenticate=authenticate, limits=limits or self.limits
        )
        return AsgiApp(self.endpoint(settings), path)

    def serving(self) -> None:
        """Take note that there is a door: from now on what comes and goes is told to listeners."""
        self._served = True

    def endpoint(self, settings: Settings) -> Endpoint:
        """Make the endpoint that doors share: its rules, its listeners, its admission."""
        from mcpost.server.endpoint import Endpoint

        self.serving()
        return Endpoint(self.features, self.bus, settings)

    def run(self, **options: Any) -> None:
        """Serve until a signal comes; the options are those of `mcpost.server.run.serve`."""
        from mcpost.server.run import serve

        serve(self, **options)


def _compile(function: Callable[..., Any], **options: Any) -> Function:
    # Imported here: it loads pydantic.
    from mcpost.server.signature import compile_function

    return compile_function(function, context_type=Context, **options)


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
