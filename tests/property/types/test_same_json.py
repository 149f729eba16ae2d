"""What we write, the official models read and write again just so."""

from __future__ import annotations

import json
import types as python_types
import typing
from typing import Any, Literal, Union, get_args, get_origin

import mcp_types
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpost import types
from mcpost.types.content import ResourceContents

SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: st.integers(0, 2**31),
    float: st.floats(0, 1).map(lambda value: value or 0.5),
    bool: st.booleans(),
    Any: st.one_of(st.text(max_size=4), st.integers(0, 9), st.lists(st.booleans(), max_size=2)),
}
NAMED: dict[str, st.SearchStrategy[Any]] = {
    "uri": st.just("file:///a"),
    "src": st.just("https://example.com/a.png"),
    "website_url": st.just("https://example.com/"),
    "data": st.just("aGk="),
    "blob": st.just("aGk="),
    "meta": st.dictionaries(st.just("com.example/a"), st.integers(0, 9), max_size=1),
    "input_schema": st.just({"type": "object"}),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    if hint in SCALARS:
        return SCALARS[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, python_types.UnionType):
        return st.one_of(*(values(each) for each in arguments if each is not type(None)))
    if origin is list:
        return st.lists(values(arguments[0]), min_size=1, max_size=2)
    if origin is dict:
        return st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2)
    return structs(hint)


def structs(struct: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(struct)
    required: dict[str, Any] = {}
    optional: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        # At run time the hint of contents says no more than Any.
        hint = ResourceContents if field.name == "resource" else hints[field.name]
        found = NAMED[field.name] if field.name in NAMED else values(hint)
        (required if field.required else optional)[field.name] = found
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: struct(**given))


SAME = (
    *("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource"),
    *("ToolUseContent", "ToolResultContent", "SamplingMessage", "PromptMessage", "Prompt"),
    *("Tool", "Resource", "ResourceTemplate", "Root", "Implementation", "ModelPreferences"),
)


@pytest.mark.req("F-01/S", "F-02/S", "F-03/S")
@pytest.mark.parametrize("name", SAME)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_official_models_read_what_is_written_and_write_the_same(
    name: str, data: st.DataObject
) -> None:
    value = data.draw(structs(getattr(types, name)))
    text = msgspec.json.encode(value)

    model = getattr(mcp_types, name).model_validate_json(text)
    theirs = json.loads(model.model_dump_json(by_alias=True, exclude_none=True))

    # What is false by default may be left out, as we do.
    assert {"isError": False, **json.loads(text)} == {"isError": False, **theirs} or (
        {"required": False, **json.loads(text)} == theirs
    )
    assert msgspec.convert(theirs, type(value)) == value
