"""The flat schema of an elicited answer."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from mcpost.errors import InvalidParams
from mcpost.server.signature.flat import flat_model


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Order(BaseModel):
    """An order."""

    email: Annotated[str, Field(json_schema_extra={"format": "email"})]
    size: Size = Size.SMALL
    count: Annotated[int, Field(ge=1)] = 1
    note: str | None = None


@pytest.mark.req("P-06/S")
def test_references_and_unions_with_null_are_written_out() -> None:
    _, schema = flat_model(Order)

    assert schema["properties"] == {
        "email": {"type": "string", "format": "email"},
        "size": {"type": "string", "enum": ["small", "large"], "title": "Size", "default": "small"},
        "count": {"type": "integer", "minimum": 1, "default": 1},
        "note": {"type": "string"},
    }
    assert (schema["type"], schema["required"]) == ("object", ["email"])
    assert "$defs" not in schema


@pytest.mark.req("P-06/S")
def test_an_answer_is_read_as_the_type_that_was_asked_for() -> None:
    model, _ = flat_model(Order)

    assert model.load({"email": "a@b", "count": 2.0}) == Order(email="a@b", count=2)
    with pytest.raises(InvalidParams, match="count: Input should be greater"):
        model.load({"email": "a@b", "count": 0})


@dataclasses.dataclass
class Node:
    """A type whose schema is a reference to itself."""

    name: str
    next: Node | None = None


def test_a_schema_that_is_a_reference_is_written_out() -> None:
    _, schema = flat_model(Node)

    assert schema["properties"]["name"] == {"type": "string"}
