"""One call's life: from a method and its parameters to a result.

A call is one or more attempts (`attempt`), each a request with an id of its own, all within one
deadline. The loop of `Caller.call` is the whole of it: send; where the answer is an error that says
how to do better (another version, other mirrored headers), do so once; where it asks for input,
answer and go on; where there is no answer, ask the policy whether to try again.

Calls share nothing that one of them could hold: no lock, no queue, no connection.

Spec: streamable-http; patterns/mrtr; basic/versioning (T-14, H-12, V-02, P-01, P-03, P-06).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mcpost.client.attempt import Attempt, Outgoing, Reply, State
from mcpost.client.deadline import Deadline
from mcpost.client.inputs import Inputs
from mcpost.client.retry import NEVER, Retry
from mcpost.client.trace import current_trace
from mcpost.client.transport import Transport
from mcpost.errors import BadReply, ConnectFailed, RpcError, TransportError
from mcpost.limits import ClientLimits
from mcpost.types import LogMessage, Progress
from mcpost.wire import meta as keys
from mcpost.wire.jsonrpc import ErrorBody, Notification
from mcpost.wire.mirror import EMPTY, Mirror, request_headers
from mcpost.wire.versions import MODERN, pick_version

__all__ = ("Caller", "Hearers", "OnLog", "OnProgress", "Options")

OnProgress = Callable[[Progress], Awaitable[None] | None]
"""Is told how far a call is; a coroutine function is awaited."""

OnLog = Callable[[LogMessage], Awaitable[None] | None]
"""Is told what the server logs for a call."""

Remirror = Callable[[], Awaitable[Mirror]]
OnNote = Callable[[Notification], Awaitable[None] | None]

_ASKS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose result may ask for input (P-06)."""


class Options(NamedTuple):
    """How one call is made."""

    timeout: float | None = None
    max_timeout: float | None = None
    retry: Retry = NEVER
    progress: OnProgress | None = None
    log: OnLog | None = None
    log_level: str | None = None
    meta: Mapping[str, Any] | None = None
    mirror: Mirror = EMPTY
    remirror: Remirror | None = None
    """Fetches the mirror anew after -32020 (H-12)."""
    hear: OnNote | None = None
    """Gets all notifications instead of `progress` and `log`."""
    deadline: Deadline | None = None
    """A deadline to use, for a call that changes its own."""


class _InputRequest(msgspec.Struct):
    """One entry of `inputRequests`."""

    method: str
    params: dict[str, Any] = {}


class _Versions(msgspec.Struct):
    """The data of -32022."""

    supported: list[str]


def _supported(error: ErrorBody) -> list[str] | None:
    """The versions that -32022 names."""
    try:
        return msgspec.convert(error.data, _Versions).supported
    except msgspec.ValidationError:
        return None


class Hearers:
    """Sorts the notifications of one attempt."""

    __slots__ = ("_last", "_log", "_progress", "_token")

    def __init__(self, token: int | str, options: Options) -> None:
        self._token = token
        self._progress = options.progress
        self._log = options.log
        self._last: float | None = None

    def hear(self, note: Notification) -> Awaitable[None] | None:
        """Take a notification; what is not of this call, or goes backwards, is passed over."""
        params = note.params
        if note.method == "notifications/progress" and self._progress is not None:
            return self._hear_progress(self._progress, params)
        if note.method == "notifications/message" and self._log is not None:
            level, logger = params.get("level"), params.get("logger")
            return self._log(
                LogMessage(
                    level if type(level) is str else "info",
                    params.get("data"),
                    logger if type(logger) is str else None,
                )
            )
        return None

    def _hear_progress(
        self, progress: OnProgress, params: Mapping[str, Any]
    ) -> Awaitable[None] | None:
        done, total, message = params.get("progress"), params.get("total"), params.get("message")
        if params.get("progressToken") != self._token or not isinstance(done, (int, float)):
            return None
        if self._last is not None and done <= self._last:
            return None
        self._last = done
        return progress(
            Progress(
                done,
                total if isinstance(total, (int, float)) else None,
                message if isinstance(message, str) else None,
            )
        )


class Caller:
    """Makes calls over a transport.

    Args:
        transport: The way to the server.
        limits: Bounds.
        inputs: What the server may ask.
        info: Name and version of this client, `None` to keep them to oneself.
        capabilities: Capabilities beyond those of `inputs`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        limits: ClientLimits,
        inputs: Inputs,
        info: Mapping[str, Any] | None,
        capabilities: Mapping[str, Any],
    ) -> None:
        self.transport = transport
        self.limits = limits
        self.version = MODERN[0]
        """The version that requests name; -32022 may change it."""
        self._inputs = inputs
        self._ids = itertools.count(1)
        self._running: set[Deadline] = set()
        self.is_closed = False
        """Whether `close` was called."""
        self.rounds = 0
        """Rounds of input that all calls have taken so far."""
        declared = inputs.capabilities()
        for name, value in capabilities.items():
            declared[name] = {**declared.get(name, {}), **value}
        self._meta: dict[str, Any] = {
            keys.PROTOCOL_VERSION: self.version,
            keys.CLIENT_CAPABILITIES: declared,
        }
        if info is not None:
            self._meta[keys.CLIENT_INFO] = dict(info)

    @property
    def running(self) -> int:
        """How many calls are under way."""
        return len(self._running)

    async def close(self) -> None:
        """End all calls; each raises `ConnectionLost` where it is awaited."""
        self.is_closed = True
        for deadline in list(self._running):
            deadline.close()
        await self.transport.close()

    async def call(
        self, method: str, params: Mapping[str, Any], options: Options = Options()
    ) -> dict[str, Any]:
        """Make a call.

        Args:
            method: The method.
            params: Its parameters, without `_meta`.
            options: Limits, callbacks and the rest.

        Returns:
            The result, whose `resultType` is `complete`.

        Raises:
            RpcError: The server answered with an error.
            TransportError: No answer could be had, of which it says whether the call may have run.
        """
        if self.is_closed:
            raise ConnectFailed("the client is closed")
        limits = self.limits
        deadline = options.deadline or Deadline(
            limits,
            limits.timeout if options.timeout is None else options.timeout,
            limits.max_timeout if options.max_timeout is None else options.max_timeout,
        )
        self._running.add(deadline)
        try:
            with deadline:
                return await _Call(self, method, dict(params), options, deadline).run()
        finally:
            self._running.discard(deadline)

    # For one call.

    def next_id(self) -> int:
        """Give an id that no request of this client has had (J-01)."""
        return next(self._ids)

    def outgoing(
        self, request_id: int, method: str, params: dict[str, Any], options: Options, mirror: Mirror
    ) -> Outgoing:
        """Make a request of a call: parameters with their `_meta`, and the mirrored lines."""
        meta = self._meta
        if options.progress is not None or options.log is not None or options.meta is not None:
            # What the protocol says of a request is not for the program to change.
            meta = {**(options.meta or {}), **meta}
            if options.progress is not None:
                meta[keys.PROGRESS_TOKEN] = request_id
            if options.log is not None:
                meta[keys.LOG_LEVEL] = options.log_level or "info"
        trace = current_trace()
        if trace is not None:
            meta = {**trace, **meta}
        whole = {**params, "_meta": meta}
        return Outgoing(
            request_id, method, whole, request_headers(method, params, self.version, mirror)
        )

    def choose_version(self, error: ErrorBody) -> bool:
        """After -32022: take a version that both ends have; tells whether there is one (V-02)."""
        supported = _supported(error)
        version = pick_version(supported, MODERN) if supported is not None else None
        if version is None:
            return False
        self.version = version
        self._meta = {**self._meta, keys.PROTOCOL_VERSION: version}
        return True

    async def answer_inputs(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Answer what an `input_required` result asks.

        Returns:
            The parameters that the next request adds.

        Raises:
            BadReply: The result is malformed, or asks for what was not declared.
        """
        requests, state = result.get("inputRequests"), result.get("requestState")
        if requests is None and state is None:
            raise BadReply("the result asks for input, and says neither which nor for what")
        added: dict[str, Any] = {}
        if requests is not None:
            added["inputResponses"] = await self._answer_requests(requests)
        if state is not None:
            if not isinstance(state, str):
                raise BadReply('"requestState" is not a string')
            added["requestState"] = state
        return added

    async def _answer_requests(self, requests: Any) -> dict[str, Any]:
        try:
            asked = msgspec.convert(requests, dict[str, _InputRequest])
        except msgspec.ValidationError as error:
            raise BadReply(f'"inputRequests" is malformed: {error}') from error
        return {
            key: await self._inputs.answer(each.method, each.params) for key, each in asked.items()
        }


class _Call:
    """One call under way."""

    __slots__ = (
        "_caller",
        "_deadline",
        "_made",
        "_method",
        "_mirror",
        "_options",
        "_params",
        "_remirrored",
        "_reversioned",
        "_rounds",
    )

    def __init__(
        self,
        caller: Caller,
        method: str,
        params: dict[str, Any],
        options: Options,
        deadline: Deadline,
    ) -> None:
        self._caller = caller
        self._method = method
        self._params = params
        self._options = options
        self._deadline = deadline
        self._mirror = options.mirror
        self._made = 0
        self._rounds = 0
        self._remirrored = False
        self._reversioned = False

    async def run(self) -> dict[str, Any]:
        params = self._params
        while True:
            try:
                reply = await self._attempt(params)
            except TransportError as error:
                await self._pause_before_retry(error)
                continue
            response = reply.response
            if response.error is not None:
                if await self._can_mend(response.error):
                    continue
                raise self._spell(response.error, reply)
            result = response.result or {}
            kind = result.get("resultType", "complete")
            if kind == "complete":
                return result
            if kind != "input_required" or self._method not in _ASKS:
                raise BadReply(
                    f"{self._method} was answered with the unknown resultType {kind!r}",
                    status=reply.status,
                )
            params = await self._next_round(result)

    async def _attempt(self, params: dict[str, Any]) -> Reply:
        self._made += 1
        caller, options = self._caller, self._options
        request_id = caller.next_id()
        out = caller.outgoing(request_id, self._method, params, options, self._mirror)
        hear = options.hear
        if hear is None and (options.progress is not None or options.log is not None):
            hear = Hearers(request_id, options).hear
        attempt = Attempt(asyncio.get_running_loop().time(), hear)
        self._deadline.watch(attempt)
        try:
            return await caller.transport.send(out, attempt)
        except TransportError:
            if attempt.state is not State.LOST:
                attempt.drop()
            raise
        finally:
            if attempt.state is State.DONE:
                self._deadline.watch(None)

    async def _pause_before_retry(self, error: TransportError) -> None:
        """Wait until the next attempt may be made, or raise the error again."""
        self._deadline.watch(None)
        wait = self._options.retry.wait(error, self._made)
        # A wait beyond the deadline can only end in it; the reason says more than the deadline.
        if wait is None or wait >= self._deadline.remaining():
            raise error
        await asyncio.sleep(wait)

    async def _can_mend(self, error: ErrorBody) -> bool:
        """Whether the error says how to do better, and that has not been tried."""
        if error.code == -32022 and not self._reversioned:
            self._reversioned = True
            return self._caller.choose_version(error)
        if error.code == -32020 and self._options.remirror is not None and not self._remirrored:
            self._remirrored = True
            self._mirror = await self._options.remirror()
            return True
        return False

    async def _next_round(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Answer what was asked; the next request carries it, under another id (P-06)."""
        self._rounds += 1
        limit = self._caller.limits.max_input_rounds
        if self._rounds > limit:
            raise BadReply(
                f"the server asked for input {limit} times; see ClientLimits.max_input_rounds"
            )
        self._caller.rounds += 1
        self._deadline.watch(None)
        added = await self._caller.answer_inputs(result)
        return {**self._params, **added}

    def _spell(self, error: ErrorBody, reply: Reply) -> RpcError:
        message = error.message
        if error.code == -32022:
            message = (
                f"{message}: the server supports {_supported(error)}, this client {list(MODERN)}"
            )
        return RpcError(error.code, message, error.data, status=reply.status)
