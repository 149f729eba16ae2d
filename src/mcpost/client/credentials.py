"""The headers that say who calls: fixed, or fetched when they are needed.

A provider of credentials may be slow: a person logs in. So what one call waits for is no lock:
calls that find credentials use them, and those that need new ones at the same time share one
fetch. A call that is cancelled leaves the fetch to the others.

Spec: basic/authorization (seam); RFC 9110, 11.6.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from mcpost.errors import Denied, UsageError
from mcpost.wire.fields import is_token

__all__ = ("Auth", "AuthProvider", "Credentials", "check_headers")

AuthProvider = Callable[[], "Mapping[str, str] | Awaitable[Mapping[str, str]]"]
"""Gives the headers of a request; called for each one, so it keeps its token itself."""


@runtime_checkable
class Auth(Protocol):
    """A provider that wants to see why its credentials were refused."""

    async def headers(self) -> Mapping[str, str]:
        """Give the headers of a request."""
        ...

    async def refused(self, denied: Denied, used: Mapping[str, str]) -> bool:
        """Take a 401 or 403, and tell whether to send the request once more.

        Args:
            denied: The refusal, with its `WWW-Authenticate`.
            used: The headers that were refused.
        """
        ...


class Credentials:
    """Asks a provider, and keeps what it said last.

    Args:
        provider: The provider, `None` for none.
        fixed: Header lines that every request has.
    """

    def __init__(
        self, provider: Auth | AuthProvider | None, fixed: Mapping[str, str] | None = None
    ) -> None:
        self._provider = provider
        self._fixed = dict(fixed or {})
        self._current: Mapping[str, str] | None = None
        self._flight: asyncio.Task[Mapping[str, str]] | None = None
        self._renewals: dict[int, asyncio.Task[bool]] = {}

    @property
    def is_needed(self) -> bool:
        """Whether there is a provider at all."""
        return self._provider is not None

    @property
    def context(self) -> str | None:
        """The authorisation context, as a digest; `None` while it is not known.

        Answers that are private to their caller are kept under it (F-05).
        """
        if self._provider is not None and self._current is None:
            return None
        lines = sorted({**self._fixed, **(self._current or {})}.items())
        return hashlib.sha256(repr(lines).encode()).hexdigest()

    async def headers(self) -> Mapping[str, str]:
        """Give the headers for a request.

        While a fetch is under way, what was said before it is used if there is something.
        """
        provider = self._provider
        if provider is None:
            return {}
        if self._flight is None:
            said = provider.headers() if isinstance(provider, Auth) else provider()
            if isinstance(said, Mapping):
                self._current = check_headers(said)
                return self._current
            self._flight = asyncio.ensure_future(said)
            self._flight.add_done_callback(self._landed)
        elif self._current is not None:
            return check_headers(self._current)
        return check_headers(await asyncio.shield(self._flight))

    async def refused(self, denied: Denied, used: Mapping[str, str]) -> bool:
        """Tell whether to send a request once more after a 401 or 403.

        Calls that were refused with the same headers share one renewal.
        """
        provider = self._provider
        if provider is None:
            return False
        if self._current is not None and dict(self._current) != dict(used):
            # Another call has renewed them in the meantime.
            return True
        if isinstance(provider, Auth):
            key = hash(frozenset(used.items())) ^ denied.status
            renewal = self._renewals.get(key)
            if renewal is None:
                renewal = asyncio.ensure_future(provider.refused(denied, used))
                self._renewals[key] = renewal
                renewal.add_done_callback(lambda _: self._renewals.pop(key, None))
            if not await asyncio.shield(renewal):
                return False
            self._current = None
            return True
        if denied.status != 401:
            return False
        # The token is dead: whoever comes now waits for the next one.
        self._current = None
        return dict(await self.headers()) != dict(used)

    async def close(self) -> None:
        """End what is under way."""
        running: list[asyncio.Task[Any]] = list(self._renewals.values())
        if self._flight is not None:
            running.append(self._flight)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _landed(self, task: asyncio.Task[Mapping[str, str]]) -> None:
        self._flight = None
        # Reading the exception here keeps the loop from reporting one that every waiter has had.
        if not task.cancelled() and task.exception() is None:
            self._current = task.result()


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Check header lines that a program gives.

    Raises:
        UsageError: A name is no token, or a value has a character that ends or garbles the line.
    """
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not is_token(name):
            raise UsageError(f"{name!r} is not the name of a header")
        if any(c in value for c in "\r\n\0") or not _fits(value):
            raise UsageError(f"the value of {name} has a character that no header may have")
        checked[name] = value.strip(" \t")
    return checked


def _fits(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
