"""`mcpost export`: a gateway's policy as the configuration of another engine."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

from typer import Option

from mcpost.cli.gateway import File, load_policy
from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.export.nginx import to_nginx

__all__ = ("export",)


class Engine(StrEnum):
    """The engines that can be written for."""

    ENVOY = "envoy"
    NGINX = "nginx"


def export(
    policy: File,
    to: Annotated[Engine, Option(help="The engine to write for.")],
) -> None:
    """Print a policy as the configuration of another engine; what it cannot say is an error."""
    found = load_policy(policy)
    if to is Engine.ENVOY:
        print(json.dumps(to_envoy(found), indent=2))
    else:
        print(to_nginx(found), end="")
