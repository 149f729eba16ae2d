"""Our vocabulary beside the official one: the same members, and the same JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

import mcp_types
import msgspec
import pytest
from jsonschema import Draft202012Validator

from mcpost import types

NAMES = {
    "CallResult": "CallToolResult",
    "ReadResult": "ReadResourceResult",
    "PromptResult": "GetPromptResult",
    "SampleResult": "CreateMessageResult",
    "RootsResult": "ListRootsResult",
}
OWN = {  # said by notifications, or by this package alone
    *("LogMessage", "Progress", "Reconnected"),
    *("PromptsChanged", "ResourceUpdated", "ResourcesChanged", "ToolsChanged"),
}
# Members of every result, written elsewhere, and of the earlier revisions alone.
ELSEWHERE = {"resultType", "execution"}
STRUCTS = [
    pytest.param(getattr(types, name), NAMES.get(name, name), id=name)
    for name in types.__all__
    if isinstance(getattr(types, name), type) and name not in OWN
]


@pytest.mark.req("F-01/S", "F-02/S", "F-03/S", "F-01/C", "F-02/C", "F-03/C")
@pytest.mark.parametrize(("struct", "name"), STRUCTS)
def test_a_struct_has_the_members_of_its_official_model(struct: Any, name: str) -> None:
    ours = {field.encode_name for field in msgspec.structs.fields(struct)}
    ours |= {struct.__struct_config__.tag_field} - {None}

    official = getattr(mcp_types, name).model_fields
    theirs = {field.alias or key for key, field in official.items()} - ELSEWHERE

    assert ours - theirs == set()
    assert theirs - ours <= {"_meta"}


def test_every_member_of_the_unions_is_public() -> None:
    for union in (types.ContentBlock, types.SamplingContent, types.ResourceContents, types.Change):
        assert {member.__name__ for member in get_args(union)} <= set(types.__all__)


SPEC = os.environ.get("MCPOST_SPEC_SCHEMA", "")
"""A directory with the official `2026-07-28.json` and its `examples-2026-07-28`."""

EXAMPLES = sorted(Path(SPEC).glob("examples-2026-07-28/*/*.json")) if SPEC else []
BY_OFFICIAL_NAME = {param.values[1]: param.values[0] for param in STRUCTS}
COVERED = [
    pytest.param(path, id=f"{path.parent.name}/{path.stem}")
    for path in EXAMPLES
    if path.parent.name in BY_OFFICIAL_NAME
]


@pytest.mark.skipif(not SPEC, reason="MCPOST_SPEC_SCHEMA names no directory")
@pytest.mark.parametrize("path", COVERED)
def test_an_official_example_comes_back_as_it_was_read(path: Path) -> None:
    example = json.loads(path.read_bytes())
    struct = BY_OFFICIAL_NAME[path.parent.name]

    again = json.loads(msgspec.json.encode(msgspec.convert(example, struct)))

    schema = json.loads((Path(SPEC) / "2026-07-28.json").read_bytes())
    for name in ("resultType", "ttlMs", "cacheScope"):  # of every result, written elsewhere
        if name in example:
            again.setdefault(name, example[name])
    Draft202012Validator({**schema, "$ref": f"#/$defs/{path.parent.name}"}).validate(again)
    # False is what absent means there.
    assert {"isError": False, **again} == {"isError": False, **example}
