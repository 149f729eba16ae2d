"""The gateway over sockets, `decide`, and real Envoy and nginx by its export: one verdict."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, event, example, given, settings

from mcpost.errors import InvalidRequest
from mcpost.gateway.decide import Verdict, decide, read_facts
from mcpost.gateway.export.settings import ExportSettings
from mcpost.gateway.policy import Policy
from mcpost.gateway.policy_read import read_policy
from mcpost.gateway.settings import GatewaySettings
from tests.e2e.gateway.engines import (
    Caller,
    Reply,
    run_exported,
    run_gateway,
    serve_echoes,
)
from tests.e2e.gateway.heads import CALL, SENT, VERSION, Sent, expect, is_stricter
from tests.helpers.ports import free_port
from tests.unit.http11.sockets import make_certificate

# A run by hand may take more: MCPOST_EXAMPLES=20000.
EXAMPLES = int(os.environ.get("MCPOST_EXAMPLES", "2000"))

RULES = """
[[rules]]
id = "no-admin"
action = "deny"
status = 451
message = "not \\"here\\", $host"
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
action = "route"
upstream = "other"
method = "resources/read"
shard = "name"
rate = { requests = 1000000, per = 1 }
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
# What nginx cannot say: whether a header is there.
PRESENT = """
[[rules]]
action = "deny"
status = 411
param.Region = { present = true }
[[rules]]
action = "allow"
name = "open"
param.Shard = { present = false }
"""
POLICIES = {
    "deny": ('upstream = "books"\n', RULES),
    "allow": ('upstream = "books"\ndefault = "allow"\n', RULES),
    "present": ('upstream = "books"\n', PRESENT + RULES),
    # No upstream for what no rule routes, and no rule that reads a name.
    "few": ("", '[[rules]]\naction = "route"\nupstream = "other"\nparam.Size = 8\n'),
}


class Site:
    """The gateway and the engines in front of the same upstreams."""

    def __init__(self, policy: Policy, callers: dict[str, Caller], ports: list[int]) -> None:
        self.policy = policy
        self.callers = callers
        self.upstream_of = {
            ports[0]: "books",
            ports[1]: "books",
            ports[2]: "other",
            ports[3]: "other",
        }
        self.endpoint_of: dict[tuple[str, str, bytes], int] = {}
        """Where an engine has sent a key."""


@pytest.fixture(scope="module", params=POLICIES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    where = tmp_path_factory.mktemp("engines")
    certificate, key = make_certificate(where)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))
    top, rules = POLICIES[request.param]
    with ExitStack() as stack:
        plain = stack.enter_context(serve_echoes(2))
        secure = stack.enter_context(serve_echoes(2, serving))

        def write(port: int) -> Policy:
            return read_policy(f"""
{top}
[[listeners]]
bind = "127.0.0.1:{port}"
[upstreams.books]
endpoints = ["http://127.0.0.1:{plain[0]}/mcp", "http://127.0.0.1:{plain[1]}/mcp"]
[upstreams.other]
endpoints = ["https://localhost:{secure[0]}/up/mcp", "https://localhost:{secure[1]}/up/mcp"]
audience = true
{rules}
""")

        own = run_gateway(write(0), GatewaySettings(upstream_tls=trusting))
        callers = {"gateway": Caller(stack.enter_context(own))}
        for kind in ("envoy",) if request.param == "present" else ("envoy", "nginx"):
            policy = write(free_port())
            exported = ExportSettings(authorities=str(certificate))
            run = run_exported(kind, policy, where / kind, exported)
            callers[kind] = Caller(stack.enter_context(run).port)
        for caller in callers.values():
            stack.callback(caller.close)
        yield Site(write(0), callers, plain + secure)


@pytest.mark.req("H-07/G", "H-09/G", "H-10/G", "H-11/G", "H-13/G", "T-22/G")
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sent=SENT)
@example(sent=Sent([VERSION, CALL, (b"mcp-name", b"a,b")]))
@example(sent=Sent([VERSION, CALL, (b"mcp-name", b"a"), (b"mcp-name", b"b")]))
@example(sent=Sent([VERSION, CALL, (b"mcp-name", b"none"), (b"mcp-name", b"admin")]))
@example(sent=Sent([VERSION, CALL, (b"mcp-name", b"\tadmin")]))
@example(sent=Sent([VERSION, CALL, (b"mcp-name", b"admin\t")]))
@example(sent=Sent([VERSION, CALL, (b"mcp-name", b"none"), (b"mcp-param-size", b"\t42")]))
def test_the_gateway_and_the_engines_give_one_verdict(site: Site, sent: Sent) -> None:
    event(expect(site.policy, sent).action)
    for kind, caller in site.callers.items():
        reply = caller.send(sent.lines, method=sent.method, target=sent.target)
        # Envoy takes away what `Connection` names, and decides on what is left.
        seen = sent.without_named() if kind == "envoy" else sent
        check_arrived(site, kind, reply, seen)
        check_verdict(site, kind, reply, seen)


def check_verdict(site: Site, kind: str, reply: Reply, sent: Sent) -> None:
    """The answer is the verdict's, or a refusal where an engine is known to be stricter."""
    verdict = expect(site.policy, sent)
    is_read = verdict.status not in (404, 405)
    if kind != "gateway" and is_read and is_stricter(kind, site.policy, sent):
        assert (reply.status, reply.served_by) == (400, None), (kind, reply)
        return
    assert reply.status == verdict.status, (kind, verdict, reply)
    assert site.upstream_of.get(reply.served_by or 0) == verdict.upstream, kind
    if verdict.action == "allow":
        check_shard(site, kind, reply, sent, verdict)
    elif sent.method != b"HEAD":
        assert reply.headers["mcpost-gateway"] == "refused", kind
        assert reply.code == (verdict.error or InvalidRequest).code, kind


def check_arrived(site: Site, kind: str, reply: Reply, sent: Sent) -> None:
    """What reached an upstream is what was sent, and the gateway would let it through as well."""
    if reply.served_by is None:
        return
    upstream = site.upstream_of[reply.served_by]
    if sent.method == b"POST":
        again = decide(site.policy, read_facts(reply.saw))
        assert (again.action, again.upstream) == ("allow", upstream), kind
    arrived = dict(reply.saw)
    assert [v for n, v in reply.saw if n == b"x-forwarded-for"] == [b"127.0.0.1"]
    assert (arrived[b"x-forwarded-host"], arrived[b"x-forwarded-proto"]) == (b"gateway", b"http")
    assert b"10.0.0.1" not in arrived.get(b"forwarded", b"")
    assert arrived.get(b"x-mcpost-checked", b"1") != b"plain" or kind != "envoy"
    fields = sent.fields()
    is_audience = upstream == "other" and (b"authorization", b"Bearer x") in fields
    assert (b"authorization" in arrived) is is_audience
    through = {n for n, _ in fields if n.startswith(b"mcp-") or n in (b"accept", b"x-long")}
    through.add(b"content-type")
    assert sorted(f for f in reply.saw if f[0] in through) == sorted(
        f for f in fields if f[0] in through
    ), kind


def check_shard(site: Site, kind: str, reply: Reply, sent: Sent, verdict: Verdict) -> None:
    """The same key keeps its endpoint."""
    rule = next((each for each in site.policy.rules if each.id == verdict.rule), None)
    if rule is None or not rule.shard:
        return
    header = b"mcp-name" if rule.shard == "name" else b"mcp-param-shard"
    key = dict(sent.fields()).get(header)
    if key is None:
        return
    assert reply.served_by is not None
    place = (kind, rule.id, key)
    assert site.endpoint_of.setdefault(place, reply.served_by) == reply.served_by


# What no client sends, and who wants to get past a rule may.

HEAD = b"POST /mcp HTTP/1.1\r\nhost: gateway\r\n"
CALLS = b"mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n"
EMPTY = b"content-length: 0\r\n\r\n"
ODD = {
    "blank before the colon": HEAD + CALLS + b"mcp-name : admin\r\nmcp-name: x\r\n" + EMPTY,
    "folded": HEAD + CALLS + b"mcp-name: x\r\n admin\r\n" + EMPTY,
    "folded at once": HEAD + CALLS + b"mcp-name:\r\n admin\r\n" + EMPTY,
    "nul": HEAD + CALLS + b"mcp-name: admin\0\r\n" + EMPTY,
    "vertical tab": HEAD + CALLS + b"mcp-name: \x0badmin\r\n" + EMPTY,
    "next line": HEAD + CALLS + b"mcp-name: \x85admin\r\n" + EMPTY,
    "carriage return": HEAD + CALLS + b"mcp-name: x\rmcp-name: admin\r\n" + EMPTY,
    "line feeds": (HEAD + CALLS + b"mcp-name: admin\r\n" + EMPTY).replace(b"\r\n", b"\n"),
    "underscore": HEAD + CALLS + b"mcp_name: admin\r\nmcp-name: x\r\n" + EMPTY,
    "no colon": HEAD + CALLS + b"mcp-name\r\nmcp-name: admin\r\n" + EMPTY,
    "absolute form": b"POST http://gateway/mcp HTTP/1.1\r\nhost: gateway\r\n"
    + CALLS
    + b"mcp-name: admin\r\n"
    + EMPTY,
    "two hosts": HEAD + b"host: other\r\n" + CALLS + b"mcp-name: x\r\n" + EMPTY,
    "two lengths": HEAD + CALLS + b"mcp-name: x\r\ncontent-length: 5\r\n" + EMPTY + b"hello",
    "length and chunks": HEAD
    + CALLS
    + b"mcp-name: x\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "many lines": HEAD + CALLS + b"a: b\r\n" * 200 + b"mcp-name: admin\r\n" + EMPTY,
    "lower-case method": b"post" + HEAD[4:] + CALLS + b"mcp-name: admin\r\n" + EMPTY,
    "an earlier HTTP": HEAD.replace(b"1.1", b"1.0") + CALLS + b"mcp-name: admin\r\n" + EMPTY,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
}


@pytest.mark.req("H-13/G", "T-22/G")
@pytest.mark.parametrize("name", ODD)
def test_odd_bytes_lead_nobody_past_a_rule(site: Site, name: str) -> None:
    for kind, caller in site.callers.items():
        caller.close()
        try:
            reply = caller.send_raw(ODD[name])
        except (AssertionError, ConnectionError):
            continue  # closed without an answer
        finally:
            caller.close()
        if reply.served_by is None:
            assert reply.status >= 400, kind
            continue
        again = decide(site.policy, read_facts(reply.saw))
        assert (again.action, again.upstream) == ("allow", site.upstream_of[reply.served_by]), kind


def test_encoded_bytes_that_are_no_text_are_the_servers_to_refuse(site: Site) -> None:
    """No rule reads the name: the engines send it on as it is, the gateway has looked at it."""
    sent = Sent([VERSION, CALL, (b"mcp-name", b"=?base64?/w==?="), (b"mcp-param-size", b"8")])
    reads = any(rule.names for rule in site.policy.rules)
    for kind, caller in site.callers.items():
        reply = caller.send(sent.lines)
        assert reply.status == (400 if reads or kind == "gateway" else 200), kind
        assert reply.served_by is None or sent.lines[2] in reply.saw


@pytest.mark.req("T-22/G")
def test_a_second_request_of_a_connection_is_decided_on_by_itself(site: Site) -> None:
    for kind, caller in site.callers.items():
        for name in (b"search", b"admin.x") * 2:
            sent = Sent([VERSION, CALL, (b"mcp-name", name)])
            check_verdict(site, kind, caller.send(sent.lines), sent)
