from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mcpost import (
    CacheHints,
    Context,
    Elicit,
    InputRequired,
    NotFound,
    Server,
    ServerLimits,
    ToolError,
)
from mcpost.errors import InternalError, InvalidParams, MethodNotFound, WireError
from mcpost.server.call import Call
from mcpost.types import (
    BlobResourceContents,
    CallResult,
    Completion,
    Icon,
    ImageContent,
    PromptMessage,
    PromptResult,
    ReadResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from mcpost.wire import jsonrpc
from mcpost.wire.meta import lenient_meta
from mcpost.wire.versions import Era
from tests.helpers.calls import answer, ask, call_tool
from tests.helpers.loop import run


@dataclass
class Book:
    id: int
    title: str


def make_server(**options: Any) -> Server:
    server = Server("library", version="2.1", title="Library", **options)

    @server.tool(annotations={"readOnlyHint": True}, icons=[Icon("https://x.example/i.png")])
    async def find(book_id: int, shelf: str = "a") -> Book:
        """Find a book.

        Args:
            book_id: Its number.
        """
        if book_id < 0:
            raise ToolError("there is no such book")
        return Book(book_id, shelf)

    @server.resource("books://all", mime_type="text/plain", size=3)
    async def everything() -> str:
        """All books."""
        return "abc"

    @server.resource("books://{book_id}", cache=CacheHints(5_000, "public"))
    async def book(book_id: int) -> Book | None:
        """One book."""
        if book_id == 13:
            raise NotFound("nobody wrote 13")
        return None if book_id > 100 else Book(book_id, "x")

    @server.prompt
    async def recommend(subject: str, count: str = "3") -> str:
        """Ask for books.

        Args:
            subject: What about.
        """
        return f"{count} about {subject}"

    @server.completion("recommend", "subject")
    async def subjects(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{value}{each}{arguments.get('count', '')}" for each in range(150)]

    @server.completion("books://{book_id}", "book_id")
    async def numbers(value: str) -> Completion:
        return Completion([value + "0"], total=9, has_more=True)

    return server


@pytest.mark.req("V-01/S", "J-02/S", "J-04/S", "F-05/S")
def test_discover_tells_what_the_server_is_and_has() -> None:
    result = run(ask(make_server(instructions="Search first."), "server/discover"))

    assert result == {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "completions": {},
        },
        "instructions": "Search first.",
        "ttlMs": 60000,
        "cacheScope": "public",
        "resultType": "complete",
        "_meta": {
            "io.modelcontextprotocol/serverInfo": {
                "name": "library",
                "version": "2.1",
                "title": "Library",
            }
        },
    }


@pytest.mark.req("V-01/S", "T-18/S")
def test_what_is_not_offered_is_neither_declared_nor_served() -> None:
    server = Server("empty")

    assert run(ask(server, "server/discover"))["capabilities"] == {}
    for method in ("tools/list", "resources/read", "prompts/get", "completion/complete", "ping"):
        assert not server.features.knows(method)
    assert server.features.knows("server/discover")
    with pytest.raises(MethodNotFound):
        run(ask(server, "logging/setLevel"))


@pytest.mark.req("P-07/S")
def test_logging_is_declared_where_a_function_could_log() -> None:
    server = Server("logs")

    @server.tool
    async def speak(ctx: Context) -> None:
        return None

    assert "logging" in run(ask(server, "server/discover"))["capabilities"]


@pytest.mark.req("F-01/S")
def test_a_tool_is_listed_as_its_function_says() -> None:
    result = run(ask(make_server(), "tools/list"))

    assert result["tools"] == [
        {
            "name": "find",
            "description": "Find a book.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "book_id": {"type": "integer", "description": "Its number."},
                    "shelf": {"type": "string", "default": "a"},
                },
                "required": ["book_id"],
                "additionalProperties": False,
            },
            "outputSchema": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "title": {"type": "string"}},
                "required": ["id", "title"],
            },
            "annotations": {"readOnlyHint": True},
            "icons": [{"src": "https://x.example/i.png"}],
        }
    ]


@pytest.mark.req("F-01/S", "J-02/S", "J-04/S")
def test_a_structured_value_has_its_twin_in_text() -> None:
    result = run(call_tool(make_server(), "find", {"book_id": 5}))

    assert result["structuredContent"] == {"id": 5, "title": "a"}
    assert json.loads(result["content"][0]["text"]) == {"id": 5, "title": "a"}
    assert result["resultType"] == "complete"
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "library"
    assert "ttlMs" not in result


@pytest.mark.req("F-01/S")
def test_a_tools_own_meta_stays_beside_the_servers() -> None:
    server = Server("meta")

    @server.tool
    async def blocks() -> CallResult:
        link = ResourceLink("x://1", "one")
        return CallResult(
            [TextContent("a"), ImageContent("aGk=", "image/png"), link], meta={"x": 1}
        )

    result = run(call_tool(server, "blocks"))

    assert [block["type"] for block in result["content"]] == ["text", "image", "resource_link"]
    assert sorted(result["_meta"]) == ["io.modelcontextprotocol/serverInfo", "x"]


@pytest.mark.req("T-23/S", "F-01/S")
@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"name": "lost"}, id="an unknown tool"),
        pytest.param({}, id="no name"),
        pytest.param({"name": 5}, id="a name that is no text"),
        pytest.param({"name": "find", "arguments": []}, id="arguments that are no object"),
    ],
)
def test_a_call_that_cannot_be_made_is_an_error(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as caught:
        run(ask(make_server(), "tools/call", params))

    assert caught.value.code == -32602


@pytest.mark.req("F-01/S", "T-23/S")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({}, id="a missing argument"),
        pytest.param({"book_id": "5"}, id="an argument of a wrong type"),
        pytest.param({"book_id": 5, "x": 1}, id="an unknown argument"),
    ],
)
def test_arguments_that_the_schema_refuses_are_a_failed_call(arguments: dict[str, Any]) -> None:
    result = run(call_tool(make_server(), "find", arguments))

    assert result["isError"] is True
    assert result["content"][0]["text"].startswith(("book_id: ", "x: "))


@pytest.mark.req("F-01/S", "T-23/S")
def test_a_failed_call_is_a_result() -> None:
    result = run(call_tool(make_server(), "find", {"book_id": -1}))

    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "there is no such book"}]


@pytest.mark.req("F-01/S", "T-23/S")
def test_a_result_that_breaks_its_own_schema_is_the_servers_failure() -> None:
    server = Server("breaks")

    @server.tool(output_schema={"type": "object", "required": ["a"]})
    async def broken() -> dict[str, int]:
        return {"b": 1}

    with pytest.raises(InternalError, match="output schema") as caught:
        run(call_tool(server, "broken"))

    assert caught.value.code == -32603


@pytest.mark.req("F-04/S", "F-05/S")
def test_a_list_is_walked_by_its_cursors() -> None:
    server = Server("many", limits=ServerLimits(page_size=2))
    for each in range(5):
        server.add_tool(lambda: None, name=f"tool{each}")

    async def walk() -> list[dict[str, Any]]:
        pages = [await ask(server, "tools/list")]
        while "nextCursor" in pages[-1]:
            pages.append(await ask(server, "tools/list", {"cursor": pages[-1]["nextCursor"]}))
        return pages

    pages = run(walk())

    names = [[tool["name"] for tool in page["tools"]] for page in pages]
    assert names == [["tool0", "tool1"], ["tool2", "tool3"], ["tool4"]]
    assert {page["cacheScope"] for page in pages} == {"public"}
    with pytest.raises(InvalidParams):
        run(ask(server, "tools/list", {"cursor": "beyond"}))


@pytest.mark.req("F-05/S")
@pytest.mark.parametrize(
    "method",
    ["server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"],
)
def test_lists_are_private_where_callers_have_to_show_who_they_are(method: str) -> None:
    anonymous = run(ask(make_server(), method))
    known = run(ask(make_server(), method, principal="ann"))
    chosen = run(ask(make_server(cache=CacheHints(7, "public")), method, principal="ann"))

    assert (anonymous["ttlMs"], anonymous["cacheScope"]) == (60000, "public")
    assert (known["ttlMs"], known["cacheScope"]) == (60000, "private")
    assert (chosen["ttlMs"], chosen["cacheScope"]) == (7, "public")


@pytest.mark.req("F-02/S")
def test_resources_and_templates_are_two_lists() -> None:
    resources = run(ask(make_server(), "resources/list"))["resources"]
    templates = run(ask(make_server(), "resources/templates/list"))["resourceTemplates"]

    assert resources == [
        {
            "uri": "books://all",
            "name": "everything",
            "description": "All books.",
            "mimeType": "text/plain",
            "size": 3,
        }
    ]
    assert templates == [
        {"uriTemplate": "books://{book_id}", "name": "book", "description": "One book."}
    ]


@pytest.mark.req("F-02/S", "F-05/S")
def test_a_resource_is_read() -> None:
    fixed = run(ask(make_server(), "resources/read", {"uri": "books://all"}))
    family = run(ask(make_server(), "resources/read", {"uri": "books://7"}))

    assert fixed["contents"] == [{"uri": "books://all", "mimeType": "text/plain", "text": "abc"}]
    assert (fixed["ttlMs"], fixed["cacheScope"]) == (0, "private")
    (contents,) = family["contents"]
    assert (contents["uri"], contents["mimeType"]) == ("books://7", "application/json")
    assert json.loads(contents["text"]) == {"id": 7, "title": "x"}
    assert (family["ttlMs"], family["cacheScope"]) == (5000, "public")
    assert family["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "library"


@pytest.mark.req("F-02/S", "J-03/S")
@pytest.mark.parametrize(
    "uri",
    [
        pytest.param("books://a/b", id="none of the templates"),
        pytest.param("books://..", id="a way out"),
        pytest.param("books://x", id="not of the parameter's type"),
        pytest.param("books://101", id="the function gave None"),
        pytest.param("books://13", id="the function says so"),
        pytest.param("other://1", id="another scheme"),
    ],
)
def test_a_resource_that_there_is_not_is_an_error_with_its_uri(uri: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        run(ask(make_server(), "resources/read", {"uri": uri}))

    assert (caught.value.code, caught.value.data) == (-32602, {"uri": uri})


def giving(value: Any) -> Callable[[], Any]:
    return lambda: value


@pytest.mark.req("F-02/S")
def test_contents_of_every_form_are_served() -> None:
    server = Server("reads")
    values: dict[str, Any] = {
        "x://a.txt": "text",
        "x://b.png": b"\x89PNG",
        "x://c": {"a": 1},
        "x://d": [TextResourceContents("x://d/1", "one"), BlobResourceContents("x://d/2", "aGk=")],
        "x://e": ReadResult([TextResourceContents("x://e", "e")], ttl_ms=9, cache_scope="public"),
    }
    for uri, value in values.items():
        server.add_resource(uri, giving(value))

    read = {uri: run(ask(server, "resources/read", {"uri": uri})) for uri in values}

    assert read["x://a.txt"]["contents"][0]["mimeType"] == "text/plain"
    assert read["x://b.png"]["contents"] == [
        {"uri": "x://b.png", "mimeType": "image/png", "blob": "iVBORw=="}
    ]
    assert read["x://c"]["contents"][0]["text"] == '{"a":1}'
    assert [each["uri"] for each in read["x://d"]["contents"]] == ["x://d/1", "x://d/2"]
    assert (read["x://e"]["ttlMs"], read["x://e"]["cacheScope"]) == (9, "public")


@pytest.mark.req("F-02/S", "T-23/S")
def test_a_resource_that_fails_is_an_internal_error() -> None:
    server = Server("reads")

    @server.resource("x://1")
    async def broken() -> str:
        raise ValueError("secret")

    with pytest.raises(InternalError) as caught:
        run(ask(server, "resources/read", {"uri": "x://1"}))

    assert caught.value.code == -32603
    assert "secret" not in caught.value.message


@pytest.mark.req("F-03/S")
def test_a_prompt_is_listed_and_given() -> None:
    (prompt,) = run(ask(make_server(), "prompts/list"))["prompts"]
    given = run(
        ask(make_server(), "prompts/get", {"name": "recommend", "arguments": {"subject": "tea"}})
    )

    assert prompt == {
        "name": "recommend",
        "description": "Ask for books.",
        "arguments": [
            {"name": "subject", "description": "What about.", "required": True},
            {"name": "count"},
        ],
    }
    assert given["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "3 about tea"}}
    ]
    assert given["description"] == "Ask for books."


@pytest.mark.req("F-03/S", "T-23/S")
@pytest.mark.parametrize(
    "params",
    [{"name": "lost"}, {}, {"name": "recommend"}, {"name": "recommend", "arguments": {"x": "1"}}],
)
def test_a_prompt_that_cannot_be_given_is_an_error(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as caught:
        run(ask(make_server(), "prompts/get", params))

    assert caught.value.code == -32602


@pytest.mark.req("F-03/S")
def test_messages_of_every_form_are_given() -> None:
    server = Server("prompts")
    image = ImageContent("aGk=", "image/png")
    values: dict[str, Any] = {
        "block": image,
        "list": ["one", PromptMessage("assistant", TextContent("two"))],
        "mapping": {"role": "assistant", "content": "three"},
        "whole": PromptResult([PromptMessage("user", image)], description="Whole."),
    }
    for name, value in values.items():
        server.add_prompt(giving(value), name=name)

    given = {name: run(ask(server, "prompts/get", {"name": name})) for name in values}

    assert given["block"]["messages"][0]["content"]["type"] == "image"
    assert [each["role"] for each in given["list"]["messages"]] == ["user", "assistant"]
    assert given["mapping"]["messages"][0]["content"] == {"type": "text", "text": "three"}
    assert given["whole"]["description"] == "Whole."


def complete(reference: dict[str, Any], name: str, value: str, **more: Any) -> dict[str, Any]:
    params = {"ref": reference, "argument": {"name": name, "value": value}, **more}
    result = run(ask(make_server(), "completion/complete", params))
    assert result["resultType"] == "complete"
    completion: dict[str, Any] = result["completion"]
    return completion


PROMPT = {"type": "ref/prompt", "name": "recommend"}


@pytest.mark.req("F-03/S")
def test_at_most_a_hundred_completions_are_sent() -> None:
    context = {"arguments": {"count": "!"}}
    completion = complete(PROMPT, "subject", "s", context=context)

    assert len(completion["values"]) == 100
    assert completion["values"][1] == "s1!"
    assert (completion["total"], completion["hasMore"]) == (150, True)


@pytest.mark.req("F-03/S")
def test_a_variable_of_a_template_is_completed() -> None:
    completion = complete({"type": "ref/resource", "uri": "books://{book_id}"}, "book_id", "1")

    assert completion == {"values": ["10"], "total": 9, "hasMore": True}


@pytest.mark.req("F-03/S")
def test_what_has_no_completion_has_no_values() -> None:
    assert complete(PROMPT, "count", "1") == {"values": []}


@pytest.mark.req("F-03/S")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": PROMPT},
        {"ref": {"type": "ref/prompt", "name": "lost"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": "x://"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/tool"}, "argument": {"name": "a", "value": ""}},
        {"ref": PROMPT, "argument": {"name": "subject", "value": 5}},
        {"ref": PROMPT, "argument": {"name": "subject", "value": ""}, "context": 5},
    ],
)
def test_a_completion_that_cannot_be_made_is_an_error(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        run(ask(make_server(), "completion/complete", params))


@pytest.mark.req("T-23/S")
def test_a_completion_that_gives_no_list_is_a_failure() -> None:
    server = Server("completes")
    server.add_prompt(lambda a: a, name="p")
    server.add_completion("p", "a", lambda value: 5)
    params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}

    with pytest.raises(WireError) as caught:
        run(ask(server, "completion/complete", params))

    assert caught.value.code == -32603


@pytest.mark.req("L-05/S")
def test_a_result_for_the_earlier_era_has_none_of_the_members_of_this_one() -> None:
    server = Server("both")
    server.add_tool(numbers, name="numbers")
    request = jsonrpc.Request(7, "tools/call", {"name": "numbers"})
    listed = jsonrpc.Request(7, "tools/list", {})

    def legacy(each: jsonrpc.Request) -> Call:
        known = lenient_meta(each.params, "2025-11-25", {})
        return Call(each, known, lambda note: None, era=Era.LEGACY)

    called = run(answer(server, legacy(request)))
    (tool,) = run(answer(server, legacy(listed)))["tools"]

    assert called == {
        "content": [{"type": "text", "text": "[1,2]"}],
        "structuredContent": {"result": [1, 2]},
    }
    assert tool["outputSchema"]["properties"]["result"]["type"] == "array"


async def numbers() -> list[int]:
    return [1, 2]


class Line:
    """Asks while the call goes on, as earlier eras do; every answer is the same."""

    state = None
    answers: dict[str, Any] = {}

    async def ask(self, questions: Any) -> dict[str, Any]:
        content = {"action": "accept", "content": {"name": "Ann"}}
        return {key: question.parse(content) for key, question in questions.items()}


@pytest.mark.req("L-05/S", "P-06/S")
@pytest.mark.parametrize("style", ["inline", "returned"])
def test_a_handler_asks_in_the_earlier_era_as_in_this_one(style: str) -> None:
    server, runs = Server("both"), []
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}

    @server.tool
    async def greet(ctx: Context) -> Any:
        runs.append(ctx.state)
        if style == "inline":
            return (await ctx.elicit("Who?", schema)).data["name"]
        if ctx.state is None:
            return InputRequired({"q": Elicit("Who?", schema)}, state=1)
        return ctx.answers["q"]["content"]["name"]

    params = {"name": "greet"}
    known = lenient_meta(params, "2025-11-25", {"elicitation": {}})
    request = jsonrpc.Request(7, "tools/call", params)
    call = Call(request, known, lambda note: None, era=Era.LEGACY, inputs=Line())

    result = run(answer(server, call))

    assert result == {"content": [{"type": "text", "text": "Ann"}]}
    assert runs == ([None] if style == "inline" else [None, 1])
