"""What an engine cannot express."""

from __future__ import annotations

import json

import pytest

from mcpost.errors import PolicyError
from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.export.nginx import to_nginx
from mcpost.gateway.policy_read import read_policy

TOP = """
upstream = "a"
[[listeners]]
bind = "127.0.0.1:8080"
[upstreams.a]
endpoints = ["https://a.example.com/mcp"]
health = "/up"
"""


@pytest.mark.parametrize(
    "condition",
    [
        'action = "allow"\nprincipal = "ann"',
        'action = "allow"\nclaim.t = "a"',
        f'action = "allow"\napi_key = "sha256:{"0" * 64}"',
        'action = "allow"\nclient = "10.0.0.0/8"',
        'action = "allow"\nlegacy = "inspect"',
        'action = "allow"\nconcurrent = { limit = 1 }',
        'action = "allow"\nrate = { requests = 1, key = "client" }',
        'action = "limit"\nrate = { requests = 1 }',
        'action = "allow"\nshard = "claim.t"',
        'action = "deny"\nname = "日本"',
        'action = "deny"\nparam.City = " x"',
    ],
)
def test_a_rule_that_envoy_cannot_express_is_an_error_that_names_it(condition: str) -> None:
    policy = read_policy(f'{TOP}[[rules]]\nid = "mine"\n{condition}\n', "p.toml")
    with pytest.raises(PolicyError, match=r"p\.toml:8 rules\[0\] 'mine' cannot be said to Envoy"):
        to_envoy(policy)


@pytest.mark.parametrize("top", ['legacy = "inspect"', 'verify = "body"'])
def test_reading_bodies_is_an_error(top: str) -> None:
    with pytest.raises(PolicyError, match="does not read bodies"):
        to_envoy(read_policy(top + TOP))


def test_no_listener_is_an_error() -> None:
    with pytest.raises(PolicyError, match="where to listen"):
        to_envoy(read_policy('[upstreams.a]\nendpoints = ["http://a/"]'))


def test_endpoints_with_two_paths_are_an_error() -> None:
    text = TOP.replace('mcp"]', 'mcp", "https://a.example.com/other"]')
    with pytest.raises(PolicyError, match="one path"):
        to_envoy(read_policy(text))


def test_streams_have_no_total_timeout_and_nothing_is_sent_twice() -> None:
    text = json.dumps(to_envoy(read_policy(f'{TOP}[[rules]]\naction = "allow"\n')))
    assert '"timeout": "0s"' in text
    assert '"idle_timeout": "300s"' in text
    assert "retry_policy" not in text


def test_a_certificate_is_checked_against_the_name() -> None:
    text = json.dumps(to_envoy(read_policy(f'{TOP}[[rules]]\naction = "allow"\n')))
    assert '"sni": "a.example.com"' in text
    assert '"match_typed_subject_alt_names"' in text


def test_a_rate_becomes_a_bucket_that_fills_as_fast() -> None:
    rule = '[[rules]]\naction = "allow"\nrate = { requests = 100, per = 1, burst = 20 }\n'
    text = json.dumps(to_envoy(read_policy(TOP + rule)))
    bucket = '{"max_tokens": 20, "tokens_per_fill": 5, "fill_interval": "0.050000000s"}'
    assert bucket in text


@pytest.mark.parametrize(
    "condition",
    [
        'action = "allow"\nprincipal = "ann"',
        'action = "deny"\nparam.City = { present = true }',
        'action = "deny"\nparam.City = ""',
        'action = "deny"\nparam."a_b" = "x"',
        'action = "allow"\nrate = { requests = 1, per = 100 }',
        'action = "allow"\nshard = "claim.t"',
    ],
)
def test_a_rule_that_nginx_cannot_express_is_an_error_that_names_it(condition: str) -> None:
    policy = read_policy(f'{TOP}[[rules]]\nid = "mine"\n{condition}\n', "p.toml")
    with pytest.raises(PolicyError, match=r"p\.toml:8 rules\[0\] 'mine' cannot be said to nginx"):
        to_nginx(policy)


def test_nginx_asks_no_endpoint_for_its_health() -> None:
    with pytest.raises(PolicyError, match=r"upstreams\.a\.health"):
        to_nginx(read_policy(TOP))
