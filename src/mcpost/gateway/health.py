"""Asking endpoints whether they are well, where the policy names a path for it.

One task asks all of them in turn; a probe is a request of its own on the endpoint's pool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mcpost.gateway.generation import Generation
from mcpost.gateway.upstreams import Endpoint
from mcpost.http11.call import Outgoing
from mcpost.http11.errors import CallFailed
from mcpost.http11.head import Response

__all__ = ("watch",)

INTERVAL: Final = 5.0
"""Seconds between two questions to one endpoint."""

_PATIENCE: Final = 3.0
"""Seconds that an endpoint has for its answer."""


class _Probe:
    """Takes the answer to one question."""

    def __init__(self) -> None:
        self.status = 0
        self.over = asyncio.Event()

    def on_head(self, response: Response) -> None:
        """The status is all that counts."""
        self.status = response.status

    def on_data(self, data: bytes) -> None:
        """What it says besides does not."""

    def on_end(self) -> None:
        """It is whole."""
        self.over.set()

    def on_failed(self, error: CallFailed) -> None:
        """There is none."""
        self.status = 0
        self.over.set()


async def watch(generation: Callable[[], Generation], interval: float = INTERVAL) -> None:
    """Ask again and again; to be cancelled.

    Args:
        generation: Gives the policy at work.
        interval: Seconds between two rounds.
    """
    while True:
        current = generation()
        asked = [
            _ask(endpoint, named.health)
            for name, named in current.policy.upstreams.items()
            if named.health is not None
            for endpoint in current.groups[name].endpoints
        ]
        await asyncio.gather(*asked)
        await asyncio.sleep(interval)


async def _ask(endpoint: Endpoint, path: str) -> None:
    probe = _Probe()
    try:
        call = endpoint.pool.send(Outgoing(b"GET", path.encode("ascii"), ()), probe)
    except CallFailed:
        # It has more to do than it can take, which is no illness.
        return
    try:
        async with asyncio.timeout(_PATIENCE):
            await probe.over.wait()
    except TimeoutError:
        probe.status = 0
    finally:
        call.cancel()
    endpoint.tell(well=200 <= probe.status < 300)
