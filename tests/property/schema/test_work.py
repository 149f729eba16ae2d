"""The bound of a schema's work: never too low, and soon found."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpost.schema import SchemaError, compile_schema

NAMES = [f"d{number}" for number in range(6)]
REFERENCES = st.sampled_from(NAMES).map(lambda name: {"$ref": f"#/$defs/{name}"})
NODES = st.one_of(
    st.just({"type": "integer"}),
    st.lists(REFERENCES, min_size=1, max_size=4).map(lambda each: {"allOf": each}),
    st.lists(REFERENCES, min_size=1, max_size=4).map(lambda each: {"anyOf": each}),
    REFERENCES.map(lambda each: {"properties": {"x": each}, "items": each}),
    REFERENCES.map(lambda each: {"not": each}),
)
VALUES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.just("x"), inner, max_size=1)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=60_000)
@given(st.lists(NODES, min_size=len(NAMES), max_size=len(NAMES)), VALUES)
def test_any_graph_of_references_is_refused_or_checked_in_time(
    nodes: list[Any], value: Any
) -> None:
    schema = {"$ref": "#/$defs/d0", "$defs": dict(zip(NAMES, nodes, strict=True))}

    try:
        problem = compile_schema(schema).check(value)
    except SchemaError:
        return
    assert problem is None or isinstance(problem, str)
