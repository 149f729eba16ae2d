"""The client without `async`: for scripts and notebooks.

```
from mcpost.sync import Client

with Client("https://example.com/mcp") as client:
    print(client.call("search", {"query": "tide"}).text)
```

Each client has an event loop in a thread of its own, so it works where a loop runs already. While
a method waits, Ctrl-C cancels the call at the server before `KeyboardInterrupt` goes on. Callbacks
run in the thread that made the call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from mcpost import client as asynchronous
from mcpost.client.call import OnProgress
from mcpost.client.retry import Retry
from mcpost.client.target import Target
from mcpost.errors import ConnectFailed
from mcpost.types import (
    CallResult,
    Change,
    Completion,
    DiscoverResult,
    Progress,
    Prompt,
    PromptResult,
    ReadResult,
    Reconnected,
    Resource,
    ResourceTemplate,
    Tool,
)

__all__ = ("Client",)

T = TypeVar("T")

_CLOSE_TIME = 10.0


class Client:
    """A client of one server; use it as a context manager.

    Args:
        target: As for `mcpost.client.Client`.
        options: As for `mcpost.client.Client`; its handlers run in the client's own thread.
    """

    def __init__(self, target: Target, **options: Any) -> None:
        self._client = asynchronous.Client(target, **options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="mcpost-client", daemon=True)
        self._thread.start()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything, and the thread."""
        if self._is_closed:
            return
        try:
            self._wait(self._client.close())
        finally:
            self._is_closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CLOSE_TIME)

    def discover(self) -> DiscoverResult:
        """As `mcpost.client.Client.discover`."""
        return self._wait(self._client.discover())

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """As `mcpost.client.Client.request`."""
        return self._wait(self._client.request(method, params, **options))

    def tools(self) -> list[Tool]:
        """As `mcpost.client.Client.tools`."""
        return self._wait(self._client.tools())

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: Callable[[Progress], None] | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        retry: Retry | int | bool | None = None,
        into: Any = None,
        raise_on_error: bool = False,
    ) -> CallResult:
        """As `mcpost.client.Client.call`; `progress` runs in this thread."""

        def make(hear: OnProgress | None) -> Coroutine[Any, Any, CallResult]:
            return self._client.call(
                name,
                arguments,
                progress=hear,
                timeout=timeout,
                max_timeout=max_timeout,
                meta=meta,
                retry=retry,
                into=into,
                raise_on_error=raise_on_error,
            )

        if progress is None:
            return self._wait(make(None))
        notices: queue.SimpleQueue[Progress | None] = queue.SimpleQueue()
        future = self._submit(make(notices.put))
        future.add_done_callback(lambda _: notices.put(None))
        try:
            while (notice := notices.get()) is not None:
                progress(notice)
        except BaseException:
            self._abandon(future)
            raise
        return future.result()

    def resources(self) -> list[Resource]:
        """As `mcpost.client.Client.resources`."""
        return self._wait(self._client.resources())

    def templates(self) -> list[ResourceTemplate]:
        """As `mcpost.client.Client.templates`."""
        return self._wait(self._client.templates())

    def read(self, uri: str, **options: Any) -> ReadResult:
        """As `mcpost.client.Client.read`."""
        return self._wait(self._client.read(uri, **options))

    def prompts(self) -> list[Prompt]:
        """As `mcpost.client.Client.prompts`."""
        return self._wait(self._client.prompts())

    def prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **options: Any
    ) -> PromptResult:
        """As `mcpost.client.Client.prompt`."""
        return self._wait(self._client.prompt(name, arguments, **options))

    def complete(
        self,
        ref: str,
        argument: str,
        value: str,
        *,
        arguments: Mapping[str, str] | None = None,
    ) -> Completion:
        """As `mcpost.client.Client.complete`."""
        return self._wait(self._client.complete(ref, argument, value, arguments=arguments))

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
        forever: bool = False,
    ) -> Iterator[Change | Reconnected]:
        """As `mcpost.client.Client.listen`: iterate; leaving the loop ends the listen."""
        listen = self._client.listen(
            tools=tools, prompts=prompts, resources=resources, uris=uris, forever=forever
        )
        try:
            self._wait(listen.open())
            while True:
                try:
                    yield self._wait(_step(listen))
                except _Over:
                    return
        finally:
            self._wait(listen.close())

    # Within.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if self._is_closed:
            work.close()
            raise ConnectFailed("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._submit(work)
        try:
            return future.result()
        except BaseException:
            self._abandon(future)
            raise

    def _abandon(self, future: concurrent.futures.Future[Any]) -> None:
        """Cancel what is under way and let it end, so that the server hears of it."""
        if not future.done():
            future.cancel()
            self._loop.call_soon_threadsafe(lambda: None)


class _Over(Exception):
    """A listen has ended."""


async def _step(listen: asynchronous.Listen) -> Change | Reconnected:
    try:
        return await anext(listen)
    except StopAsyncIteration:
        raise _Over from None
