"""A gateway process: its listeners, its admin listener, reload and drain.

SIGHUP, or a change of its file, reads the policy again: a good one is at work from then on, a
broken one changes nothing and is told. SIGTERM lets what runs come to its end, for a while; a
second one ends at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from mcpost.errors import McpostError, UsageError
from mcpost.gateway.access_log import AccessLog
from mcpost.gateway.admin import Admin
from mcpost.gateway.generation import Generation
from mcpost.gateway.health import watch
from mcpost.gateway.live import Live
from mcpost.gateway.metrics import Metrics
from mcpost.gateway.policy import Listener, Policy
from mcpost.gateway.proxy import Door, Gateway, Shared
from mcpost.gateway.settings import GatewaySettings
from mcpost.gateway.watched import Watched, stamp_of, watch_file
from mcpost.http11.exchange import Exchange
from mcpost.http11.hub import Hub
from mcpost.http11.listener import Listener as Socket
from mcpost.http11.listener import listen

__all__ = ("GatewayProcess", "Running")

_log = logging.getLogger("mcpost.gateway")

_TICK: Final = 0.5


class Running:
    """A gateway on this loop, from its bound sockets on; `open` makes it.

    Args:
        read: Reads the policy; raises what is wrong with it.
        settings: Bounds.
        tls: The clients' side of TLS.
        log: The access log.
        file: The policy's file, to be looked at for changes.
    """

    def __init__(
        self,
        read: Callable[[], Policy],
        settings: GatewaySettings | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        log: AccessLog | None = None,
        file: Path | None = None,
    ) -> None:
        self._read = read
        self._file = file
        # Before it is read: what changes meanwhile is not missed.
        self._watched = Watched(None if file is None else stamp_of(file))
        self._settings = settings or GatewaySettings()
        self._tls = tls
        self._hub = Hub(asyncio.get_running_loop(), _TICK)
        self._policy = read()
        self.shared = Shared(self._make_generation(self._policy), log)
        """What the listeners have in common."""
        self.sockets: dict[str, Socket[Door]] = {}
        """The listeners by their names in the policy."""
        self.admin: Socket[Exchange] | None = None
        """Figures, health and the live page."""
        self._live = Live(self.gauges)
        self.draining = False
        """Whether it takes nothing new."""
        self._watches: list[asyncio.Task[None]] = []

    async def open(self, admin: tuple[str, int] | None = None) -> None:
        """Listen.

        Args:
            admin: Address and port of the live page, `/metrics`, `/healthz` and `/readyz`.

        Raises:
            UsageError: An address cannot be bound, or there is none.
        """
        if not self._policy.listeners:
            raise UsageError(f"{self._policy.file or 'the policy'} has no [[listeners]]")
        limits = self._settings.connection_limits()
        loop = self._hub.loop
        try:
            for each in self._policy.listeners:
                host, port = split_address(each.bind)
                app = Gateway(self.shared, each)
                self.sockets[each.name] = await listen(
                    app, Door, host=host, port=port, tls=self._tls, limits=limits, hub=self._hub
                )
            if admin is not None:
                self.shared.live = self._live
                self.admin = await listen(
                    Admin(self), Exchange, host=admin[0], port=admin[1], hub=self._hub
                )
            self._watches.append(loop.create_task(watch(lambda: self.shared.generation)))
            if self._file is not None and self._settings.watch > 0:
                looks = watch_file(self._file, self._watched, self._settings.watch, self.reload)
                self._watches.append(loop.create_task(looks))
        except OSError as error:
            await self.close()
            raise UsageError(f"the gateway cannot listen: {error}") from error

    def url(self, listener: Listener) -> str:
        """Where clients reach a listener."""
        host, _ = split_address(listener.bind)
        scheme = "https" if self._tls is not None else "http"
        shown = f"[{host}]" if ":" in host else host
        return f"{scheme}://{shown}:{self.sockets[listener.name].port}{listener.path}"

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners of the policy that was read first."""
        return self._policy.listeners

    def reload(self) -> bool:
        """Read the policy again; what runs goes on as it began.

        Returns:
            Whether the new one is at work. Listeners stay as they are in either case.
        """
        metrics = self.shared.metrics
        try:
            policy = self._read()
            following = self._make_generation(policy, self.shared.generation)
        except (McpostError, OSError) as error:
            metrics.reloads["failed"] += 1
            _log.error("the policy stays as it was: %s", error)
            return False
        if policy.listeners != self._policy.listeners:
            _log.warning("listeners are changed by a restart alone")
        self.shared.replace(following)
        metrics.reloads["ok"] += 1
        _log.info("the policy has been read again")
        return True

    @property
    def metrics(self) -> Metrics:
        """Its figures."""
        return self.shared.metrics

    @property
    def live(self) -> Live:
        """What its page is told."""
        return self._live

    def is_ready(self) -> bool:
        """Whether it takes requests."""
        return not self.draining and self.shared.generation.is_ready()

    def gauges(self) -> dict[str, int]:
        """What is at this moment."""
        endpoints = [
            each for group in self.shared.generation.groups.values() for each in group.endpoints
        ]
        return {
            "running_requests": len(self.shared.running) + len(self.shared.aggregated.merging),
            "open_streams": self.shared.streams(),
            "client_connections": sum(each.statistics().open for each in self.sockets.values()),
            "upstream_connections": sum(each.pool.statistics().open for each in endpoints),
            "upstream_endpoints_up": sum(each.is_up() for each in endpoints),
            "cache_entries": len(self.shared.cached.store),
            "cache_bytes": self.shared.cached.store.bytes,
        }

    async def drain(self, grace: float) -> None:
        """Take nothing new, let what runs come to its end, and close.

        Args:
            grace: Seconds for that; what is left is cut.
        """
        self.draining = True
        await asyncio.gather(*(each.drain(grace) for each in self.sockets.values()))
        await self.close()

    async def close(self) -> None:
        """Cut every connection."""
        for task in self._watches:
            task.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        for each in self.sockets.values():
            await each.close()
        if self.admin is not None:
            await self.admin.close()
        await self.shared.generation.close()

    def _make_generation(self, policy: Policy, previous: Generation | None = None) -> Generation:
        scheme = b"http" if self._tls is None else b"https"
        return Generation(policy, self._hub, self._settings, scheme=scheme, previous=previous)


class GatewayProcess:
    """A gateway from its start to its last answer.

    Args:
        make: Makes the gateway, on the loop that runs.
        admin: Address and port of the admin listener.
        grace: Seconds that running requests get after a signal.
    """

    def __init__(
        self, make: Callable[[], Running], admin: tuple[str, int] | None, grace: float
    ) -> None:
        self._make = make
        self._admin = admin
        self._grace = grace
        self._stop: asyncio.Event | None = None

    def serve_until_signal(self, ready: Callable[[Running], None]) -> None:
        """Serve; `ready` is called once connections are accepted."""
        with asyncio.Runner(loop_factory=_make_loop) as runner:
            runner.run(self._serve(ready))

    async def _serve(self, ready: Callable[[Running], None]) -> None:
        stop = self._stop = asyncio.Event()
        running = self._make()
        await running.open(self._admin)
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, partial(self._handle_signal, each))
        if sys.platform != "win32":
            loop.add_signal_handler(signal.SIGHUP, running.reload)
        # The collector then looks at nothing but what requests leave behind.
        gc.collect()
        gc.freeze()
        ready(running)
        await stop.wait()
        await running.drain(self._grace)

    def _handle_signal(self, number: int) -> None:
        """Drain at the first signal, end at once at the second."""
        assert self._stop is not None
        if self._stop.is_set():
            os._exit(128 + number)
        self._stop.set()


def split_address(bind: str) -> tuple[str, int]:
    """Split `host:port`, an IPv6 address in brackets.

    Raises:
        UsageError: It is none.
    """
    host, mark, port = bind.rpartition(":")
    if not mark or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"an address is host:port: {bind!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _make_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()
