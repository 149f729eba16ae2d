"""Arguments that are text: those of prompts, of URI templates and of completions."""

from __future__ import annotations

import datetime
import enum
from typing import Any

import pytest
from pydantic import BaseModel

from mcpost.errors import InvalidParams
from tests.helpers.signature import compiled


class Mood(enum.Enum):
    GLAD = "glad"


class Filter(BaseModel):
    year: int


@pytest.mark.req("F-03/S", "F-02/S")
@pytest.mark.parametrize(
    ("hint", "sent", "given"),
    [
        pytest.param(str, "5", "5", id="text stays"),
        pytest.param(str, "[1]", "[1]", id="text stays though it looks like a list"),
        pytest.param(int, "5", 5, id="an integer"),
        pytest.param(float, "0.5", 0.5, id="a number"),
        pytest.param(bool, "true", True, id="a boolean"),
        pytest.param(Mood, "glad", Mood.GLAD, id="an enum"),
        pytest.param(datetime.date, "2026-07-28", datetime.date(2026, 7, 28), id="a date"),
        pytest.param(int | None, "5", 5, id="optional"),
        pytest.param(list[int], "[1, 2]", [1, 2], id="a list, as JSON"),
        pytest.param(Filter, '{"year": 1815}', Filter(year=1815), id="a model, as JSON"),
    ],
)
def test_text_becomes_what_the_hint_says(hint: Any, sent: str, given: Any) -> None:
    def prompt(value: Any) -> None: ...

    prompt.__annotations__["value"] = hint

    assert compiled(prompt, strict=False).bind({"value": sent}) == {"value": given}


@pytest.mark.req("F-03/S")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": "five"}, "^n: Input should be a valid integer"),
        ({}, "^n: is required$"),
        ({"n": "5", "x": "1"}, "^x: there is no such parameter$"),
        ({"n": "5", "tags": "[1"}, "^tags: Input should be a valid list$"),
        ({"n": "5", "tags": "[" * 100_000}, "^tags: Input should be a valid list$"),
    ],
)
def test_text_of_another_kind_is_refused_with_the_place(
    arguments: dict[str, Any], message: str
) -> None:
    def prompt(n: int, tags: list[int] | None = None) -> None: ...

    with pytest.raises(InvalidParams, match=message):
        compiled(prompt, strict=False).bind(arguments)
