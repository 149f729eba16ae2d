"""What an engine cannot express."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import field, fields, make_dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.errors import PolicyError
from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.export.known import CONSIDERED
from mcpost.gateway.export.nginx import to_nginx
from mcpost.gateway.export.settings import ExportSettings
from mcpost.gateway.policy import (
    Cap,
    Listener,
    ParamTest,
    Pattern,
    Policy,
    Rate,
    Rule,
    Upstream,
)
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


@pytest.mark.parametrize("engine", ["Envoy", "nginx"])
@pytest.mark.parametrize(
    ("plain", "odd", "key"),
    [
        ("[[listeners]]", "[[listeners]]\npath = '/a b'", r"listeners\[0\]\.path"),
        ("[[listeners]]", "[[listeners]]\npath = '/a\"; b'", r"listeners\[0\]\.path"),
        ("[[listeners]]", "[[listeners]]\npath = '/$host'", r"listeners\[0\]\.path"),
        ("example.com/mcp", "example.com/$host", r"upstreams\.a\.endpoints"),
        ("a.example.com", "user:pass@a.example.com", r"upstreams\.a\.endpoints"),
        ("a.example.com", "a;b", r"upstreams\.a\.endpoints"),
    ],
)
def test_what_an_engine_would_read_as_more_than_a_name_is_an_error(
    plain: str, odd: str, key: str, engine: str
) -> None:
    text = TOP.replace(plain, odd).replace("health", "#")
    with pytest.raises(PolicyError, match=rf"{key} cannot be said to {engine}: .* has more than"):
        EXPORTS[engine](read_policy(text))


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
        'action = "deny"\nname = "a, b"',
        'action = "deny"\nparam.City = "a, b"',
        f'action = "deny"\nname = "{"n" * 5000}"',
        f'action = "deny"\nmessage = "{"n" * 5000}"',
    ],
)
def test_a_rule_that_nginx_cannot_express_is_an_error_that_names_it(condition: str) -> None:
    policy = read_policy(f'{TOP}[[rules]]\nid = "mine"\n{condition}\n', "p.toml")
    with pytest.raises(PolicyError, match=r"p\.toml:8 rules\[0\] 'mine' cannot be said to nginx"):
        to_nginx(policy)


def test_nginx_asks_no_endpoint_for_its_health() -> None:
    with pytest.raises(PolicyError, match=r"upstreams\.a\.health"):
        to_nginx(read_policy(TOP))


def test_a_name_is_no_address_for_envoy() -> None:
    with pytest.raises(PolicyError, match=r"listeners\[0\]\.bind .*'localhost' is a name"):
        to_envoy(read_policy(TOP.replace("127.0.0.1:8080", "localhost:8080")))


def test_another_endpoint_is_asked_only_where_no_connection_stood() -> None:
    text = TOP.replace('mcp"]', 'mcp", "https://a.example.com:8443/mcp"]').replace("health", "#")
    policy = read_policy(f'{text}[[rules]]\naction = "allow"\n')
    assert '"retry_on": "connect-failure"' in json.dumps(to_envoy(policy))
    assert "proxy_next_upstream error timeout;" in to_nginx(policy)


def test_bounds_are_those_of_the_gateway_unless_others_are_given() -> None:
    policy = read_policy(f'{TOP.replace("health", "#")}[[rules]]\naction = "allow"\n')
    assert "client_max_body_size 4194304;" in to_nginx(policy)
    settings = ExportSettings(idle_timeout=1.5, max_body=9, authorities="/ca", certificate="/c")
    text = to_nginx(policy, settings)
    assert "proxy_read_timeout 1500ms;" in text
    assert "client_max_body_size 9;" in text
    assert 'proxy_ssl_trusted_certificate "/ca";' in text
    assert 'ssl_certificate_key "/c";' in text
    text = json.dumps(to_envoy(policy, settings))
    assert '"idle_timeout": "1.5s"' in text
    assert '"max_request_bytes": 9' in text
    assert '"trusted_ca": {"filename": "/ca"}' in text
    assert '"private_key": {"filename": "/c"}' in text


# Whatever a policy can say, an export expresses or refuses by its name.

EXPORTS = {"Envoy": to_envoy, "nginx": to_nginx}
BASE = read_policy(
    """
upstream = "a"
[[listeners]]
bind = "127.0.0.1:8080"
[upstreams.a]
endpoints = ["http://a/mcp", "http://b/mcp"]
[[rules]]
action = "allow"
method = "tools/call"
name = "x"
param.Region = ["eu"]
rate = { requests = 60, per = 60 }
"""
)
RULE = BASE.rules[0]


def with_rule(rule: Any) -> Policy:
    return replace(BASE, rules=(rule,))


def place(part: Any) -> Policy:
    """The policy with another part in its place."""
    kind = next(kind for kind in CONSIDERED if isinstance(part, kind))
    found: dict[type, Callable[[], Policy]] = {
        Policy: lambda: part,
        Listener: lambda: replace(BASE, listeners=(part,)),
        Upstream: lambda: replace(BASE, upstreams={"a": part}),
        Rule: lambda: with_rule(part),
        Pattern: lambda: with_rule(replace(RULE, names=(part,))),
        ParamTest: lambda: with_rule(replace(RULE, params=(part,))),
        Rate: lambda: with_rule(replace(RULE, rate=part)),
        Cap: lambda: with_rule(replace(RULE, cap=part)),
    }
    return found[kind]()


PARTS: dict[type, Any] = {
    Policy: BASE,
    Listener: BASE.listeners[0],
    Upstream: BASE.upstreams["a"],
    Rule: RULE,
    Pattern: RULE.names[0],
    ParamTest: RULE.params[0],
    Rate: RULE.rate,
    Cap: Cap(1),
}


@pytest.mark.parametrize("engine", EXPORTS)
@pytest.mark.parametrize("kind", CONSIDERED, ids=lambda kind: kind.__name__)
def test_a_key_that_no_export_has_heard_of_is_an_error_that_names_it(
    kind: type, engine: str
) -> None:
    part = PARTS[kind]
    wider = make_dataclass(
        "Wider", [("novelty", object, field(default=None))], bases=(kind,), frozen=True, slots=True
    )
    values = {each.name: getattr(part, each.name) for each in fields(part)}

    if kind is not Cap:
        EXPORTS[engine](place(wider(**values)))  # what is not set is no gap
    with pytest.raises(PolicyError, match=rf"novelty cannot be said to {engine}: its export"):
        EXPORTS[engine](place(wider(**values, novelty="set")))


@pytest.mark.parametrize("engine", EXPORTS)
def test_each_key_of_a_policy_that_is_not_considered_is_refused(engine: str) -> None:
    for kind, considered in CONSIDERED.items():
        for each in fields(kind):
            if each.name not in considered:
                said = rf"{each.name} cannot be said to {engine}: its export"
                with pytest.raises(PolicyError, match=said):
                    EXPORTS[engine](place(replace(PARTS[kind], **{each.name: object()})))


def test_what_is_considered_is_there() -> None:
    for kind, names in CONSIDERED.items():
        assert names <= {each.name for each in fields(kind)}


def test_a_shared_cache_is_not_said_to_an_engine() -> None:
    text = TOP.replace('health = "/up"', "cache = true")
    for engine, write in EXPORTS.items():
        with pytest.raises(PolicyError, match=rf"upstreams\.a\.cache cannot be said to {engine}"):
            write(read_policy(f'{text}[[rules]]\naction = "allow"\n'))


@given(st.integers(0, 3), st.integers(0, 40), st.integers(0, 9))
def test_an_nginx_that_takes_the_first_of_two_lines_is_told_by_its_version(
    major: int, minor: int, patch: int
) -> None:
    case = next(line for line in to_nginx(BASE).splitlines() if r"2[0-2]" in line)
    regex = case.split('"')[1].removeprefix("~").replace("\\\\", "\\")
    is_old = (major, minor) < (1, 23)
    assert (re.match(regex, f"{major}.{minor}.{patch}") is not None) is is_old
