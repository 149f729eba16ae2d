"""Which return annotations promise a structure, and which."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import Annotated, Any, Literal

import mcp_types
import msgspec
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpost.errors import UsageError
from mcpost.types import CallResult, ImageContent, TextContent
from tests.helpers.signature import compiled


class Book(BaseModel):
    title: str
    year: int | None = None


@dataclasses.dataclass
class Shelf:
    floor: int


class Row(TypedDict):
    title: str


class Card(msgspec.Struct):
    title: str


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pending:
    """Stands for a returned value that is no result."""


class Foreign:
    """A class that no schema can be made of."""


BOOK = {
    "type": "object",
    "title": "Book",
    "properties": {
        "title": {"type": "string"},
        "year": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    },
    "required": ["title"],
}


def output_of(hint: Any, **options: Any) -> Any:
    def tool() -> Any: ...

    tool.__annotations__["return"] = hint
    return compiled(tool, **options).output_schema


def test_a_model_promises_its_schema() -> None:
    assert output_of(Book) == {key: value for key, value in BOOK.items() if key != "title"}
    assert output_of(list[Book]) == {
        "type": "array",
        "items": {"$ref": "#/$defs/Book"},
        "$defs": {"Book": BOOK},
    }


@pytest.mark.req("F-01/S", "J-07/S")
@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        pytest.param(int, {"type": "integer"}, id="an integer"),
        pytest.param(float, {"type": "number"}, id="a number"),
        pytest.param(bool, {"type": "boolean"}, id="a boolean"),
        pytest.param(list[str], {"type": "array", "items": {"type": "string"}}, id="a list"),
        pytest.param(
            dict[str, int],
            {"type": "object", "additionalProperties": {"type": "integer"}},
            id="a dictionary of one type",
        ),
        pytest.param(Color, {"type": "string", "enum": ["red", "blue"]}, id="an enum"),
        pytest.param(Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, id="a literal"),
        pytest.param(int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, id="or null"),
        pytest.param(
            Annotated[int, Field(ge=0)], {"type": "integer", "minimum": 0}, id="an annotation"
        ),
        pytest.param(
            Shelf,
            {"type": "object", "properties": {"floor": {"type": "integer"}}, "required": ["floor"]},
            id="a dataclass",
        ),
        pytest.param(
            Row,
            {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
            id="a typed dictionary",
        ),
    ],
)
def test_a_structure_is_promised_as_it_is(hint: Any, schema: dict[str, Any]) -> None:
    found = output_of(hint)
    found.pop("title", None)

    assert found == schema


def test_structs_promise_the_schema_that_msgspec_makes() -> None:
    card = {
        "title": "Card",
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    }

    assert output_of(list[Card]) == {
        "type": "array",
        "items": {"$ref": "#/$defs/Card"},
        "$defs": {"Card": card},
    }


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    "hint",
    [
        *(None, str, str | None, Annotated[str, "text"], bytes, Any, object),
        *(dict, list, dict[str, Any], list[Any], dict | None, tuple),
        *(TextContent, list[TextContent | str], ImageContent | None, CallResult, CallResult | str),
        *(mcp_types.TextContent, list[mcp_types.ImageContent], mcp_types.CallToolResult),
        *(Foreign, list[Foreign], Pending),
    ],
    ids=str,
)
def test_text_content_and_what_says_nothing_promise_nothing(hint: Any) -> None:
    assert output_of(hint, apart=(Pending,)) is None


def test_a_missing_annotation_promises_nothing() -> None:
    assert compiled(lambda: 5).output_schema is None


def test_what_is_no_result_is_left_out_of_the_promise() -> None:
    assert output_of(int | Pending, apart=(Pending,)) == {"type": "integer"}


def test_a_typed_dictionary_of_the_standard_library_will_do() -> None:
    class Made(typing.TypedDict):
        a: int

    assert output_of(Made)["properties"] == {"a": {"type": "integer"}}


class Tree(BaseModel):
    children: list[Tree] = []


@pytest.mark.req("F-01/S")
def test_the_root_says_its_type_itself() -> None:
    found = output_of(Tree)

    assert found["type"] == "object"
    assert found["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert list(found["$defs"]) == ["Tree"]
    assert output_of(Card)["type"] == "object"


@pytest.mark.req("F-01/S")
def test_an_author_may_write_the_output_schema_or_want_none() -> None:
    schema = {"type": "array", "items": {"type": "integer"}}

    assert output_of(Any, output_schema=schema) is schema
    assert output_of(Book, output_schema=False) is None


@pytest.mark.req("J-07/S")
@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"$ref": "https://example.com/a"}])
def test_an_output_schema_that_cannot_be_used_is_refused_at_registration(schema: Any) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        output_of(Any, output_schema=schema)
