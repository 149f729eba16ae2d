"""One slow call on three wires: what `mcpost compare` measures, and the page that it draws."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from mcpost.compare.page import draw_page
from mcpost.compare.run import Outcome, compare
from mcpost.compare.table import HEAD, format_table
from mcpost.errors import UsageError
from tests.helpers.children import child_processes
from tests.helpers.loop import run
from tests.helpers.serving import ROOT

LIBRARY = f"{ROOT}/examples/library.py:server"
STDIO, HTTP, LEGACY = "stdio", "HTTP 2026-07-28", "HTTP 2025-11-25"


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    before = child_processes()
    found = run(compare(LIBRARY, delay=0.03), debug=False)
    assert child_processes() == before
    return found


def find(outcomes: list[Outcome], wire: str, scenario: str) -> Outcome:
    return next(each for each in outcomes if (each.wire, each.scenario) == (wire, scenario))


@pytest.mark.req("P-01/C", "I-01/S", "L-02/S")
@pytest.mark.parametrize("wire", [STDIO, HTTP, LEGACY])
def test_to_the_end_all_steps_are_told_and_the_work_runs_once(
    outcomes: list[Outcome], wire: str
) -> None:
    outcome = find(outcomes, wire, "to the end")
    assert [(each.state, each.done) for each in outcome.runs] == [("finished", 40)]
    kinds = [each.kind for each in outcome.messages]
    assert kinds == ["request", *["progress"] * 40, "result"]
    assert outcome.saw == "progress 1-40; the result (40 done)"


@pytest.mark.req("P-02/C", "P-02/S", "L-02/C")
@pytest.mark.parametrize("wire", [STDIO, HTTP, LEGACY])
def test_a_cancelled_call_stops_its_work(outcomes: list[Outcome], wire: str) -> None:
    outcome = find(outcomes, wire, "cancelled after 6")
    (only,) = outcome.runs
    assert only.state == "cancelled"
    # To the end it would be 40: how soon it stops hangs on how busy the machine is.
    assert 6 <= only.done < 40
    assert outcome.saw == "progress 1-6; a cancellation"


@pytest.mark.req("P-02/C")
def test_each_wire_cancels_in_its_own_way(outcomes: list[Outcome]) -> None:
    def last_words(wire: str) -> list[str]:
        messages = find(outcomes, wire, "cancelled after 6").messages
        return sorted(each.text for each in messages[1:] if each.to_server)

    assert last_words(STDIO) == ["cancelled"]
    assert last_words(HTTP) == ["closes the stream"]
    assert last_words(LEGACY) == ["cancelled", "closes the stream"]


@pytest.mark.req("T-14/C", "I-03/C")
@pytest.mark.parametrize("wire", [STDIO, HTTP])
def test_a_call_that_was_cut_off_is_sent_again_and_the_work_runs_twice(
    outcomes: list[Outcome], wire: str
) -> None:
    outcome = find(outcomes, wire, "cut off after 2")
    first, second = outcome.runs
    assert first.done < 40
    assert (second.state, second.done) == ("finished", 40)
    asked = [each.text for each in outcome.messages if each.kind == "request"]
    assert len(asked) == len(set(asked)) == 2
    assert outcome.saw == "progress 1-2, then 1-40; the result (40 done)"


@pytest.mark.req("L-02/C")
def test_on_2025_11_25_the_stream_resumes_and_the_work_runs_once(outcomes: list[Outcome]) -> None:
    outcome = find(outcomes, LEGACY, "cut off after 2")
    assert [(each.state, each.done) for each in outcome.runs] == [("finished", 40)]
    asked = [each.text for each in outcome.messages if each.kind == "request"]
    assert re.fullmatch(r"tools/call \(id \d+\)", asked[0])
    assert re.fullmatch(r"GET after event \d+-2", asked[1])
    assert outcome.saw == "progress 1-40; the result (40 done)"


def test_the_table_has_a_row_for_each_call(outcomes: list[Outcome]) -> None:
    lines = format_table(outcomes).splitlines()
    assert len(lines) == 2 + 9
    assert len({len(line) for line in lines}) == 1
    assert all(name in lines[0] for name in HEAD)


def test_the_page_draws_every_message_and_needs_nothing_else(outcomes: list[Outcome]) -> None:
    page = draw_page(outcomes)
    drawings = re.findall(r"<svg.*?</svg>", page)
    arrows = 0
    for drawing in drawings:
        lines = ET.fromstring(drawing).iter("line")
        arrows += sum(line.get("class") != "line" for line in lines)
    assert len(drawings) == 3
    assert arrows == sum(len(each.messages) for each in outcomes)
    assert not re.search(r"(src|href)=|url\((?!#)|@import|<script", page)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_a_target_that_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match=r"nowhere\.py"):
        asyncio.run(compare("nowhere.py:server"))


def test_the_command_prints_the_table_and_writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    mcpost = str(Path(sys.executable).parent / "mcpost")
    command = [mcpost, "compare", LIBRARY, "--steps", "10", "--delay", "0.01", "--html", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 11
    assert page.read_text("utf-8").startswith("<!doctype html>")
