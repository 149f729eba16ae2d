"""What each method does: a call in, a result out, the same for every wire and era.

Spec: server/discover (V-01), server/tools, server/resources, server/prompts (F-01 to F-03),
utilities/completion, utilities/pagination (F-04), utilities/caching (F-05).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcpost.errors import InternalError, InvalidParams, MethodNotFound, NotFound, ToolError
from mcpost.limits import ServerLimits
from mcpost.server.call import Call, Carried
from mcpost.server.express import Begun, Express
from mcpost.server.offers import (
    CacheHints,
    PromptOffer,
    ResourceOffer,
    TemplateOffer,
    ToolOffer,
    completion_result,
    define_tool,
    prompt_result,
    read_result,
    wrap_structured,
)
from mcpost.server.params import read_object, read_text, resource_not_found
from mcpost.server.questions import InputRequired, check_capabilities
from mcpost.server.registry import Registry
from mcpost.server.replay import METHODS, LeftToAsk, Replay
from mcpost.server.running import HandlerFailed, Runner
from mcpost.server.sealing import Sealer
from mcpost.types import Implementation
from mcpost.wire import meta
from mcpost.wire.jsonrpc import encode
from mcpost.wire.mirror import Mirror
from mcpost.wire.versions import MODERN, Era

if TYPE_CHECKING:
    from mcpost.server.signature import Function

__all__ = ("Features",)

_LISTS: Final = CacheHints(60_000, "public")
"""Lists do not depend on the caller here, and a listening client hears of their changes at once."""

_LISTS_OF_PRINCIPAL: Final = CacheHints(60_000, "private")
"""What one has to show a token for is not passed on to those who have none."""

Result = dict[str, Any]


class Features:
    """The offers of one server, and the methods over them.

    Args:
        info: Who the server is.
        instructions: What a model should know of the server as a whole.
        limits: Its bounds.
        lists: Cache hints of discover and the lists; `None` for the default.
        sealer: Seals request states.
        runner: Runs functions.
    """

    def __init__(
        self,
        info: Implementation,
        instructions: str | None,
        limits: ServerLimits,
        *,
        lists: CacheHints | None,
        sealer: Sealer,
        runner: Runner,
    ) -> None:
        self.info = info
        self.instructions = instructions
        self.limits = limits
        self._lists = lists
        self._sealer = sealer
        self._runner = runner
        size = limits.page_size
        self.tools: Registry[ToolOffer] = Registry("tool", define_tool, size)
        self.resources: Registry[ResourceOffer] = Registry("resource", _definition, size)
        self.templates: Registry[TemplateOffer] = Registry("template", _definition, size)
        self.prompts: Registry[PromptOffer] = Registry("prompt", _definition, size)
        self.completers: dict[tuple[str, str], Function] = {}
        """By prompt name or template, and argument."""
        # Every result says who made it; the bytes are made once.
        self._info = {meta.SERVER_INFO: info}
        self._meta = msgspec.Raw(encode(self._info))
        self.express = Express(self.tools.get, runner.run_plain, self._info)
        """The short way of most calls of tools."""
        self._methods: dict[str, Callable[[Call], Result | Awaitable[Result]]] = {
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
        }

    def knows(self, method: str) -> bool:
        """Whether a method is served: a kind of which nothing is offered is not."""
        if method not in self._methods:
            return False
        room = method.partition("/")[0]
        if room == "tools":
            return len(self.tools) > 0
        if room == "prompts":
            return len(self.prompts) > 0
        if room == "resources":
            return len(self.resources) + len(self.templates) > 0
        return room != "completion" or bool(self.completers)

    def mirror_of(self, tool: str) -> Mirror | None:
        """The mirror of a tool, `None` where there is no such tool."""
        offer = self.tools.get(tool)
        return None if offer is None else offer.function.mirror

    def capabilities(self) -> dict[str, Any]:
        """What the server declares: what it offers, no more."""
        found: dict[str, Any] = {}
        if len(self.tools):
            found["tools"] = {"listChanged": True}
        if len(self.resources) + len(self.templates):
            found["resources"] = {"subscribe": True, "listChanged": True}
        if len(self.prompts):
            found["prompts"] = {"listChanged": True}
        if self.completers:
            found["completions"] = {}
        if any(_takes_context(function) for function in self._functions()):
            found["logging"] = {}
        return found

    def _functions(self) -> list[Function]:
        registries: tuple[Registry[Any], ...] = (
            self.tools,
            self.resources,
            self.templates,
            self.prompts,
        )
        offered = [offer.function for registry in registries for offer in registry]
        return [*offered, *self.completers.values()]

    def handle(self, call: Call) -> Result | Awaitable[Result]:
        """Answer a call.

        Args:
            call: The call; its method is known (`knows`).

        Returns:
            The result, or an awaitable of it where a function has to run. A modern result has
            `resultType`, `_meta` and its cache hints.

        Raises:
            WireError: The answer is an error.
        """
        handler = self._methods.get(call.method)
        if handler is None:
            raise MethodNotFound(f"method {call.method!r} is not served here")
        return handler(call)

    def finish(self, call: Call, result: Result, hints: CacheHints | None = None) -> Result:
        """Give a result what every result of its era has (J-02, J-04), and its hints (F-05)."""
        if call.era is Era.MODERN:
            result.setdefault("resultType", "complete")
            own = result.get("_meta")
            result["_meta"] = {**own, **self._info} if own else self._meta
            if hints is not None:
                result.setdefault("ttlMs", hints.ttl_ms)
                result.setdefault("cacheScope", hints.scope)
        return result

    def _finish_list(self, call: Call, result: Result) -> Result:
        default = _LISTS if call.principal is None else _LISTS_OF_PRINCIPAL
        return self.finish(call, result, self._lists or default)

    def _discover(self, call: Call) -> Result:
        result: Result = {
            "supportedVersions": list(MODERN),
            "capabilities": self.capabilities(),
        }
        if self.instructions is not None:
            result["instructions"] = self.instructions
        return self._finish_list(call, result)

    def _list(self, call: Call, registry: Registry[Any], member: str) -> Result:
        page = registry.page(call.params.get("cursor"), call.era)
        result: Result = {member: page.items}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        return self._finish_list(call, result)

    def _list_tools(self, call: Call) -> Result:
        return self._list(call, self.tools, "tools")

    def _list_resources(self, call: Call) -> Result:
        return self._list(call, self.resources, "resources")

    def _list_templates(self, call: Call) -> Result:
        return self._list(call, self.templates, "resourceTemplates")

    def _list_prompts(self, call: Call) -> Result:
        return self._list(call, self.prompts, "prompts")

    def _call_tool(self, call: Call) -> Result | Awaitable[Result]:
        name = read_text(call.params, "name")
        offer = self.tools.get(name)
        if offer is None:
            raise InvalidParams(f"there is no tool {name!r}")
        arguments = read_object(call.params, "arguments")
        try:
            values = offer.function.bind(arguments)
        except InvalidParams as error:
            # A model can mend its arguments if it is told: tools, "Error Handling" (T-23).
            return self._failed(call, error.message)
        return self._run_tool(call, offer.function, values)

    async def _run_tool(self, call: Call, function: Function, values: dict[str, Any]) -> Result:
        if function.is_simple and call.era is Era.MODERN and not _is_retry(call.params):
            # It can ask nothing and tell nothing, so there is nothing to keep for it.
            work = self._runner.run(call, function, values)
            return await self._tell_failure(call, self._finish_simple(call, function, work))
        work = self._answer(call, function, values, function.result)
        return await self._tell_failure(call, work)

    def go_on(self, call: Call, begun: Begun) -> Coroutine[Any, Any, Result]:
        """Go on with a call that has begun on the short way (`mcpost.server.express`).

        Args:
            call: The call.
            begun: What is left of it.

        Returns:
            As `handle` for the tools that wait.
        """
        function = begun.offer.function
        work = self._runner.guard(function, begun.rest)
        return self._tell_failure(call, self._finish_simple(call, function, work))

    async def _finish_simple(self, call: Call, function: Function, work: Awaitable[Any]) -> Result:
        value = await work
        if type(value) is not InputRequired:
            return self.finish(call, function.result(value))
        call.inputs = replay = Replay(call, self._sealer, self.limits)
        return self.finish(call, replay.result(value))

    async def _tell_failure(self, call: Call, work: Awaitable[Result]) -> Result:
        """Make a result of what a tool failed with, if that is for the model to read."""
        try:
            return await work
        except ToolError as error:
            text = str(error)
        except HandlerFailed as error:
            text = error.message
        except NotFound as error:
            text = str(error)
        return self._failed(call, text)

    def _failed(self, call: Call, text: str) -> Result:
        content = [{"type": "text", "text": text or "failed"}]
        return self.finish(call, {"content": content, "isError": True})

    async def _answer(
        self,
        call: Call,
        function: Function,
        values: dict[str, Any],
        shape: Callable[[Any], Result],
        hints: CacheHints | None = None,
    ) -> Result:
        """Run a function and shape what it returned, or what it asked."""
        replay: Replay | None = None
        if call.inputs is None and call.method in METHODS:
            call.inputs = replay = Replay(call, self._sealer, self.limits)
        left = False
        value: Any = None
        try:
            value = await self._runner.run(call, function, values)
            if isinstance(value, InputRequired) and replay is None:
                value = await self._carry(call, function, values, value)
        except LeftToAsk:
            left = True
        finally:
            call.close()
        if replay is not None:
            if left:
                return self.finish(call, replay.result())
            if replay.pending:
                raise InternalError(f"{function.name} went on after it had asked")
            if isinstance(value, InputRequired):
                return self.finish(call, replay.result(value))
        result = shape(value)
        if call.era is Era.LEGACY:
            wrap_structured(result)
        return self.finish(call, result, hints)

    async def _carry(
        self, call: Call, function: Function, values: dict[str, Any], value: Any
    ) -> Any:
        """Ask what a handler returned while its call goes on, and run it again (earlier eras)."""
        if call.inputs is None:
            raise InternalError(f"no question can be asked while {call.method} is answered")
        call.inputs = carried = Carried(call.inputs)
        for _ in range(self.limits.max_input_rounds):
            for question in value.questions.values():
                missing = check_capabilities(call.meta.client_capabilities, question.capability())
                if missing is not None:
                    raise missing
            await carried.carry(value)
            value = await self._runner.run(call, function, values)
            if not isinstance(value, InputRequired):
                return value
        raise InternalError("this call asks for input without coming to an end")

    def _read(self, call: Call) -> Awaitable[Result]:
        uri = read_text(call.params, "uri")
        resource = self.resources.get(uri)
        if resource is not None:
            return self._run_read(
                call, resource.function, {}, (uri, resource.definition.mime_type, resource.cache)
            )
        for offer in self.templates:
            found = offer.template.match(uri)
            if found is not None:
                values = _bind_found(offer.function, found, uri)
                return self._run_read(
                    call, offer.function, values, (uri, offer.definition.mime_type, offer.cache)
                )
        raise resource_not_found(uri)

    async def _run_read(
        self,
        call: Call,
        function: Function,
        values: dict[str, Any],
        resource: tuple[str, str | None, CacheHints],
    ) -> Result:
        uri, mime_type, hints = resource
        if "inputResponses" in call.params or "requestState" in call.params:
            # What hangs on answers of the caller is not for keeping.
            hints = CacheHints()

        def shape(value: Any) -> Result:
            if value is None:
                raise resource_not_found(uri)
            return read_result(value, uri, mime_type)

        try:
            return await self._answer(call, function, values, shape, hints)
        except NotFound as error:
            raise resource_not_found(uri, str(error)) from error

    def _get_prompt(self, call: Call) -> Awaitable[Result]:
        name = read_text(call.params, "name")
        offer = self.prompts.get(name)
        if offer is None:
            raise InvalidParams(f"there is no prompt {name!r}")
        values = offer.function.bind(read_object(call.params, "arguments"))
        description = offer.definition.description
        return self._run_prompt(call, offer.function, values, description)

    async def _run_prompt(
        self, call: Call, function: Function, values: dict[str, Any], description: str | None
    ) -> Result:
        try:
            return await self._answer(
                call,
                function,
                values,
                lambda value: prompt_result(value, function.name, description),
            )
        except (ToolError, NotFound) as error:
            raise InvalidParams(str(error)) from error

    async def _complete(self, call: Call) -> Result:
        reference = read_object(call.params, "ref")
        argument = read_object(call.params, "argument")
        name, value = read_text(argument, "name"), read_text(argument, "value")
        target = self._completed(reference)
        function = self.completers.get((target, name))
        if function is None:
            return self.finish(call, {"completion": {"values": []}})
        context = read_object(call.params, "context")
        known: dict[str, Any] = {"value": value, "arguments": read_object(context, "arguments")}
        names = function.parameters.names
        values: dict[str, Any] = {names[0]: value} if names and names[0] not in known else {}
        values |= {key: each for key, each in known.items() if key in names}
        try:
            found = await self._runner.run(call, function, values)
        except (ToolError, NotFound) as error:
            raise InvalidParams(str(error)) from error
        finally:
            call.close()
        return self.finish(call, {"completion": completion_result(found)})

    def _completed(self, reference: Mapping[str, Any]) -> str:
        if reference.get("type") == "ref/prompt":
            name = read_text(reference, "name")
            if self.prompts.get(name) is None:
                raise InvalidParams(f"there is no prompt {name!r}")
            return name
        if reference.get("type") == "ref/resource":
            uri = read_text(reference, "uri")
            if self.templates.get(uri) is None and self.resources.get(uri) is None:
                raise InvalidParams(f"there is no resource template {uri!r}")
            return uri
        raise InvalidParams('"ref.type" is "ref/prompt" or "ref/resource"')


def _is_retry(params: Mapping[str, Any]) -> bool:
    """Whether a request brings answers, or the state of the round before."""
    return "requestState" in params or "inputResponses" in params


def _takes_context(function: Function) -> bool:
    """Whether a function, or what it asks for, could log."""
    asks = function.asks.values()
    return function.context is not None or any(asked.context is not None for asked in asks)


def _definition(offer: Any, era: Era) -> Any:
    del era
    return offer.definition


def _bind_found(function: Function, found: dict[str, str], uri: str) -> dict[str, Any]:
    # A URI whose parts are not of the types that the function takes names nothing.
    try:
        return function.bind(found)
    except InvalidParams as error:
        raise resource_not_found(uri, f"there is no resource {uri!r}: {error.message}") from error
