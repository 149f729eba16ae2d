"""Arguments as they arrive, and what a function gets."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from mcpost.errors import InvalidParams
from tests.helpers.signature import Context, compiled


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: int


class Author(BaseModel):
    name: str
    born: datetime.date | None = None


@dataclasses.dataclass
class Shelf:
    floor: int
    books: list[str] = dataclasses.field(default_factory=list)


class Filter(TypedDict, total=False):
    year: int


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


VALUES = [
    pytest.param(int, 5, 5, id="an integer"),
    pytest.param(int, 5.0, 5, id="an integral number for an integer"),
    pytest.param(int, 10**30, 10**30, id="an integer beyond 64 bits"),
    pytest.param(float, 5, 5.0, id="an integer for a number"),
    pytest.param(str, "5", "5", id="text"),
    pytest.param(bool, True, True, id="a boolean"),
    pytest.param(Any, {"a": [1.5, None]}, {"a": [1.5, None]}, id="anything"),
    pytest.param(int | None, None, None, id="null where it is allowed"),
    pytest.param(int | str, "5", "5", id="a union keeps what fits"),
    pytest.param(list[int], [1, 2.0], [1, 2], id="a list"),
    pytest.param(tuple[int, str], [1, "a"], (1, "a"), id="a tuple from an array"),
    pytest.param(set[int], [1, 1], {1}, id="a set from an array"),
    pytest.param(dict[str, int], {"a": 1}, {"a": 1}, id="an object"),
    pytest.param(Literal["a", 1], 1, 1, id="a literal"),
    pytest.param(Color, "red", Color.RED, id="an enum from its value"),
    pytest.param(datetime.date, "2026-07-28", datetime.date(2026, 7, 28), id="a date from text"),
    pytest.param(datetime.timedelta, "PT5S", datetime.timedelta(seconds=5), id="a duration"),
    pytest.param(decimal.Decimal, "1.10", decimal.Decimal("1.10"), id="a decimal from text"),
    pytest.param(uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7), id="a UUID"),
    pytest.param(bytes, "aGk=", b"hi", id="bytes from Base64"),
    pytest.param(Path, "/a/b", Path("/a/b"), id="a path"),
    pytest.param(Point, [1, 2], Point(1, 2), id="a named tuple"),
    pytest.param(Author, {"name": "Austen"}, Author(name="Austen"), id="a model"),
    pytest.param(Shelf, {"floor": 2}, Shelf(2), id="a dataclass"),
    pytest.param(Filter, {"year": 1815}, {"year": 1815}, id="a typed dictionary"),
    pytest.param(
        Tree,
        {"value": 1, "children": [{"value": 2.0}]},
        Tree(value=1, children=[Tree(value=2)]),
        id="a model that contains itself",
    ),
    pytest.param(Annotated[int, AfterValidator(lambda n: n + 1)], 1, 2, id="a validator"),
]


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(("hint", "sent", "given"), VALUES)
def test_json_becomes_what_the_hint_says(hint: Any, sent: Any, given: Any) -> None:
    def tool(value: Any) -> None: ...

    tool.__annotations__["value"] = hint

    bound = compiled(tool).bind({"value": sent})

    assert bound == {"value": given}
    assert type(bound["value"]) is type(given)


WRONG = [
    pytest.param(int, "5", "a valid integer", id="text is no integer"),
    pytest.param(int, True, "a valid integer", id="a boolean is no integer"),
    pytest.param(int, 5.5, "a valid integer", id="half a number is no integer"),
    pytest.param(str, 5, "a valid string", id="an integer is no text"),
    pytest.param(bool, "true", "a valid boolean", id="text is no boolean"),
    pytest.param(bool, 1, "a valid boolean", id="an integer is no boolean"),
    pytest.param(int, None, "a valid integer", id="null where it is not allowed"),
    pytest.param(list[int], "[1]", "a valid array", id="text is no list"),
    pytest.param(datetime.date, "soon", "a valid date", id="no date"),
    pytest.param(Color, "green", "'red' or 'blue'", id="no value of the enum"),
    pytest.param(bytes, "!", "valid base64", id="no Base64"),
    pytest.param(Annotated[int, Field(ge=1)], 0, "greater than or equal to 1", id="out of range"),
    pytest.param(Annotated[str, Field(pattern="^a+$")], "b", "pattern", id="against the pattern"),
]


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(("hint", "sent", "reason"), WRONG)
def test_json_of_another_type_is_refused_with_the_place_and_the_reason(
    hint: Any, sent: Any, reason: str
) -> None:
    def tool(value: Any) -> None: ...

    tool.__annotations__["value"] = hint

    with pytest.raises(InvalidParams) as caught:
        compiled(tool).bind({"value": sent})

    assert caught.value.message.startswith("value: ")
    assert reason in caught.value.message


def search(query: str, author: Author, year: int | str | None = None, *, limit: int = 10) -> None:
    """Search."""


@pytest.mark.req("F-01/S")
def test_what_is_not_sent_is_left_to_the_functions_own_default() -> None:
    assert compiled(search).bind({"query": "a", "author": {"name": "b"}}) == {
        "query": "a",
        "author": Author(name="b"),
    }


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"author": {"name": "b"}}, "query: is required", id="missing"),
        pytest.param({"query": "a", "author": {}}, "author.name: is required", id="missing inside"),
        pytest.param(
            {"query": "a", "author": {"name": "b"}, "region": "eu"},
            "region: there is no such parameter",
            id="unknown",
        ),
        pytest.param(
            {"query": "a", "author": {"name": "b"}, "year": []},
            "year: Input should be a valid integer, or: Input should be a valid string",
            id="no member of a union",
        ),
        pytest.param(
            {"query": 1, "author": {"name": 2}},
            "query: Input should be a valid string; author.name: Input should be a valid string",
            id="two",
        ),
    ],
)
def test_each_problem_is_told_with_its_place(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        compiled(search).bind(arguments)

    assert caught.value.message == message


def test_a_message_names_places_of_the_data_and_nothing_of_the_validator() -> None:
    def check(value: Any) -> Any:
        raise ValueError("not today")

    def tool(value: Annotated[dict[str, int] | list[int], AfterValidator(check)]) -> None: ...

    with pytest.raises(InvalidParams) as caught:
        compiled(tool).bind({"value": {"a": 1}})

    assert caught.value.message == "value: Value error, not today"


def test_many_problems_are_counted() -> None:
    def tool(value: list[int]) -> None: ...

    with pytest.raises(InvalidParams, match=r"and 15 more$") as caught:
        compiled(tool).bind({"value": ["x"] * 20})

    assert len(caught.value.message) < 400


def test_no_received_value_stands_in_a_message() -> None:
    with pytest.raises(InvalidParams) as caught:
        compiled(search).bind({"query": ["hunter2"], "author": "hunter2"})

    assert "hunter2" not in caught.value.message


def test_other_arguments_go_to_kwargs_and_are_checked_too() -> None:
    def tool(name: str, **labels: int) -> None: ...

    function = compiled(tool)

    assert function.input_schema["additionalProperties"] == {"type": "integer"}
    assert function.bind({"name": "a", "x": 1}) == {"name": "a", "x": 1}
    with pytest.raises(InvalidParams, match="x: Input should be a valid integer"):
        function.bind({"name": "a", "x": "1"})


def test_a_default_in_a_field_is_given_and_an_alias_is_the_name_on_the_wire() -> None:
    def tool(start: Annotated[int, Field(alias="from")], end: int = Field(default=9)) -> None: ...

    function = compiled(tool)

    assert function.parameters.names == ("from", "end")
    assert function.parameters.required == {"from"}
    assert function.bind({"from": 1}) == {"start": 1, "end": 9}
    with pytest.raises(InvalidParams, match="from: is required"):
        function.bind({})


@pytest.mark.parametrize("depth", [300, 900])
def test_deep_arguments_are_refused_and_do_no_harm(depth: int) -> None:
    def tool(value: Any) -> None: ...

    value: Any = 1
    for _ in range(depth):
        value = [value]

    with pytest.raises(InvalidParams, match="nested too deeply"):
        compiled(tool).bind({"value": value})


def test_the_context_is_found_and_is_not_the_callers_to_give() -> None:
    def plain(ctx: Context, n: int) -> None: ...
    def optional(n: int, context: Context | None = None) -> None: ...
    def annotated(n: int, c: Annotated[Context, "the call"]) -> None: ...

    found = [compiled(each).context for each in (plain, optional, annotated)]

    assert found == ["ctx", "context", "c"]
    assert compiled(plain).parameters.names == ("n",)
    with pytest.raises(InvalidParams, match="ctx: there is no such parameter"):
        compiled(plain).bind({"n": 1, "ctx": {}})
