"""Marks written as plain type hints: optional, nested, of any type that may be mirrored."""

from __future__ import annotations

import enum
import warnings
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from mcpost.errors import BadMark, InvalidParams, UsageError
from mcpost.server.marks import Ask, Mirror
from mcpost.server.signature import SecretMirroredWarning
from tests.helpers.signature import Context, compiled


class Color(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    SMALL = 1


class Place(BaseModel):
    region: Annotated[str | None, Mirror("Region")] = None
    zone: int = 0


class Job(BaseModel):
    place: Place
    note: str = ""


class Nested(BaseModel):
    name: Annotated[str, Mirror("Name")]
    inner: Nested | None = None


def schema_of(hint: Any, **options: Any) -> dict[str, Any]:
    def tool(value: Any) -> None: ...

    tool.__annotations__["value"] = hint
    tool.__defaults__ = (options["default"],) if "default" in options else None
    found: dict[str, Any] = compiled(tool).input_schema["properties"]["value"]
    return found


SAFE = {"minimum": -9007199254740991, "maximum": 9007199254740991}


@pytest.mark.req("H-01/S", "H-03/S")
@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        pytest.param(Annotated[str, Mirror("V")], {"type": "string"}, id="text"),
        pytest.param(Annotated[bool, Mirror("V")], {"type": "boolean"}, id="a boolean"),
        pytest.param(Annotated[int, Mirror("V")], {"type": "integer", **SAFE}, id="an integer"),
        pytest.param(Annotated[str | None, Mirror("V")], {"type": "string"}, id="or null"),
        pytest.param(Annotated[str, Mirror("V")] | None, {"type": "string"}, id="null outside"),
        pytest.param(
            Annotated[Literal["eu", "us"], Mirror("V")],
            {"type": "string", "enum": ["eu", "us"]},
            id="a literal",
        ),
        pytest.param(
            Annotated[Color | None, Mirror("V")],
            {"type": "string", "enum": ["red"], "title": "Color"},
            id="an enum of text",
        ),
        pytest.param(
            Annotated[Size, Mirror("V")],
            {"type": "integer", "enum": [1], "title": "Size", **SAFE},
            id="an enum of integers",
        ),
        pytest.param(
            Annotated[str, Field(json_schema_extra={"x-mcp-header": "V"})],
            {"type": "string"},
            id="the keyword itself",
        ),
    ],
)
def test_a_mark_stands_on_a_plain_type(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == {**schema, "x-mcp-header": "V"}


@pytest.mark.req("H-01/S", "H-03/S")
def test_an_optional_mark_has_neither_null_nor_a_default_of_null() -> None:
    def tool(region: Annotated[str | None, Mirror("Region")] = None) -> None: ...

    function = compiled(tool)

    assert function.input_schema == {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "additionalProperties": False,
    }
    assert [function.bind(each) for each in ({}, {"region": None}, {"region": "eu"})] == [
        {},
        {"region": None},
        {"region": "eu"},
    ]


@pytest.mark.req("H-01/S", "H-03/S")
def test_marks_in_nested_models_are_reached_through_properties_alone() -> None:
    def tool(job: Job | None = None) -> None: ...

    function = compiled(tool)

    assert function.mirror.lines({"job": {"place": {"region": "eu"}}}) == [
        ("Mcp-Param-Region", "eu")
    ]
    job = function.input_schema["properties"]["job"]
    assert job["properties"]["place"]["properties"]["region"] == {
        "type": "string",
        "x-mcp-header": "Region",
    }
    assert "$defs" not in function.input_schema
    bound = function.bind({"job": {"place": {"region": "eu"}}})
    assert bound == {"job": Job(place=Place(region="eu"))}


def test_what_no_mark_needs_is_left_as_it_was() -> None:
    class Other(BaseModel):
        n: int

    def tool(place: Place, other: Other | None = None) -> None: ...

    schema = compiled(tool).input_schema

    assert schema["properties"]["other"] == {"anyOf": [{"$ref": "#/$defs/Other"}, {"type": "null"}]}
    assert list(schema["$defs"]) == ["Other"]


@pytest.mark.req("H-02/S", "H-03/S")
@pytest.mark.parametrize(
    ("hint", "rule"),
    [
        pytest.param(Annotated[float, Mirror("V")], "not 'number'", id="a number"),
        pytest.param(Annotated[int | str, Mirror("V")], "string, integer or boolean", id="a union"),
        pytest.param(Annotated[list[str], Mirror("V")], "not 'array'", id="a list"),
        pytest.param(Annotated[Any, Mirror("V")], "string, integer or boolean", id="anything"),
        pytest.param(Annotated[Place, Mirror("V")], "not 'object'", id="a model"),
        pytest.param(list[Annotated[str, Mirror("V")]], "'properties' alone", id="in a list"),
        pytest.param(dict[str, Place], "'properties' alone", id="in a dictionary"),
        pytest.param(Place | Job, "'properties' alone", id="in one of two models"),
        pytest.param(Annotated[str, Mirror("")], "not empty", id="no name"),
        pytest.param(Annotated[str, Mirror("My Region")], "token", id="a name with a blank"),
        pytest.param(Annotated[str, Mirror("Région")], "token", id="a name beyond ASCII"),
        pytest.param(Nested, "contains itself", id="in a model that contains itself"),
    ],
)
def test_a_mark_that_breaks_a_rule_is_refused_at_registration(hint: Any, rule: str) -> None:
    def tool(value: Any) -> None: ...

    tool.__annotations__["value"] = hint

    with pytest.raises(BadMark, match=rule) as caught:
        compiled(tool, name="place_hold")

    assert str(caught.value).startswith("tool 'place_hold', ")


@pytest.mark.req("H-02/S")
def test_two_marks_may_not_differ_by_case_alone() -> None:
    def tool(a: Annotated[str, Mirror("Region")], b: Annotated[str, Mirror("REGION")]) -> None: ...

    with pytest.raises(BadMark, match="used twice"):
        compiled(tool)


@pytest.mark.req("H-04/S")
@pytest.mark.parametrize("sent", [2**53, -(2**53), 1e300, 10**40])
def test_a_mirrored_integer_beyond_what_headers_say_exactly_is_refused(sent: Any) -> None:
    def tool(n: Annotated[int | None, Mirror("N")], job: Any = None) -> None: ...

    function = compiled(tool)

    assert function.bind({"n": 2**53 - 1}) == {"n": 2**53 - 1}
    assert function.bind({"n": None}) == {"n": None}
    with pytest.raises(InvalidParams, match=r"n: a mirrored integer lies within"):
        function.bind({"n": sent})


@pytest.mark.req("H-04/S")
def test_an_authors_bounds_stay_within_those_of_headers() -> None:
    schema = schema_of(Annotated[int, Field(ge=0, le=2**60), Mirror("N")])

    assert (schema["minimum"], schema["maximum"]) == (0, 2**53 - 1)


@pytest.mark.req("H-14/S")
@pytest.mark.parametrize("name", ["api_key", "accessToken", "password"])
def test_an_author_who_mirrors_what_reads_like_a_secret_is_warned(name: str) -> None:
    def tool(value: Any) -> None: ...

    hint = Annotated[str, Mirror("Value"), Field(alias=name)]
    tool.__annotations__["value"] = hint

    with pytest.warns(SecretMirroredWarning, match=f"tool 'login': {name} reads like") as caught:
        compiled(tool, name="login")

    assert caught[0].filename.endswith("signature.py")  # the helper: the first code of an author


def test_other_marks_warn_of_nothing() -> None:
    def tool(region: Annotated[str, Mirror("Region")], token: str) -> None: ...

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(tool)


def test_a_mark_in_an_authors_own_schema_counts() -> None:
    schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "R"}}}

    def tool(**arguments: Any) -> None: ...

    assert compiled(tool, input_schema=schema).mirror.lines({"r": "eu"}) == [("Mcp-Param-R", "eu")]


def test_marks_are_equal_by_their_name() -> None:
    assert Mirror("A") == Mirror("A") != Mirror("B")
    assert len({Mirror("A"), Mirror("A")}) == 1
    assert repr(Mirror("A")) == "Mirror('A')"


def where_to(book_id: int, ctx: Context, **rest: Any) -> Any: ...


@pytest.mark.req("P-06/S")
def test_an_asked_parameter_is_not_the_callers_to_give() -> None:
    def ship(
        book_id: int, address: Annotated[str | None, Field(), Ask(where_to)], ctx: Context
    ) -> None: ...

    function = compiled(ship)

    assert function.parameters.names == ("book_id",)
    assert function.bind({"book_id": 1}) == {"book_id": 1}
    asked = function.asks["address"]
    assert (asked.hint, asked.needs, asked.context) == (str | None, ("book_id",), "ctx")
    assert repr(Ask(where_to)) == "Ask('where_to')"


def test_what_asks_may_take_only_what_the_function_takes() -> None:
    def ship(address: Annotated[str, Ask(where_to)]) -> None: ...

    with pytest.raises(UsageError, match="'address' takes book_id, and there is no such parameter"):
        compiled(ship)
