"""nginx with the exported configuration decides as we do, where it can tell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, event, example, given, settings

from mcpost.gateway.decide import decide, read_facts
from mcpost.gateway.export.nginx import to_nginx
from mcpost.gateway.policy import Policy
from mcpost.gateway.policy_read import read_policy
from tests.e2e.gateway.engines import Caller, find_port, run_engine, serve_echoes
from tests.e2e.gateway.heads import CALL, HEADS, VERSION, is_beyond

HEAD = """
daemon off; pid {where}/pid; error_log stderr error; worker_processes 1; events {{ }}
http {{ access_log off; client_body_temp_path {where}/body; proxy_temp_path {where}/proxy;
fastcgi_temp_path {where}/fcgi; uwsgi_temp_path {where}/uwsgi; scgi_temp_path {where}/scgi;
keepalive_requests 100000;
"""
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
param.Gone = "eu"
[[rules]]
action = "allow"
name = ["*a,b*", "search", "file:///a*"]
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
    """nginx, what it decides by, and a connection to it."""

    def __init__(self, policy: Policy, caller: Caller, ports: list[int]) -> None:
        self.policy = policy
        self.caller = caller
        self.upstream_of = {ports[0]: "books", ports[1]: "books", ports[2]: "other"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("there is no nginx")
    where = tmp_path_factory.mktemp("nginx")
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
        config = where / "nginx.conf"
        config.write_text(HEAD.format(where=where) + to_nginx(policy) + "}\n")
        with run_engine([nginx, "-c", str(config), "-p", str(where)], port, where / "log"):
            caller = Caller(port)
            yield Site(policy, caller, ports)
            caller.close()


def is_unseen(lines: list[tuple[bytes, bytes]]) -> bool:
    """Whether nginx cannot see how it is: a header doubled, or empty, that it decides on."""
    read = [line for line in lines if line[0] != b"mcp-param-unread"]
    return len(dict(read)) != len(read) or any(not value for _, value in read)


@pytest.mark.req("H-07/G", "H-09/G", "H-11/G", "H-13/G")
@settings(
    max_examples=4000,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=HEADS)
@example(lines=[VERSION, CALL, (b"mcp-name", b"a,b")])
def test_nginx_gives_the_same_verdict(site: Site, lines: list[tuple[bytes, bytes]]) -> None:
    verdict = decide(site.policy, read_facts(lines))
    reply = site.caller.send(lines)
    event(verdict.action)
    if is_unseen(lines):
        event("beyond nginx")
        return
    if is_beyond(lines):
        assert reply.status == 400
        return
    assert reply.status == verdict.status, (verdict, reply)
    assert site.upstream_of.get(reply.served_by or 0) == verdict.upstream
    if verdict.action == "allow":
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


@pytest.mark.parametrize("second", [b"admin.x", b"search"])
def test_of_a_doubled_name_the_upstream_sees_what_was_decided_on(site: Site, second: bytes) -> None:
    name = b"mcp-name"
    reply = site.caller.send([VERSION, CALL, (name, b"search"), (name, second)])
    # From 1.23 on nginx joins the lines, and no rule knows the joined name.
    assert (reply.status, reply.saw.split(",").count("mcp-name")) in ((200, 1), (403, 0))


def test_only_post_is_served(site: Site) -> None:
    assert site.caller.send([VERSION], method=b"DELETE").status == 405
