"""The public face: what is exported, and what importing it loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mcpost
from tests.helpers.until import DEADLINE

HEAVY = ["pydantic", "uvicorn", "httptools", "aiohttp", "typer", "rich", "jsonschema_rs", "redis"]


def test_importing_the_package_loads_no_engine() -> None:
    code = f"import mcpost, sys; print(*[n for n in {HEAVY} if n in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE, check=True
    )

    assert ended.stdout == "\n"


def test_what_type_checkers_see_is_what_is_exported() -> None:
    tree = ast.parse(Path(mcpost.__file__).read_text("utf-8"))
    block = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.name
        for each in block.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    }

    assert seen == set(mcpost.__all__)
    assert list(mcpost.__all__) == sorted(mcpost.__all__)


def test_the_face_is_small() -> None:
    assert len(mcpost.__all__) <= 25


@pytest.mark.parametrize("name", mcpost.__all__)
def test_every_name_is_there_and_in_dir(name: str) -> None:
    assert getattr(mcpost, name).__name__ == name
    assert name in dir(mcpost)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Sever'"):
        mcpost.Sever  # noqa: B018
