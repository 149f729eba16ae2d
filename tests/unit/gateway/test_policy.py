"""Reading a policy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mcpost.errors import PolicyError
from mcpost.gateway.export.envoy import to_envoy
from mcpost.gateway.export.nginx import to_nginx
from mcpost.gateway.policy import Pattern, Policy
from mcpost.gateway.policy_read import read_policy

UPSTREAM = '[upstreams.books]\nendpoints = ["http://127.0.0.1:9001/mcp"]\n'


@pytest.mark.parametrize(
    ("rule", "line", "key", "said"),
    [
        pytest.param('action = "alow"', 4, "rules[0].action", "'allow'", id="action"),
        pytest.param('id = "x"', 3, "rules[0].action", "is needed", id="no action"),
        pytest.param('action = "allow"\nnmae = "x"', 5, "rules[0].nmae", "'name'", id="unknown"),
        pytest.param('action = "allow"\nname = 3', 5, "rules[0].name", "text", id="type"),
        pytest.param('action = "allow"\nname = []', 5, "rules[0].name", "empty", id="empty"),
        pytest.param(
            'action = "route"\nupstream = "boks"', 5, "rules[0].upstream", "'books'", id="upstream"
        ),
        pytest.param('action = "route"', 3, "rules[0].upstream", "is needed", id="no upstream"),
        pytest.param(
            'action = "deny"\nupstream = "books"', 5, "rules[0].upstream", "nothing", id="idle"
        ),
        pytest.param(
            'action = "deny"\nmethod = "tools/list"\nname = "x"',
            6,
            "rules[0].name",
            "never matches",
            id="name of a list",
        ),
        pytest.param(
            'action = "allow"\nparam.Region = 1.5', 5, "rules[0].param.Region", "whole", id="param"
        ),
        pytest.param(
            'action = "allow"\nrate = { requests = 0 }', 5, "rules[0].rate.requests", "0", id="rate"
        ),
        pytest.param(
            'action = "allow"\nclient = "10.0.0.1/8"', 5, "rules[0].client", "network", id="client"
        ),
        pytest.param(
            'action = "allow"\napi_key = "secret"', 5, "rules[0].api_key", "sha256:", id="key"
        ),
        pytest.param(
            'action = "allow"\nversion = "2026"', 5, "rules[0].version", "2026-07-28", id="version"
        ),
        pytest.param('action = "limit"', 4, "rules[0].action", "'rate'", id="limit of nothing"),
    ],
)
def test_a_mistake_points_at_line_and_key(rule: str, line: int, key: str, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(f"{UPSTREAM}[[rules]]\n{rule}\n", "p.toml")
    assert (caught.value.file, caught.value.line, caught.value.key) == ("p.toml", line, key)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["defalt = 'deny'", "legacy = 'pass'", "upstream = 'none'", "a ="])
def test_a_mistake_at_the_top_is_an_error(text: str) -> None:
    with pytest.raises(PolicyError):
        read_policy(text)


def test_an_allowance_without_an_upstream_is_an_error() -> None:
    with pytest.raises(PolicyError, match="nowhere to go"):
        read_policy('[[rules]]\naction = "allow"\n')
    with pytest.raises(PolicyError, match="nowhere to go"):
        read_policy('default = "allow"\n')


def test_no_endpoint_is_an_error() -> None:
    for endpoints in ("[]", '["ftp://a/"]', '["http://[::1/"]', '["http://a/", "http://a/"]'):
        with pytest.raises(PolicyError, match=r"upstreams\.a\.endpoints"):
            read_policy(f"[upstreams.a]\nendpoints = {endpoints}\n")


@pytest.mark.parametrize(
    ("first", "second", "reached"),
    [
        ('name = "a*"', 'name = "ab"', False),
        ('name = "ab"', 'name = "a*"', True),
        ('method = "tools/call"', 'name = "x"', True),
        ('name = "*"', 'name = "x"', False),
        ('name = "*"', 'method = "tools/list"', True),
        ("", 'principal = "p"', False),
        ('principal = "p"', "", True),
        ('name = "x"\nparam.A = ["1", "2"]', 'name = "x"\nparam.A = "1"', False),
        ('name = "x"\nparam.A = "1"', 'name = "x"\nparam.A = 1', True),
        ('client = "10.0.0.0/8"', 'client = "10.1.0.0/16"', False),
        ('claim.t = "a"', 'claim.t = ["a", "b"]', True),
    ],
)
def test_a_rule_that_is_never_reached_is_warned_of(first: str, second: str, reached: bool) -> None:
    rules = f'[[rules]]\naction = "allow"\n{first}\n[[rules]]\naction = "deny"\n{second}\n'
    warnings = read_policy(UPSTREAM + rules).warnings
    assert [w.key for w in warnings if "never reached" in w.message] == (
        [] if reached else ["rules[1]"]
    )


def test_an_allowance_by_a_parameter_alone_is_warned_of() -> None:
    policy = read_policy(f'{UPSTREAM}[[rules]]\naction = "allow"\nparam.Region = "eu"\n')
    assert [(w.line, w.key) for w in policy.warnings] == [(3, "rules[0]")]
    assert policy.reads == {b"mcp-param-region"}


def test_lines_are_right_behind_long_strings_and_lists() -> None:
    text = (
        f'{UPSTREAM}[[rules]]\naction = "deny"\nmessage = """\nname = 1\n"""\nname = [\n  "a]",\n]'
    )
    with pytest.raises(PolicyError) as caught:
        read_policy(f"{text}\nwrong = 1\n")
    assert (caught.value.line, caught.value.key) == (11, "rules[0].wrong")


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("a*", "a", True),
        ("*", "", True),
        ("a*a", "a", False),
        ("a*b*c", "axbxc", True),
        ("a*b*c", "acb", False),
        ("*ab*ab", "ab", False),
        ("a?", "ab", False),
    ],
)
def test_a_star_stands_for_any_characters(pattern: str, name: str, matched: bool) -> None:
    assert Pattern(pattern).matches(name) is matched


def test_a_cache_is_asked_for_by_an_upstream_and_bounded_by_the_policy() -> None:
    bare = read_policy(UPSTREAM)
    policy = read_policy(UPSTREAM + "cache = true\n[cache]\nmax_entries = 3\nwait = 0.5\n")

    assert not bare.upstreams["books"].cache
    assert policy.upstreams["books"].cache
    assert (policy.cache.max_entries, policy.cache.wait) == (3, 0.5)
    assert policy.cache.max_bytes == bare.cache.max_bytes


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        pytest.param("[cache]\n", 3, "cache", "no upstream", id="no upstream"),
        pytest.param("cache = 1\n", 3, "upstreams.books.cache", "true or false", id="flag"),
        pytest.param("cache = true\n[cache]\nmax_ttl = 0\n", 5, "cache.max_ttl", "0", id="ttl"),
        pytest.param(
            "cache = true\n[cache]\nmax_byte = 3\n", 5, "cache.max_byte", "'max_bytes'", id="key"
        ),
    ],
)
def test_a_mistake_about_the_cache_points_at_line_and_key(
    text: str, line: int, key: str, said: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(UPSTREAM + text)
    assert (caught.value.line, caught.value.key) == (line, key)
    assert said in str(caught.value)


DESK = UPSTREAM + '[upstreams.maps]\nendpoints = ["http://127.0.0.1:9002/mcp"]\n'


def test_an_aggregate_stands_where_an_upstream_would() -> None:
    policy = read_policy(
        'upstream = "desk"\n' + DESK + '[aggregates.desk]\nmembers = { b = "books", m = "maps" }\n'
        'wait = 2\nstrict = true\n[[rules]]\naction = "route"\nupstream = "desk"\n'
    )

    desk = policy.aggregates["desk"]
    assert (dict(desk.members), desk.wait, desk.strict) == ({"b": "books", "m": "maps"}, 2, True)
    assert (policy.upstream, policy.rules[0].upstream) == ("desk", "desk")


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        pytest.param("[aggregates.a]\n", "aggregates.a.members", "is needed", id="no members"),
        pytest.param(
            "[aggregates.a.members]\nB = 'books'\n", "aggregates.a.members.B", "prefix", id="case"
        ),
        pytest.param(
            "[aggregates.a.members]\n'b.c' = 'books'\n", "aggregates.a.members", "prefix", id="dot"
        ),
        pytest.param(
            "[aggregates.a.members]\nb = 'bokks'\n", "aggregates.a.members.b", "'books'", id="hint"
        ),
        pytest.param(
            "[aggregates.a.members]\nb = 'books'\nc = 'books'\n",
            "aggregates.a.members.c",
            "already",
            id="twice",
        ),
        pytest.param(
            "[aggregates.a.members]\n" + "".join(f"m{n} = 'books'\n" for n in range(33)),
            "aggregates.a.members",
            "32 members",
            id="many",
        ),
        pytest.param(
            "[aggregates.books.members]\nb = 'books'\n", "aggregates.books", "upstream", id="taken"
        ),
        pytest.param(
            "[aggregates.a]\nmembers = { b = 'books' }\nstrikt = true\n",
            "aggregates.a.strikt",
            "'strict'",
            id="unknown",
        ),
        pytest.param(
            "[aggregates.a]\nmembers = { b = 'books' }\n[[rules]]\naction = 'route'\n"
            "upstream = 'a'\nshard = 'name'\n",
            "rules[0].shard",
            "aggregate",
            id="shard",
        ),
    ],
)
def test_a_mistake_about_an_aggregate_points_at_its_key(text: str, key: str, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(DESK + text)
    assert caught.value.line > 4
    assert str(caught.value.key).startswith(key)
    assert said in str(caught.value)


@pytest.mark.parametrize("write", [to_envoy, to_nginx])
def test_neither_cache_nor_aggregate_is_said_to_an_engine(write: Callable[[Policy], str]) -> None:
    listener = '[[listeners]]\nbind = "127.0.0.1:0"\n'
    members = '[aggregates.desk]\nmembers = { b = "books" }\n'
    with pytest.raises(PolicyError, match=r"aggregates\.desk cannot"):
        write(read_policy('upstream = "desk"\n' + UPSTREAM + members + listener))
    with pytest.raises(PolicyError, match=r"upstreams\.books\.cache cannot"):
        write(read_policy(UPSTREAM + "cache = true\n" + listener))


@pytest.mark.req("H-11/S")
@pytest.mark.parametrize(
    "reads",
    [
        'param.Region = "eu"',
        'shard = "param.Tenant"',
        'rate = { requests = 1, per = 1, key = "param.Tenant" }',
        'concurrent = { limit = 1, key = "param.Tenant" }',
    ],
)
def test_a_parameter_that_nobody_compares_is_not_decided_on(reads: str) -> None:
    text = f"""upstream = "a"
[upstreams.a]
endpoints = ["http://a/"]
[[rules]]
id = "by-parameter"
action = "allow"
method = "tools/call"
name = "search"
{reads}
"""
    assert read_policy(text).rules[0].reads

    with pytest.raises(PolicyError, match="'by-parameter' reads a parameter") as caught:
        read_policy(f'verify = "body"\n{text}')

    assert caught.value.line == 5
