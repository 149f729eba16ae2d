"""Callers that are known by their API keys."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from mcpost.errors import PolicyError
from mcpost.gateway.decide import read_facts
from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.match import with_caller
from mcpost.gateway.policy_read import read_policy
from tests.e2e.gateway.gateways import opened, small
from tests.helpers.http import body, lines, post
from tests.helpers.loop import run
from tests.helpers.raw import connect

ACME, OTHER = "acme-key-0123456789", "other-key-0123456789"


def digest(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"


HEAD = """
default = "deny"
upstream = "here"
[[listeners]]
name = "main"
bind = "127.0.0.1:0"
[upstreams.here]
endpoints = ["http://127.0.0.1:{port}/mcp"]
"""
WHO = f"""
[principals.acme]
api_key = "{digest(ACME)}"
claims = {{ tier = "gold" }}
[principals.other]
api_key = ["{digest(OTHER)}", "{digest("second")}"]
"""
RULES = """
[[rules]]
id = "gold"
action = "allow"
claim.tier = "gold"
rate = { requests = 1, per = 1000, burst = 2, key = "principal" }
[[rules]]
id = "known"
action = "deny"
principal = "other"
status = 451
message = "not you"
"""


def ask(*keys: str) -> bytes:
    sent = body("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    return post(sent, lines("tools/call", "add", *(("x-api-key", key) for key in keys)))


def test_a_key_makes_a_principal_for_rules_rates_and_the_log() -> None:
    async def scenario() -> tuple[list[int], list[Any]]:
        async with small() as port:
            policy = read_policy(HEAD.format(port=port) + WHO + RULES)
            async with opened(policy) as gateway, connect(gateway.port) as raw:
                found = []
                for keys in (
                    (ACME,),
                    (OTHER,),
                    ("second",),
                    ("nobody's",),
                    (),
                    (ACME, ACME),
                    (ACME, ACME, ACME),
                    (ACME,),
                    (ACME,),
                ):
                    await raw.ask(ask(*keys))
                    found.append(raw.status)
                return found, [json.loads(line) for line in gateway.lines]

    found, logged = run(scenario())

    assert found == [200, 451, 451, 403, 403, 403, 403, 200, 429]
    assert [each.get("principal") for each in logged] == [
        "acme",
        "other",
        "other",
        None,
        None,
        None,
        None,
        "acme",
        "acme",
    ]
    assert ACME not in json.dumps(logged)


@pytest.mark.parametrize("count", range(6))
def test_of_several_keys_none_counts(count: int) -> None:
    policy = read_policy(HEAD.format(port=1) + WHO + RULES)
    facts = with_caller(read_facts([(b"x-api-key", ACME.encode())] * count), policy.principals)

    assert (facts.principal is not None) is (count == 1)


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("[principals.a]\n", "principals.a.api_key", "is needed"),
        ('[principals.a]\napi_key = "secret"\n', "principals.a.api_key", "sha256:"),
        (
            f'[principals.a]\napi_key = "{digest(ACME)}"\n' * 1
            + f'[principals.b]\napi_key = "{digest(ACME)}"\n',
            "principals.b.api_key",
            "'a' already",
        ),
        (
            f'[principals.a]\napi_key = "{digest(ACME)}"\nclaims = {{ n = 1 }}\n',
            "principals.a.claims.n",
            "text",
        ),
        (
            f'[principals.a]\napi_key = "{digest(ACME)}"\nkey = "x"\n',
            "principals.a.key",
            "not known",
        ),
    ],
)
def test_a_mistake_is_told_by_its_key(text: str, key: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says) as caught:
        read_policy(HEAD.format(port=1) + text)

    assert caught.value.key == key
    assert caught.value.line


def test_an_export_refuses_principals_by_name() -> None:
    with pytest.raises(PolicyError, match="principals"):
        to_envoy(read_policy(HEAD.format(port=1) + WHO))
