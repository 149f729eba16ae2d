"""What a handler knows of its request, and what it can do besides returning.

Progress cannot be done wrongly here: it is sent only where the caller asked for it, it always
increases, a flood of it is thinned out, and nothing of it follows the result.

Spec: patterns/progress (P-01); utilities/logging (P-07); patterns/mrtr (P-06); basic/index (J-04).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mcpost.errors import UsageError
from mcpost.limits import ServerLimits
from mcpost.server.call import Call, Principal
from mcpost.server.progress import ProgressGate, call_on_loop
from mcpost.server.questions import (
    Elicit,
    Elicited,
    Question,
    Roots,
    Sample,
    Sampled,
    check_capabilities,
)
from mcpost.types import Implementation, Root
from mcpost.wire import jsonrpc, meta

__all__ = ("Context",)


class _Done:
    """An awaitable that is done: `await ctx.progress(…)` reads well and waits for nothing."""

    __slots__ = ()

    def __await__(self) -> Iterator[None]:
        # One that is at its end already, and stays so.
        return _NOTHING


_NOTHING: Final[Iterator[None]] = iter(())
_DONE: Final = _Done()


class Context:
    """What a handler knows of its request, and what it can do besides returning.

    A function takes it by a parameter that is annotated with this class. All methods may be
    called from the thread of a function that is not `async`, save those that are awaited.
    """

    __slots__ = ("_asked", "_call", "_gate", "_loop", "_thread")

    def __init__(self, call: Call, limits: ServerLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self._thread = threading.get_ident()
        self._asked: set[str] = set()
        token = call.meta.progress_token
        if token is not None and call.gate is None:
            call.gate = ProgressGate(token, call.notify, limits, loop)
        self._gate = call.gate

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> _Done:
        """Tell how far the work is.

        It is on its way when this returns; awaiting it is allowed and waits for nothing. Without
        a progress token it costs next to nothing. A value that does not increase is dropped, and
        of more than `ServerLimits.progress_rate` a second the newest replaces the one waiting.

        Args:
            progress: How much is done; has to increase.
            total: How much there is, where that is known.
            message: One sentence for a person.

        Spec: patterns/progress (P-01).
        """
        if self._gate is not None:
            self._gate.tell(progress, total, message)
        return _DONE

    def log(self, level: str, data: Any, logger: str | None = None) -> _Done:
        """Send a log message, where the request asked for its level.

        Args:
            level: One of the eight of RFC 5424, as in `"warning"`.
            data: Any JSON value; text is usual.
            logger: Name of the logger.

        Raises:
            UsageError: The level is none of the eight.

        Spec: utilities/logging (P-07).
        """
        if level not in meta.LOG_LEVELS:
            raise UsageError(f"{level!r} is no log level; use one of {list(meta.LOG_LEVELS)}")
        minimum = self._call.meta.log_level
        if minimum is None or not meta.is_at_least(level, minimum):
            return _DONE
        params: dict[str, Any] = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        note = jsonrpc.encode_notification("notifications/message", params)
        if threading.get_ident() == self._thread:
            self._say(note)
        else:
            call_on_loop(self._loop, self._say, note)
        return _DONE

    def _say(self, note: bytes) -> None:
        if not self._call.closed:
            self._call.notify(note)

    def debug(self, data: Any, logger: str | None = None) -> _Done:
        """Send a log message of level `debug`; see `log`."""
        return self.log("debug", data, logger)

    def info(self, data: Any, logger: str | None = None) -> _Done:
        """Send a log message of level `info`; see `log`."""
        return self.log("info", data, logger)

    def warning(self, data: Any, logger: str | None = None) -> _Done:
        """Send a log message of level `warning`; see `log`."""
        return self.log("warning", data, logger)

    def error(self, data: Any, logger: str | None = None) -> _Done:
        """Send a log message of level `error`; see `log`."""
        return self.log("error", data, logger)

    async def elicit(
        self, message: str, schema: Any = None, *, url: str | None = None, key: str | None = None
    ) -> Elicited:
        """Ask a person.

        On this revision the answer comes with a new request: the handler is run again from its
        start, and this call then returns the answer (see docs/input.md for what that means for
        side effects).

        Args:
            message: The question.
            schema: What is asked for: a type with flat properties (model, dataclass, TypedDict),
                or its JSON Schema.
            url: A page to open instead of a form.
            key: Name of the question among those of this call; made of the question by default.
                The second question under one key is `key-1`, and so on.

        Returns:
            The answer; `.accepted`, `.content` as received and `.data` of the type.

        Raises:
            MissingCapability: The caller has not declared `elicitation` (T-21).

        Spec: client/elicitation; patterns/mrtr (P-06).
        """
        answer: Elicited = await self._ask_one(Elicit(message, schema, url=url), key)
        return answer

    async def sample(
        self, messages: Any, *, max_tokens: int = 1024, key: str | None = None, **options: Any
    ) -> Sampled:
        """Ask the caller's model.

        Args:
            messages: Text, a message, or a list of messages.
            max_tokens: The most tokens to sample.
            key: As for `elicit`.
            options: Further members of the request, as in `system_prompt="…"`.

        Raises:
            MissingCapability: The caller has not declared `sampling` (T-21).

        Spec: client/sampling; patterns/mrtr (P-06).
        """
        answer: Sampled = await self._ask_one(
            Sample(messages, max_tokens=max_tokens, **options), key
        )
        return answer

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask for the caller's roots.

        Raises:
            MissingCapability: The caller has not declared `roots` (T-21).

        Spec: client/roots; patterns/mrtr (P-06).
        """
        answer: list[Root] = await self._ask_one(Roots(), key)
        return answer

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask several questions in one round trip.

        Args:
            questions: `Elicit`, `Sample` and `Roots` by key.

        Returns:
            The answers by key.

        Raises:
            MissingCapability: The caller has not declared what one of them needs (T-21).
        """
        for question in questions.values():
            self.require(question.capability())
        if self._call.inputs is None:
            raise UsageError(f"no question can be asked while {self._call.method} is answered")
        names = {key: self._name(key) for key in questions}
        answers = await self._call.inputs.ask(
            {names[key]: question for key, question in questions.items()}
        )
        return {key: answers[name] for key, name in names.items()}

    async def _ask_one(self, question: Question, key: str | None) -> Any:
        if key is None:
            key = question.digest()
        return (await self.ask({key: question}))[key]

    def _name(self, key: str) -> str:
        """Make a key of its own of one that may be used again, as by a loop that asks."""
        name, count = key, 1
        while name in self._asked:
            name, count = f"{key}-{count}", count + 1
        self._asked.add(name)
        return name

    def close_stream(self) -> None:
        """Let the caller's connection go before the result; it comes back for what follows.

        Only HTTP of the earlier revisions can do that, with a client that takes streams; anywhere
        else nothing happens. Good for long work behind proxies that cut long connections.

        Spec: 2025-11-25, basic/transports, "Sending Messages to the Server" (L-02).
        """
        hang_up = self._call.hang_up
        if hang_up is None:
            return
        if threading.get_ident() == self._thread:
            hang_up()
        else:
            call_on_loop(self._loop, hang_up)

    def require(self, capabilities: Mapping[str, Any]) -> None:
        """Refuse the request where the caller lacks a capability.

        Args:
            capabilities: What is needed, as in `{"elicitation": {"url": {}}}`.

        Raises:
            MissingCapability: 400, -32021, with what is missing (T-21).
        """
        missing = check_capabilities(self._call.meta.client_capabilities, capabilities)
        if missing is not None:
            raise missing

    @property
    def request_id(self) -> jsonrpc.Id:
        """The request's id."""
        return self._call.id

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`, as received."""
        return self._call.meta.raw

    @property
    def headers(self) -> Mapping[str, str]:
        """The request's header lines by lower-case name, the last of equals; empty on stdio."""
        return {
            name.decode("latin-1"): value.decode("latin-1") for name, value in self._call.headers
        }

    @property
    def principal(self) -> Principal | None:
        """Who calls, `None` without authentication."""
        return self._call.principal

    @property
    def protocol_version(self) -> str:
        """The protocol version of the request."""
        return self._call.meta.protocol_version

    @property
    def client_info(self) -> Implementation | None:
        """Who the client says it is, where it says so."""
        info = self._call.meta.client_info
        try:
            return None if info is None else msgspec.convert(info, Implementation)
        except msgspec.ValidationError:
            return None

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        """What the client declared for this request."""
        return self._call.meta.client_capabilities

    @property
    def trace(self) -> Mapping[str, str]:
        """The W3C trace context of the request: `traceparent`, `tracestate`, `baggage` (J-06)."""
        return meta.trace_context(self._call.meta.raw)

    @property
    def cancelled(self) -> bool:
        """Whether the caller has left or cancelled; look at it in a thread's loop."""
        return self._call.cancelled

    def raise_if_cancelled(self) -> None:
        """Stop a function that is not `async` where the caller has left.

        Raises:
            asyncio.CancelledError: The caller has left.
        """
        if self._call.cancelled:
            raise asyncio.CancelledError

    @property
    def state(self) -> Any:
        """What this handler returned as `InputRequired.state` in the round before, else `None`."""
        return None if self._call.inputs is None else self._call.inputs.state

    @property
    def answers(self) -> Mapping[str, Any]:
        """All answers so far by key, as received; unchecked, so ask with `ask` for checked ones."""
        return {} if self._call.inputs is None else self._call.inputs.answers
