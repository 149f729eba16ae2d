"""`mcpost gateway`: serve by a policy, check it, and say how it decides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from mcpost.cli.gateway_run import Verbs, add_to
from mcpost.errors import PolicyError, UsageError
from mcpost.gateway.decide import Principal, Verdict, read_facts
from mcpost.gateway.explain import explain as explain_policy
from mcpost.gateway.match import with_caller
from mcpost.gateway.policy import Listener, Policy
from mcpost.gateway.policy_read import read_policy

__all__ = ("gateway", "load_policy")

gateway = typer.Typer(
    cls=Verbs,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Serve by a policy, check it, or ask how it decides.",
)

File = Annotated[Path, Argument(help="The policy, a TOML file.", show_default=False)]


def load_policy(path: Path) -> Policy:
    """Read a policy from its file.

    Raises:
        PolicyError: It cannot be read, or is wrong.
    """
    try:
        return read_policy(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise PolicyError(error.strerror or "cannot be read", file=str(path)) from None
    except UnicodeDecodeError:
        raise PolicyError("is no UTF-8 text", file=str(path)) from None


add_to(gateway, load_policy)


@gateway.command()
def check(policy: File) -> None:
    """Check a policy; the exit status is 1 if it is wrong."""
    found = load_policy(policy)
    for warned in found.warnings:
        print(f"{policy}:{warned.line}: warning: {warned.key} {warned.message}")
    counts = f"{len(found.rules)} rules, {len(found.upstreams)} upstreams"
    if found.aggregates:
        counts += f", {len(found.aggregates)} aggregates"
    print(f"{policy}: {counts}; what no rule decides is {_PAST[found.default]}")


@gateway.command()
def explain(
    policy: File,
    header: Annotated[
        list[str], Option("--header", "-H", help="A header line of the request: 'Name: value'.")
    ] = [],  # noqa: B006
    client: Annotated[str | None, Option(help="Address of the client.")] = None,
    principal: Annotated[str | None, Option(help="Name of the caller.")] = None,
    claim: Annotated[list[str], Option(help="A claim of the caller: name=value.")] = [],  # noqa: B006
    listener: Annotated[str | None, Option(help="Name of the listener it comes in by.")] = None,
) -> None:
    """Say which rule decides a request, and why the others do not."""
    found = load_policy(policy)
    lines = [_split(line, ":") for line in header]
    claims = dict(_split(each, "=") for each in claim)
    caller = Principal(principal or "", claims) if principal or claims else None
    # As it stands in UTF-8 on the command line, so the bytes would go out.
    raw = [(name.lower().encode(), value.encode()) for name, value in lines]
    facts = with_caller(read_facts(raw, client, caller), found.principals)
    verdict, steps = explain_policy(found, facts, listener=_find_listener(found, listener))
    for step in steps:
        mark = "*" if step.matched else "-"
        print(f"{mark} {policy}:{step.rule.line} {step.rule.id} ({step.rule.action}): {step.why}")
    print(_describe(verdict))


_PAST = {"allow": "allowed", "deny": "denied"}


def _split(text: str, mark: str) -> tuple[str, str]:
    name, found, value = text.partition(mark)
    if not found or not name.strip():
        raise UsageError(f"{text!r} is not 'name{mark}value'")
    return name.strip(), value.strip(" \t")


def _find_listener(policy: Policy, name: str | None) -> Listener | None:
    if name is None:
        return None
    for listener in policy.listeners:
        if listener.name == name:
            return listener
    raise UsageError(f"the policy has no listener {name!r}")


def _describe(verdict: Verdict) -> str:
    rule = f" by {verdict.rule}" if verdict.rule else ""
    if verdict.action != "allow":
        status = f" {verdict.status}" if verdict.action != "inspect" else ""
        return f"{verdict.action}{rule}:{status} {verdict.reason}"
    target = f"{verdict.upstream} {verdict.endpoint or ''}".rstrip()
    charged = "".join(f"; charges {c.rule}[{c.key}]" for c in verdict.charges)
    return f"allow{rule}: to {target}{charged}"
