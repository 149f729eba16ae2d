"""Schemas that others wrote: their dialect, their references, their cost."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from mcpost.limits import WireLimits
from mcpost.schema import SchemaError, compile_schema
from tests.helpers.until import DEADLINE

BOOK = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "copies": {"type": "array", "items": {"minimum": 1}},
    },
    "required": ["title"],
}


@pytest.mark.req("J-07/S", "J-07/C")
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param({"title": "Emma"}, None, id="valid"),
        pytest.param({"title": "Emma", "copies": [1, 2.0]}, None, id="valid, nested"),
        pytest.param({"title": 5}, 'title: 5 is not of type "string"', id="a property"),
        pytest.param(
            {"title": "Emma", "copies": [1, 0]},
            "copies.1: 0 is less than the minimum of 1",
            id="an element",
        ),
        pytest.param({}, '"title" is a required property', id="at the root"),
        pytest.param("Emma", '"Emma" is not of type "object"', id="the root itself"),
    ],
)
def test_a_problem_is_a_sentence_that_names_the_place(value: Any, problem: str | None) -> None:
    assert compile_schema(BOOK).check(value) == problem


@pytest.mark.parametrize("value", [{1: 2}, {"title": object()}, {"title": {1, 2}}])
def test_what_is_no_json_is_a_problem_and_no_crash(value: Any) -> None:
    assert (compile_schema(BOOK).check(value) or "").startswith(("not a JSON value: ", "title: "))


def test_a_long_value_does_not_make_a_long_sentence() -> None:
    assert len(compile_schema({"type": "integer"}).check("x" * 10_000) or "") < 400


@pytest.mark.req("J-07/S", "J-07/C")
def test_a_schema_without_a_dialect_is_of_2020_12() -> None:
    validator = compile_schema({"prefixItems": [{"type": "string"}]})

    assert validator.check(["a"]) is None
    assert validator.check([1]) == '0: 1 is not of type "string"'


@pytest.mark.req("J-07/S", "J-07/C")
@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
    ],
)
def test_an_earlier_dialect_is_read_as_it_was_meant(dialect: str) -> None:
    # `items` as a list is a tuple there; 2020-12 does not know it.
    validator = compile_schema({"$schema": dialect, "items": [{"type": "string"}]})

    assert validator.check([1]) == '0: 1 is not of type "string"'
    with pytest.raises(SchemaError):
        compile_schema({"items": [{"type": "string"}]})


@pytest.mark.req("J-07/S", "J-07/C")
@pytest.mark.parametrize("dialect", ["https://example.com/dialect", "draft-07", 7, None])
def test_a_dialect_that_is_not_supported_is_said_to_be_so(dialect: Any) -> None:
    with pytest.raises(SchemaError, match=r"dialect .* is not supported; use one of .*2020-12"):
        compile_schema({"$schema": dialect})


@pytest.mark.req("J-07/S", "J-07/C")
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$ref": "https://example.com/schema"}, id="elsewhere"),
        pytest.param({"properties": {"a": {"$ref": "http://127.0.0.1:9/a#/b"}}}, id="loopback"),
        pytest.param({"$ref": "file:///etc/hostname"}, id="a file"),
        pytest.param({"$ref": "#/$defs/none"}, id="nowhere"),
        pytest.param({"$id": "https://example.com/a", "$ref": "b"}, id="relative"),
        pytest.param({"$dynamicRef": "https://example.com/a#b"}, id="dynamic"),
    ],
)
def test_a_reference_that_leads_outside_is_refused_and_not_fetched(schema: Any) -> None:
    with pytest.raises(SchemaError, match="cannot be used"):
        compile_schema(schema)


@pytest.mark.req("J-07/S", "J-07/C")
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, id="pointer"),
        pytest.param(
            {"$ref": "#x", "$defs": {"a": {"$anchor": "x", "type": "string"}}}, id="anchor"
        ),
        pytest.param(
            {"$ref": "urn:b", "$defs": {"a": {"$id": "urn:b", "type": "string"}}}, id="an own id"
        ),
        pytest.param(
            {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "string"}}}, id="escaped"
        ),
        pytest.param({"$ref": "#/allOf/1", "allOf": [{}, {"type": "string"}]}, id="an element"),
    ],
)
def test_a_reference_inside_is_followed(schema: Any) -> None:
    assert compile_schema(schema).check("x") is None
    assert compile_schema(schema).check(1) == '1 is not of type "string"'


@pytest.mark.req("J-07/S", "J-07/C")
@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"required": "a"}, {"pattern": "("}])
def test_a_schema_that_is_none_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaError, match="cannot be used"):
        compile_schema(schema)


def test_a_schema_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(SchemaError, match="no JSON"):
        compile_schema({"const": object()})


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.req("J-07/S", "J-07/C")
def test_depth_and_size_are_bounded_before_a_schema_is_compiled() -> None:
    limits = WireLimits(max_schema_depth=8, max_schema_nodes=40)
    many = {"allOf": [{} for _ in range(50)]}

    assert compile_schema(nested(8), limits).check({}) is None
    with pytest.raises(SchemaError, match="deeper than 8 levels"):
        compile_schema(nested(9), limits)
    with pytest.raises(SchemaError, match="more than 40 subschemas"):
        compile_schema(many, limits)
    with pytest.raises(SchemaError, match="more than 40 subschemas"):
        compile_schema({"enum": list(range(500))}, limits)


def doubling(steps: int) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    definitions: dict[str, Any] = {
        f"d{step}": {"allOf": [{"$ref": f"#/$defs/d{step + 1}"}] * 2} for step in range(steps)
    }
    definitions[f"d{steps}"] = {"type": "integer"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


@pytest.mark.req("J-07/S", "J-07/C")
def test_references_that_multiply_each_other_are_refused() -> None:
    assert compile_schema(doubling(8)).check(1) is None
    with pytest.raises(SchemaError, match="multiply each other"):
        compile_schema(doubling(60))


TWICE = {"properties": {"x": {"$ref": "#"}}}


@pytest.mark.req("J-07/S", "J-07/C")
def test_a_schema_that_doubles_with_depth_checks_shallow_values_alone() -> None:
    validator = compile_schema({"allOf": [TWICE, TWICE], "type": "object"})
    shallow: Any = {"x": {"x": {}}}
    deep: Any = {}
    for _ in range(60):
        deep = {"x": deep}

    assert validator.check(shallow) is None
    started = time.process_time()
    assert "levels deep" in (validator.check(deep) or "")
    assert time.process_time() - started < 5


@pytest.mark.req("J-07/S", "J-07/C")
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$ref": "#"}, id="itself"),
        pytest.param({"allOf": [{"$ref": "#"}]}, id="itself, once removed"),
        pytest.param(
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            },
            id="two that are each other",
        ),
    ],
)
def test_a_circle_of_references_ends(schema: Any) -> None:
    assert compile_schema(schema).check(1) is None


@pytest.mark.req("J-07/S", "J-07/C")
def test_a_tree_may_be_as_deep_as_it_likes() -> None:
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "type": "object"}
    value: Any = {}
    for _ in range(900):
        value = {"left": value}

    assert compile_schema(tree).check(value) is None


@pytest.mark.req("J-07/S", "J-07/C")
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+\\1$", "^(?=a)(a*)*b\\1$"])
def test_a_pattern_cannot_take_for_ever(pattern: str) -> None:
    validator = compile_schema({"pattern": pattern})

    started = time.process_time()
    assert validator.check("a" * 60 + "!") is not None
    assert time.process_time() - started < 5


def test_equal_schemas_share_a_validator() -> None:
    assert compile_schema(BOOK) is compile_schema(dict(BOOK))


def test_the_engine_is_loaded_when_the_first_schema_is_compiled() -> None:
    program = "import mcpost.schema, sys; print('jsonschema_rs' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=DEADLINE)

    assert result.stdout.strip() == b"False"
