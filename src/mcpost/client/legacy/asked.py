"""The requests of a server: answered by the handlers of the client, while calls go on.

Each runs in a task of its own, since no call need be there for it. Calls under way are paused
meanwhile: their server waits for a person.

Spec: 2025-11-25, client/elicitation, client/sampling, client/roots; basic/utilities/ping (L-03).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from mcpost.client.attempt import Attempt
from mcpost.client.inputs import Inputs
from mcpost.errors import (
    BadReply,
    InternalError,
    InvalidParams,
    McpostError,
    MethodNotFound,
    WireError,
)
from mcpost.wire.jsonrpc import Id, Notification, Request, encode_error, encode_result

__all__ = ("Asked",)

_log = logging.getLogger("mcpost.client")

_KNOWN = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})


class Asked:
    """What a server asks.

    Args:
        inputs: The handlers.
        tell: Sends an encoded response.
        limit: Requests that are answered at once.
    """

    def __init__(
        self, inputs: Inputs, tell: Callable[[bytes], Awaitable[None]], limit: int
    ) -> None:
        self._inputs = inputs
        self._tell = tell
        self._limit = limit
        self._tasks: dict[Id, asyncio.Task[None]] = {}
        self._calls: set[Attempt] = set()
        self._waiting = 0

    def enter(self, attempt: Attempt) -> None:
        """A call is under way from now on."""
        self._calls.add(attempt)

    def leave(self, attempt: Attempt) -> None:
        """A call has ended."""
        self._calls.discard(attempt)

    def take(self, message: Request | Notification) -> None:
        """Take a request, or the notification that one is not needed any more."""
        if isinstance(message, Notification):
            if message.method == "notifications/cancelled":
                task = self._tasks.get(message.params.get("requestId", ""))
                if task is not None:
                    task.cancel()
            return
        if message.id in self._tasks or len(self._tasks) >= self._limit:
            _log.warning("a request of the server is passed over: %s", message.method)
            return
        task = asyncio.ensure_future(self._answer(message))
        self._tasks[message.id] = task
        task.add_done_callback(partial(self._end, message.id))

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, request_id: Id, task: asyncio.Task[None]) -> None:
        self._tasks.pop(request_id, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a request of the server was not answered", exc_info=task.exception())

    async def _answer(self, request: Request) -> None:
        if request.method == "ping":
            await self._tell(encode_result(request.id, {}))
            return
        self._pause()
        answer = encode_error(InternalError("the client failed to answer", request_id=request.id))
        try:
            answer = encode_result(
                request.id, await self._inputs.answer(request.method, request.params)
            )
        except McpostError as error:
            _log.warning("%s is answered with an error: %s", request.method, error)
            answer = encode_error(_refusal(request, error))
        except asyncio.CancelledError:
            answer = b""
            raise
        finally:
            self._resume()
            if answer:
                await self._tell(answer)

    def _pause(self) -> None:
        self._waiting += 1
        for attempt in self._calls:
            attempt.paused = True

    def _resume(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            now = asyncio.get_running_loop().time()
            for attempt in self._calls:
                attempt.resume(now)


def _refusal(request: Request, error: McpostError) -> WireError:
    if isinstance(error, BadReply):
        undeclared = request.method not in _KNOWN or "did not declare" in str(error)
        kind = MethodNotFound if undeclared else InvalidParams
        return kind(str(error), request_id=request.id)
    return InternalError(str(error), request_id=request.id)
