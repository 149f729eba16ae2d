from __future__ import annotations

import datetime
import enum
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpost import Elicit, Roots, Sample
from mcpost.errors import UsageError
from mcpost.server.questions import BadAnswer
from mcpost.types import SamplingMessage, TextContent, ToolResultContent, ToolUseContent


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: Annotated[str, Field(min_length=1, description="Your name")]
    born: datetime.date | None = None
    color: Color = Color.RED
    likes: list[Literal["tea", "coffee"]] = []
    score: Annotated[float, Field(ge=0, le=10)] = 5.0


@dataclass
class Pair:
    left: int
    right: bool = False


class Typed(TypedDict):
    word: str


@pytest.mark.req("P-06/S")
def test_a_model_becomes_a_flat_schema() -> None:
    schema = Elicit("?", Person).params()["requestedSchema"]

    assert schema["type"] == "object"
    assert schema["required"] == ["name"]
    properties = schema["properties"]
    assert properties["name"] == {
        "type": "string",
        "minLength": 1,
        "description": "Your name",
    }
    assert properties["born"] == {"type": "string", "format": "date"}
    assert (properties["color"]["enum"], properties["color"]["default"]) == (["red", "blue"], "red")
    assert properties["likes"]["items"] == {"type": "string", "enum": ["tea", "coffee"]}
    assert "$defs" not in schema


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize(
    ("schema", "content", "data"),
    [
        (Pair, {"left": 1}, Pair(1)),
        (Pair, {"left": 1, "right": True}, Pair(1, right=True)),
        (Typed, {"word": "x"}, {"word": "x"}),
        (Person, {"name": "A", "born": "2000-01-02"}, Person(name="A", born="2000-01-02")),  # type: ignore[arg-type]
        (None, {}, {}),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"n": 1}, {"n": 1}),
    ],
)
def test_an_answer_is_read_as_what_was_asked_for(schema: Any, content: Any, data: Any) -> None:
    answer = Elicit("?", schema).parse({"action": "accept", "content": content})

    assert (answer.accepted, answer.content, answer.data) == (True, content, data)


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize(
    "content",
    [
        {},
        {"name": ""},
        {"name": 5},
        {"name": "A", "born": "yesterday"},
        {"name": "A", "color": "green"},
        {"name": "A", "likes": ["milk"]},
        {"name": "A", "score": 11},
    ],
)
def test_content_that_breaks_the_schema_is_no_answer(content: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer):
        Elicit("?", Person).parse({"action": "accept", "content": content})


@dataclass
class Nested:
    inner: Pair


@dataclass
class Listed:
    words: list[str] = field(default_factory=list)


class Identified(BaseModel):
    key: uuid.UUID


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize(
    "schema",
    [
        Nested,
        Listed,
        Identified,
        int,
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"type": "object", "properties": {"a": {"type": "string", "format": "password"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
        {"type": "object", "properties": {"a": True}},
    ],
)
def test_a_form_asks_for_flat_properties_only(schema: Any) -> None:
    with pytest.raises(UsageError):
        Elicit("?", schema)


@pytest.mark.req("P-06/S")
def test_every_choice_of_the_page_can_be_asked_for() -> None:
    titled = [{"const": "#f00", "title": "Red"}]
    properties = {
        "plain": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": titled},
        "many": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        "many titled": {"type": "array", "items": {"anyOf": titled}},
        "mail": {"type": "string", "format": "email"},
    }
    asked = Elicit("?", {"type": "object", "properties": properties})

    assert asked.params()["requestedSchema"]["properties"] == properties


@pytest.mark.req("P-06/S")
def test_a_page_is_asked_for_by_its_url() -> None:
    asked = Elicit("Connect", url="https://mcp.example.com/connect")

    assert asked.request() == {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Connect", "url": "https://mcp.example.com/connect"},
    }
    assert asked.parse({"action": "accept"}).accepted


@pytest.mark.parametrize("url", ["", "example.com", "/x", "https://", "https://a b/", "http://[x"])
def test_a_page_without_an_absolute_url_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="URL"):
        Elicit("?", url=url)


def test_a_form_and_a_page_are_two_questions() -> None:
    with pytest.raises(UsageError, match="or by a page"):
        Elicit("?", Pair, url="https://example.com/")


@pytest.mark.req("P-06/S")
def test_a_sampling_request_has_the_members_of_the_page() -> None:
    asked = Sample(
        ["Hi", SamplingMessage("assistant", TextContent("Hello"))],
        max_tokens=5,
        system_prompt="Be brief.",
        stop_sequences=["."],
        model_preferences={"hints": [{"name": "small"}]},
    )

    assert asked.request() == {
        "method": "sampling/createMessage",
        "params": {
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "Hi"}},
                {"role": "assistant", "content": {"type": "text", "text": "Hello"}},
            ],
            "maxTokens": 5,
            "systemPrompt": "Be brief.",
            "stopSequences": ["."],
            "modelPreferences": {"hints": [{"name": "small"}]},
        },
    }


@pytest.mark.req("P-06/S")
def test_a_sampled_answer_is_read() -> None:
    content = {"type": "text", "text": "Paris"}
    answer = Sample("?").parse({"role": "assistant", "content": content, "model": "m"})

    assert (answer.text, answer.model) == ("Paris", "m")
    for bad in (None, 5, {}, {"role": "system", "content": content, "model": "m"}):
        with pytest.raises(BadAnswer):
            Sample("?").parse(bad)


USES = SamplingMessage("assistant", [ToolUseContent("1", "t", {}), ToolUseContent("2", "t", {})])
FIRST = ToolResultContent("1", [TextContent("x")])
SECOND = ToolResultContent("2", [TextContent("y")])


@pytest.mark.req("P-06/S")
def test_each_use_of_a_tool_is_followed_by_its_result() -> None:
    asked = Sample(["Hi", USES, SamplingMessage("user", [SECOND, FIRST])])

    assert len(asked.params()["messages"]) == 3


@pytest.mark.req("P-06/S")
@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([USES], id="no result"),
        pytest.param([USES, SamplingMessage("user", FIRST)], id="one of two"),
        pytest.param([USES, "Go on"], id="something else"),
        pytest.param(["Hi", SamplingMessage("user", FIRST)], id="a result of nothing"),
        pytest.param(
            [USES, SamplingMessage("user", [FIRST, SECOND, TextContent("z")])], id="text beside"
        ),
        pytest.param([{"role": "user"}], id="no content"),
        pytest.param([5], id="a number"),
    ],
)
def test_messages_that_no_model_would_take_are_refused(messages: list[Any]) -> None:
    with pytest.raises(UsageError):
        Sample(messages)


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="no option 'temprature'"):
        Sample("?", temprature=1)


@pytest.mark.req("P-06/S")
def test_roots_are_read() -> None:
    assert Roots().request()["method"] == "roots/list"
    assert Roots().parse({"roots": [{"uri": "file:///a", "name": "A"}]})[0].name == "A"
    with pytest.raises(BadAnswer):
        Roots().parse({"roots": [{"name": "A"}]})


@pytest.mark.req("P-06/S")
def test_the_same_question_has_the_same_digest_and_another_has_another() -> None:
    assert Elicit("?", Pair).digest() == Elicit("?", Pair).digest()
    assert len({Elicit("?", Pair).digest(), Elicit("!", Pair).digest(), Roots().digest()}) == 3
