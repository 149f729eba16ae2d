"""What `mcpost serve` says of a target that is no server: one line, and exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cli.commands import first_line, mcpost, started

SERVER = "from mcpost import Server\n\nserver = Server('shop')\n"
FILES = {
    "shop.py": SERVER,
    "typing.py": SERVER,
    "beside.py": "import prices\nfrom mcpost import Server\n\nserver = Server(prices.NAME)\n",
    "prices.py": "NAME = 'prices'\n",
    "two.py": SERVER + "other = Server('other')\n",
    "none.py": "answer = 42\n",
    "boom.py": "def start():\n    return 1 / 0\n\n\nstart()\n",
    "syntax.py": "def\n",
    "missing.py": "import no_such_package\n",
    "leaves.py": "import sys\n\nsys.exit('no')\n",
    "hint.py": SERVER + "\n\n@server.tool\ndef add(a: 'Number') -> int:\n    return a\n",
    "mark.py": (
        "from typing import Annotated\nfrom mcpost import Mirror, Server\n\n"
        "server = Server('shop')\n\n\n"
        "@server.tool\ndef f(a: Annotated[str, Mirror('two words')]) -> str:\n    return a\n"
    ),
    "notes.txt": "server = 1\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("targets")
    for name, text in FILES.items():
        (made / name).write_text(text, "utf-8")
    return made


@pytest.mark.parametrize(
    ("target", "said"),
    [
        pytest.param("nowhere.py:server", "there is no file nowhere.py", id="no such file"),
        pytest.param("nowhere", "there is no file or module 'nowhere'", id="no such module"),
        pytest.param("no.where:server", "there is no file or module 'no.where'", id="no package"),
        pytest.param("shop.py:sever", "shop.py has no 'sever'", id="no such name"),
        pytest.param("shop.py:server.name", "shop.py:server.name is a str, not a Server", id="str"),
        pytest.param("none.py", "none.py should have one Server and has none", id="none"),
        pytest.param("two.py", "has several (server, other); write two.py:NAME", id="several"),
        pytest.param(
            "boom.py",
            "boom.py: ZeroDivisionError: division by zero (boom.py, line 2)",
            id="raises",
        ),
        pytest.param("boom:server", "boom: ZeroDivisionError: division by zero", id="a module's"),
        pytest.param("syntax.py", "SyntaxError: invalid syntax (syntax.py, line 1)", id="syntax"),
        pytest.param(
            "missing.py",
            "ModuleNotFoundError: No module named 'no_such_package' (missing.py, line 1)",
            id="import",
        ),
        pytest.param("leaves.py", "leaves.py ends the program while it is loaded", id="exit"),
        pytest.param("hint.py", "name 'Number' is not defined", id="hint"),
        pytest.param("mark.py", "(mark.py, line 7)", id="mark"),
        pytest.param("notes.txt", "notes.txt is no Python file", id="not Python"),
    ],
)
def test_a_wrong_target_gets_one_line_and_status_2(folder: Path, target: str, said: str) -> None:
    ended = mcpost("serve", target, "--port", "0", cwd=folder)

    assert said in ended.stderr
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    "target", ["shop.py:server", "shop.py", "shop:server", "shop", "typing.py", "beside.py"]
)
def test_a_server_is_found_by_file_and_by_module(folder: Path, target: str) -> None:
    with started("serve", target, "--port", "0", cwd=folder) as process:
        assert first_line(process).startswith("http://127.0.0.1:")
