"""Marks of an input schema, and the headers of a call."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from mcpost.errors import BadMark, UsageError
from mcpost.limits import WireLimits
from mcpost.wire.mirror import (
    EMPTY,
    Mark,
    compile_mirror,
    looks_secret,
    request_headers,
    value_at,
)

REGION = {"type": "string", "x-mcp-header": "Region"}


def schema_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.req("H-01/S", "H-01/C", "H-03/S")
def test_marks_are_read_in_the_order_of_the_schema_at_any_depth() -> None:
    schema = schema_of(
        region=REGION,
        job=schema_of(size={"type": "integer", "x-mcp-header": "Job-Size"}),
        dry={"type": "boolean", "x-mcp-header": "DRY"},
    )

    assert compile_mirror(schema).marks == (
        Mark("Region", b"mcp-param-region", ("region",), "string"),
        Mark("Job-Size", b"mcp-param-job-size", ("job", "size"), "integer"),
        Mark("DRY", b"mcp-param-dry", ("dry",), "boolean"),
    )


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, schema_of(a={"type": "number"}), {"properties": [1]}]
)
def test_a_schema_without_marks_mirrors_nothing(schema: dict[str, Any]) -> None:
    assert compile_mirror(schema) is EMPTY


@pytest.mark.req("H-02/S", "H-02/C", "H-05/C")
@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "Région", "a\r\nX: y", "a\x00", "a/b", 3, None, ["A"], {}], ids=repr
)
def test_a_mark_is_a_token(name: object) -> None:
    with pytest.raises(BadMark) as caught:
        compile_mirror(schema_of(region={"type": "string", "x-mcp-header": name}))
    assert caught.value.path == "properties.region"


@pytest.mark.req("H-02/S", "H-02/C", "H-05/C")
def test_marks_are_unique_whatever_their_case() -> None:
    other = {"type": "string", "x-mcp-header": "rEGION"}

    with pytest.raises(BadMark, match="twice"):
        compile_mirror(schema_of(region=REGION, deep=schema_of(other=other)))


@pytest.mark.req("H-03/S", "H-03/C", "H-05/C")
@pytest.mark.parametrize(
    "kind",
    [
        None,
        "number",
        "object",
        "array",
        "null",
        ["string", "null"],
        ["string", "integer"],
        [],
        [[]],
        {},
    ],
    ids=repr,
)
def test_a_marked_parameter_is_a_string_integer_or_boolean(kind: object) -> None:
    with pytest.raises(BadMark):
        compile_mirror(schema_of(region={"type": kind, "x-mcp-header": "Region"}))


@pytest.mark.req("H-03/S", "H-03/C")
def test_a_list_of_one_type_says_the_same_as_the_type() -> None:
    schema = schema_of(region={"type": ["string"], "x-mcp-header": "Region"})

    assert compile_mirror(schema).marks[0].type == "string"


OFF_CHAIN = {
    "the root": {"x-mcp-header": "Region", "type": "string"},
    "items": schema_of(a={"type": "array", "items": REGION}),
    "inside of items": schema_of(a={"type": "array", "items": schema_of(r=REGION)}),
    "prefixItems": schema_of(a={"prefixItems": [{}, REGION]}),
    "contains": schema_of(a={"contains": REGION}),
    "unevaluatedItems": schema_of(a={"unevaluatedItems": REGION}),
    "additionalProperties": {"additionalProperties": REGION},
    "unevaluatedProperties": {"unevaluatedProperties": REGION},
    "patternProperties": {"patternProperties": {"^r": REGION}},
    "propertyNames": {"propertyNames": REGION},
    "dependentSchemas": {"dependentSchemas": {"a": schema_of(r=REGION)}},
    "dependencies": {"dependencies": {"a": schema_of(r=REGION), "b": ["a"]}},
    "oneOf": {"oneOf": [schema_of(r=REGION)]},
    "anyOf": schema_of(r={"anyOf": [REGION, {"type": "null"}]}),
    "allOf": {"allOf": [schema_of(r=REGION)]},
    "not": {"not": schema_of(r=REGION)},
    "if": {"if": schema_of(r=REGION)},
    "then": {"then": schema_of(r=REGION)},
    "else": {"else": schema_of(r=REGION)},
    "contentSchema": schema_of(a={"contentSchema": REGION}),
    "$defs": {"$defs": {"R": REGION}, "properties": {"r": {"$ref": "#/$defs/R"}}},
    "definitions": {"definitions": {"R": REGION}},
    "an unknown keyword": {"x-other": {"r": REGION}},
    "a property called properties, in items": schema_of(
        a={"items": {"properties": {"properties": REGION}}}
    ),
}


@pytest.mark.req("H-03/S", "H-03/C", "H-05/C")
@pytest.mark.parametrize("schema", OFF_CHAIN.values(), ids=OFF_CHAIN)
def test_a_mark_off_the_chain_of_properties_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadMark, match="'properties' alone"):
        compile_mirror(schema)


@pytest.mark.req("H-03/S", "H-03/C")
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(schema_of(a={"const": {"x-mcp-header": ""}}), id="const"),
        pytest.param(schema_of(a={"enum": [{"x-mcp-header": ""}]}), id="enum"),
        pytest.param(schema_of(a={"default": {"x-mcp-header": ""}}), id="default"),
        pytest.param(schema_of(a={"examples": [{"x-mcp-header": ""}]}), id="examples"),
        pytest.param(schema_of(**{"x-mcp-header": {"type": "string"}}), id="a property's name"),
        pytest.param({"$defs": {"x-mcp-header": {"type": "string"}}}, id="a definition's name"),
    ],
)
def test_what_only_looks_like_a_mark_is_none(schema: dict[str, Any]) -> None:
    assert compile_mirror(schema) is EMPTY


@pytest.mark.req("H-03/S")
def test_properties_may_be_called_like_keywords() -> None:
    schema = schema_of(properties=schema_of(items=REGION), const={**REGION, "x-mcp-header": "C"})

    assert [mark.path for mark in compile_mirror(schema).marks] == [
        ("properties", "items"),
        ("const",),
    ]


@pytest.mark.req("J-07/S", "J-07/C")
def test_a_schema_that_is_too_deep_or_too_large_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = schema_of(a=deep)
    wide = schema_of(**{f"p{number}": {} for number in range(5)})

    with pytest.raises(BadMark, match="too deep"):
        compile_mirror(deep)
    with pytest.raises(BadMark, match="too large"):
        compile_mirror(wide, WireLimits(max_schema_nodes=5))
    assert compile_mirror(wide, WireLimits(max_schema_nodes=6)) is EMPTY


@pytest.mark.req("H-01/C", "H-06/C", "H-07/C")
def test_the_lines_of_a_call_mirror_what_it_has() -> None:
    mirror = compile_mirror(
        schema_of(
            region=REGION,
            n={"type": "integer", "x-mcp-header": "N"},
            deep=schema_of(dry={"type": "boolean", "x-mcp-header": "Dry"}),
        )
    )

    assert mirror.lines({"region": "", "n": 42.0, "deep": {"dry": False}}) == [
        ("Mcp-Param-Region", ""),
        ("Mcp-Param-N", "42"),
        ("Mcp-Param-Dry", "false"),
    ]
    assert mirror.lines({"region": "世"}) == [("Mcp-Param-Region", "=?base64?5LiW?=")]
    assert mirror.lines({"region": None, "deep": None}) == []
    assert mirror.lines({"deep": [{"dry": True}]}) == []


@pytest.mark.req("H-04/C")
@pytest.mark.parametrize("value", [2**53, -(2**53), 10**400, 0.5, "\ud800", [], {"a": 1}], ids=repr)
def test_an_argument_that_no_header_can_stand_for_is_never_skipped(value: object) -> None:
    with pytest.raises(UsageError):
        compile_mirror(schema_of(region=REGION)).lines({"region": value})


def test_a_value_is_read_at_its_exact_path() -> None:
    arguments = MappingProxyType({"a": MappingProxyType({"b": 1}), "a.b": 2})

    assert value_at(arguments, ("a", "b")) == 1
    assert value_at({"a": "b"}, ("a", "b")) is None
    assert value_at(None, ("a",)) is None


@pytest.mark.req("T-16/C", "T-19/C")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "add"}, "add"),
        ("prompts/get", {"name": " p"}, "=?base64?IHA=?="),
        ("resources/read", {"uri": "file:///a b", "name": "x"}, "file:///a b"),
        ("tools/list", {"name": "x"}, None),
        ("tools/call", {}, None),
    ],
)
def test_each_request_says_version_method_and_name(
    method: str, params: dict[str, Any], name: str | None
) -> None:
    lines = request_headers(method, params, "2026-07-28")

    assert lines[:2] == [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)]
    assert lines[2:] == ([] if name is None else [("Mcp-Name", name)])


@pytest.mark.req("H-01/C")
def test_only_a_tool_call_mirrors_arguments() -> None:
    mirror = compile_mirror(schema_of(region=REGION))
    params = {"name": "x", "arguments": {"region": "eu"}}

    called = request_headers("tools/call", params, "2026-07-28", mirror)
    asked = request_headers("prompts/get", params, "2026-07-28", mirror)
    bare = request_headers("tools/call", {"name": "x"}, "2026-07-28", mirror)

    assert called[-1] == ("Mcp-Param-Region", "eu")
    assert called[:-1] == bare
    assert len(asked) == len(bare)


@pytest.mark.req("T-19/C")
@pytest.mark.parametrize("method", ["a\r\nX: y", "tools/café", "a\x00"])
def test_a_method_cannot_break_its_header_line(method: str) -> None:
    with pytest.raises(UsageError):
        request_headers(method, {}, "2026-07-28")


@pytest.mark.req("H-14/S")
def test_names_that_read_like_secrets_are_known() -> None:
    secret = ["password", "apiKey", "API_KEY", "api-key", "accessToken", "client_secret", "pin"]
    secret += ["Authorization", "bearer", "userPassword2", "token", "ssn", "card-number", "otp"]
    plain = ["region", "tokenizer", "pinned", "author", "keyboard", "shipping", "tenant", "pass"]

    assert [name for name in secret if not looks_secret(name)] == []
    assert [name for name in plain if looks_secret(name)] == []
