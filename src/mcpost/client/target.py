"""From what a program names to the transport that leads there.

Spec: basic/transports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from mcpost.client.child import Command
from mcpost.client.credentials import Auth, AuthProvider, Credentials, check_headers
from mcpost.client.era import DualTransport, EraMemory
from mcpost.client.http import HttpTransport
from mcpost.client.inprocess import AsgiApp, InProcess, Servable
from mcpost.client.inputs import Inputs
from mcpost.client.legacy.http import LegacyHttp
from mcpost.client.network import Network, parse_url
from mcpost.client.stdio import StdioTransport
from mcpost.client.transport import Transport
from mcpost.errors import BadTarget
from mcpost.limits import ClientLimits
from mcpost.wire.versions import Era

__all__ = ("Target", "make_transport")

Target = str | Servable | AsgiApp | Sequence[str] | Command
"""A URL, a server object, an ASGI application, or the command of a server on stdio."""


def make_transport(
    target: Target,
    *,
    headers: Mapping[str, str],
    auth: Auth | AuthProvider | None,
    limits: ClientLimits,
    network: Network,
    agent: str,
    inputs: Inputs,
    era: Era | None,
    eras: EraMemory,
) -> tuple[Transport, Credentials]:
    """Make the transport to a target.

    Args:
        target: What the program named.
        headers: Header lines of every request.
        auth: The source of credentials.
        limits: Bounds.
        network: TLS and proxies.
        agent: Value of `User-Agent`.
        inputs: What a server of an earlier revision may ask at any time.
        era: The server's era, where it is known.
        eras: What is known of servers.

    Returns:
        The transport, and the credentials it sends.

    Raises:
        BadTarget: The target is none.
    """
    fixed = check_headers(headers)
    credentials = Credentials(auth, fixed)
    if isinstance(target, str) and "://" not in target:
        target = Command(target)
    elif isinstance(target, (list, tuple)):
        target = Command(cast("Sequence[str]", target))
    if isinstance(target, Command):
        return StdioTransport(target, inputs=inputs, limits=limits, era=era), credentials
    if isinstance(target, str):
        http = HttpTransport(
            parse_url(target),
            network=network,
            headers=fixed,
            credentials=credentials,
            limits=limits,
            agent=agent,
        )
        legacy = partial(LegacyHttp, http, inputs, limits)
        return DualTransport(http, eras, legacy, era), credentials
    app: Any = target.asgi() if isinstance(target, Servable) else target
    if callable(app):
        return InProcess(cast("AsgiApp", app), headers=fixed, limits=limits), credentials
    raise BadTarget(f"{target!r} is no server: give a URL, a Server or a command")
