"""Running an author's function: on the loop or in a thread, with its questions answered first.

The only place of the server where any exception at all is caught: what an author's code raises is
logged here, and becomes an error that says no more than it should.

Spec: streamable-http (T-23); patterns/mrtr (P-06).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mcpost.errors import InternalError, NotFound, ToolError, WireError
from mcpost.limits import ServerLimits
from mcpost.server.call import Call
from mcpost.server.context import Context
from mcpost.server.questions import Elicited, Question
from mcpost.server.replay import LeftToAsk
from mcpost.server.threads import Threads
from mcpost.server.trace import enter_trace

if TYPE_CHECKING:
    from mcpost.server.signature import Asked, Function

__all__ = ("HandlerFailed", "Runner")

logger = logging.getLogger("mcpost.server")

_PASS: Final = (WireError, ToolError, NotFound)


class HandlerFailed(InternalError):
    """An author's function raised what it did not mean for the caller."""


class Runner:
    """Runs functions for one server.

    Args:
        limits: Number of threads for functions that are not `async`.
        expose_errors: Whether the caller is told an unexpected exception's own text.
    """

    __slots__ = ("_expose", "_limits", "_threads")

    def __init__(self, limits: ServerLimits, *, expose_errors: bool) -> None:
        self._limits = limits
        self._expose = expose_errors
        self._threads = Threads(limits.threads)

    async def run(self, call: Call, function: Function, values: dict[str, Any]) -> Any:
        """Run a function.

        Args:
            call: The request that it answers.
            function: The function.
            values: Its arguments by name, checked; its context and what it asks for are added.

        Returns:
            What it returned.

        Raises:
            WireError, ToolError, NotFound: As the function raised them.
            HandlerFailed: It raised something else; that is in the log.
            LeftToAsk: It asked, and the answer is not there yet.
        """
        return await self.guard(function, self._run(call, function, values))

    async def _run(self, call: Call, function: Function, values: dict[str, Any]) -> Any:
        leave_trace = enter_trace(call.meta.raw) if "traceparent" in call.meta.raw else None
        try:
            if not function.is_simple:
                await self._prepare(call, function, values)
            if function.is_async:
                return await function.call(**values)
            return await self.run_plain(function.call, values)
        finally:
            if leave_trace is not None:
                leave_trace()

    async def guard(self, function: Function, work: Awaitable[Any]) -> Any:
        """Wait for a function's work, and tell what it raises.

        Args:
            function: The function.
            work: Its work, which may have begun.

        Returns, Raises:
            As `run`.
        """
        try:
            return await work
        except _PASS:
            raise
        except BaseExceptionGroup as group:
            if group.subgroup(LeftToAsk) is not None:
                raise LeftToAsk from None
            if isinstance(group, Exception):
                raise self._failed(function, group) from group
            raise
        except (Exception, SystemExit) as error:
            # `sys.exit` in one tool is no reason to end the server.
            raise self._failed(function, error) from error

    def _failed(self, function: Function, error: BaseException) -> HandlerFailed:
        logger.error("%s failed", function.name, exc_info=error)
        text = f"{function.name} failed: {type(error).__name__}"
        return HandlerFailed(f"{text}: {error}" if self._expose else text)

    async def run_plain(self, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        """Run a function that is not `async` in a thread.

        Args:
            function: The function.
            values: Its keyword arguments.

        Returns, Raises:
            What it returned or raised itself.
        """
        result = await self._threads.run(function, values)
        # A plain function may return the coroutine of another.
        return await result if inspect.isawaitable(result) else result

    async def _prepare(self, call: Call, function: Function, values: dict[str, Any]) -> None:
        context = Context(call, self._limits, asyncio.get_running_loop())
        if function.asks:
            await self._resolve(function, values, context)
        if function.context is not None:
            values[function.context] = context

    async def _resolve(self, function: Function, values: dict[str, Any], context: Context) -> None:
        """Find the values of asked parameters; questions that can go together do."""
        waiting = {name: asked for name, asked in function.asks.items() if name not in values}
        while waiting:
            ready = {
                name: asked
                for name, asked in waiting.items()
                if not any(need in waiting for need in asked.needs)
            }
            if not ready:
                raise InternalError(f"{function.name}: {', '.join(waiting)} ask for one another")
            questions: dict[str, Question] = {}
            for name, asked in ready.items():
                arguments = _arguments(function, asked, values)
                value = await self._call_resolver(asked, arguments, context)
                if isinstance(value, Question):
                    questions[name] = value
                else:
                    values[name] = value
                del waiting[name]
            if questions:
                answers = await context.ask(questions)
                for name, answer in answers.items():
                    values[name] = _value_of(name, ready[name].hint, answer)

    async def _call_resolver(
        self, asked: Asked, arguments: dict[str, Any], context: Context
    ) -> Any:
        if asked.context is not None:
            arguments[asked.context] = context
        if inspect.iscoroutinefunction(asked.resolve):
            return await asked.resolve(**arguments)
        return await self.run_plain(asked.resolve, arguments)


def _arguments(function: Function, asked: Asked, values: Mapping[str, Any]) -> dict[str, Any]:
    """Find what a resolving function takes; what the caller left out has the tool's default."""
    arguments = {need: values[need] for need in asked.needs if need in values}
    for need in asked.needs:
        if need not in arguments:
            default = inspect.signature(function.call).parameters[need].default
            if default is not inspect.Parameter.empty:
                arguments[need] = default
    return arguments


def _value_of(name: str, hint: Any, answer: Any) -> Any:
    if not isinstance(answer, Elicited) or hint in (Elicited, Any):
        return answer
    if not answer.accepted:
        if type(None) in getattr(hint, "__args__", ()):
            return None
        raise ToolError(f"{name} was asked for, and the answer was: {answer.action}")
    return answer.data
