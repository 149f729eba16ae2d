"""A listen: the changes of a server, as they are told.

The stream is opened again when it breaks, after a pause that grows; since changes may have been
missed meanwhile, `Reconnected` is given, and nothing is read anew by itself. When the server ends
the subscription with its result, the iteration ends too.

Changes that wait for a slow reader are kept once: that the list of tools changed is as true after
two notices as after one.

Spec: patterns/subscriptions (P-04, P-05).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Final

from mcpost.client.call import Caller, Options
from mcpost.client.deadline import Deadline
from mcpost.client.retry import NEVER, Retry
from mcpost.errors import BadReply, Denied, LegacyServer, McpostError, TransportError
from mcpost.types import (
    Change,
    PromptsChanged,
    Reconnected,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
)
from mcpost.wire.jsonrpc import Notification

__all__ = ("Listen", "OnChange")

_log = logging.getLogger("mcpost.client")

OnChange = Callable[[Change | None], None]
"""Told of each change at once, `None` when some may have been missed."""

_LISTS: Final[dict[str, Change]] = {
    "notifications/tools/list_changed": ToolsChanged(),
    "notifications/prompts/list_changed": PromptsChanged(),
    "notifications/resources/list_changed": ResourcesChanged(),
}
_ENDLESS: Final = 1_000_000_000


class Listen:
    """An open listen: an async iterator of changes, and a context manager that ends it.

    ```
    async with client.listen(tools=True) as changes:
        async for change in changes: ...
    ```

    On entering, the subscription stands: the server has acknowledged it.

    Args:
        caller: Makes the calls.
        filter: The `notifications` member of the request.
        policy: How often and after what pauses the stream is opened again; `None`: for ever.
        on_change: Is told of each change at once.
        on_end: Is told when the listen is over.
        forever: Whether to open the stream again also after the server has ended it.
    """

    def __init__(
        self,
        caller: Caller,
        filter: Mapping[str, Any],
        *,
        policy: Retry | None = None,
        on_change: OnChange | None = None,
        on_end: Callable[[Listen], None] | None = None,
        forever: bool = False,
    ) -> None:
        self._caller = caller
        self._filter = dict(filter)
        self._policy = policy or Retry(attempts=_ENDLESS)
        self._on_change = on_change
        self._on_end = on_end
        self._forever = forever
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None
        self._waiting: dict[Change | Reconnected, None] = {}
        self._wake: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self._deadline: Deadline | None = None
        self._is_acknowledged = False
        self._acknowledged_at = 0.0
        self._lost_at: float | None = None
        self.honoured: dict[str, Any] = {}
        """The part of what was asked that the server agreed to."""

    async def __aenter__(self) -> Listen:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[Change | Reconnected]:
        return self

    async def __anext__(self) -> Change | Reconnected:
        await self.open()
        while not self._waiting:
            if self._is_over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        change = next(iter(self._waiting))
        del self._waiting[change]
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        return change

    @property
    def waiting(self) -> int:
        """How many changes wait to be read."""
        return len(self._waiting)

    async def open(self) -> None:
        """Open the stream and wait until the server has acknowledged it.

        Raises:
            RpcError: The server refuses.
            TransportError: There is no connection; what happens later is mended by itself.
        """
        if self._task is None:
            self._opened = asyncio.get_running_loop().create_future()
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(self._stopped)
        assert self._opened is not None
        if not self._opened.done():
            await asyncio.shield(self._opened)
        elif not self._opened.cancelled() and self._opened.exception() is not None:
            raise self._opened.exception() or AssertionError

    async def close(self) -> None:
        """End the listen; closing its stream tells the server."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._end(None)

    # The task.

    async def _run(self) -> None:
        """Keep the stream open until it is over."""
        made = 0
        while True:
            try:
                await self._listen_once()
            except McpostError as error:
                if not self._is_passing(error):
                    self._end(error)
                    return
                if self._has_lasted():
                    made = 0
                wait = self._pause(error, made + 1)
                if wait is None:
                    self._end(error)
                    return
            else:
                if not self._forever:
                    self._end(None)
                    return
                made, wait = 0, self._policy.backoff
            made += 1
            self._note_loss()
            await asyncio.sleep(wait)

    async def _listen_once(self) -> None:
        limits = self._caller.limits
        self._is_acknowledged = False
        self._deadline = Deadline(limits, limits.timeout, limits.timeout)
        options = Options(retry=NEVER, hear=self._hear, deadline=self._deadline)
        await self._caller.call("subscriptions/listen", {"notifications": self._filter}, options)

    def _is_passing(self, error: McpostError) -> bool:
        """Whether trying again may help: not before it worked once, and not after a refusal."""
        if self._opened is None or not self._opened.done() or self._caller.is_closed:
            return False
        if isinstance(error, (Denied, LegacyServer)):
            return False
        if isinstance(error, BadReply):
            return error.status in (429, 502, 503, 504)
        return isinstance(error, TransportError)

    def _pause(self, error: McpostError, made: int) -> float | None:
        assert isinstance(error, TransportError)
        patient = Retry(
            self._policy.attempts,
            self._policy.backoff,
            self._policy.max_backoff,
            self._policy.jitter,
            frozenset({"busy", "unsent", "lost", "timeout"}),
        )
        return patient.wait(error, made)

    def _has_lasted(self) -> bool:
        """Whether the stream stood long enough for a break to be the first of its kind."""
        lasted = asyncio.get_running_loop().time() - self._acknowledged_at
        return self._is_acknowledged and lasted > self._policy.max_backoff

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """The task is over; what it failed with that is no error of ours goes to the reader."""
        if not task.cancelled() and task.exception() is not None:
            self._end(task.exception())

    def _note_loss(self) -> None:
        if self._lost_at is None:
            self._lost_at = asyncio.get_running_loop().time()
            if self._on_change is not None:
                self._on_change(None)

    # What is heard.

    def _hear(self, note: Notification) -> Awaitable[None] | None:
        if not self._is_acknowledged:
            self._acknowledge(note)
            return None
        change = _LISTS.get(note.method)
        if note.method == "notifications/resources/updated":
            uri = note.params.get("uri")
            change = ResourceUpdated(uri) if isinstance(uri, str) else None
        if change is None:
            return None
        if self._on_change is not None:
            self._on_change(change)
        self._give(change)
        # Only a server that makes up URIs gets here; it has to wait for the reader.
        return self._wait_for_room() if len(self._waiting) > self._caller.limits.max_notes else None

    async def _wait_for_room(self) -> None:
        while len(self._waiting) > self._caller.limits.max_notes:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def _acknowledge(self, note: Notification) -> None:
        if note.method != "notifications/subscriptions/acknowledged":
            raise BadReply(f"the server sends {note.method} before it acknowledges the listen")
        self._is_acknowledged = True
        self._acknowledged_at = asyncio.get_running_loop().time()
        if self._deadline is not None:
            self._deadline.relax()
        honoured = note.params.get("notifications")
        self.honoured = honoured if isinstance(honoured, dict) else {}
        for name in self._filter:
            if not self.honoured.get(name):
                _log.warning("the server does not tell of %s", name)
        if self._opened is not None and not self._opened.done():
            self._opened.set_result(None)
        if self._lost_at is not None:
            away = asyncio.get_running_loop().time() - self._lost_at
            self._lost_at = None
            self._give(Reconnected(away))

    def _give(self, change: Change | Reconnected) -> None:
        self._waiting[change] = None
        self._notify()

    def _end(self, error: BaseException | None) -> None:
        self._is_over = True
        if self._on_end is not None:
            self._on_end(self)
        self._error = self._error or error
        if self._opened is not None and not self._opened.done():
            if error is not None:
                self._opened.set_exception(error)
                # Whoever waits gets it; if nobody does, the loop need not complain.
                self._opened.exception()
            else:
                self._opened.set_result(None)
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
