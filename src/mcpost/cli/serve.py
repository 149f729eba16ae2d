"""`mcpost serve`: serve the server of a file or module over HTTP, or over stdio."""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Annotated, Any

from typer import Argument, Option

from mcpost.cli.load import load_server
from mcpost.limits import ServerLimits
from mcpost.server.pipes import claim
from mcpost.server.run import Engine
from mcpost.server.stdio import serve as serve_stdio

__all__ = ("serve",)


class Switch(enum.StrEnum):
    """On or off."""

    on = "on"
    off = "off"


def serve(
    target: Annotated[
        str, Argument(help="FILE.py:NAME or package.module:NAME; without NAME the only server.")
    ],
    host: Annotated[str, Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to bind; 0 lets the system pick one.")] = 8000,
    path: Annotated[str, Option(help="Path of the endpoint.")] = "/mcp",
    origin: Annotated[
        list[str] | None,
        Option(help="Origin of web pages that may call, besides this machine's; repeatable."),
    ] = None,
    public_host: Annotated[
        list[str] | None,
        Option(help="Name by which callers reach the server (the Host line); repeatable."),
    ] = None,
    keep_alive: Annotated[
        float | None, Option(help="Seconds of silence after which a stream gets a comment.")
    ] = None,
    max_body: Annotated[int | None, Option(help="Bytes of the largest request body.")] = None,
    max_calls: Annotated[int | None, Option(help="Calls that run at once.")] = None,
    drain_grace: Annotated[
        float | None, Option(help="Seconds that running calls get after SIGTERM.")
    ] = None,
    workers: Annotated[int, Option(help="Processes that share the port.", min=1)] = 1,
    legacy: Annotated[
        Switch | None,
        Option(help="Whether earlier revisions are served too; by default with one worker."),
    ] = None,
    stdio: Annotated[bool, Option("--stdio", help="Serve over stdio instead of HTTP.")] = False,
    engine: Annotated[
        Engine, Option("--server", help="What speaks HTTP: our own engine, or uvicorn.")
    ] = "native",
    access_log: Annotated[bool, Option("--access-log", help="Log each request.")] = False,
) -> None:
    """Serve an MCP server over HTTP until SIGTERM or Ctrl-C, or over stdio until its input ends."""
    # Before anything of the target runs: what it prints while it is loaded is not the protocol's.
    channel = claim() if stdio else None
    server = load_server(target)
    limits = _limits(
        server.limits,
        keep_alive=keep_alive,
        max_body=max_body,
        max_calls=max_calls,
        drain_grace=drain_grace,
    )
    if channel is not None:
        serve_stdio(server, channel=channel, limits=limits, legacy=legacy is not Switch.off)
        return
    server.run(
        host=host,
        port=port,
        path=path,
        origins=origin or (),
        hosts=public_host,
        limits=limits,
        workers=workers,
        legacy=None if legacy is None else legacy is Switch.on,
        engine=engine,
        access_log=access_log,
    )


def _limits(limits: ServerLimits, **given: Any) -> ServerLimits:
    """Change the limits that were given."""
    return replace(limits, **{name: value for name, value in given.items() if value is not None})
