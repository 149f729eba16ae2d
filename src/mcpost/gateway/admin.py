"""The admin listener: figures, health, and the live page.

The page may be asked for under an address, or as localhost, alone: a page of elsewhere whose name
was made to resolve to this machine (DNS rebinding) learns nothing.

Spec: Prometheus exposition format 0.0.4; WHATWG HTML, 9.2; CSP Level 3; RFC 9110, 7.2.
"""

from __future__ import annotations

import asyncio
import re
import time
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from ipaddress import ip_address
from typing import Final, Protocol

from mcpost.gateway.live import TICK, Live
from mcpost.gateway.metrics import CONTENT_TYPE, Metrics
from mcpost.http11.application import Application
from mcpost.http11.exchange import Exchange
from mcpost.http11.head import Request

__all__ = ("Admin", "Seen")

_TEXT: Final = ((b"content-type", b"text/plain; charset=utf-8"),)
_FIGURES: Final = ((b"content-type", CONTENT_TYPE), (b"cache-control", b"no-store"))
_STREAM: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
)
_INLINE: Final = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)


class Seen(Protocol):
    """What the admin listener shows; `mcpost.gateway.run.Running` is one."""

    @property
    def metrics(self) -> Metrics:
        """Its figures."""
        ...

    @property
    def live(self) -> Live:
        """What its page is told."""
        ...

    def gauges(self) -> dict[str, int]:
        """What is at this moment."""
        ...

    def is_ready(self) -> bool:
        """Whether it takes requests."""
        ...


class Admin(Application[Exchange]):
    """Figures, health and the live page, for those who run the gateway.

    Args:
        seen: The gateway.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._ticks = False

    def open(self, request: Request, exchange: Exchange) -> None:
        """Answer by the head alone."""
        if request.method not in {"GET", "HEAD"}:
            exchange.respond(405, ((b"allow", b"GET, HEAD"), *_TEXT), b"send GET\n")

    def handle(self, request: Request, body: bytes, exchange: Exchange) -> None:
        """Answer."""
        seen, path = self._seen, request.path
        if path == "/metrics":
            exchange.respond(200, _FIGURES, seen.metrics.render(seen.gauges()))
        elif path == "/healthz":
            exchange.respond(200, _TEXT, b"ok\n")
        elif path == "/readyz":
            ready = seen.is_ready()
            exchange.respond(200 if ready else 503, _TEXT, b"ready\n" if ready else b"not ready\n")
        elif path not in {"/", "/events"}:
            exchange.respond(404, _TEXT, b"there are /, /events, /metrics, /healthz and /readyz\n")
        elif not _is_of_here(request.fields.get(b"host", b"")):
            exchange.respond(403, _TEXT, b"ask by an address of this machine, or by localhost\n")
        elif path == "/":
            exchange.respond(200, *_page())
        else:
            self._watch(request, exchange)

    def _watch(self, request: Request, exchange: Exchange) -> None:
        live = self._seen.live
        if request.method == "HEAD":
            exchange.respond(200, _STREAM)
            return
        watcher = live.enter(exchange)
        if watcher is None:
            exchange.respond(503, ((b"retry-after", b"10"), *_TEXT), b"too many pages are open\n")
            return
        exchange.start(200, _STREAM)
        exchange.write(b"retry: 1000\n\n")
        exchange.watch(lambda: live.leave(watcher))
        if not self._ticks:
            self._beat(exchange.loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell the pages, again and again until none is open."""
        live = self._seen.live
        self._ticks = live.is_watched
        if self._ticks:
            live.tick(time.time())
            loop.call_later(TICK, self._beat, loop)


@cache
def _page() -> tuple[tuple[tuple[bytes, bytes], ...], bytes]:
    """The page, and header lines that let it run nothing but its own style and script."""
    text = files("mcpost.gateway").joinpath("live.html").read_text("utf-8")
    sources = {"style": "", "script": ""}
    for kind, inside in _INLINE.findall(text):
        digest = b64encode(sha256(inside.encode()).digest()).decode()
        sources[kind] = f"'sha256-{digest}'"
    policy = (
        f"default-src 'none'; script-src {sources['script']}; style-src {sources['style']};"
        " connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    lines = (
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", policy.encode()),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
    )
    return lines, text.encode()


def _is_of_here(host: bytes) -> bool:
    """Whether a `Host` is `localhost` or an address, which no other site's name can be."""
    name = host.decode("latin-1").lower()
    name = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
