"""What a page of the documentation shows, done as its reader would do it.

A comment before a block of code says what it is:

- `<!-- file: shop.py -->` writes it into a file of the page, `<!-- more: shop.py -->` adds to one;
- `<!-- run -->` runs it: Python as a script; in a console, each line that begins with `$ `. What
  follows a command, and the `text` block that follows a script, is what it has to print, where a
  line of `…` stands for any lines.

`mcpost serve` is started on a port that the system chooses, and stays until the end of the page:
the URL that the page shows stands for its own.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.e2e.cli.commands import ROOT
from tests.helpers.until import DEADLINE

SHOWN = "http://127.0.0.1:8000/mcp"
BLOCK = re.compile(
    r"^ *<!-- (?P<mark>file|more|run)(?:: (?P<name>\S+))? -->\n+"
    r"(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)^(?P=indent)```\n"
    r"(?:\n*(?P=indent)```text\n(?P<output>.*?)^(?P=indent)```\n)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """One marked block of a page."""

    mark: str
    name: str
    language: str
    code: str
    output: str


def read_blocks(page: Path) -> Iterator[Block]:
    """The marked blocks of a page, in order."""
    for found in BLOCK.finditer(page.read_text("utf-8")):
        code, output = (textwrap.dedent(found[each] or "") for each in ("code", "output"))
        yield Block(found["mark"], found["name"] or "", found["language"], code, output)


class Reader:
    """Does what a page shows, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = SHOWN
        self._servers: list[subprocess.Popen[str]] = []

    def do(self, block: Block) -> None:
        """Do what one block shows, and compare what comes of it."""
        if block.mark != "run":
            with (self.folder / block.name).open("a" if block.mark == "more" else "w") as file:
                file.write(block.code)
        elif block.language == "python":
            expect(block.output, self._run([sys.executable, "-c", block.code]))
        else:
            for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.code, re.M):
                words = shlex.split(command)
                shown = self._serve(words) if "serve" in words[:2] else self._run(words)
                expect(output, shown)

    def close(self) -> None:
        """End what runs, and compile every file, those that were not run too."""
        for server in self._servers:
            with server:
                server.terminate()
        for file in self.folder.glob("*.py"):
            self._run([sys.executable, file.name])

    def _run(self, words: list[str]) -> str:
        words = [word.replace(SHOWN, self.url) for word in self._command(words)]
        ended = subprocess.run(
            words,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert "Traceback" not in ended.stdout, ended.stdout
        return ended.stdout.replace(self.url, SHOWN)

    def _serve(self, words: list[str]) -> str:
        command = [*self._command(words), "--port", "0"]
        server = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self._servers.append(server)
        assert server.stdout is not None
        self.url = server.stdout.readline().strip()
        return f"{SHOWN}\n"

    def _command(self, words: list[str]) -> list[str]:
        if words[0] in ("mcpost", "python"):
            return [str(Path(sys.executable).parent / words[0]), *words[1:]]
        return words


def expect(wanted: str, shown: str) -> None:
    """Compare what was printed with what the page says."""
    pattern = re.escape(wanted).replace("…\\\n", r"(?:.*\n)*")
    assert re.fullmatch(pattern, shown), f"the page says\n{wanted}\nand it is\n{shown}"


def link_examples(folder: Path) -> None:
    """Let a page name the files of the repository as from its root."""
    (folder / "examples").symlink_to(ROOT / "examples")
