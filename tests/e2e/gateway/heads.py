"""Requests as engines may meet them, and what the gateway is to do with each."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from mcpost.errors import InvalidRequest
from mcpost.gateway.decide import Verdict, decide, read_facts
from mcpost.gateway.policy import Policy

Line = tuple[bytes, bytes]

VERSION = (b"mcp-protocol-version", b"2026-07-28")
CALL = (b"mcp-method", b"tools/call")


class Sent(NamedTuple):
    """One request; names of lines in any casing, values with the blanks around them."""

    lines: list[Line]
    method: bytes = b"POST"
    target: bytes = b"/mcp"

    def fields(self) -> list[Line]:
        """The lines as a recipient takes them (RFC 9110, 5.5): without the blanks around."""
        return [(name.lower(), value.strip(b" \t")) for name, value in self.lines]

    def named(self) -> set[bytes]:
        """The options of `Connection`."""
        options = [value for name, value in self.fields() if name == b"connection"]
        return {each.strip().lower() for value in options for each in value.split(b",")}

    def without_named(self) -> Sent:
        """The same without the lines that `Connection` names."""
        named = self.named()
        return self._replace(lines=[line for line in self.lines if line[0].lower() not in named])


NAMES = st.sampled_from(
    [b"search", b"searching", b"o.en", b"open", b"admin.x", b"a.secret", b"a,b", b"xa,b y"]
    + [b"a, b", b"by-shard", b"by-name", b"file:///a/b", b"", b"=?base64?c2VhcmNo?=", b"few"]
    + [b"=?base64??=", b"=?base64?YQ==?=", b"=?base64?YR==?=", b"=?base64?YQ=?=", b"=?base64?===?="]
    + [
        b"=?base64?YWE=?=",
        b"=?base64?YWF=?=",
        b"=?base64?Y-E=?=",
        b"=?base64?Y" + b"WFh" * 3000 + b"?=",
    ]
    + [b"=?base64?=", b"s\xe9", b"a\tb", b"search\xff", b"x" * 8192, b"x" * 8193, b"y" * 20000]
    + [b"=?base64?admin", b"Admin", b"\xe6\x97\xa5", b"admin%2ex", b"search\\", b'se"arch', b"$h"]
)
REGIONS = st.sampled_from(
    [
        b"eu",
        b"us+x",
        b"us",
        b"EU",
        b"",
        b"=?base64?ZXU=?=",
        b"\xe9",
        b"eu,eu",
        b"eu, eu",
        b"z" * 9000,
    ]
)
SIZES = st.sampled_from([b"42", b"42.0", b"4.2e1", b"7", b"8", b"-1", b"0", b"-0", b"007", b"big"])
METHODS = st.sampled_from(
    [b"tools/call", b"tools/list", b"prompts/get", b"server/discover", b"resources/read", b"x y"]
    + [b"Tools/Call", b"tools/call/", b"subscriptions/listen", b"", b"a, b"]
)
VERSIONS = st.sampled_from(
    [b"2026-07-28", b"2025-11-25", b"2027-01-01", b"", b"x\xff", b"2026-07-28, 2026-07-28"]
)


def lines_of(name: bytes, values: st.SearchStrategy[bytes], most: int) -> st.SearchStrategy:
    return st.lists(values.map(lambda value: (name, value)), max_size=most)


def around(usual: Line, values: st.SearchStrategy[bytes]) -> st.SearchStrategy:
    """Mostly the usual line, at times none, another, or two."""
    often = [st.just([usual])] * 5
    return st.one_of(*often, lines_of(usual[0], values, 2))


def around_one(name: bytes, values: st.SearchStrategy[bytes]) -> st.SearchStrategy:
    """Mostly one line, at times none or two."""
    one = values.map(lambda value: [(name, value)])
    return st.one_of(*[one] * 5, lines_of(name, values, 2))


def at_times(name: bytes, values: st.SearchStrategy[bytes]) -> st.SearchStrategy:
    """Mostly no line, at times one, and seldom two."""
    none = st.just([])
    return st.one_of(*[none] * 4, *[lines_of(name, values, 1)] * 3, lines_of(name, values, 2))


OTHERS = st.sampled_from(
    [[]] * 6
    + [
        [(b"x-mcpost-checked", b"1")],
        [(b"x-mcpost-checked", b"plain")],
        [(b"authorization", b"Bearer x")],
        [(b"accept", b"application/json, text/event-stream")],
        [(b"x-forwarded-for", b"10.0.0.1"), (b"forwarded", b"for=10.0.0.1")],
        [(b"x-envoy-retry-on", b"5xx"), (b"x-envoy-internal", b"true")],
        [(b"x-envoy-original-path", b"/other"), (b"x-accel-redirect", b"/mcpost-rule-default")],
        [(b"content-type", b"application/json"), (b"x-long", b"l" * 9000)],
        [(b"connection", b"Mcp-Name")],
        [(b"connection", b"keep-alive, mcp-param-Region")],
        [(b"connection", b"Mcp-Method")],
    ]
)
WILD = st.builds(
    lambda *parts: [line for part in parts for line in part],
    around(VERSION, VERSIONS),
    around(CALL, METHODS),
    around_one(b"mcp-name", NAMES),
    at_times(b"mcp-param-region", REGIONS),
    at_times(b"mcp-param-size", SIZES),
    at_times(b"mcp-param-gone", REGIONS),
    at_times(b"mcp-param-shard", REGIONS),
    lines_of(b"mcp-param-unread", REGIONS, 2),
    OTHERS,
)
HONEST = st.builds(
    lambda method, name, *parts: [
        VERSION,
        (b"mcp-method", method),
        (b"mcp-name", name),
        *(line for part in parts for line in part),
    ],
    st.sampled_from([b"tools/call", b"tools/call", b"prompts/get", b"resources/read"]),
    st.sampled_from(
        [b"search", b"searching", b"o.en", b"a,b", b"admin", b"by-shard", b"by-name"]
        + [b"file:///a", b"none"]
    ),
    lines_of(b"mcp-param-region", st.sampled_from([b"eu", b"us+x", b"us"]), 1),
    lines_of(b"mcp-param-size", st.sampled_from([b"42", b"8", b"x"]), 1),
    lines_of(b"mcp-param-gone", st.sampled_from([b"eu"]), 1),
    lines_of(b"mcp-param-shard", st.sampled_from([b"a", b"b", b"c"]), 1),
    lines_of(b"mcp-param-unread", REGIONS, 1),
    OTHERS,
)


@st.composite
def dressed(draw: st.DrawFn, heads: st.SearchStrategy[list[Line]]) -> list[Line]:
    """The same lines in another order, with other casing and with blanks around some values."""
    lines = draw(heads)
    if draw(st.integers(0, 3)):
        return lines
    found = []
    for name, value in draw(st.permutations(lines)):
        casing = draw(st.sampled_from([bytes.lower, bytes.title, bytes.upper]))
        before = draw(st.sampled_from([b"", b" ", b" ", b"\t", b" \t "]))
        after = draw(st.sampled_from([b"", b"", b" ", b"\t", b" \t"]))
        found.append((casing(name), before + value + after))
    return found


SENT = st.builds(
    Sent,
    dressed(st.one_of(HONEST, WILD)),
    st.sampled_from([b"POST"] * 12 + [b"GET", b"DELETE", b"PUT", b"OPTIONS", b"HEAD"]),
    st.sampled_from(
        [b"/mcp"] * 12
        + [b"/mcp/", b"/mcp?a=b", b"/mcp/?a=b", b"/mcp//", b"//mcp", b"/%6dcp", b"/MCP", b"/"]
        + [b"/mcp/x", b"/x/../mcp", b"/mcp;x", b"/mcpost-rule-default", b"/mcpost-rule-0"]
    ),
)

_FACTS = (b"accept", b"authorization", b"content-type", b"host", b"origin")


def expect(policy: Policy, sent: Sent) -> Verdict:
    """What the gateway's rules make of a request, its head taken as a whole."""
    fields = sent.fields()
    if sent.target.partition(b"?")[0] not in (b"/mcp", b"/mcp/"):
        return Verdict("refuse", status=404)
    if sent.method == b"OPTIONS" and policy.upstream is not None:
        verdict = Verdict("allow", upstream=policy.upstream)
    elif sent.method != b"POST":
        return Verdict("refuse", status=405)
    else:
        verdict = decide(policy, read_facts(fields))
    named = sent.named()
    if any(n in named and (n.startswith(b"mcp-") or n in _FACTS) for n, _ in fields):
        error = InvalidRequest("Connection may not name this header")
        return Verdict("refuse", status=400, error=error)
    return verdict


def is_stricter(kind: str, policy: Policy, sent: Sent) -> bool:
    """Whether an engine refuses with 400 what the gateway can read, as its page says."""
    fields = dict(sent.fields())
    if kind == "nginx" and any(name.startswith(b"mcp-") for name in sent.named()):
        # Whether that header is there is not asked.
        return True
    if sent.method != b"POST":
        return False
    names = any(rule.names or rule.shard == "name" for rule in policy.rules)
    read = {b"mcp-name"} if names else set()
    checked = {b"mcp-name", *read}
    numbers = set()
    if fields.get(b"mcp-method") == b"tools/call":
        read |= policy.reads
        checked |= policy.reads
        numbers = {t.header for rule in policy.rules for t in rule.params if t.numbers}
    for name, value in fields.items():
        if name in read and value.startswith(b"=?base64?") and value.endswith(b"?="):
            return True
        if name in numbers and value in (b"42.0", b"4.2e1", b"-0", b"007"):
            return True
        if kind == "nginx" and name in checked and b", " in value:
            return True
    if kind == "envoy":
        return False
    if fields.get(b"mcp-name") == b"" and fields.get(b"mcp-method") in (
        b"tools/call",
        b"prompts/get",
        b"resources/read",
    ):
        return True
    # nginx takes blanks away from around a value, and no tabs.
    routing = (b"mcp-protocol-version", b"mcp-method")
    return any(
        name.lower() in (*routing, *checked) and value.strip(b" ") != value.strip(b" \t")
        for name, value in sent.lines
    )
