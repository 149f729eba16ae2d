"""The commands that call a server, as a person types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
import uvicorn

from mcpost import Context, Mirror, Server, ToolError
from mcpost.cli.calling import plain, read_arguments
from mcpost.errors import UsageError
from tests.helpers.until import DEADLINE

COMMAND = str(Path(sys.executable).with_name("mcpost"))


def make_server() -> Server:
    server = Server("library", version="1", instructions="Ask for books.")

    @server.tool
    async def search(
        query: str, limit: int = 3, region: Annotated[str | None, Mirror("Region")] = None
    ) -> str:
        """Find books."""
        return f"{query!r} {limit!r} {region!r}"

    @server.tool
    async def fail() -> str:
        raise ToolError("no such book")

    @server.tool
    async def count(to: int, ctx: Context) -> str:
        for step in range(to):
            await ctx.progress(step + 1, to, f"step {step + 1}")
        return "counted"

    @server.tool
    async def wait(ctx: Context) -> str:
        import asyncio

        await ctx.progress(1, 2)
        await asyncio.sleep(600)
        return "late"

    @server.resource("data://x", mime_type="text/plain")
    def x() -> str:
        return "the text"

    @server.prompt
    def greet(name: str) -> str:
        """Say hello."""
        return f"Hello {name}"

    return server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = make_server().asgi("/mcp")
    config = uvicorn.Config(app, port=0, log_level="warning", lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    pause = threading.Event()
    while not running.started:
        assert thread.is_alive()
        pause.wait(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/mcp"
    running.should_exit = True
    thread.join(DEADLINE)


def mcpost(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        timeout=DEADLINE,
        check=False,
    )


def test_discover_shows_the_server(url: str) -> None:
    done = mcpost("discover", url)

    assert done.stdout.splitlines()[0] == "library 1"
    assert "2026-07-28" in done.stdout
    assert "Ask for books." in done.stdout
    assert json.loads(mcpost("discover", url, "--json").stdout)["supportedVersions"]


def test_tools_are_listed_with_what_they_take(url: str) -> None:
    done = mcpost("tools", url)

    assert done.stdout.splitlines()[0] == "search\tquery= [limit=] [region=]\tFind books."
    assert json.loads(mcpost("tools", url, "--json").stdout)[0]["name"] == "search"


@pytest.mark.req("F-01/C")
def test_a_call_types_its_arguments_by_the_schema(url: str) -> None:
    done = mcpost("call", url, "search", "query=7", "limit=7", "region=eu")
    assert (done.stdout, done.returncode) == ("'7' 7 'eu'\n", 0)

    done = mcpost("call", url, "search", "--input", '{"query": "a"}', "limit:=1")
    assert done.stdout == "'a' 1 None\n"

    done = mcpost("call", url, "search", "--input", "-", stdin='{"query": "b"}')
    assert done.stdout == "'b' 3 None\n"

    done = mcpost("call", url, "search", "query=a", "--json")
    assert json.loads(done.stdout)["content"][0]["text"] == "'a' 3 None"


def test_a_failure_of_the_tool_is_exit_status_1(url: str) -> None:
    done = mcpost("call", url, "fail")

    assert (done.stdout, done.stderr, done.returncode) == ("", "no such book\n", 1)


def test_a_mistake_is_exit_status_2_and_one_line(url: str) -> None:
    done = mcpost("call", url, "search", "query=a", "limit=many")

    assert done.stderr == "mcpost: limit=many: the tool wants integer\n"
    assert done.returncode == 2


def test_a_server_that_is_not_there_is_exit_status_1_and_one_line() -> None:
    done = mcpost("tools", "http://127.0.0.1:1/mcp")

    assert done.returncode == 1
    assert done.stderr.startswith("mcpost: cannot connect to 127.0.0.1:1: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_path_and_a_wrong_scheme_are_named(url: str) -> None:
    path = mcpost("tools", url.removesuffix("mcp") + "mpc")
    scheme = mcpost("tools", url.replace("http:", "https:"))

    assert path.returncode == scheme.returncode == 1
    assert path.stderr == (
        f"mcpost: there is no MCP endpoint at {url.removesuffix('mcp')}mpc: the answer is 404,"
        " whatever the revision. Is the path right? It is /mcp with most servers\n"
    )
    assert "does not speak TLS; is it http:// and not https://?" in scheme.stderr


@pytest.mark.req("P-01/C")
def test_progress_goes_to_the_standard_error_as_lines(url: str) -> None:
    done = mcpost("call", url, "count", "to=3")

    assert done.stdout == "counted\n"
    assert done.stderr.splitlines() == ["1/3 step 1", "2/3 step 2", "3/3 step 3"]


def test_resources_and_prompts_are_listed_and_got(url: str) -> None:
    assert mcpost("read", url).stdout == "data://x\tx\ttext/plain\n"
    assert mcpost("read", url, "data://x").stdout == "the text\n"
    assert mcpost("prompts", url).stdout == "greet\tname=\tSay hello.\n"
    assert mcpost("prompts", url, "greet", "name=Ann").stdout == "user: Hello Ann\n"


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.req("T-15/C")
def test_ctrl_c_cancels_the_call_and_says_so(url: str) -> None:
    child = start("call", url, "wait")
    assert child.stderr is not None
    assert child.stderr.readline() == "1/2\n"
    os.kill(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=DEADLINE)

    assert err == "mcpost: cancelled; the server was told\n"
    assert child.returncode == 130


def test_listen_says_what_it_hears_until_ctrl_c(url: str) -> None:
    child = start("listen", url)
    assert child.stderr is not None
    assert child.stderr.readline().startswith("listening: ")
    os.kill(child.pid, signal.SIGINT)
    child.communicate(timeout=DEADLINE)

    assert child.returncode == 130


def test_a_servers_text_does_not_drive_the_terminal() -> None:
    assert plain("a\x1b[2Jb\r\x07\n\tc\u202e") == "a[2Jb\n\tc"


SCHEMA = {
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "yes": {"type": "boolean"},
        "maybe": {"type": ["integer", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "list": {"type": "array", "items": {"type": "integer"}},
        "object": {"type": "object"},
    }
}


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("text=7", {"text": "7"}),
        ("text=a=b", {"text": "a=b"}),
        ("number=1.5", {"number": 1.5}),
        ("yes=true", {"yes": True}),
        ("maybe=null", {"maybe": None}),
        ("either=4", {"either": 4}),
        ("list=[1,2]", {"list": [1, 2]}),
        ('object={"a":1}', {"object": {"a": 1}}),
        ("unknown=7", {"unknown": "7"}),
        ("unknown:=7", {"unknown": 7}),
    ],
)
def test_a_pair_is_read_as_its_schema_says(pair: str, value: dict[str, object]) -> None:
    assert read_arguments([pair], None, SCHEMA) == value


@pytest.mark.parametrize("pair", ["text", "=x", "yes=maybe", "number=x", "x:=nope", "list=7"])
def test_a_pair_that_does_not_fit_is_refused(pair: str) -> None:
    with pytest.raises(UsageError):
        read_arguments([pair], None, SCHEMA)
