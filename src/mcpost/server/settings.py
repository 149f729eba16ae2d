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
    varies: bool
    """Whether pages of some other origin may call, so that answers depend on the origin."""

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

        Args:
            limits: The bounds.
            origins: Origins of web pages that may call, besides those of this machine.
            hosts: Names that `Host` may have, besides those of this machine; pages of these hosts
                may call too. `None` does not look at `Host`: behind an unknown name that is right,
                since a page that rebinds its own name still says its own `Origin`.
            authenticate: Finds out who calls.

        Raises:
            UsageError: An origin or host that is none.
        """
        own = [
            f"{scheme}://{host}"
            for host in hosts or ()
            if host != "*"
            for scheme in ("https", "http")
        ]
        return cls(
            limits,
            Origins([*origins, *own]),
            None if hosts is None else Hosts(hosts),
            authenticate,
            bool(origins or own),
        )
