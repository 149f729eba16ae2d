"""Content, contents and results: what is read, and what is written."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from mcpost.types import (
    AudioContent,
    BlobResourceContents,
    CallResult,
    ContentBlock,
    DiscoverResult,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    ReadResult,
    Role,
    SampleResult,
    TextContent,
    TextResourceContents,
)
from tests.helpers.until import DEADLINE


def written(value: Any) -> bytes:
    return msgspec.json.encode(value)


@pytest.mark.req("F-01/S")
def test_names_are_camel_case_and_members_that_say_nothing_are_left_out() -> None:
    block = ImageContent("aGk=", "image/png")

    assert written(block) == b'{"type":"image","data":"aGk=","mimeType":"image/png"}'


@pytest.mark.req("F-01/S")
def test_bytes_become_base64() -> None:
    assert ImageContent.from_bytes(b"hi", "image/png").data == "aGk="
    assert AudioContent.from_bytes(b"hi", "audio/wav").data == "aGk="
    assert BlobResourceContents.from_bytes("a:b", b"hi").blob == "aGk="


@pytest.mark.req("F-01/S")
def test_a_result_without_content_still_says_that_it_has_none() -> None:
    assert written(CallResult()) == b'{"content":[]}'


@pytest.mark.req("F-01/C")
@pytest.mark.parametrize(
    ("resource", "kind"),
    [
        ({"uri": "a:b", "text": "x"}, TextResourceContents),
        ({"uri": "a:b", "blob": "aGk="}, BlobResourceContents),
    ],
)
def test_contents_are_read_as_what_they_have(resource: dict[str, Any], kind: type) -> None:
    block: Any = msgspec.convert({"type": "resource", "resource": resource}, ContentBlock)

    assert type(block.resource) is kind
    assert msgspec.to_builtins(block) == {"type": "resource", "resource": resource}


@pytest.mark.parametrize("resource", [{"uri": "a:b"}, 5, None, {"text": "x"}])
def test_contents_that_are_none_are_refused(resource: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "resource", "resource": resource}, EmbeddedResource)


@pytest.mark.req("F-01/C")
def test_a_block_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "hologram", "text": "x"}, ContentBlock)


@pytest.mark.req("F-01/C")
def test_data_is_the_structured_content_or_else_the_text() -> None:
    blocks: list[ContentBlock] = [TextContent("a"), ImageContent("", "image/png"), TextContent("b")]

    assert CallResult(blocks).data == CallResult(blocks).text == "a\nb"
    assert CallResult(blocks, structured_content=0).data == 0


@pytest.mark.req("F-02/C")
def test_a_read_resource_gives_its_text_and_its_bytes() -> None:
    text = TextResourceContents("a:b", "x")
    blob = BlobResourceContents("a:c", "aGk=")

    result = msgspec.convert(
        {"contents": [{"uri": "a:b", "text": "x"}, {"uri": "a:c", "blob": "aGk="}]}, ReadResult
    )

    assert result.contents == [text, blob]
    assert (result.text, result.blobs) == ("x", [blob])


@pytest.mark.req("J-04/C")
@pytest.mark.parametrize(
    ("meta", "name"),
    [
        ({"io.modelcontextprotocol/serverInfo": {"name": "library", "version": "1"}}, "library"),
        ({}, None),
        (None, None),
    ],
)
def test_a_discovered_server_says_who_it_is_where_it_does(
    meta: dict[str, Any] | None, name: str | None
) -> None:
    info = DiscoverResult(["2026-07-28"], {}, meta=meta).server_info

    assert (info and info.name) == name


def test_an_answer_was_accepted_or_not() -> None:
    assert ElicitResult("accept", {}).accepted
    assert not ElicitResult("decline").accepted


@pytest.mark.parametrize("many", [True, False])
def test_a_sampled_message_has_one_block_or_many(many: bool) -> None:
    role: Role = "assistant"
    result = SampleResult(role, [TextContent("hi")] if many else TextContent("hi"), "model")

    assert result.text == "hi"


def test_the_vocabulary_loads_msgspec_alone() -> None:
    program = (
        "import sys; before = set(sys.modules); import mcpost.types;"
        "print(sorted(name for name in ('pydantic', 'asyncio', 'aiohttp', 'jsonschema_rs')"
        " if name in sys.modules))"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=DEADLINE)

    assert result.stdout.strip() == b"[]"
