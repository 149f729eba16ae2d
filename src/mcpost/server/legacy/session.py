"""One session of an earlier revision, whatever carries it: HTTP with its id, or a stdio process.

A session is opened by `initialize` and remembers what was settled there: version, capabilities,
log level, subscriptions. It answers requests, takes the client's answers to its own requests, and
says what changed. It knows no transport: what a call has to say goes to its `Outlet`.

Rules that a change must not break: a call ends when its handler does, when it is cancelled by name,
or with the session, and never because a connection did; of a cancelled call nothing is said.

Spec: 2025-11-25, basic/lifecycle, basic/utilities, server/utilities/logging (L-01 to L-05).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any, Final

import msgspec

from mcpost.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    Refused,
    WireError,
)
from mcpost.limits import ServerLimits
from mcpost.server.admission import Admission
from mcpost.server.call import Call, Headers, Principal
from mcpost.server.features import Features
from mcpost.server.legacy.asking import Asked, Outlet, Requests
from mcpost.wire import meta
from mcpost.wire.jsonrpc import (
    Id,
    Notification,
    Request,
    Response,
    encode_error,
    encode_result,
)
from mcpost.wire.versions import LEGACY, Era

__all__ = ("SERVED", "Session")

_log = logging.getLogger("mcpost.server")

SERVED: Final = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "tools/call",
        "tools/list",
    }
)
"""Methods of the features that these revisions know."""

_DEFAULT_LEVEL: Final = "info"
"""What is logged to a client that has not set a level."""

_MAX_URI: Final = 8 * 1024

Outcome = dict[str, Any] | msgspec.Raw


class _NoSuchResource(InvalidParams):
    """What is read does not exist; these revisions have a code of its own for it."""

    code = -32002


class _Running:
    """A call that has to wait."""

    __slots__ = ("call", "error", "stopped", "task")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.task: asyncio.Task[Any] | None = None
        self.stopped = False
        self.error: WireError | None = None
        """What it is answered with once it is stopped; `None` for nothing at all."""

    def stop(self, error: WireError | None) -> None:
        """Stop its handler; the first reason counts."""
        if self.stopped:
            return
        self.stopped = True
        self.error = error
        self.call.cancelled = True
        if self.task is not None:
            self.task.cancel()


class Session:
    """A session.

    Args:
        features: What the server offers.
        limits: Its bounds.
        admission: The places for calls, which sessions share.
        principal: Who opens it; nobody else may use it.

    Next: `begin` for each request, `take` for everything else; `close` at the end.
    """

    def __init__(
        self,
        features: Features,
        limits: ServerLimits,
        admission: Admission,
        *,
        principal: Principal | None = None,
    ) -> None:
        self.version: str | None = None
        """The version that was settled; `None` before `initialize`."""
        self.principal = principal
        self.uris: set[str] = set()
        """The resources whose updates the client wants to hear of."""
        self._features = features
        self._limits = limits
        self._admission = admission
        self._capabilities: dict[str, Any] = {}
        self._client_info: dict[str, Any] | None = None
        self._log_level = _DEFAULT_LEVEL
        self._calls: dict[Id, _Running] = {}
        self._asked = Asked()

    def begin(
        self, request: Request, outlet: Outlet, headers: Headers = ()
    ) -> bytes | Coroutine[Any, Any, bytes | None]:
        """Answer a request.

        Args:
            request: The request.
            outlet: Where notifications and requests of this call go.
            headers: Header lines it came with, for the handler to see.

        Returns:
            The encoded response, or the rest of the call, to be awaited in a task of its own. That
            gives the response too, or `None` where the call was cancelled.
        """
        try:
            result: Any = self._settle(request)
            if result is None:
                result = self._start(request, outlet, headers)
            if isinstance(result, Coroutine):
                return result
            return encode_result(request.id, result)
        except Exception as error:  # noqa: BLE001 - the handler boundary
            return self._fail(request, error)

    def take(self, message: Notification | Response) -> None:
        """Take what needs no answer: a notification, or the answer to a request of ours.

        What names no call or request that is open is passed over: it may have crossed the end.
        """
        if isinstance(message, Response):
            self._asked.take(message)
        elif message.method == "notifications/cancelled":
            request_id = message.params.get("requestId")
            if type(request_id) is int or type(request_id) is str:
                running = self._calls.get(request_id)
                if running is not None:
                    running.stop(None)

    def stop_calls(self, error: WireError | None) -> None:
        """Stop all calls.

        Args:
            error: What they are answered with, `None` for nothing at all.
        """
        for running in list(self._calls.values()):
            running.stop(error)

    def close(self) -> None:
        """End the session: its calls are stopped, its questions fail."""
        self.stop_calls(None)
        self._asked.close()

    def _settle(self, request: Request) -> dict[str, Any] | None:
        """Answer what the session itself answers; `None` for what the features answer."""
        method = request.method
        if method == "initialize":
            return self._initialize(request.params)
        if method == "ping":
            return {}
        if self.version is None:
            raise InvalidRequest('the first request of a session is "initialize"')
        if method == "logging/setLevel":
            level = request.params.get("level")
            if level not in meta.LOG_LEVELS:
                raise InvalidParams(f'"level" has to be one of {", ".join(meta.LOG_LEVELS)}')
            self._log_level = level
            return {}
        if method in ("resources/subscribe", "resources/unsubscribe"):
            self._subscribe(method, request.params.get("uri"))
            return {}
        if method not in SERVED or not self._features.knows(method):
            raise MethodNotFound(f"method {method!r} is not served here")
        return None

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.version is not None:
            raise InvalidRequest("this session is open already")
        asked = params.get("protocolVersion")
        if type(asked) is not str:
            raise InvalidParams('"protocolVersion" has to be a string')
        capabilities = params.get("capabilities")
        if type(capabilities) is not dict:
            raise InvalidParams('"capabilities" has to be an object')
        info = params.get("clientInfo")
        # A version that is not served is answered with the best one that is.
        self.version = asked if asked in LEGACY else LEGACY[0]
        self._capabilities = capabilities
        self._client_info = info if type(info) is dict else None
        result: dict[str, Any] = {
            "protocolVersion": self.version,
            "capabilities": {**self._features.capabilities(), "logging": {}},
            "serverInfo": self._features.info,
        }
        if self._features.instructions is not None:
            result["instructions"] = self._features.instructions
        return result

    def _subscribe(self, method: str, uri: Any) -> None:
        if not self._features.capabilities().get("resources", {}).get("subscribe"):
            raise MethodNotFound(f"method {method!r} is not served here")
        if type(uri) is not str or len(uri) > _MAX_URI:
            raise InvalidParams(f'"uri" has to be a string of {_MAX_URI} characters at most')
        if method == "resources/unsubscribe":
            self.uris.discard(uri)
            return
        if len(self.uris) >= self._limits.max_listen_uris and uri not in self.uris:
            raise InvalidParams(f"a session subscribes to {self._limits.max_listen_uris} at most")
        self.uris.add(uri)

    def _start(
        self, request: Request, outlet: Outlet, headers: Headers
    ) -> Outcome | Coroutine[Any, Any, bytes | None]:
        if request.id in self._calls:
            raise InvalidRequest("a request with this id is running")
        version = self.version or LEGACY[0]
        request_meta = meta.lenient_meta(request.params, version, self._capabilities)
        request_meta.client_info = self._client_info
        request_meta.log_level = self._log_level
        call = Call(
            request,
            request_meta,
            outlet.say,
            era=Era.LEGACY,
            headers=headers,
            principal=self.principal,
            inputs=Requests(self._asked, outlet, version),
        )
        call.hang_up = outlet.hang_up
        running = _Running(call)
        if not self._admission.enter_nowait():
            refused = self._admission.check_queue()
            if refused is not None:
                raise InternalError(refused.reason)
            self._calls[request.id] = running
            return self._run(request, running, None)
        try:
            outcome = self._features.handle(call)
        except BaseException:
            self._admission.leave()
            raise
        if not isinstance(outcome, Awaitable):
            self._admission.leave()
            return outcome
        self._calls[request.id] = running
        return self._run(request, running, outcome)

    async def _run(
        self, request: Request, running: _Running, outcome: Awaitable[Outcome] | None
    ) -> bytes | None:
        task = running.task = asyncio.current_task()
        try:
            async with asyncio.timeout(self._limits.call_timeout):
                result = await self._work(running, outcome)
            if not running.stopped:
                return encode_result(request.id, result)
        except TimeoutError:
            return self._fail(
                request, InternalError("the call took longer than this server allows")
            )
        except asyncio.CancelledError as error:
            if not running.stopped:
                if task is not None and task.cancelling():
                    running.call.cancelled = True
                    raise
                return self._fail(request, error)
        except Exception as error:  # noqa: BLE001 - the handler boundary
            if not running.stopped:
                return self._fail(request, error)
        finally:
            del self._calls[request.id]
            if running.stopped and task is not None:
                # The cancellation was ours and is dealt with.
                task.uncancel()
        return None if running.error is None else self._fail(request, running.error)

    async def _work(self, running: _Running, outcome: Awaitable[Outcome] | None) -> Outcome:
        """Wait for the outcome, or first for a place; the place is given back."""
        if outcome is None:
            try:
                await self._admission.wait_place()
            except Refused as refused:
                raise InternalError(refused.reason) from refused
        try:
            if running.stopped:
                # It was cancelled before it began.
                if isinstance(outcome, Coroutine):
                    outcome.close()
                return {}
            if outcome is None:
                started = self._features.handle(running.call)
                return await started if isinstance(started, Awaitable) else started
            return await outcome
        finally:
            self._admission.leave()

    def _fail(self, request: Request, error: BaseException) -> bytes:
        if not isinstance(error, WireError):
            _log.error("%s failed", request.method, exc_info=error)
            error = InternalError("the server failed to answer; its log says why")
        elif isinstance(error, MissingCapability):
            # Its own code would say that this server spoke another revision.
            error = InvalidRequest(error.message, error.data)
        elif (
            request.method == "resources/read"
            and type(error) is InvalidParams
            and isinstance(error.data, dict)
            and "uri" in error.data
        ):
            error = _NoSuchResource(error.message, error.data)
        error.request_id = request.id
        return encode_error(error)
