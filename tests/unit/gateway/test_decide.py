"""Verdicts."""

from __future__ import annotations

import pytest

from mcpost.gateway.decide import Principal, Verdict, decide, read_facts
from mcpost.gateway.explain import explain
from mcpost.gateway.match import Facts, is_remembered
from mcpost.gateway.policy import Policy
from mcpost.gateway.policy_read import read_policy

UPSTREAMS = """
[upstreams.books]
endpoints = ["http://127.0.0.1:9001/mcp", "http://127.0.0.1:9002/mcp", "http://127.0.0.1:9003/mcp"]
[upstreams.other]
endpoints = ["http://127.0.0.1:9101/mcp"]
"""
VERSION = (b"mcp-protocol-version", b"2026-07-28")
CALL = (b"mcp-method", b"tools/call")


def make_policy(rules: str, top: str = "") -> Policy:
    return read_policy(f'upstream = "books"\n{top}\n{UPSTREAMS}\n{rules}')


def make_rule(action: str, *conditions: str) -> str:
    return "\n".join(("[[rules]]", f'action = "{action}"', *conditions, ""))


def make_facts(name: bytes = b"search", *lines: tuple[bytes, bytes]) -> Facts:
    return read_facts([VERSION, CALL, (b"mcp-name", name), *lines])


ALLOW_SEARCH = make_policy(make_rule("allow", 'method = "tools/call"', 'name = "search"'))
BY_REGION = make_policy(
    make_rule("deny", 'name = "*"', 'param.Region = ["eu", "Zürich"]')
    + make_rule("allow", 'id = "rest"')
)


def test_the_first_rule_that_matches_decides() -> None:
    assert decide(ALLOW_SEARCH, make_facts()) == Verdict("allow", "rule-1", "books")
    denied = decide(ALLOW_SEARCH, make_facts(b"place_hold"))
    assert (denied.action, denied.rule, denied.status) == ("deny", "default", 403)


def test_heads_that_differ_in_nothing_that_counts_have_the_same_facts() -> None:
    facts = make_facts(b"search", (b"traceparent", b"00-1-2-01"))

    assert facts is make_facts(b"search", (b"traceparent", b"00-3-4-01"))
    assert is_remembered(facts)


@pytest.mark.parametrize(
    ("other", "remembered"),
    [
        pytest.param(make_facts(b"searches"), True, id="another name"),
        pytest.param(make_facts(b"search", (b"mcp-name", b"search")), True, id="a name twice"),
        pytest.param(make_facts(b"search", (b"mcp-param-a", b"1")), False, id="a parameter"),
        pytest.param(make_facts(b"search", (b"x-api-key", b"k")), False, id="a key"),
        pytest.param(
            read_facts([VERSION, CALL, (b"mcp-name", b"search")], "10.0.0.1"),
            True,
            id="another address",
        ),
        pytest.param(
            read_facts([VERSION, CALL, (b"mcp-name", b"search")], None, Principal("ann")),
            False,
            id="a principal",
        ),
    ],
)
def test_heads_that_differ_in_what_counts_have_facts_of_their_own(
    other: Facts, remembered: bool
) -> None:
    assert other != make_facts()
    assert is_remembered(other) is remembered


def test_long_names_are_not_kept() -> None:
    assert make_facts(b"n" * 300) == make_facts(b"n" * 300)
    assert make_facts(b"n" * 300) is not make_facts(b"n" * 300)


@pytest.mark.req("H-07/G", "H-09/G")
@pytest.mark.parametrize("name", [b"search", b"=?base64?c2VhcmNo?=", b" search\t"])
def test_a_name_is_decoded_before_it_is_compared(name: bytes) -> None:
    assert decide(ALLOW_SEARCH, make_facts(name)).action == "allow"


@pytest.mark.req("H-09/G")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(b"=?base64?c2VhcmNo=?=", id="padding"),
        pytest.param(b"=?base64?/w==?=", id="no UTF-8"),
        pytest.param(b"=?base64?=", id="overlap"),
        pytest.param(b"s\xe9arch", id="byte"),
        pytest.param(b"s" * 8193, id="too long"),
    ],
)
def test_a_malformed_name_is_refused(name: bytes) -> None:
    verdict = decide(ALLOW_SEARCH, make_facts(name))
    assert (verdict.action, verdict.status) == ("refuse", 400)
    assert verdict.error is not None
    assert verdict.error.code == -32020


@pytest.mark.req("T-22/G")
@pytest.mark.parametrize("line", [VERSION, CALL, (b"mcp-name", b"search"), (b"mcp-name", b"x")])
def test_a_doubled_header_is_refused(line: tuple[bytes, bytes]) -> None:
    assert decide(ALLOW_SEARCH, make_facts(b"search", line)).action == "refuse"


@pytest.mark.req("H-13/G")
@pytest.mark.parametrize(
    ("version", "code"),
    [
        (None, -32020),
        (b"2025-11-25", -32022),
        (b"2024-11-05", -32022),
        (b"2099-01-01", -32022),
        (b"2026-07-28, 2026-07-28", -32020),
        (b"", -32020),
    ],
)
def test_another_version_or_none_is_refused(version: bytes | None, code: int) -> None:
    lines = [CALL, (b"mcp-name", b"search")]
    if version is not None:
        lines.append((b"mcp-protocol-version", version))
    verdict = decide(ALLOW_SEARCH, read_facts(lines))
    assert (verdict.action, verdict.status) == ("refuse", 400)
    assert verdict.error is not None
    assert verdict.error.code == code


@pytest.mark.parametrize("lines", [[VERSION], [VERSION, CALL]])
def test_a_missing_header_is_refused(lines: list[tuple[bytes, bytes]]) -> None:
    assert decide(ALLOW_SEARCH, read_facts(lines)).action == "refuse"


def test_a_name_counts_only_where_the_method_carries_one() -> None:
    policy = make_policy(make_rule("allow", 'name = "search"'))
    facts = read_facts([VERSION, (b"mcp-method", b"tools/list"), (b"mcp-name", b"search")])
    assert decide(policy, facts).action == "deny"
    get = read_facts([VERSION, (b"mcp-method", b"prompts/get"), (b"mcp-name", b"search")])
    assert decide(policy, get).action == "allow"


@pytest.mark.parametrize(
    ("value", "action"),
    [
        (b"eu", "deny"),
        (b"=?base64?ZXU=?=", "deny"),
        (b"=?base64?WsO8cmljaA==?=", "deny"),
        (b"us", "allow"),
        (b"EU", "allow"),
        (b"=?base64?ZXU?=", "refuse"),
        (b"\xff", "refuse"),
    ],
)
def test_a_parameter_is_decoded_before_it_is_compared(value: bytes, action: str) -> None:
    assert decide(BY_REGION, make_facts(b"x", (b"mcp-param-region", value))).action == action


@pytest.mark.req("H-11/G")
def test_a_parameter_that_no_rule_reads_is_none_of_its_business() -> None:
    line = (b"mcp-param-other", b"\xff")
    assert decide(BY_REGION, make_facts(b"x", line, line)).action == "allow"


@pytest.mark.req("T-22/G")
def test_a_doubled_parameter_is_refused_where_a_rule_reads_it() -> None:
    lines = [(b"mcp-param-region", b"us"), (b"mcp-param-region", b"us")]
    assert decide(BY_REGION, make_facts(b"x", *lines)).action == "refuse"


@pytest.mark.parametrize(
    ("test", "present", "absent"),
    [("{ present = true }", "allow", "deny"), ("{ present = false }", "deny", "allow")],
)
def test_presence_of_a_parameter_is_a_condition(test: str, present: str, absent: str) -> None:
    policy = make_policy(make_rule("allow", 'name = "x"', f"param.Region = {test}"))
    assert decide(policy, make_facts(b"x", (b"mcp-param-region", b""))).action == present
    assert decide(policy, make_facts(b"x")).action == absent


@pytest.mark.req("H-10/G")
@pytest.mark.parametrize(
    ("value", "action"), [(b"42", "allow"), (b"42.0", "allow"), (b"4", "deny")]
)
def test_integers_compare_as_numbers(value: bytes, action: str) -> None:
    policy = make_policy(make_rule("allow", 'name = "x"', "param.Size = 42"))
    assert decide(policy, make_facts(b"x", (b"mcp-param-size", value))).action == action


@pytest.mark.parametrize(
    ("condition", "right", "wrong"),
    [
        ('principal = "ann"', {"principal": Principal("ann")}, {"principal": Principal("bob")}),
        (
            'claim.tenant = "t1"',
            {"principal": Principal("ann", {"tenant": "t1"})},
            {"principal": Principal("ann")},
        ),
        ('client = "10.0.0.0/8"', {"peer": "::ffff:10.1.2.3"}, {"peer": "11.0.0.1"}),
        ('client = "::1/128"', {"peer": "::1"}, {}),
    ],
)
def test_the_caller_is_a_condition(condition: str, right: dict, wrong: dict) -> None:
    policy = make_policy(make_rule("allow", condition))
    lines = [VERSION, (b"mcp-method", b"tools/list")]
    assert decide(policy, read_facts(lines, **right)).action == "allow"
    assert decide(policy, read_facts(lines, **wrong)).action == "deny"


def test_an_api_key_is_compared_by_its_digest() -> None:
    digest = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    policy = make_policy(make_rule("allow", f'api_key = "sha256:{digest}"'))
    key = (b"x-api-key", b"secret")
    assert decide(policy, make_facts(b"x", key)).action == "allow"
    assert decide(policy, make_facts(b"x", key, key)).action == "deny"
    assert decide(policy, make_facts(b"x", (b"x-api-key", b"other"))).action == "deny"


def test_a_rule_routes_and_shards() -> None:
    policy = make_policy(
        make_rule("route", 'upstream = "other"', 'name = "o*"')
        + make_rule("allow", 'shard = "param.Region"')
    )
    assert decide(policy, make_facts(b"open")).upstream == "other"
    facts = make_facts(b"x", (b"mcp-param-region", b"eu"))
    first = decide(policy, facts).endpoint
    assert first is not None
    assert decide(policy, facts).endpoint == first
    assert decide(policy, facts, down={first}).endpoint not in (None, first)
    assert decide(policy, make_facts(b"x")).endpoint is None


def test_a_limit_charges_and_lets_the_next_rules_decide() -> None:
    policy = make_policy(
        make_rule("limit", 'id = "slow"', 'rate = { requests = 5, key = "principal" }')
        + make_rule("allow", "concurrent = { limit = 2 }")
    )
    facts = read_facts([VERSION, (b"mcp-method", b"tools/list")], None, Principal("ann"))
    verdict = decide(policy, facts)
    assert [(c.rule, c.key) for c in verdict.charges] == [("slow", "ann"), ("rule-2", "")]


def test_an_earlier_revision_is_inspected_where_the_policy_says_so() -> None:
    policy = make_policy(
        make_rule("deny", 'name = "hold"') + make_rule("allow"), 'legacy = "inspect"'
    )
    facts = read_facts([(b"mcp-method", b"tools/list")])
    assert decide(policy, facts).action == "inspect"
    assert decide(policy, facts.with_body("tools/call", "hold")).action == "deny"
    assert decide(policy, facts.with_body("tools/call", "search")).action == "allow"


def test_a_rule_may_ask_for_inspection_alone() -> None:
    policy = make_policy(
        make_rule("allow", 'name = "search"', 'legacy = "inspect"') + make_rule("allow")
    )
    facts = read_facts([])
    assert decide(policy, facts).action == "inspect"
    assert decide(policy, facts.with_body("tools/call", "search")).action == "allow"
    assert decide(policy, facts.with_body("tools/call", "hold")).action == "refuse"


@pytest.mark.req("H-13/G")
def test_parameters_of_an_earlier_revision_decide_nothing() -> None:
    policy = make_policy(
        make_rule("deny", 'name = "x"', 'param.Region = "eu"') + make_rule("allow"),
        'legacy = "inspect"',
    )
    facts = read_facts([(b"mcp-param-region", b"us")]).with_body("tools/call", "x")
    assert decide(policy, facts).action == "refuse"


def test_explain_says_of_every_rule_why() -> None:
    policy = make_policy(
        make_rule("deny", 'method = "tools/list"')
        + make_rule("limit", "rate = { requests = 5 }")
        + make_rule("allow", 'name = "search"')
        + make_rule("deny", 'name = "s*"')
    )
    verdict, steps = explain(policy, make_facts())
    assert verdict.rule == "rule-3"
    assert [step.matched for step in steps] == [False, True, True, False]
    assert "'tools/list'" in steps[0].why
    assert steps[3].why == "an earlier rule has decided"
