"""Our client and other people's servers over stdio, in both eras."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcpost.client import Client
from mcpost.limits import ClientLimits
from mcpost.types import Progress
from tests.helpers.loop import run
from tests.helpers.until import DEADLINE

SERVER = str(Path(__file__).with_name("their_server.py"))
# They are slow to start, and silence would count as an answer to the first question.
PATIENT = ClientLimits(probe_timeout=DEADLINE, start_timeout=DEADLINE)


@pytest.mark.req("V-04/C", "L-01/C", "P-01/C")
@pytest.mark.parametrize("theirs", ["official", "fastmcp"])
@pytest.mark.parametrize(("era", "version"), [(None, "2026-07-28"), ("legacy", "2025-11-25")])
def test_calls_with_progress(theirs: str, era: str | None, version: str) -> None:
    heard: list[Progress] = []

    async def main() -> None:
        async with Client([sys.executable, SERVER, theirs], era=era, limits=PATIENT) as client:
            assert version in (await client.discover()).supported_versions
            assert [tool.name for tool in await client.tools()] == ["count"]
            result = await client.call("count", {"steps": 3}, progress=heard.append)
            assert result.text == "done"

    run(main())
    assert [each.progress for each in heard] == [1, 2, 3]
