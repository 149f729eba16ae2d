"""One request's life as handlers see it.

`Call` is the request with the means to answer it, the same for every wire; `Context` is what a
handler may take as a parameter: progress, log, questions to the caller, and what the caller said
about itself.

Progress cannot be done wrongly here: it is sent only where the caller asked for it, it always
increases, a flood of it is thinned out, and nothing of it follows the result.

Spec: patterns/progress (P-01); utilities/logging (P-07); patterns/mrtr (P-06); basic/index (J-04).
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from mcpost.errors import MissingCapability, UsageError
from mcpost.limits import ServerLimits
from mcpost.server.questions import Elicit, Elicited, Question, Roots, Sample, Sampled
from mcpost.types import Implementation, Root
from mcpost.wire import jsonrpc, meta
from mcpost.wire.versions import Era

__all__ = ("Call", "Context", "Inputs", "Principal", "require_capabilities")

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, as the authentication of the endpoint found out."""

    id: str
    """Unique among the callers of this server; `requestState` is bound to it."""
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict)


class Inputs(Protocol):
    """How the questions of a handler reach the caller; each era has its own way."""

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask, and give the parsed answers by key."""
        ...

    @property
    def state(self) -> Any:
        """What the handler put into `InputRequired.state` in the round before."""
        ...

    @property
    def answers(self) -> Mapping[str, Any]:
        """All answers so far, as received."""
        ...


class Call:
    """One request, whatever wire it came on."""

    __slots__ = (
        "_closing",
        "cancelled",
        "era",
        "headers",
        "id",
        "inputs",
        "meta",
        "method",
        "notify",
        "params",
        "principal",
    )

    def __init__(
        self,
        request: jsonrpc.Request,
        request_meta: meta.RequestMeta,
        notify: Callable[[bytes], None],
        *,
        era: Era = Era.MODERN,
        headers: Headers = (),
        principal: Principal | None = None,
        inputs: Inputs | None = None,
    ) -> None:
        self.id = request.id
        self.method = request.method
        self.params = request.params
        self.meta = request_meta
        self.notify = notify
        """Puts one encoded notification onto this request's stream; called on the loop."""
        self.era = era
        self.headers = headers
        self.principal = principal
        self.inputs = inputs
        """Set by the era's own code; `None` means the replay of this revision."""
        self.cancelled = False
        """Whether the caller has left or cancelled; readable from any thread."""
        self._closing: list[Callable[[], None]] | None = None

    def on_close(self, action: Callable[[], None]) -> None:
        """Do something when the handler is done, before the answer is written."""
        if self._closing is None:
            self._closing = []
        self._closing.append(action)

    def close(self) -> None:
        """Tell that the handler is done: nothing but the answer follows."""
        if self._closing is not None:
            for action in self._closing:
                action()
            self._closing = None


class _Done:
    """An awaitable that is done: `await ctx.progress(…)` reads well and waits for nothing."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE: Final = _Done()


class _ProgressGate:
    """Keeps progress increasing and thins out floods of it: a token bucket, newest waits."""

    __slots__ = ("_call", "_last", "_limits", "_loop", "_prefix", "_refilled", "_timer", "_tokens", "_waiting")

    def __init__(self, call: Call, limits: ServerLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._limits = limits
        self._loop = loop
        self._prefix = (
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%b'
            b',"progress":' % jsonrpc.encode(call.meta.progress_token)
        )
        self._last = -math.inf
        self._tokens = float(limits.progress_burst)
        self._refilled = loop.time()
        self._waiting: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        call.on_close(self._close)

    def tell(self, progress: float, total: float | None, message: str | None) -> None:
        if not progress > self._last or progress == math.inf or self._prefix == b"":
            return
        self._last = progress
        tail = jsonrpc.encode(progress)
        if total is not None and math.isfinite(total):
            tail += b',"total":' + jsonrpc.encode(total)
        if message is not None:
            tail += b',"message":' + jsonrpc.encode(message)
        note = self._prefix + tail + b"}}"
        if self._waiting is None and self._take_token():
            self._call.notify(note)
            return
        self._waiting = note
        if self._timer is None:
            self._timer = self._loop.call_later(1 / self._limits.progress_rate, self._release)

    def _take_token(self) -> bool:
        if self._tokens < 1:
            now = self._loop.time()
            self._tokens = min(
                self._limits.progress_burst,
                self._tokens + (now - self._refilled) * self._limits.progress_rate,
            )
            self._refilled = now
            if self._tokens < 1:
                return False
        self._tokens -= 1
        return True

    def _release(self) -> None:
        self._timer = None
        if self._waiting is None:
            return
        if self._take_token():
            note, self._waiting = self._waiting, None
            self._call.notify(note)
        else:
            self._timer = self._loop.call_later(1 / self._limits.progress_rate, self._release)

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting is not None:
            self._call.notify(self._waiting)
            self._waiting = None
        self._prefix = b""


class Context:
    """What a handler knows of its request, and what it can do besides returning.

    A function takes it by a parameter that is annotated with this class. All methods may be
    called from the thread of a function that is not `async`, save those that are awaited.
    """

    __slots__ = ("_asked", "_call", "_gate", "_limits", "_loop", "_thread")

    def __init__(self, call: Call, limits: ServerLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._limits = limits
        self._loop = loop
        self._thread = threading.get_ident()
        self._gate: _ProgressGate | None = None
        self._asked: dict[str, int] = {}

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
        if self._call.meta.progress_token is None:
            return _DONE
        if threading.get_ident() == self._thread:
            self._tell(progress, total, message)
        else:
            self._loop.call_soon_threadsafe(self._tell, progress, total, message)
        return _DONE

    def _tell(self, progress: float, total: float | None, message: str | None) -> None:
        if self._gate is None:
            self._gate = _ProgressGate(self._call, self._limits, self._loop)
        self._gate.tell(progress, total, message)

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
            self._call.notify(note)
        else:
            self._loop.call_soon_threadsafe(self._call.notify, note)
        return _DONE

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
        return await self._call.inputs.ask(questions)

    async def _ask_one(self, question: Question, key: str | None) -> Any:
        if key is None:
            key = question.digest()
            count = self._asked.get(key, 0)
            self._asked[key] = count + 1
            if count:
                key = f"{key}-{count}"
        return (await self.ask({key: question}))[key]

    def require(self, capabilities: Mapping[str, Any]) -> None:
        """Refuse the request where the caller lacks a capability.

        Args:
            capabilities: What is needed, as in `{"elicitation": {"url": {}}}`.

        Raises:
            MissingCapability: 400, -32021, with what is missing (T-21).
        """
        require_capabilities(self._call, capabilities)

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
        """The request's header lines by lower-case name, the last of equal names; empty on stdio."""
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
        raw = self._call.meta.raw
        return {key: raw[key] for key in meta.TRACE_KEYS if type(raw.get(key)) is str}

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


def require_capabilities(call: Call, capabilities: Mapping[str, Any]) -> None:
    """Refuse a call whose client lacks a capability; see `Context.require` (T-21)."""
    declared = call.meta.client_capabilities
    missing = {
        name: needed
        for name, needed in capabilities.items()
        if not _declares(declared, name, needed)
    }
    if missing:
        names = ", ".join(missing)
        raise MissingCapability(f"the client has not declared: {names}", missing)


def _declares(capabilities: Mapping[str, Any], name: str, needed: Any) -> bool:
    declared = capabilities.get(name)
    if not isinstance(declared, Mapping):
        return False
    # `{}` declares elicitation by form, as it did before there were modes.
    if name == "elicitation" and needed == {"form": {}} and "url" not in declared:
        return True
    return all(isinstance(declared.get(mode), Mapping) for mode in needed)
