"""`serve`: an HTTP server for one `Server`, from the bound socket to the last answer.

A signal drains: no new connections, each listen gets its closing result, running calls get their
grace; a second signal ends at once. With several workers the first process only watches them.

Spec: streamable-http, "Security & Endpoint" (T-04); patterns/subscriptions, "Graceful Closure"
(P-05).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

from mcpost.errors import UsageError
from mcpost.limits import ServerLimits
from mcpost.server.bus import Bus, MemoryBus
from mcpost.server.settings import Authenticate, Settings
from mcpost.server.workers import supervise
from mcpost.wire.origin import is_loopback

if TYPE_CHECKING:
    from mcpost.server.endpoint import Endpoint

__all__ = ("Binding", "Engine", "serve")

Engine = Literal["native", "uvicorn"]
"""What speaks HTTP: our own engine, or uvicorn with uvloop and httptools."""

_log = logging.getLogger("mcpost.server")

_BACKLOG: Final = 2048


class Servable(Protocol):
    """What `serve` needs of a `Server`."""

    limits: ServerLimits
    bus: Bus

    def endpoint(self, settings: Settings, *, legacy: bool) -> Endpoint:
        """Make the endpoint to serve."""
        ...


def serve(
    server: Servable,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    origins: Sequence[str] = (),
    hosts: Sequence[str] | None = None,
    authenticate: Authenticate | None = None,
    limits: ServerLimits | None = None,
    keep_alive: float | None = None,
    max_body: int | None = None,
    workers: int = 1,
    legacy: bool | None = None,
    engine: Engine = "native",
    access_log: bool = False,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until a signal comes.

    Args:
        server: What to serve.
        host: Address to bind: a name or an IP address; loopback by default.
        port: TCP port, 0 for one that the system chooses.
        path: The path of the endpoint.
        origins: Origins of web pages that may call, besides those of this machine.
        hosts: Names that `Host` may have. `None` means those of this machine where that is what
            is bound, and does not look at `Host` otherwise.
        authenticate: Finds out who calls; see docs/server.md.
        limits: Bounds, by default those of the server.
        keep_alive: Seconds of silence after which a comment is sent, in place of the limit; 0 for
            never.
        max_body: Bytes of a request body, in place of the limit.
        workers: Processes. Notices reach only listeners of the same process unless the server has
            a shared bus.
        legacy: Whether earlier revisions are served too. Their sessions live in one process, so
            by default they are where there is one.
        engine: What speaks HTTP.
        access_log: Whether each request is logged, to standard error.
        ready: Called with the URL once connections are accepted; writes it to standard output by
            default.

    Raises:
        UsageError: An option that cannot be, or an address that cannot be bound.
    """
    if workers < 1:
        raise UsageError("there is at least one worker")
    if legacy and workers > 1:
        raise UsageError("sessions of earlier revisions live in one process: use one worker")
    limits = limits or server.limits
    if keep_alive is not None:
        limits = replace(limits, keep_alive=keep_alive)
    if max_body is not None:
        limits = replace(limits, max_body=max_body)
    binding = Binding.make(host, port)
    if hosts is None and binding.is_loopback:
        hosts = ()
    try:
        settings = Settings.make(
            limits=limits, origins=origins, hosts=hosts, authenticate=authenticate
        )
        endpoint = server.endpoint(settings, legacy=workers == 1 if legacy is None else legacy)
        if not binding.is_loopback and authenticate is None:
            _log.warning(
                "%s is open to the network, and nobody has to say who they are: bind 127.0.0.1,"
                " or set authenticate",
                binding.url(path),
            )
        process = _make_process(engine, endpoint, path, binding.sockets, access_log=access_log)
        announce = partial(ready or _write_line, binding.url(path))
        if workers == 1:
            process.serve_until_signal(announce)
            return
        if isinstance(server.bus, MemoryBus):
            _log.warning(
                "with several workers a notice of change reaches the listens of one of them: give"
                " the server a shared bus (mcpost.server.bus_redis)"
            )
        for made in binding.sockets:
            made.listen(_BACKLOG)
        announce()
        supervise(workers, lambda: process.serve_until_signal(lambda: None), limits.drain_grace)
    finally:
        binding.close()


class Process(Protocol):
    """One serving process."""

    def serve_until_signal(self, ready: Callable[[], None]) -> None:
        """Serve; `ready` is called once connections are accepted."""
        ...


def _make_process(
    engine: Engine,
    endpoint: Endpoint,
    path: str,
    sockets: tuple[socket.socket, ...],
    *,
    access_log: bool,
) -> Process:
    # Each engine is imported where it is chosen: the other one is not loaded.
    if engine == "uvicorn":
        from mcpost.server.asgi import AsgiApp
        from mcpost.server.run_uvicorn import UvicornProcess

        return UvicornProcess(AsgiApp(endpoint, path), sockets, access_log=access_log)
    if engine != "native":
        raise UsageError(f"there is no engine {engine!r}: it is native or uvicorn")
    from mcpost.server.native import NativeApp, NativeProcess

    if access_log:
        log = logging.getLogger("mcpost.access")
        log.setLevel(logging.INFO)
        log.addHandler(logging.StreamHandler())
    app = NativeApp(endpoint, path)
    return NativeProcess(app, sockets, _make_loop, access_log=access_log)


def _make_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def _write_line(url: str) -> None:
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Binding:
    """Bound sockets, and what to call them."""

    host: str
    """As it was asked for."""
    port: int
    sockets: tuple[socket.socket, ...]

    @classmethod
    def make(cls, host: str, port: int) -> Binding:
        """Bind an address; a name may have several.

        Raises:
            UsageError: It cannot be bound.
        """
        sockets: list[socket.socket] = []
        try:
            found = socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, address in dict.fromkeys(found):
                # A name with several addresses gets the one port that the first was given.
                where = (address[0], port, *address[2:])
                made = socket.socket(family, kind, protocol)
                sockets.append(made)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.bind(where)
                port = made.getsockname()[1]
        except (OSError, OverflowError) as error:
            for made in sockets:
                made.close()
            raise UsageError(f"{host}:{port} cannot be bound: {error}") from error
        return cls(host, port, tuple(sockets))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return all(is_loopback(made.getsockname()[0]) for made in self.sockets)

    def url(self, path: str) -> str:
        """The URL by which this machine reaches it."""
        host = self.host or "localhost"
        if host in ("0.0.0.0", "::"):
            host = "localhost"
        if ":" in host:
            host = f"[{host}]"
        return f"http://{host}:{self.port}{path}"

    def close(self) -> None:
        """Close the sockets."""
        for made in self.sockets:
            made.close()
