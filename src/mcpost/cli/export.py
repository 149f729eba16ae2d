"""`mcpost export`: a gateway's policy as the configuration of another engine."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Option

from mcpost.cli.gateway import File, load_policy
from mcpost.errors import UsageError
from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.export.nginx import to_nginx
from mcpost.gateway.export.settings import ExportSettings

__all__ = ("export",)

_DEFAULTS = ExportSettings()


class Engine(StrEnum):
    """The engines that can be written for."""

    ENVOY = "envoy"
    NGINX = "nginx"


def export(
    policy: File,
    to: Annotated[Engine, Option(help="The engine to write for.")],
    connect_timeout: Annotated[
        float, Option(help="Seconds for a connection to an upstream.")
    ] = _DEFAULTS.connect_timeout,
    idle_timeout: Annotated[
        float, Option(help="Seconds of silence of an upstream.")
    ] = _DEFAULTS.idle_timeout,
    max_body: Annotated[
        int, Option(help="Bytes of the largest request body.")
    ] = _DEFAULTS.max_body,
    upstream_ca: Annotated[
        str, Option(help="Authorities (PEM) for https upstreams, where the engine runs.")
    ] = _DEFAULTS.authorities,
    certificate: Annotated[
        str, Option(help="TLS certificate chain (PEM) for clients, where the engine runs.")
    ] = "",
    key: Annotated[str, Option(help="Its private key (PEM).")] = "",
    output: Annotated[
        Path | None, Option(help="File to write; it stays as it is if the policy is wrong.")
    ] = None,
) -> None:
    """Print a policy as the configuration of another engine; what it cannot say is an error."""
    for name, value in (("connect", connect_timeout), ("idle", idle_timeout)):
        if not 0.001 <= value <= 1e6:
            raise UsageError(f"--{name}-timeout is from 0.001 to 1000000 seconds")
    if not 1 <= max_body <= 1 << 31:
        raise UsageError("--max-body is from 1 to 2147483648 bytes")
    if key and not certificate:
        raise UsageError("a key needs its certificate")
    settings = ExportSettings(
        connect_timeout=connect_timeout,
        idle_timeout=idle_timeout,
        max_body=max_body,
        authorities=upstream_ca,
        certificate=certificate,
        key=key,
    )
    found = load_policy(policy)
    if to is Engine.ENVOY:
        text = json.dumps(to_envoy(found, settings), indent=2) + "\n"
    else:
        text = to_nginx(found, settings)
    if output is None:
        print(text, end="")
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
