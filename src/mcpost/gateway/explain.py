"""Why a verdict is as it is: every rule, and why it matched or did not."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from mcpost.errors import HeaderMismatch
from mcpost.gateway.decide import DEFAULT, Verdict, decide
from mcpost.gateway.match import Facts, why_not
from mcpost.gateway.policy import Listener, Policy, Rule

__all__ = ("Explained", "Step", "explain")


class Step(NamedTuple):
    """What one rule made of a request."""

    rule: Rule
    matched: bool
    why: str


class Explained(NamedTuple):
    """A verdict and the way to it."""

    verdict: Verdict
    steps: tuple[Step, ...]


def explain(
    policy: Policy,
    facts: Facts,
    *,
    listener: Listener | None = None,
    down: Collection[str] = (),
) -> Explained:
    """Decide as `decide` does, and say of every rule why it matched or did not.

    Args:
        policy: The rules.
        facts: What `read_facts` made of the head.
        listener: Where the request came in.
        down: Endpoints that take no calls now.
    """
    verdict = decide(policy, facts, listener=listener, down=down)
    if verdict.action in ("refuse", "inspect"):
        return Explained(verdict, tuple(Step(rule, False, "not asked") for rule in policy.rules))
    steps: list[Step] = []
    decided = False
    for rule in policy.rules:
        if decided:
            steps.append(Step(rule, False, "an earlier rule has decided"))
            continue
        try:
            unmet = why_not(rule, facts)
        except HeaderMismatch as error:
            unmet = error.message
        decided = unmet is None and rule.id == verdict.rule != DEFAULT
        said = "decides" if decided else "charges its quota and goes on"
        steps.append(Step(rule, unmet is None, said if unmet is None else unmet))
    return Explained(verdict, tuple(steps))
