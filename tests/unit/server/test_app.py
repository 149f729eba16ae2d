from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import threading
from typing import Annotated, Any

import pytest

import mcpost
from mcpost import Mirror, Server
from mcpost.errors import BadMark, UsageError
from mcpost.server.bus import MemoryBus
from mcpost.types import Change, PromptsChanged, ResourcesChanged, ResourceUpdated, ToolsChanged
from tests.helpers.calls import ask, call_tool
from tests.helpers.loop import run
from tests.helpers.until import DEADLINE


def echo(text: str) -> str:
    """Say it again."""
    return text


@pytest.mark.req("F-01/S")
def test_a_tool_is_registered_with_and_without_parentheses() -> None:
    server = Server("app")

    assert server.tool(echo) is echo
    assert (
        server.tool(name="again", title="Again", description="Other.", meta={"a": 1})(echo) is echo
    )

    first, second = run(ask(server, "tools/list"))["tools"]
    assert (first["name"], first["description"]) == ("echo", "Say it again.")
    assert (second["name"], second["title"], second["description"]) == ("again", "Again", "Other.")
    assert second["_meta"] == {"a": 1}


@pytest.mark.req("F-03/S")
def test_a_prompt_is_registered_with_and_without_parentheses() -> None:
    server = Server("app")

    assert server.prompt(echo) is echo
    assert server.prompt(name="again")(echo) is echo
    assert len(run(ask(server, "prompts/list"))["prompts"]) == 2


@pytest.mark.req("F-02/S")
def test_a_resource_keeps_its_function() -> None:
    server = Server("app")

    assert server.resource("x://{text}")(echo) is echo
    assert run(ask(server, "resources/read", {"uri": "x://hi"}))["contents"][0]["text"] == "hi"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "x" * 129, "a\n"])
def test_a_name_that_no_tool_should_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"name|function"):
        Server("app").add_tool(lambda: None, name=name or "?")


def test_a_name_stands_for_one_thing() -> None:
    server = Server("app")
    server.add_tool(echo)

    with pytest.raises(UsageError, match="already"):
        server.add_tool(echo)
    with pytest.raises(UsageError, match="no tool 'lost'"):
        server.remove_tool("lost")


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="nmae"):
        Server("app").tool(nmae="x")(echo)  # type: ignore[call-overload]


@pytest.mark.parametrize("uri", ["x://1", "x://{other}", "x://{text}/{more}"])
def test_a_template_names_what_its_function_takes(uri: str) -> None:
    with pytest.raises(UsageError, match="the function takes"):
        Server("app").add_resource(uri, echo)


@pytest.mark.parametrize("function", [list, lambda value, other: [], lambda *values: []])
def test_a_completion_takes_the_text_so_far(function: Any) -> None:
    with pytest.raises(UsageError):
        Server("app").add_completion("p", "a", function)


def test_an_argument_has_one_completion() -> None:
    server = Server("app")
    server.completion("p", "a")(lambda value: [])

    with pytest.raises(UsageError, match="already"):
        server.completion("p", "a")(lambda value: [])


@pytest.mark.parametrize("annotations", [{"readOnlyHint": "yes"}, 5])
def test_annotations_of_another_shape_are_refused(annotations: Any) -> None:
    with pytest.raises(UsageError, match="ToolAnnotations"):
        Server("app").add_tool(echo, annotations=annotations)


@pytest.mark.req("H-01/S", "H-02/S")
def test_a_mark_is_known_by_the_tool_and_a_bad_one_refused() -> None:
    server = Server("app")

    @server.tool
    async def search(region: Annotated[str | None, Mirror("Region")] = None) -> str | None:
        return region

    mirror = server.features.mirror_of("search")

    assert mirror is not None
    assert mirror.lines({"region": "eu"}) == [("Mcp-Param-Region", "eu")]
    assert server.features.mirror_of("lost") is None
    with pytest.raises(BadMark):
        server.add_tool(_spaced)


async def _spaced(a: Annotated[str, Mirror("Two words")]) -> str:
    return a


class Ear:
    """Hears a bus."""

    def __init__(self, server: Server) -> None:
        self.heard: list[Change] = []
        server.bus.subscribe(self.heard.append)


@pytest.mark.req("F-01/S", "F-02/S", "F-03/S", "P-04/S")
def test_what_comes_and_goes_while_served_is_told() -> None:
    server = Server("app")
    ear = Ear(server)
    server.add_tool(echo)
    assert ear.heard == []
    server.serving()

    server.add_tool(echo, name="b")
    server.remove_tool("b")
    server.add_prompt(echo)
    server.remove_prompt("echo")
    server.add_resource("x://{text}", echo)
    server.remove_resource("x://{text}")

    tools, prompts, resources = ToolsChanged(), PromptsChanged(), ResourcesChanged()
    assert ear.heard == [tools, tools, prompts, prompts, resources, resources]


@pytest.mark.req("F-01/S")
def test_a_changed_list_is_seen_at_once() -> None:
    server = Server("app")
    server.add_tool(echo)
    run(ask(server, "tools/list"))
    server.add_tool(echo, name="b")
    server.remove_tool("echo")

    assert [tool["name"] for tool in run(ask(server, "tools/list"))["tools"]] == ["b"]


@pytest.mark.req("P-04/S", "F-02/S")
def test_changes_are_told_from_any_thread() -> None:
    server = Server("app", bus=MemoryBus())
    ear = Ear(server)

    def tell() -> None:
        server.notify_tools_changed()
        server.notify_prompts_changed()
        server.notify_resources_changed()
        server.notify_resource_updated("x://1")

    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()

    assert ear.heard == [
        ToolsChanged(),
        PromptsChanged(),
        ResourcesChanged(),
        ResourceUpdated("x://1"),
    ]


def test_objects_of_the_official_types_are_taken_and_given_back_by_their_shape() -> None:
    types = pytest.importorskip("mcp_types")
    server = Server("app")

    @server.tool(annotations=types.ToolAnnotations(readOnlyHint=True))
    async def say() -> Any:
        return types.TextContent(type="text", text="hi")

    (tool,) = run(ask(server, "tools/list"))["tools"]

    assert tool["annotations"] == {"readOnlyHint": True}
    assert run(call_tool(server, "say"))["content"] == [{"type": "text", "text": "hi"}]


def test_the_public_face_is_whole() -> None:
    for name in mcpost.__all__:
        assert getattr(mcpost, name) is not None
    assert set(mcpost.__all__) <= set(dir(mcpost))
    assert len(mcpost.__all__) <= 25
    with pytest.raises(AttributeError, match="nothing"):
        _ = mcpost.nothing


def test_the_version_is_that_of_the_package() -> None:
    assert mcpost.__version__ == importlib.metadata.version("mcpost")


@pytest.mark.parametrize("name", ["Server", "ServerLimits", "Context", "ToolError"])
def test_importing_the_package_loads_no_engine(name: str) -> None:
    heavy = "pydantic aiohttp uvicorn httptools jsonschema_rs typer rich opentelemetry redis"
    code = (
        f"import sys, mcpost; mcpost.{name};"
        f"print([each for each in {heavy.split()} if each in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE
    )

    assert (done.returncode, done.stdout.strip()) == (0, "[]")


def test_a_server_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="has a name"):
        Server("")
