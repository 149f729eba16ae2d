"""The servers behind the gateway: endpoints, their pools, and which of them is asked.

An endpoint to which no connection can be made is passed over for a while, so that few calls pay
for finding out again. Which endpoint a call goes to never depends on what the call does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mcpost.http11.hub import Hub
from mcpost.http11.limits import PoolLimits
from mcpost.http11.pool import Pool, Upstream

__all__ = ("MAX_EARLY", "Endpoint", "Group")

MAX_EARLY: Final = 1024 * 1024
"""Bytes of a body that may come before its sender can be made to wait."""

_FAILURES: Final = 2
"""Failed connections in a row after which an endpoint is passed over."""

_REST: Final = 5.0
"""Seconds for which it is."""


@dataclass(eq=False, slots=True)
class Endpoint:
    """One server process, and the connections to it."""

    name: str
    """What logs and figures call it: its URL."""
    pool: Pool
    target: bytes
    """Path of its MCP endpoint."""
    running: int = 0
    """Requests that are under way."""
    failures: int = 0
    """Connections in a row that could not be made."""
    down_until: float = 0.0
    """Loop time until which it is passed over."""
    ill: bool = False
    """Whether it has said so itself, or nothing at all, when it was asked."""
    retired: bool = False
    """Whether it is no longer asked, and ends with its last request."""

    @classmethod
    def make(
        cls, url: str, upstream: Upstream, target: bytes, hub: Hub, limits: PoolLimits
    ) -> Endpoint:
        """Make an endpoint; no connection is made before the first request."""
        return cls(url, Pool(upstream, hub, limits), target)

    def is_up(self) -> bool:
        """Whether it is worth asking, as far as is known."""
        return not self.ill and self.down_until <= self.pool.hub.loop.time()

    def reached(self) -> None:
        """A connection stands."""
        self.failures = 0
        self.down_until = 0.0

    def tell(self, *, well: bool) -> None:
        """Say how it is, by its own answer."""
        self.ill = not well
        if well:
            self.reached()

    def missed(self) -> None:
        """No connection could be made."""
        self.failures += 1
        if self.failures >= _FAILURES:
            self.down_until = self.pool.hub.loop.time() + _REST


class Group:
    """The endpoints of one upstream.

    Args:
        name: As the policy names it.
        endpoints: At least one.
    """

    __slots__ = ("_closing", "_next", "endpoints", "name")

    def __init__(self, name: str, endpoints: Sequence[Endpoint]) -> None:
        self.name = name
        self.endpoints = tuple(endpoints)
        self._next = 0
        self._closing: set[asyncio.Task[None]] = set()

    def order(self, first: int | None = None) -> Iterator[Endpoint]:
        """Give the endpoints in the order in which to try them, those that are down last.

        Args:
            first: Where to begin, as a shard says; else they take turns.
        """
        count = len(self.endpoints)
        if count == 1:
            yield self.endpoints[0]
            return
        if first is None:
            first = self._next
            self._next = (first + 1) % count
        turned = [self.endpoints[(first + step) % count] for step in range(count)]
        down = [each for each in turned if not each.is_up()]
        yield from (each for each in turned if each not in down)
        yield from down

    def is_up(self) -> bool:
        """Whether one of them is worth asking."""
        return any(each.is_up() for each in self.endpoints)

    def retire(self) -> None:
        """Ask them no more; each closes its connections once nothing runs on them."""
        for each in self.endpoints:
            each.retired = True
            self.leave(each)

    def leave(self, endpoint: Endpoint) -> None:
        """Close a retired endpoint if nothing runs on it."""
        if endpoint.retired and not endpoint.running:
            task = endpoint.pool.hub.loop.create_task(endpoint.pool.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Cut every connection."""
        for each in self.endpoints:
            await each.pool.close()
        if self._closing:
            await asyncio.wait(self._closing)
