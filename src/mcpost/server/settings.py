"""What an endpoint is told when it is made.

Spec: streamable-http, "Security & Endpoint" (T-03, T-04, T-24).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from mcpost.limits import ServerLimits
from mcpost.server.call import Principal
from mcpost.server.head import Head
from mcpost.wire.origin import Hosts, Origins

__all__ = ("Authenticate", "Settings")

Authenticate = Callable[[Head], Awaitable[Principal | None]]
"""Finds out who calls: gives the principal, `None` for nobody in particular, or raises `Refused`
with 401 or 403 and its `WWW-Authenticate` line."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of an endpoint."""

    limits: ServerLimits
    origins: Origins
    hosts: Hosts | None
    """`None` does not look at `Host`."""
    authenticate: Authenticate | None

    @classmethod
    def make(
        cls,
        *,
        limits: ServerLimits = ServerLimits(),
        origins: Sequence[str] = (),
        hosts: Sequence[str] | None = None,
        authenticate: Authenticate | None = None,
    ) -> Settings:
        """Make settings of plain values.

        Raises:
            UsageError: An origin or host that is none.
        """
        return cls(
            limits,
            Origins(origins),
            None if hosts is None else Hosts(hosts),
            authenticate,
        )
