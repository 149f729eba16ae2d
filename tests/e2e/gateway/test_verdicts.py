"""What becomes of requests: refused, inspected, compared, limited; and policies that change."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcpost.errors import PolicyError
from mcpost.gateway.policy import Pattern, Policy, Rate, Rule
from mcpost.gateway.policy_read import read_policy
from tests.e2e.gateway.gateways import allow_all, opened, small, talking
from tests.helpers.http import body, call, lines, listen, post
from tests.helpers.loop import run
from tests.helpers.raw import connect

ADD = Rule(0, "add", 1, "allow", methods=frozenset({"tools/call"}), names=(Pattern("add"),))
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "old", "version": "1"},
}


def old(method: str, params: dict[str, Any], *more: tuple[bytes, bytes]) -> bytes:
    """A message of revision 2025-11-25."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accept = (b"accept", b"application/json, text/event-stream")
    kind = (b"content-type", b"application/json")
    return post(json.dumps(message).encode(), [(b"host", b"127.0.0.1"), kind, accept, *more])


def ask(sent: bytes, **policy: Any) -> tuple[int, dict[str, str], Any]:
    async def scenario() -> tuple[int, dict[str, str], Any]:
        async with talking(**policy) as (raw, _):
            answer = await raw.ask(sent)
            return raw.status, raw.headers, answer

    return run(scenario())


def test_what_no_rule_allows_is_refused_in_words_of_the_gateway() -> None:
    status, headers, answer = ask(call("fail"), default="deny", rules=(ADD,))

    assert (status, headers["mcpost-gateway"]) == (403, "refused")
    assert answer == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {
            "code": -32600,
            "message": "no rule allows this call",
            "data": {"gateway": "refused", "sent": "no"},
        },
    }


def test_what_a_rule_allows_passes() -> None:
    status, _, answer = ask(call("add", {"a": 1, "b": 1}), default="deny", rules=(ADD,))

    assert (status, answer["result"]["structuredContent"]) == (200, 2)


@pytest.mark.req("H-13/G")
def test_a_version_that_predates_the_check_of_headers_is_refused() -> None:
    sent = old("tools/call", {"name": "add"}, (b"mcp-protocol-version", b"2025-11-25"))

    status, headers, answer = ask(sent, legacy="refuse")

    assert (status, headers["mcpost-gateway"]) == (400, "refused")
    assert answer["error"]["code"] == -32022


@pytest.mark.req("H-13/G")
@pytest.mark.parametrize(("name", "status"), [("add", 200), ("fail", 403)])
def test_an_inspected_revision_is_decided_by_its_body_whatever_its_headers_say(
    name: str, status: int
) -> None:
    opening = Rule(0, "open", 1, "allow", methods=frozenset({"initialize"}))

    async def scenario() -> int:
        async with talking(default="deny", rules=(opening, ADD)) as (raw, _):
            await raw.ask(old("initialize", INITIALIZE))
            session = (b"mcp-session-id", raw.headers["mcp-session-id"].encode())
            version = (b"mcp-protocol-version", b"2025-11-25")
            params = {"name": name, "arguments": {"a": 1, "b": 2}}
            spoof = (b"mcp-name", b"add")
            await raw.send(old("tools/call", params, session, version, spoof))
            return await raw.head()

    assert run(scenario()) == status


def test_a_stream_of_an_earlier_revision_passes_and_its_session_can_be_ended() -> None:
    async def scenario() -> tuple[int, str, int]:
        async with talking() as (raw, gateway), connect(gateway.port) as other:
            await raw.ask(old("initialize", INITIALIZE))
            said = b"mcp-session-id: %b\r\nmcp-protocol-version: 2025-11-25\r\n" % (
                raw.headers["mcp-session-id"].encode()
            )
            rest = b" /mcp HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n%b\r\n" % said
            await other.send(b"GET" + rest)
            await other.head()
            opened_stream = other.headers["content-type"]
            await raw.send(b"DELETE" + rest)
            return other.status, opened_stream, await raw.head()

    assert run(scenario()) == (200, "text/event-stream", 200)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_methods_without_a_meaning_are_refused(method: str) -> None:
    status, headers, _ = ask(f"{method} /mcp HTTP/1.1\r\nhost: a\r\n\r\n".encode(), legacy="refuse")

    assert (status, headers["allow"]) == (405, "POST")


def test_the_gateway_compares_headers_and_body_itself_where_it_is_told_to() -> None:
    spoof = post(body("tools/call", {"name": "fail"}), lines("tools/call", "add"))

    status, headers, answer = ask(spoof, verify="body", rules=(ADD,), default="deny")

    assert (status, headers["mcpost-gateway"]) == (400, "refused")
    assert (answer["error"]["code"], answer["id"]) == (-32020, 7)


def test_what_agrees_passes_the_comparison() -> None:
    status, _, _ = ask(call("add", {"a": 1, "b": 1}), verify="body", rules=(ADD,), default="deny")

    assert status == 200


def test_a_call_over_its_rate_is_told_when_to_come_back() -> None:
    limit = Rule(0, "few", 1, "limit", rate=Rate(1, 60, 1))

    async def scenario() -> tuple[list[int], str]:
        async with talking(rules=(limit,)) as (raw, _):
            found = []
            for _ in range(2):
                await raw.ask(call("add", {"a": 1, "b": 1}))
                found.append(raw.status)
            return found, raw.headers["retry-after"]

    assert run(scenario()) == ([200, 429], "60")


def test_a_new_policy_holds_for_new_requests_and_drops_no_stream() -> None:
    policies: list[Policy] = []

    async def scenario() -> tuple[int, int, bool]:
        async with small() as port, small() as second:
            policies.append(allow_all(port))
            async with (
                opened(lambda: policies[-1]) as gateway,
                connect(gateway.port) as stream,
                connect(gateway.port) as raw,
            ):
                await stream.send(listen(toolsListChanged=True))
                await stream.head()
                await stream.event()
                policies.append(allow_all(second, rules=(ADD,), default="deny"))
                assert gateway.running.reload()
                await raw.ask(call("fail"))
                denied = raw.status
                await raw.ask(call("add", {"a": 1, "b": 1}))
                return denied, raw.status, gateway.running.shared.streams() == 1

    assert run(scenario()) == (403, 200, True)


def test_what_was_decided_on_a_head_ends_with_its_policy() -> None:
    policies: list[Policy] = []

    async def scenario() -> list[int]:
        async with small() as port:
            allowed, denied = allow_all(port), allow_all(port, default="deny")
            policies.append(allowed)
            async with opened(lambda: policies[-1]) as gateway, connect(gateway.port) as raw:
                found = []
                for policy in (allowed, denied, allowed):
                    policies.append(policy)
                    assert gateway.running.reload()
                    for _ in range(2):
                        await raw.ask(call("add", {"a": 1, "b": 1}))
                        found.append(raw.status)
                return found

    assert run(scenario()) == [200, 200, 403, 403, 200, 200]


def test_a_broken_policy_changes_nothing_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    policies: list[Policy] = []

    def read() -> Policy:
        if len(policies) > 1:
            raise PolicyError("there is no action 'alow'", file="policy.toml", line=3)
        return policies[0]

    async def scenario() -> tuple[bool, int, int]:
        async with small() as port:
            policies.append(allow_all(port))
            async with opened(read) as gateway, connect(gateway.port) as raw:
                policies.append(policies[0])
                changed = gateway.running.reload()
                await raw.ask(call("add", {"a": 1, "b": 1}))
                return changed, raw.status, gateway.running.shared.metrics.reloads["failed"]

    assert run(scenario()) == (False, 200, 1)
    assert "alow" in caplog.text


def test_policies_may_change_under_load() -> None:
    async def scenario() -> set[int]:
        async with small() as one, small() as two:
            policies = [allow_all(one), allow_all(two)]

            def read() -> Policy:
                policies.reverse()
                return policies[0]

            async with opened(read) as gateway:

                async def calls() -> set[int]:
                    found = set()
                    async with connect(gateway.port) as raw:
                        for _ in range(40):
                            await raw.ask(call("add", {"a": 1, "b": 1}))
                            found.add(raw.status)
                    return found

                async def changes() -> None:
                    for _ in range(40):
                        gateway.running.reload()
                        await asyncio.sleep(0.002)  # the load goes on in between

                *found, _ = await asyncio.gather(*(calls() for _ in range(4)), changes())
                return set().union(*(each for each in found if each))

    assert run(scenario(), debug=False) == {200}


def test_figures_and_health_are_on_a_listener_of_their_own() -> None:
    async def scenario() -> tuple[list[int], str]:
        async with talking(rules=(ADD,), default="deny") as (raw, gateway):
            await raw.ask(call("add", {"a": 1, "b": 1}))
            await raw.ask(call("fail"))
            statuses = []
            async with connect(gateway.admin) as admin:
                for path in (b"/healthz", b"/readyz", b"/nothing", b"/metrics"):
                    await admin.send(b"GET %b HTTP/1.1\r\nhost: a\r\n\r\n" % path)
                    statuses.append(await admin.head())
                    text = await admin.body()
            return statuses, text.decode()

    statuses, text = run(scenario())

    assert statuses == [200, 200, 404, 200]
    head = 'mcpost_gateway_requests_total{method="tools/call",name='
    assert head + '"add",verdict="allow",upstream="here",status="200"} 1' in text
    assert head + '"fail",verdict="deny",upstream="",status="403"} 1' in text


def test_the_access_log_is_one_json_object_a_request_without_arguments() -> None:
    async def scenario() -> list[bytes]:
        async with talking(rules=(ADD,), default="deny") as (raw, gateway):
            await raw.ask(call("add", {"a": 111, "b": 222}))
            return gateway.lines

    (line,) = run(scenario())
    found = json.loads(line)

    assert (found["method"], found["name"], found["rule"]) == ("tools/call", "add", "add")
    assert (found["status"], found["end"], found["upstream"]) == (200, "whole", "here")
    assert b"222" not in line


def test_the_policy_of_the_page_is_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "gateway.md").read_text("utf-8")

    policy = read_policy(page.split("```toml")[1].split("```")[0])

    assert [rule.id for rule in policy.rules] == ["calls-a-minute", "readers", "lists"]
