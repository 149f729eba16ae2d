"""The commands that call a server, and the command line itself."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from mcpost.cli.serve import serve as command
from mcpost.server.run import serve
from tests.e2e.cli.commands import LIBRARY, first_line, mcpost, started

COMMANDS = ["serve", "discover", "tools", "call", "read", "prompts", "listen"]
COMMANDS += ["compare", "gateway", "export"]
BOOK = {
    "id": 1,
    "title": "Pride and Prejudice",
    "author": "Jane Austen",
    "year": 1813,
    "subject": "novel",
    "region": "eu",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with started("serve", LIBRARY, "--port", "0") as process:
        yield first_line(process)


def test_the_version_is_that_of_the_package() -> None:
    ended = mcpost("--version")

    assert (ended.returncode, ended.stdout) == (0, f"mcpost {version('mcpost')}\n")


def test_help_names_every_command() -> None:
    told = mcpost("--help").stdout.partition("Commands:")[2]

    assert [line.split()[0] for line in told.splitlines() if line] == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    ended = mcpost(name, "--help")

    assert (ended.returncode, ended.stdout.split()[:3]) == (0, ["Usage:", "mcpost", name])


@pytest.mark.parametrize("arguments", [[], ["no-such-command"], ["call"], ["tools", "--no-such"]])
def test_wrong_use_is_status_2_without_a_traceback(arguments: list[str]) -> None:
    ended = mcpost(*arguments)

    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_serve_has_an_option_for_all_that_a_server_is_run_with() -> None:
    given = {"origin": "origins", "public_host": "hosts"}
    options = {given.get(name, name) for name in inspect.signature(command).parameters}
    # Functions cannot be typed, and single limits stand for `limits`.
    wanted = inspect.signature(serve).parameters.keys() - {
        "server",
        "authenticate",
        "limits",
        "ready",
    }

    assert options - {"target", "max_calls", "drain_grace", "stdio"} == wanted


def test_tools_are_listed_with_their_arguments(url: str) -> None:
    ended = mcpost("tools", url)

    assert ended.stdout.splitlines()[0].split("\t")[:2] == ["search", "query= [region=] [limit=]"]


def test_arguments_are_typed_by_the_schema(url: str) -> None:
    ended = mcpost("call", url, "search", "query=sea", "region=us", "limit=1")

    assert [book["title"] for book in json.loads(ended.stdout)] == ["Moby-Dick"]


def test_progress_goes_to_the_standard_error(url: str) -> None:
    ended = mcpost("call", url, "reindex", "steps=2", "delay=0")

    assert ended.stdout == '{"state":"finished","done":2,"steps":2}\n'
    assert ended.stderr == "1/2 indexed 1 of 2\n2/2 indexed 2 of 2\n"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        pytest.param(
            ["place_hold", "book_id=9999"],
            1,
            "there is no book 9999; search for one first\n",
            id="the tool failed",
        ),
        pytest.param(["nope"], 1, "mcpost: there is no tool 'nope' (-32602)\n", id="no tool"),
        pytest.param(
            ["search", "query=a", "limit=many"],
            2,
            "mcpost: limit=many: the tool wants integer\n",
            id="a wrong type",
        ),
    ],
)
def test_a_call_that_fails_is_one_line(
    url: str, arguments: list[str], status: int, said: str
) -> None:
    ended = mcpost("call", url, *arguments)

    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", said)


def test_arguments_may_come_from_the_standard_input(url: str) -> None:
    ended = mcpost("call", url, "search", "--input", "-", input='{"query": "austen", "limit": 1}')

    assert json.loads(ended.stdout) == [BOOK]


def test_read_prints_the_resource_and_nothing_else(url: str) -> None:
    ended = mcpost("read", url, "library://books/1")

    assert (json.loads(ended.stdout), ended.stderr) == (BOOK, "")


def test_what_does_not_exist_is_one_line(url: str) -> None:
    ended = mcpost("read", url, "library://books/999")

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "mcpost: there is no book 999 (-32602)\n"


def test_a_prompt_is_filled_in(url: str) -> None:
    ended = mcpost("prompts", url, "recommend", "subject=sea")

    assert ended.stdout.startswith("user: Recommend 3 books about sea")


def test_a_server_that_is_not_there_is_one_line() -> None:
    ended = mcpost("tools", "http://127.0.0.1:1/mcp")

    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert ended.stderr.startswith("mcpost: cannot connect to 127.0.0.1:1")
