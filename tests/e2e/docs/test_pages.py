"""The pages of the documentation do what they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mcpost
from mcpost.wire.exchange import TABLE, Event, State
from tests.e2e.cli.commands import ROOT
from tests.e2e.docs.pages import Reader, link_examples, read_blocks
from tests.helpers.until import DEADLINE

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKED = [page for page in PAGES if any(read_blocks(page))]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.stem)
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    link_examples(tmp_path)
    reader = Reader(tmp_path)
    try:
        for block in read_blocks(page):
            reader.do(block)
    finally:
        reader.close()


def test_what_the_pages_show_is_typed_strictly(tmp_path: Path) -> None:
    for name in ("README.md", "docs/server.md", "docs/input.md"):
        folder = tmp_path / Path(name).stem
        folder.mkdir()
        reader = Reader(folder)
        for number, block in enumerate(read_blocks(ROOT / name)):
            if block.language == "python":
                file = block.name or f"run{number}.py"
                reader.do(
                    block._replace(mark="file" if block.mark == "run" else block.mark, name=file)
                )
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            str(ROOT / ".mypy_cache"),
        ]
        ended = subprocess.run(
            [*command, *(file.name for file in folder.glob("*.py"))],
            cwd=folder,
            env={**os.environ, "MYPYPATH": "."},
            capture_output=True,
            text=True,
            timeout=4 * DEADLINE,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_every_target_that_the_readme_shows_is_there() -> None:
    shown = set(re.findall(r"\bmake ([a-z]+)", (ROOT / "README.md").read_text("utf-8")))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))

    assert {"run", "test", "check", "conformance", "bench"} <= shown <= targets


def test_the_states_of_an_answer_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    events = next(row[1:] for row in rows if row[0] == "state")
    shown = {
        (row[0], event): cell
        for row in rows
        for event, cell in zip(events, row[1:], strict=False)
        if row[0] in [state.value for state in State]
    }
    moves = {
        (state.value, event.value): "; ".join([after.value, *(each.value for each in effects)])
        for (state, event), (after, effects) in TABLE.items()
    }

    assert shown == {each: moves.get(each, "illegal") for each in shown}
    assert len(shown) == len(State) * len(Event)


def test_make_run_ends_as_the_readme_shows() -> None:
    shown = re.search(r"```text\n(a call of .*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    ended = subprocess.run(
        [sys.executable, "-m", "tools.demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )

    assert shown
    assert ended.stdout.endswith(shown[1])


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    wanted = {re.split(r"[^a-z0-9-]", each)[0] for group in groups for each in group}
    page = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    reasons = dict(re.findall(r"^\| `([a-z0-9-]+)` \|[^|]*\| ([^|]+) \|$", page, re.M))

    assert reasons.keys() == wanted - {"mcpost"}


def test_the_changelog_has_a_place_for_what_comes() -> None:
    sections = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)

    assert sections[0] == "Unreleased"
    assert sections[1:2] in ([], [mcpost.__version__])
