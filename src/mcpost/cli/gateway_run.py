"""`mcpost gateway POLICY`: run a gateway until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import ssl
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option
from typer.core import TyperGroup

from mcpost.errors import UsageError
from mcpost.gateway.access_log import AccessLog
from mcpost.gateway.policy import Policy
from mcpost.gateway.run import GatewayProcess, Running, split_address
from mcpost.gateway.settings import GatewaySettings

__all__ = ("Verbs", "add_to")

_DEFAULTS = GatewaySettings()


class Verbs(TyperGroup):
    """Takes what is no verb for a policy to run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the verb that is left out."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args.insert(0, "run")
        return super().parse_args(ctx, args)


def add_to(group: typer.Typer, load_policy: Callable[[Path], Policy]) -> None:
    """Add the verbs `run` and `demo`.

    Args:
        group: The verbs of `mcpost gateway`.
        load_policy: Reads a policy, or raises what is wrong with it.
    """
    group.command("demo")(_demo)

    @group.command()
    def run(
        policy: Annotated[Path, Argument(help="The policy, a TOML file.", show_default=False)],
        admin: Annotated[
            str, Option(help="host:port of the live page, /metrics and health; empty for none.")
        ] = "127.0.0.1:9464",
        access_log: Annotated[
            str, Option(help="File for a JSON line a request; - is standard error.")
        ] = "",
        certificate: Annotated[
            Path | None, Option(help="TLS certificate chain (PEM) for clients.")
        ] = None,
        key: Annotated[Path | None, Option(help="Its private key (PEM).")] = None,
        upstream_ca: Annotated[
            Path | None, Option(help="Authorities (PEM) for https upstreams; else the system's.")
        ] = None,
        connect_timeout: Annotated[
            float, Option(help="Seconds for a connection to an upstream.")
        ] = _DEFAULTS.connect_timeout,
        head_timeout: Annotated[
            float, Option(help="Seconds to the head of an answer.")
        ] = _DEFAULTS.head_timeout,
        idle_timeout: Annotated[
            float, Option(help="Seconds of silence in a stream.")
        ] = _DEFAULTS.idle_timeout,
        total_timeout: Annotated[float | None, Option(help="Seconds for a request.")] = None,
        max_body: Annotated[int, Option(help="Bytes of a request body.")] = _DEFAULTS.max_body,
        drain_grace: Annotated[
            float, Option(help="Seconds that running requests get after SIGTERM.")
        ] = _DEFAULTS.grace,
        watch: Annotated[
            float, Option(help="Seconds between two looks at the policy for changes; 0 for none.")
        ] = _DEFAULTS.watch,
        trust_forwarded: Annotated[
            bool, Option("--trust-forwarded", help="Keep what clients say of earlier hops.")
        ] = False,
    ) -> None:
        """Run a gateway until SIGTERM or Ctrl-C; SIGHUP, or a change, reads the policy again."""
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
        settings = GatewaySettings(
            connect_timeout=connect_timeout,
            head_timeout=head_timeout,
            idle_timeout=idle_timeout,
            total_timeout=total_timeout,
            max_body=max_body,
            grace=drain_grace,
            watch=watch,
            trusts_forwarded=trust_forwarded,
            upstream_tls=_upstream_tls(upstream_ca),
        )
        tls, log = _client_tls(certificate, key), _open_log(access_log)
        make = partial(
            Running, partial(load_policy, policy), settings, tls=tls, log=log, file=policy
        )
        where = split_address(admin) if admin else None
        GatewayProcess(make, where, drain_grace).serve_until_signal(_announce)


def _demo() -> None:
    """Show a call under another name, and who stops it."""
    # The other verbs need no server.
    from mcpost.cli.gateway_demo import demo

    demo()


def _announce(running: Running) -> None:
    for each in running.listeners:
        print(running.url(each), flush=True)
    if running.admin is not None:
        print(f"admin: http://127.0.0.1:{running.admin.port}/", file=sys.stderr, flush=True)


def _open_log(path: str) -> AccessLog | None:
    if not path:
        return None
    if path == "-":
        return AccessLog(sys.stderr.buffer.write)
    try:
        # Line by line: whoever follows the file sees each request when it ends.
        return AccessLog(Path(path).open("ab", buffering=0).write)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _client_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        if key is not None:
            raise UsageError("a key needs its certificate")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise UsageError(f"{certificate} cannot be used: {error}") from None
    return context


def _upstream_tls(authorities: Path | None) -> ssl.SSLContext | None:
    if authorities is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(authorities))
    except OSError as error:
        raise UsageError(f"{authorities} cannot be used: {error}") from None
