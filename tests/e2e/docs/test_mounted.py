"""The example of an application with tools, served by uvicorn as its docstring says."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from tests.e2e.cli.commands import ROOT, mcpost
from tests.helpers.until import DEADLINE


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "uvicorn", "examples.mounted:app", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield next(
                found[0]
                for line in process.stderr
                if (found := re.search(r"http://127\.0\.0\.1:\d+", line))
            )
        finally:
            process.terminate()


@pytest.mark.parametrize("path", ["/tools", "/tools/"])
def test_both_spellings_of_the_path_are_served_as_they_are(address: str, path: str) -> None:
    ended = mcpost("call", address + path, "countdown", "start=2")

    assert (ended.stdout, ended.stderr) == ("2 … lift-off\n", "1/2\n2/2\n")


def test_the_rest_of_the_application_is_as_it_was(address: str) -> None:
    with urllib.request.urlopen(address, timeout=DEADLINE) as answer:
        assert answer.read() == b'{"tools":"/tools"}'
