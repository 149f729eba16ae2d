"""What holds of every verdict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpost.gateway.decide import decide, read_facts
from mcpost.gateway.explain import explain
from mcpost.gateway.policy_read import read_policy
from mcpost.gateway.shard import pick
from mcpost.wire.fields import encode_value

POLICY = read_policy("""
[upstreams.a]
endpoints = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"]
[[rules]]
action = "deny"
name = "adm*"
[[rules]]
action = "allow"
name = ["search", "日本"]
param.Region = ["eu", "us"]
shard = "param.Region"
""")
VALUES = st.one_of(
    st.sampled_from([b"search", b"admin", b"eu", b"tools/call", b"2026-07-28", b"=?base64?ZXU=?="]),
    st.binary(max_size=12),
    st.text(max_size=6).map(lambda text: encode_value(text).encode()),
)
NAMES = st.sampled_from(
    [b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"mcp-param-region", b"mcp-param-x", b"x"]
)
HONEST = [(b"mcp-protocol-version", b"2026-07-28"), (b"mcp-method", b"tools/call")]


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.booleans())
def test_any_head_has_one_verdict_and_one_explanation(
    lines: list[tuple[bytes, bytes]], honest: bool
) -> None:
    lines = [*HONEST, *lines] if honest else lines
    verdict = decide(POLICY, read_facts(lines))
    again = explain(POLICY, read_facts(lines)).verdict
    assert verdict[:6] == again[:6]
    if verdict.action == "allow":
        assert len({n for n, _ in lines if n != b"x" and n != b"mcp-param-x"}) == 4


@given(st.text(max_size=20))
def test_a_name_is_known_in_whatever_form_it_comes(name: str) -> None:
    lines = [*HONEST, (b"mcp-name", encode_value(name).encode()), (b"mcp-param-region", b"eu")]
    verdict = decide(POLICY, read_facts(lines))
    assert verdict.action == ("allow" if name in ("search", "日本") else "deny")


@given(st.text(max_size=10), st.sets(st.text(min_size=1, max_size=5), min_size=2, max_size=6))
def test_only_the_keys_of_an_endpoint_that_leaves_move(key: str, names: set[str]) -> None:
    endpoints = tuple(sorted(names))
    chosen = pick(key, endpoints)
    for gone in endpoints:
        left = tuple(endpoint for endpoint in endpoints if endpoint != gone)
        assert pick(key, endpoints, {gone}) == pick(key, left)
        assert chosen == gone or pick(key, left) == chosen
