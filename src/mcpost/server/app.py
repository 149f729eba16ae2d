"""`Server`: where an author registers tools, resources, prompts and completions.

It knows no transport: `asgi` and `run` make doors to it.

Spec: server/tools, server/resources, server/prompts (F-01 to F-03).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from mcpost.errors import UsageError
from mcpost.limits import ServerLimits
from mcpost.server.bus import Bus, MemoryBus
from mcpost.server.features import Features
from mcpost.server.offers import CacheHints, TemplateOffer
from mcpost.server.registration import (
    PromptOptions,
    ResourceOptions,
    ToolOptions,
    make_completion,
    make_prompt,
    make_resource,
    make_tool,
)
from mcpost.server.running import Runner
from mcpost.server.sealing import Sealer
from mcpost.types import (
    Icon,
    Implementation,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
)

if TYPE_CHECKING:
    from mcpost.server.asgi import AsgiApp
    from mcpost.server.endpoint import Endpoint
    from mcpost.server.settings import Authenticate, Settings

__all__ = ("Server",)

Handler = TypeVar("Handler", bound=Callable[..., Any])


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
        if not name:
            raise UsageError("a server has a name, which its callers see")
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

    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        """Register a function as a tool; see `tool`. Those who listen are told."""
        offer = make_tool(function, **options)
        self.features.tools.add(offer.definition.name, offer)
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
        if not isinstance(uri, str):
            raise UsageError("a resource has a URI, as in @server.resource('books://all')")

        def register(function: Handler) -> Handler:
            self.add_resource(uri, function, **options)
            return function

        return register

    def add_resource(
        self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]
    ) -> None:
        """Register a function as a resource or a family of them; see `resource`."""
        offer = make_resource(uri, function, **options)
        if isinstance(offer, TemplateOffer):
            self.features.templates.add(uri, offer)
        else:
            self.features.resources.add(uri, offer)
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

    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        """Register a function as a prompt; see `prompt`. Those who listen are told."""
        offer = make_prompt(function, **options)
        self.features.prompts.add(offer.definition.name, offer)
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
        self.features.completers[target, argument] = make_completion(function)

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
        legacy: bool = True,
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
            legacy: Whether earlier revisions are served too, at the same URL (docs/legacy.md).

        Raises:
            UsageError: An origin, host or path that is none.
        """
        # Imported here: a server that is only called in process has no door.
        from mcpost.server.asgi import AsgiApp
        from mcpost.server.settings import Settings

        settings = Settings.make(
            origins=origins, hosts=hosts, authenticate=authenticate, limits=limits or self.limits
        )
        return AsgiApp(self.endpoint(settings, legacy=legacy), path)

    def serving(self) -> None:
        """Take note that there is a door: from now on what comes and goes is told to listeners."""
        self._served = True

    def endpoint(self, settings: Settings, *, legacy: bool = True) -> Endpoint:
        """Make the endpoint that doors share: its rules, its listeners, its admission."""
        from mcpost.server.endpoint import Endpoint

        self.serving()
        if not legacy:
            return Endpoint(self.features, self.bus, settings)
        from mcpost.server.legacy.endpoint import LegacyEndpoint

        earlier = LegacyEndpoint(self.features, self.bus, settings.limits)
        return Endpoint(self.features, self.bus, settings, earlier)

    def run(
        self, *, host: str = "127.0.0.1", port: int = 8000, path: str = "/mcp", **options: Any
    ) -> None:
        """Serve until a signal comes.

        Args:
            host: Address to bind; loopback by default.
            port: TCP port, 0 for one that the system chooses.
            path: The path of the endpoint.
            options: Further ones of `mcpost.server.run.serve`, as in `workers=2`.

        Raises:
            UsageError: An option that cannot be, or an address that cannot be bound.
        """
        # Imported here: it loads the engine.
        from mcpost.server.run import serve

        serve(self, host=host, port=port, path=path, **options)
