"""The client: one object for one server.

```
async with Client("https://example.com/mcp") as client:
    result = await client.call("search", {"query": "tide"})
```

Spec: server/tools, server/resources, server/prompts, server/discover (F-01 to F-05, J-04).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from mcpost.client.cache import Cache
from mcpost.client.call import Caller, OnLog, OnProgress, Options
from mcpost.client.credentials import Auth, AuthProvider
from mcpost.client.era import EraMemory
from mcpost.client.fetch import Fetcher, read_result
from mcpost.client.handle import CallHandle
from mcpost.client.inputs import Inputs, OnElicit, OnRoots, OnSample
from mcpost.client.listen import Listen
from mcpost.client.network import Network
from mcpost.client.retry import WHEN_BUSY, Retry, read_retry
from mcpost.client.target import Target, make_transport
from mcpost.client.toolbook import ToolBook
from mcpost.client.transport import Transport
from mcpost.errors import BadReply, ToolFailed, UsageError
from mcpost.limits import ClientLimits
from mcpost.types import (
    CallResult,
    Change,
    Completion,
    DiscoverResult,
    Prompt,
    PromptResult,
    ReadResult,
    Resource,
    ResourceTemplate,
    Tool,
    ToolsChanged,
)
from mcpost.version import __version__
from mcpost.wire.mirror import EMPTY
from mcpost.wire.versions import Era

__all__ = ("Client",)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What a call takes where its caller says nothing."""

    timeout: float | None
    max_timeout: float | None
    retry: Retry
    trust_annotations: bool
    log: OnLog | None
    log_level: str


class Client:
    """A client of one server; use it as an async context manager.

    Args:
        target: The URL of an endpoint; a `Server` object or ASGI application, which is called in
            this process; or the command of a server on stdio, as words, as one text or as a
            `Command`.
        headers: Header lines of every request.
        auth: Gives the headers that say who calls: a function (its own cache is its affair), or an
            `Auth`, which also sees refusals.
        timeout: Seconds without a sign of life after which a call ends; `ClientLimits.timeout`.
        max_timeout: Seconds for a call in all; `ClientLimits.max_timeout`.
        limits: All bounds.
        retry: When calls are made again, by default only what the server refuses as busy.
        trust_annotations: Whether a tool that calls itself idempotent or read-only is called again
            when its call was lost.
        on_elicit: Answers a server's questions to the person; being there declares it.
        on_elicit_url: Answers its requests to open a page.
        on_sample: Answers its questions to the model.
        on_roots: The roots it may work in.
        on_log: Is told what the server logs for a call, from `log_level` on.
        log_level: The least severe level that is asked for.
        cache: Whether answers are kept for as long as they say; a `Cache` is shared.
        network: TLS, certificates, proxies.
        name: Name of the program, told to the server.
        version: Its version.
        capabilities: Client capabilities beyond those of the handlers, as in
            `{"sampling": {"tools": {}}}`.
        era: `"modern"` or `"legacy"` where the server's era is known; it is found out otherwise.
        eras: What is known of servers' eras; share one among clients.
        wrap: Puts something before the transport: a recorder, say.

    Raises:
        BadTarget: The target is none.
        UsageError: A setting makes no sense.
    """

    def __init__(
        self,
        target: Target,
        *,
        headers: Mapping[str, str] | None = None,
        auth: Auth | AuthProvider | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        limits: ClientLimits = ClientLimits(),
        retry: Retry | int | bool | None = None,
        trust_annotations: bool = False,
        on_elicit: OnElicit | None = None,
        on_elicit_url: OnElicit | None = None,
        on_sample: OnSample | None = None,
        on_roots: OnRoots | None = None,
        on_log: OnLog | None = None,
        log_level: str = "info",
        cache: bool | Cache = True,
        network: Network = Network(),
        name: str = "mcpost",
        version: str | None = None,
        capabilities: Mapping[str, Any] | None = None,
        era: str | None = None,
        eras: EraMemory | None = None,
        wrap: Callable[[Transport], Transport] | None = None,
    ) -> None:
        self._defaults = _Defaults(
            timeout,
            max_timeout,
            read_retry(retry, WHEN_BUSY),
            trust_annotations,
            on_log,
            log_level,
        )
        inputs = Inputs(
            elicit=on_elicit, elicit_url=on_elicit_url, sample=on_sample, roots=on_roots
        )
        transport, credentials = make_transport(
            target,
            headers=headers or {},
            auth=auth,
            limits=limits,
            network=network,
            agent=f"mcpost/{__version__}",
            inputs=inputs,
            era=None if era is None else Era(era),
            eras=eras or EraMemory(),
        )
        transport = transport if wrap is None else wrap(transport)
        self._caller = Caller(
            transport,
            limits=limits,
            inputs=inputs,
            info={"name": name, "version": version or __version__},
            capabilities=capabilities or {},
        )
        self._fetcher = Fetcher(self._caller, _read_cache(cache, limits), credentials)
        self._book = ToolBook(self._load_tools, mirrors=transport.mirrors)
        self._listens: set[Listen] = set()
        self._handles: set[asyncio.Task[CallResult]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def calls_under_way(self) -> int:
        """How many calls and listens have no answer yet."""
        return self._caller.running

    @property
    def open_connections(self) -> int:
        """How many connections are open, in use or kept for the next call."""
        return self._caller.transport.open_connections

    async def close(self) -> None:
        """End everything: calls and listens under way fail, connections are closed."""
        for listen in list(self._listens):
            await listen.close()
        # Each call ends with the reason, wherever it is awaited.
        await self._caller.close()
        await self._book.close()
        await asyncio.gather(*self._handles, return_exceptions=True)

    # The server.

    async def discover(self) -> DiscoverResult:
        """Ask which versions and capabilities the server has, and who it is (V-01)."""
        return read_result(await self._fetch("server/discover", {}), DiscoverResult)

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Make any request, and give its result as it came.

        Args:
            method: The method.
            params: Its parameters, without `_meta`.
            options: `progress`, `timeout`, `max_timeout`, `meta`, `retry`, as for `call`.
        """
        return await self._caller.call(method, params or {}, self._options(**options))

    # Tools.

    async def tools(self) -> list[Tool]:
        """List the tools that may be called, over all pages.

        A tool whose header marks break the rules is left out, with a warning (H-05).
        """
        return self._book.take(await self._load_tools(False))

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: OnProgress | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it moves with every sign of life
        max_timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        retry: Retry | int | bool | None = None,
        into: Any = None,
        raise_on_error: bool = False,
    ) -> CallResult:
        """Call a tool.

        Cancelling the task that awaits it cancels the call at the server.

        Args:
            name: Name of the tool.
            arguments: Its arguments.
            progress: Is told how far the call is; asks the server to tell.
            timeout: Seconds without a sign of life.
            max_timeout: Seconds in all, further attempts and input included.
            meta: Further members of the request's `_meta`.
            retry: When the call is made again.
            into: A type that the structured content is read as; `result.data` is of that type.
            raise_on_error: Whether a failure of the tool is raised.

        Raises:
            ToolFailed: The tool failed, and `raise_on_error` asks for it.
            RpcError: The server refuses the call.
            TransportError: No answer could be had; its `sent` says whether the call may have run.
            UsageError: An argument cannot be mirrored into its header (H-04).
        """
        if max_timeout is None:
            max_timeout = self._defaults.max_timeout or self._caller.limits.max_timeout
        known = self._book.get(name)
        if known is None and not self._book.is_filled:
            now = asyncio.get_running_loop().time
            until = now() + max_timeout
            known = await self._book.find(name, max_timeout)
            max_timeout = until - now()
        if retry is None and self._defaults.trust_annotations and known and known.is_repeatable:
            retry = Retry()
        options = self._options(
            progress=progress, timeout=timeout, max_timeout=max_timeout, meta=meta, retry=retry
        )
        options = options._replace(
            mirror=known.mirror if known is not None else EMPTY,
            remirror=lambda: self._book.refresh(name),
        )
        params = {"name": name, "arguments": dict(arguments or {})}
        answer = await self._caller.call("tools/call", params, options)
        result = read_result(answer, CallResult)
        if result.is_error:
            if raise_on_error:
                raise ToolFailed(result.text or f"the tool {name!r} failed", result)
            return result
        known = self._book.get(name)
        if known is not None and known.output_schema is not None:
            problem = known.check_output(result.structured_content)
            if problem is not None:
                raise BadReply(f"the result of {name!r} is not what its schema promises: {problem}")
        if into is not None:
            result.structured_content = _convert(result.structured_content, into)
        return result

    def start(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> CallHandle:
        """Start a call, and give the handle of it: follow its progress, cancel it, await it.

        Args:
            name: Name of the tool.
            arguments: Its arguments.
            options: As for `call`, without `progress`.
        """
        handle = CallHandle(
            lambda progress: self.call(name, arguments, progress=progress, **options)
        )
        self._handles.add(handle.task)
        handle.task.add_done_callback(self._handles.discard)
        return handle

    # Resources.

    async def resources(self) -> list[Resource]:
        """List the resources, over all pages."""
        return await self._list("resources/list", "resources", Resource)

    async def templates(self) -> list[ResourceTemplate]:
        """List the templates of resources, over all pages."""
        return await self._list("resources/templates/list", "resourceTemplates", ResourceTemplate)

    async def read(self, uri: str, **options: Any) -> ReadResult:
        """Read a resource.

        Args:
            uri: Its URI.
            options: As for `request`.

        Raises:
            RpcError: With `is_not_found` where there is no such resource, in the code of this
                revision or the earlier one (J-03).
        """
        return read_result(await self._fetch("resources/read", {"uri": uri}, **options), ReadResult)

    # Prompts.

    async def prompts(self) -> list[Prompt]:
        """List the prompts, over all pages."""
        return await self._list("prompts/list", "prompts", Prompt)

    async def prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Any
    ) -> PromptResult:
        """Get a prompt.

        Args:
            name: Its name.
            arguments: Its arguments, all text.
            options: As for `request`.
        """
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        return read_result(await self.request("prompts/get", params, **options), PromptResult)

    async def complete(
        self,
        ref: str,
        argument: str,
        value: str,
        *,
        arguments: Mapping[str, str] | None = None,
    ) -> Completion:
        """Ask how an argument may be completed.

        Args:
            ref: Name of a prompt, or URI template of a resource.
            argument: Name of the argument.
            value: What is typed so far.
            arguments: Arguments that are settled already.
        """
        is_uri = "://" in ref or "{" in ref
        params: dict[str, Any] = {
            "ref": {"type": "ref/resource", "uri": ref}
            if is_uri
            else {"type": "ref/prompt", "name": ref},
            "argument": {"name": argument, "value": value},
        }
        if arguments is not None:
            params["context"] = {"arguments": dict(arguments)}
        result = await self.request("completion/complete", params)
        return read_result(result.get("completion"), Completion)

    # Changes.

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
        retry: Retry | None = None,
        forever: bool = False,
    ) -> Listen:
        """Listen for changes; see `Listen`.

        Args:
            tools: Of the list of tools.
            prompts: Of the list of prompts.
            resources: Of the list of resources.
            uris: Of these resources.
            retry: How often, and after what pauses, a broken stream is opened again; by default
                for ever.
            forever: Whether to open it again also after the server has ended it.
        """
        wanted: dict[str, Any] = {}
        for name, value in (
            ("toolsListChanged", tools),
            ("promptsListChanged", prompts),
            ("resourcesListChanged", resources),
        ):
            if value:
                wanted[name] = True
        if uris:
            wanted["resourceSubscriptions"] = list(uris)
        if not wanted:
            raise UsageError("say what to listen for: tools, prompts, resources or uris")
        listen = Listen(
            self._caller,
            wanted,
            policy=retry,
            on_change=self._hear_change,
            on_end=self._listens.discard,
            forever=forever,
        )
        self._listens.add(listen)
        return listen

    # Within.

    def _options(
        self,
        *,
        progress: OnProgress | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        retry: Retry | int | bool | None = None,
    ) -> Options:
        defaults = self._defaults
        return Options(
            defaults.timeout if timeout is None else timeout,
            defaults.max_timeout if max_timeout is None else max_timeout,
            read_retry(retry, defaults.retry),
            progress,
            defaults.log,
            defaults.log_level,
            meta,
        )

    async def _fetch(
        self, method: str, params: Mapping[str, Any], **options: Any
    ) -> dict[str, Any]:
        return await self._fetcher.fetch(method, params, self._options(**options))

    async def _list(self, method: str, member: str, kind: type[T]) -> list[T]:
        return await self._fetcher.list(method, member, kind, self._options())

    async def _load_tools(self, fresh: bool) -> list[Tool]:
        return await self._fetcher.list("tools/list", "tools", Tool, self._options(), fresh=fresh)

    def _hear_change(self, change: Change | None) -> None:
        if change is None or isinstance(change, ToolsChanged):
            self._book.forget()
        self._fetcher.hear(change)


def _read_cache(cache: bool | Cache, limits: ClientLimits) -> Cache | None:
    if isinstance(cache, bool):
        return Cache(limits) if cache else None
    return cache


def _convert(value: Any, into: Any) -> Any:
    validate = getattr(into, "model_validate", None)
    try:
        return validate(value) if validate is not None else msgspec.convert(value, into)
    except ValueError as error:
        raise BadReply(f"the structured content is no {into!r}: {error}") from error
