"""Headers against the body."""

from __future__ import annotations

from typing import Any

import pytest

from mcpost.errors import HeaderMismatch
from mcpost.wire.agreement import check_agreement
from mcpost.wire.jsonrpc import Request
from mcpost.wire.meta import parse_meta
from mcpost.wire.mirror import Mirror, compile_mirror

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
VERSION = (b"mcp-protocol-version", b"2026-07-28")
METHOD = (b"mcp-method", b"tools/call")
NAME = (b"mcp-name", b"hold")
OTHERS = [(b"host", b"x"), (b"accept", b"a"), (b"accept", b"b"), (b"cookie", b"\xff")]

HOLD = compile_mirror(
    {
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "job": {"properties": {"size": {"type": "integer", "x-mcp-header": "Size"}}},
        }
    }
)


def mirror_of(tool: str) -> Mirror | None:
    return HOLD if tool == "hold" else None


def check(
    headers: list[tuple[bytes, bytes]], method: str = "tools/call", **params: Any
) -> HeaderMismatch | None:
    request = Request(7, method, {"_meta": META, **params})
    return check_agreement(OTHERS + headers, request, parse_meta(request), mirror_of)


def check_call(
    headers: list[tuple[bytes, bytes]], arguments: object = None
) -> HeaderMismatch | None:
    return check([VERSION, METHOD, NAME, *headers], name="hold", arguments=arguments)


def assert_refused(problem: HeaderMismatch | None, named: str) -> None:
    assert problem is not None
    assert (problem.code, problem.request_id) == (-32020, 7)
    assert named in problem.message
    assert problem.message.isprintable()


@pytest.mark.req("T-16/S", "T-19/S")
def test_headers_that_agree_pass() -> None:
    assert check([VERSION, METHOD, NAME], name="hold") is None
    assert check([VERSION, METHOD, NAME], name="hold", arguments={"free": 1}) is None
    assert check([VERSION, (b"mcp-method", b"tools/list")], "tools/list") is None


@pytest.mark.req("T-16/S", "T-22/S")
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="missing"),
        pytest.param([(b"mcp-protocol-version", b"2025-11-25")], id="another"),
        pytest.param([(b"mcp-protocol-version", b"")], id="empty"),
        pytest.param([(b"mcp-protocol-version", b"2026-07-28, 2026-07-28")], id="joined"),
        pytest.param([VERSION, VERSION], id="twice, though equal"),
        pytest.param([VERSION, (b"mcp-protocol-version", b"2025-11-25")], id="twice, good first"),
        pytest.param([(b"mcp-protocol-version", b"2025-11-25"), VERSION], id="twice, good last"),
        pytest.param([(b"mcp-protocol-version", b"=?base64?MjAyNi0wNy0yOA==?=")], id="encoded"),
    ],
)
def test_a_version_header_that_disagrees_is_refused(lines: list[tuple[bytes, bytes]]) -> None:
    assert_refused(check([*lines, METHOD, NAME], name="hold"), "MCP-Protocol-Version")


@pytest.mark.req("T-16/S", "T-17/S")
def test_a_version_that_differs_from_meta_is_found_before_anything_else() -> None:
    legacy = (b"mcp-protocol-version", b"2025-11-25")

    assert_refused(check([legacy]), "MCP-Protocol-Version")


@pytest.mark.req("T-19/S", "T-22/S")
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="missing"),
        pytest.param([(b"mcp-method", b"tools/list")], id="another"),
        pytest.param([(b"mcp-method", b"TOOLS/CALL")], id="another case"),
        pytest.param([METHOD, METHOD], id="twice, though equal"),
        pytest.param([(b"mcp-method", b"tools/call,tools/call")], id="joined"),
    ],
)
def test_a_method_header_that_disagrees_is_refused(lines: list[tuple[bytes, bytes]]) -> None:
    assert_refused(check([VERSION, *lines, NAME], name="hold"), "Mcp-Method")


@pytest.mark.req("H-09/S")
@pytest.mark.parametrize("method", ["caf\xe9", "a\tb", "a\x7f", "a\x00"])
def test_a_method_that_no_header_can_carry_is_refused_though_equal(method: str) -> None:
    line = (b"mcp-method", method.encode("latin-1"))

    assert_refused(check([VERSION, line], method), "Mcp-Method has a byte")


@pytest.mark.req("T-19/S", "T-22/S", "H-09/S")
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([], id="missing"),
        pytest.param([(b"mcp-name", b"search")], id="another"),
        pytest.param([(b"mcp-name", b"Hold")], id="another case"),
        pytest.param([(b"mcp-name", b"")], id="empty"),
        pytest.param([NAME, NAME], id="twice, though equal"),
        pytest.param([(b"mcp-name", b"hold, hold")], id="joined"),
        pytest.param([(b"mcp-name", b"=?base64?aG9sZA?=")], id="encoded without padding"),
        pytest.param([(b"mcp-name", b"hol\xe4")], id="Latin-1"),
    ],
)
def test_a_name_header_that_disagrees_is_refused(lines: list[tuple[bytes, bytes]]) -> None:
    assert_refused(check([VERSION, METHOD, *lines], name="hold"), "Mcp-Name")


@pytest.mark.req("T-19/S")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "x"}),
        ("prompts/get", {"name": "x", "uri": "y"}),
        ("resources/read", {"uri": "x", "name": "y"}),
    ],
)
def test_three_methods_have_a_name_header(method: str, params: dict[str, Any]) -> None:
    head = [VERSION, (b"mcp-method", method.encode())]

    assert check([*head, (b"mcp-name", b"x")], method, **params) is None
    assert_refused(check([*head, (b"mcp-name", b"y")], method, **params), "Mcp-Name")
    assert_refused(check(head, method, **params), "Mcp-Name")


@pytest.mark.req("H-07/S", "H-09/S")
@pytest.mark.parametrize(
    ("line", "name"),
    [
        (b"=?base64?aG9sZA==?=", "hold"),
        (b"=?base64?5LiW?=", "世"),
        (b"=?base64?IHg=?=", " x"),
        (b"=?base64?PT9iYXNlNjQ/YT89?=", "=?base64?a?="),
        (b"=?base64?a", "=?base64?a"),
        (b"a\tb", "a\tb"),
        (b"  hold\t", "hold"),
        (b"  =?base64?aG9sZA==?= ", "hold"),
        (b"", ""),
    ],
)
def test_a_name_is_decoded_before_it_is_compared(line: bytes, name: str) -> None:
    assert check([VERSION, METHOD, (b"mcp-name", line)], name=name) is None


@pytest.mark.req("H-09/S")
@pytest.mark.parametrize("name", ["café", "=?base64?aG9sZA==?=", "=?base64?=", " x "])
def test_bytes_that_are_equal_but_mean_something_else_are_refused(name: str) -> None:
    line = name.encode("latin-1")

    assert_refused(check([VERSION, METHOD, (b"mcp-name", line)], name=name), "Mcp-Name")


@pytest.mark.req("T-19/S")
def test_a_name_that_is_missing_on_both_sides_is_the_methods_complaint() -> None:
    assert check([VERSION, METHOD]) is None
    assert check([VERSION, METHOD, (b"mcp-name", b"42")], name=42) is None
    assert_refused(check([VERSION, METHOD, NAME]), "Mcp-Name")
    assert_refused(check([VERSION, METHOD], name=42), "Mcp-Name")
    assert_refused(check([VERSION, METHOD, NAME], name={}), "Mcp-Name")


def test_a_name_header_of_another_method_is_nobodys_business() -> None:
    assert check([VERSION, (b"mcp-method", b"tools/list"), NAME], "tools/list") is None


@pytest.mark.req("T-22/S")
def test_a_name_header_that_stands_twice_is_refused_for_every_method() -> None:
    lines = [VERSION, (b"mcp-method", b"tools/list"), NAME, NAME]

    assert_refused(check(lines, "tools/list"), "Mcp-Name stands twice")


@pytest.mark.req("H-09/S", "H-10/S")
@pytest.mark.parametrize(
    ("argument", "header", "value", "line"),
    [
        pytest.param("region", b"region", "eu", b"eu", id="text"),
        pytest.param("region", b"region", "eu", b"=?base64?ZXU=?=", id="text, encoded for nothing"),
        pytest.param("region", b"region", "世", b"=?base64?5LiW?=", id="text, encoded"),
        pytest.param("region", b"region", "", b"", id="empty text"),
        pytest.param("region", b"region", "a, b", b"a, b", id="text with a comma"),
        pytest.param("n", b"n", 42, b"42", id="integer"),
        pytest.param("n", b"n", 42, b"42.0", id="integer, integral header"),
        pytest.param("n", b"n", 42.0, b"42", id="integral float"),
        pytest.param("n", b"n", 42, b"4.2e1", id="integer, exponent"),
        pytest.param("n", b"n", 42, b"=?base64?NDI=?=", id="integer, encoded"),
        pytest.param("n", b"n", 1e15, b"1000000000000000", id="1e15"),
        pytest.param("n", b"n", 2**53 - 1, b"9007199254740991", id="largest"),
        pytest.param("n", b"n", -(2**53) + 1, b"-9007199254740991.0", id="smallest"),
        pytest.param("n", b"n", 0, b"-0", id="zero"),
        pytest.param("dry", b"dry", True, b"true", id="boolean"),
        pytest.param("n", b"n", "abc", b"abc", id="text for an integer"),
        pytest.param("dry", b"dry", 1, b"1", id="integer for a boolean"),
        pytest.param("n", b"n", False, b"false", id="boolean for an integer"),
        pytest.param("region", b"region", 42, b"42.0", id="integer for a text"),
    ],
)
def test_a_parameter_that_agrees_passes(
    argument: str, header: bytes, value: object, line: bytes
) -> None:
    assert check_call([(b"mcp-param-" + header, line)], {argument: value}) is None


@pytest.mark.req("H-09/S", "H-10/S", "H-04/S")
@pytest.mark.parametrize(
    ("value", "line"),
    [
        pytest.param(42, b"43", id="another"),
        pytest.param(42, b"42.5", id="fraction"),
        pytest.param(42, b"42abc", id="no number"),
        pytest.param(42, b"042", id="octal look"),
        pytest.param(42, b"+42", id="plus"),
        pytest.param(42, b"42,42", id="joined"),
        pytest.param(42, b"", id="empty"),
        pytest.param(42, b"1e999999999", id="absurd exponent"),
        pytest.param(42, b"4" * 60_000, id="absurd length"),
        pytest.param("42", b"42.0", id="text is no number"),
        pytest.param(9007199254740991, b"9007199254740990", id="neighbour"),
        pytest.param(9007199254740991, b"9007199254740991.5", id="neighbour as a float"),
        pytest.param(2**53, b"9007199254740992", id="2^53"),
        pytest.param(2**53 + 1, b"9007199254740993", id="2^53 + 1"),
        pytest.param(1e16, b"10000000000000000", id="1e16"),
        pytest.param(10**400, b"1e400", id="1e400"),
        pytest.param(1.5, b"1.5", id="fraction in the body"),
        pytest.param(True, b"True", id="boolean, another case"),
        pytest.param(True, b"1", id="boolean as a number"),
        pytest.param(1, b"true", id="number as a boolean"),
        pytest.param([], b"[]", id="array"),
        pytest.param({}, b"{}", id="object"),
        pytest.param("eu", b"e\xfc", id="Latin-1"),
        pytest.param("eu", b"=?base64?ZXV?=", id="malformed"),
    ],
)
def test_a_parameter_that_disagrees_or_cannot_be_mirrored_is_refused(
    value: object, line: bytes
) -> None:
    assert_refused(check_call([(b"mcp-param-n", line)], {"n": value}), "Mcp-Param-N")


@pytest.mark.req("H-09/S", "H-04/S")
@pytest.mark.parametrize(
    "value", ["eu", "", 42, 2**53, 10**400, 1.5, False, [], {"a": 1}], ids=repr
)
def test_a_parameter_without_its_header_is_refused_whatever_it_is(value: object) -> None:
    assert_refused(check_call([], {"region": value}), "Mcp-Param-Region is missing")


@pytest.mark.req("H-06/S")
@pytest.mark.parametrize(
    "arguments", [None, {}, {"region": None}, {"Region": "eu"}, {"job": None}, {"job": 3}, []]
)
def test_a_null_or_absent_parameter_has_no_header(arguments: object) -> None:
    assert check_call([], arguments) is None
    assert_refused(check_call([(b"mcp-param-region", b"eu")], arguments), "Mcp-Param-Region is set")
    assert_refused(check_call([(b"mcp-param-size", b"")], arguments), "Mcp-Param-Size is set")


@pytest.mark.req("H-03/S", "H-09/S")
def test_a_nested_parameter_is_read_at_its_exact_path() -> None:
    size = (b"mcp-param-size", b"3")

    assert check_call([size], {"job": {"size": 3}}) is None
    assert_refused(check_call([size], {"job": {"size": 4}}), "Mcp-Param-Size")
    assert_refused(check_call([size], {"size": 3}), "Mcp-Param-Size")


@pytest.mark.req("T-22/S")
def test_a_mirrored_parameter_that_stands_twice_is_refused() -> None:
    region = (b"mcp-param-region", b"eu")

    assert_refused(check_call([region, region], {"region": "eu"}), "Mcp-Param-Region stands twice")
    assert_refused(check_call([(b"mcp-param-region", b"eu, eu")], {"region": "eu"}), "does not")


@pytest.mark.req("H-11/S")
def test_an_unknown_parameter_header_is_ignored_even_twice_or_malformed() -> None:
    unknown = [(b"mcp-param-x", b"\xff"), (b"mcp-param-x", b"=?base64?!?="), (b"mcp-x", b"1")]
    head = [VERSION, METHOD, (b"mcp-name", b"free")]

    assert check_call(unknown, {"x": 1}) is None
    assert check([*head, (b"mcp-param-region", b"eu")], name="free", arguments={}) is None


def test_parameters_of_another_method_are_not_mirrored() -> None:
    head = [VERSION, (b"mcp-method", b"prompts/get"), NAME]

    assert check(head, "prompts/get", name="hold", arguments={"region": "eu"}) is None


@pytest.mark.req("T-19/S")
def test_the_message_shows_both_sides_shortly_and_printably() -> None:
    short = check([VERSION, METHOD, (b"mcp-name", b"foo")], name="bar")
    long = check([VERSION, METHOD, (b"mcp-name", b"\xe9\x01" * 1000)], name="\u202e\n" * 1000)

    assert short is not None
    assert short.message == (
        "Header mismatch: Mcp-Name header value 'foo' does not match body value 'bar'"
    )
    assert_refused(long, "Mcp-Name")
    assert long is not None
    assert len(long.message) < 1000
