"""A bus for several processes and machines, over the publish-subscribe of Valkey or Redis.

Listeners in this process hear of a change at once, with or without the store; those elsewhere hear
of it through the store. What others say while the connection is lost is lost; so after a gap the
listeners are told that they may have missed something. What is said here in a gap is sent after it.

The bus has a thread with an event loop of its own, so that it serves any number of loops and a
change may be published from any thread. The thread is a daemon and starts when it is needed.

Needs the extra `redis`: `pip install mcpost[redis]`.

Spec: patterns/subscriptions (P-04).
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
import threading
from collections.abc import Callable
from typing import Final

import msgspec
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from mcpost.server.bus import Listener, MemoryBus, Missed, Notice
from mcpost.types import Change

__all__ = ("RedisBus",)

_log = logging.getLogger("mcpost.server")

_FIRST_DELAY: Final = 0.1
_LAST_DELAY: Final = 10.0
"""Seconds between attempts to connect: doubled each time, and scattered."""

_CONNECT: Final = 5.0
"""Seconds for a connection to stand."""

_CHECK: Final = 15.0
"""Seconds after which a silent connection is asked whether it is still there; it is given up
after twice as long."""

_MAX_WAITING: Final = 1_000
"""Changes that wait for the store; above it one notice that everything may have changed does."""


class _Letter(msgspec.Struct):
    """What travels: who says it, and what."""

    sender: str
    change: Notice


_decode: Final = msgspec.json.Decoder(_Letter).decode


class RedisBus:
    """A bus over Valkey or Redis; give one to each replica's `Server(bus=…)`.

    Args:
        url: Where the store is, as in `redis://127.0.0.1:6379/0`, `rediss://…` or `unix://…`.
        channel: The channel; servers that share it hear of one another's changes.
    """

    def __init__(self, url: str, *, channel: str = "mcpost:changes") -> None:
        self._url = url
        self._channel = channel
        self._local = MemoryBus()
        self._lock = threading.Lock()
        self._link: _Link | None = None

    def publish(self, change: Change) -> None:
        """Tell all listeners of a change, here and elsewhere; may be called from any thread."""
        self._local.publish(change)
        self._linked().send(change)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear of changes; the function that is returned ends it."""
        unsubscribe = self._local.subscribe(listener)
        self._linked()
        return unsubscribe

    def close(self, timeout: float = 5) -> None:
        """End the connection and the thread; what waits to be sent is sent if it can be at once.

        The bus may be used again after it.

        Args:
            timeout: Seconds to wait for the thread.
        """
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.close(timeout)

    def _linked(self) -> _Link:
        with self._lock:
            # A forked process has no thread of its parent's.
            if self._link is None or self._link.pid != os.getpid():
                self._link = _Link(self._url, self._channel, self._local)
            return self._link


class _Link:
    """The thread that holds the connection."""

    def __init__(self, url: str, channel: str, local: MemoryBus) -> None:
        self.pid = os.getpid()
        self._url = url
        self._channel = channel
        self._local = local
        self._sender = secrets.token_hex(8)
        self._waiting: dict[bytes, None] = {}
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="mcpost-bus", daemon=True)
        self._thread.start()

    def send(self, change: Notice) -> None:
        """Send a change, now or when the store can be reached."""
        letter = msgspec.json.encode(_Letter(self._sender, change))
        self._loop.call_soon_threadsafe(self._put, letter)

    def close(self, timeout: float) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(timeout)

    def _put(self, letter: bytes) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            self._waiting = {msgspec.json.encode(_Letter(self._sender, Missed())): None}
        self._waiting[letter] = None
        self._wake.set()

    def _stop(self) -> None:
        self._closing = True
        self._wake.set()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        client: Redis = Redis.from_url(
            self._url,
            socket_connect_timeout=_CONNECT,
            socket_keepalive=True,
            # A connection that is made again behind our back would hide what was missed.
            retry=Retry(NoBackoff(), 0),
        )
        hearing = asyncio.create_task(self._hear(client))
        try:
            await self._send_all(client)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
            await client.aclose()

    async def _send_all(self, client: Redis) -> None:
        """Send what waits, until the bus is closed."""
        delay = _FIRST_DELAY
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while self._waiting:
                    letter = next(iter(self._waiting))
                    await client.publish(self._channel, letter)
                    self._waiting.pop(letter, None)
                delay = _FIRST_DELAY
            except (RedisError, OSError):
                if not self._closing:
                    # Whoever hears says that the store is away.
                    await asyncio.sleep(_scattered(delay))
                    delay = min(delay * 2, _LAST_DELAY)
                    self._wake.set()
            if self._closing:
                return

    async def _hear(self, client: Redis) -> None:
        """Hear what others say, and connect again whenever that ends."""
        delay = _FIRST_DELAY
        missed = False
        while True:
            try:
                async with client.pubsub() as channel:
                    await channel.subscribe(self._channel)
                    if missed:
                        _log.info("the bus is back; listeners are told to look again")
                        self._local.publish(Missed())
                    missed, delay = True, _FIRST_DELAY
                    await self._hear_channel(channel)
            except (RedisError, OSError) as error:
                _log.warning("the bus is away, and is tried again: %s", error)
            missed = True
            await asyncio.sleep(_scattered(delay))
            delay = min(delay * 2, _LAST_DELAY)

    async def _hear_channel(self, channel: PubSub) -> None:
        heard = self._loop.time()
        while self._loop.time() - heard < 2 * _CHECK:
            message = await channel.get_message(ignore_subscribe_messages=True, timeout=_CHECK)
            if message is None:
                await channel.ping()
                continue
            heard = self._loop.time()
            if message["type"] == "message":
                self._take(message["data"])
        raise OSError("the connection went silent")

    def _take(self, data: bytes) -> None:
        try:
            letter = _decode(data)
        except msgspec.MsgspecError as error:
            _log.warning("the bus carried something that is no change: %s", error)
            return
        # What was said here was told here already.
        if letter.sender != self._sender:
            self._local.publish(letter.change)


def _scattered(delay: float) -> float:
    """A wait of about that long: replicas that lost one store do not come back in one moment."""
    return delay * random.uniform(0.5, 1.5)
