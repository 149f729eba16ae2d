"""The schema that is served and the validator that is run say the same."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from mcpost.errors import InternalError, InvalidParams
from mcpost.schema import compile_schema
from mcpost.server.signature import Function
from tests.helpers.signature import compiled

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**25), 10**25),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from([0.0, 1.0, 5.0, "a", "b", "1"]),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "n"]), inner, max_size=3),
    ),
    max_leaves=6,
)


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    a: int
    b: str | None = None


@dataclasses.dataclass
class Data:
    n: float
    a: list[bool] = dataclasses.field(default_factory=list)


def either(one: Any, other: Any) -> Any:
    return one if one == other else one | other


HINTS = st.recursive(
    st.sampled_from([int, float, bool, str, Any, None, Literal["a", 5], Closed, Data]),
    lambda inner: st.one_of(
        inner.map(lambda hint: list[hint]),
        inner.map(lambda hint: dict[str, hint]),
        inner.map(lambda hint: either(hint, None)),
        st.tuples(inner, inner).map(lambda pair: either(*pair)),
        st.tuples(inner, inner).map(lambda pair: tuple[pair[0], pair[1]]),
    ),
    max_leaves=3,
)


def is_taken(function: Function, value: Any) -> bool:
    try:
        function.bind({"value": value})
    except InvalidParams:
        return False
    return True


@pytest.mark.req("F-01/S", "J-07/S")
@settings(max_examples=300, deadline=None)
@given(HINTS, st.lists(JSON, min_size=5, max_size=5))
def test_what_the_schema_allows_is_taken_and_nothing_else(hint: Any, values: list[Any]) -> None:
    def tool(value: Any) -> None: ...

    tool.__annotations__["value"] = hint
    function = compiled(tool)
    validator = compile_schema(function.input_schema)

    for value in values:
        allowed = validator.check({"value": value}) is None
        assert is_taken(function, value) == allowed, (function.input_schema, value)


@pytest.mark.req("F-01/S")
@settings(max_examples=200, deadline=None)
@given(HINTS, JSON)
def test_what_is_returned_keeps_to_the_output_schema_or_is_an_error(hint: Any, value: Any) -> None:
    def tool() -> Any: ...

    tool.__annotations__["return"] = hint
    function = compiled(tool)
    if function.output_schema is None:
        return
    try:
        result = function.result(value)
    except InternalError:
        return
    problem = compile_schema(function.output_schema).check(result["structuredContent"])
    assert problem is None, (function.output_schema, result)
