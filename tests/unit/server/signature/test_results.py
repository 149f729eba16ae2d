"""What functions return, and the results that callers get."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, NamedTuple

import mcp_types
import msgspec
import pytest
from pydantic import BaseModel, Field

from mcpost.errors import InternalError
from mcpost.schema import compile_schema
from mcpost.types import (
    Annotations,
    AudioContent,
    CallResult,
    EmbeddedResource,
    Icon,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tests.helpers.signature import compiled


class Book(BaseModel):
    title: str
    shelf_mark: str = Field(default="A1", alias="shelfMark")


@dataclasses.dataclass
class Shelf:
    floor: int
    since: datetime.date | None = None


class Card(msgspec.Struct):
    title: str


class Point(NamedTuple):
    x: int
    y: int


class Color(enum.Enum):
    RED = "red"


def result_of(value: Any, hint: Any = None, **options: Any) -> dict[str, Any]:
    def find_books() -> Any: ...

    if hint is not None:
        find_books.__annotations__["return"] = hint
    return compiled(find_books, **options).result(value)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    ("value", "content"),
    [
        pytest.param("Emma", [text("Emma")], id="text"),
        pytest.param("", [text("")], id="no text"),
        pytest.param(None, [], id="nothing"),
        pytest.param(5, [text("5")], id="an integer"),
        pytest.param(0.5, [text("0.5")], id="a number"),
        pytest.param(True, [text("true")], id="a boolean"),
        pytest.param([1, "a", None], [text('[1,"a",null]')], id="a list"),
        pytest.param([], [text("[]")], id="an empty list"),
        pytest.param(Point(1, 2), [text("[1,2]")], id="a named tuple"),
        pytest.param(datetime.date(2026, 7, 28), [text('"2026-07-28"')], id="a date"),
        pytest.param(Color.RED, [text('"red"')], id="an enum"),
        pytest.param(PurePosixPath("/a"), [text('"/a"')], id="a path"),
    ],
)
def test_a_value_without_a_promise_becomes_text(value: Any, content: list[Any]) -> None:
    assert result_of(value) == {"content": content}


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    ("value", "structured"),
    [
        pytest.param({"n": 1, "list": [None]}, {"n": 1, "list": [None]}, id="a dictionary"),
        pytest.param({1: "a"}, {"1": "a"}, id="a dictionary with other keys"),
        pytest.param(Shelf(2), {"floor": 2, "since": None}, id="a dataclass"),
        pytest.param(Card("Emma"), {"title": "Emma"}, id="a Struct"),
        pytest.param(
            Book(title="Emma"), {"title": "Emma", "shelfMark": "A1"}, id="a model, by its aliases"
        ),
        pytest.param(
            {"books": [Book(title="Emma")]},
            {"books": [{"title": "Emma", "shelfMark": "A1"}]},
            id="a model inside",
        ),
        pytest.param({"type": "text"}, {"type": "text"}, id="data that looks like content"),
        pytest.param({"content": ["a"]}, {"content": ["a"]}, id="data that looks like a result"),
    ],
)
def test_an_object_is_structured_content_with_its_text_twin(value: Any, structured: Any) -> None:
    result = result_of(value)

    assert result["structuredContent"] == structured
    assert [msgspec.json.decode(block["text"]) for block in result["content"]] == [structured]


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    ("hint", "value", "structured"),
    [
        pytest.param(int, 5, 5, id="an integer"),
        pytest.param(float, 5, 5.0, id="a number"),
        pytest.param(bool, False, False, id="a boolean"),
        pytest.param(Color, Color.RED, "red", id="an enum"),
        pytest.param(int | None, None, None, id="null"),
        pytest.param(list[int], [1, 2], [1, 2], id="a list"),
        pytest.param(datetime.date, datetime.date(2026, 7, 28), "2026-07-28", id="a date"),
        pytest.param(Book, Book(title="a"), {"title": "a", "shelfMark": "A1"}, id="a model"),
        pytest.param(Book, {"title": "a"}, {"title": "a", "shelfMark": "A1"}, id="a dictionary"),
        pytest.param(
            Book, SimpleNamespace(title="a"), {"title": "a", "shelfMark": "A1"}, id="an object"
        ),
        pytest.param(
            Shelf, Shelf(1, datetime.date(2026, 7, 28)), {"floor": 1, "since": "2026-07-28"}, id="d"
        ),
        pytest.param(list[Card], [Card("a")], [{"title": "a"}], id="Structs"),
        pytest.param(Point, Point(1, 2), [1, 2], id="a named tuple"),
        pytest.param(dict[str, bytes], {"a": b"hi"}, {"a": "aGk="}, id="bytes"),
    ],
)
def test_what_was_promised_is_structured_content_of_any_kind(
    hint: Any, value: Any, structured: Any
) -> None:
    function_result = result_of(value, hint)

    assert function_result["structuredContent"] == structured
    (twin,) = function_result["content"]
    assert msgspec.json.decode(twin["text"]) == structured


@pytest.mark.req("F-01/S", "J-07/S")
@pytest.mark.parametrize(
    ("hint", "value"),
    [(Book, Book(title="a")), (list[Shelf], [Shelf(1)]), (Color, Color.RED), (list[Card], [])],
)
def test_structured_content_keeps_to_the_output_schema(hint: Any, value: Any) -> None:
    def tool() -> Any: ...

    tool.__annotations__["return"] = hint
    function = compiled(tool)
    assert function.output_schema is not None

    structured = function.result(value)["structuredContent"]

    assert compile_schema(function.output_schema).check(structured) is None


def spoiled() -> Book:
    book = Book(title="a")
    book.title = 5  # type: ignore[assignment]
    return book


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    ("hint", "value", "reason"),
    [
        pytest.param(int, "five", "valid integer", id="another type"),
        pytest.param(int, None, "valid integer", id="nothing"),
        pytest.param(Book, {"titel": "a"}, "title: is required", id="a missing member"),
        pytest.param(list[int], [1, "b"], "1: .*valid integer", id="a wrong element"),
        pytest.param(
            Book, spoiled(), "not of its type any more", id="a model that was changed since"
        ),
        pytest.param(list[Card], [Card(5)], r"Expected `str`, got `int`", id="a wrong Struct"),  # type: ignore[arg-type]
        pytest.param(dict[str, bytes], {"a": object()}, "valid bytes", id="no data"),
    ],
)
def test_what_was_not_promised_is_the_servers_failure(hint: Any, value: Any, reason: str) -> None:
    with pytest.raises(InternalError, match=f"'find_books' returned what .*{reason}"):
        result_of(value, hint)


SCHEMA = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.req("F-01/S", "J-07/S")
def test_an_authors_output_schema_is_kept_to_as_well() -> None:
    assert result_of((1, 2), output_schema=SCHEMA) == {
        "content": [text("[1,2]")],
        "structuredContent": [1, 2],
    }
    with pytest.raises(InternalError, match='does not allow: 1: "b" is not of type "integer"'):
        result_of([1, "b"], output_schema=SCHEMA)


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(object(), id="an object of no kind"),
        pytest.param({"a": {1, object()}}, id="one inside"),
        pytest.param(math.nan, id="not a number"),
        pytest.param({"a": [None, math.inf]}, id="infinity inside"),
        pytest.param("\ud800", id="half a surrogate pair"),
        pytest.param(["\ud800"], id="half a surrogate pair inside"),
        pytest.param((each for each in [1]), id="a generator"),
    ],
)
def test_what_json_cannot_say_is_an_error_that_names_the_tool(value: Any) -> None:
    with pytest.raises(InternalError, match="'find_books' returned what JSON cannot say"):
        result_of(value)


def test_a_value_that_contains_itself_is_an_error_and_no_crash() -> None:
    value: dict[str, Any] = {}
    value["self"] = value

    with pytest.raises(InternalError, match="find_books"):
        result_of(value)


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize("hint", [float, list[float], dict[str, float | None]])
def test_a_promised_number_is_finite(hint: Any) -> None:
    value = {float: math.nan, list[float]: [math.inf]}.get(hint, {"a": math.nan, "b": None})

    with pytest.raises(InternalError, match="not finite"):
        result_of(value, hint)


LINK = ResourceLink(
    "books://1",
    "Emma",
    icons=[Icon("https://example.com/a.png", sizes=["48x48"])],
    annotations=Annotations(audience=["user"], priority=0.5, last_modified="2026-07-28T00:00:00Z"),
)
BLOCKS = [
    pytest.param(TextContent("a"), text("a"), id="text"),
    pytest.param(
        ImageContent("aGk=", "image/png", annotations=Annotations(audience=["assistant"])),
        {
            "type": "image",
            "data": "aGk=",
            "mimeType": "image/png",
            "annotations": {"audience": ["assistant"]},
        },
        id="image",
    ),
    pytest.param(
        AudioContent("aGk=", "audio/wav"),
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        id="audio",
    ),
    pytest.param(
        LINK,
        {
            "type": "resource_link",
            "uri": "books://1",
            "name": "Emma",
            "icons": [{"src": "https://example.com/a.png", "sizes": ["48x48"]}],
            "annotations": {
                "audience": ["user"],
                "priority": 0.5,
                "lastModified": "2026-07-28T00:00:00Z",
            },
        },
        id="link",
    ),
    pytest.param(
        EmbeddedResource(TextResourceContents("books://1", "Emma", meta={"com.example/a": 1})),
        {
            "type": "resource",
            "resource": {"uri": "books://1", "text": "Emma", "_meta": {"com.example/a": 1}},
        },
        id="resource",
    ),
    pytest.param(
        mcp_types.ImageContent(type="image", data="aGk=", mime_type="image/png"),
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        id="another package's",
    ),
    pytest.param({"type": "text", "text": "a", "_meta": {}}, {**text("a"), "_meta": {}}, id="JSON"),
]


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(("block", "written"), BLOCKS)
def test_a_content_block_is_content(block: Any, written: dict[str, Any]) -> None:
    assert result_of(block) == {"content": [written]}
    assert result_of([block, "and text", 5, {"n": 1}], list) == {
        "content": [written, text("and text"), text("5"), text('{"n":1}')]
    }


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(
            CallResult([TextContent("a")], {"n": 1}, True, meta={"com.example/a": 1}), id="ours"
        ),
        pytest.param(
            mcp_types.CallToolResult(
                content=[mcp_types.TextContent(type="text", text="a")],
                structured_content={"n": 1},
                is_error=True,
                _meta={"com.example/a": 1},
            ),
            id="another package's",
        ),
        pytest.param(
            {
                "content": [text("a")],
                "structuredContent": {"n": 1},
                "isError": True,
                "_meta": {"com.example/a": 1},
                "resultType": "complete",
            },
            id="JSON",
        ),
    ],
)
def test_a_whole_result_is_taken_as_it_is(value: Any) -> None:
    assert result_of(value) == {
        "content": [text("a")],
        "structuredContent": {"n": 1},
        "isError": True,
        "_meta": {"com.example/a": 1},
    }


@pytest.mark.req("F-01/S")
def test_a_whole_result_keeps_the_promise_too_unless_it_is_an_error() -> None:
    promised = CallResult(structured_content={"title": "a", "shelfMark": "B"})

    assert result_of(promised, Book)["content"] == [text('{"title":"a","shelfMark":"B"}')]
    assert result_of(CallResult([TextContent("no")], is_error=True), Book)["isError"]
    with pytest.raises(InternalError, match='"title" is a required property'):
        result_of(CallResult(structured_content={}), Book)
    with pytest.raises(InternalError, match='null is not of type "object"'):
        result_of(CallResult([TextContent("a")]), Book)


@pytest.mark.req("F-01/S")
def test_the_earlier_revisions_read_a_result_with_the_official_models() -> None:
    result = result_of(Book(title="a"), Book)

    found = mcp_types.CallToolResult.model_validate(result)

    assert found.structured_content == {"title": "a", "shelfMark": "A1"}


def test_what_an_author_keeps_is_not_changed() -> None:
    kept = {"content": [text("a")], "list": [1]}

    result = result_of(kept)
    result["structuredContent"]["list"].append(2)

    assert kept == {"content": [text("a")], "list": [1]}
