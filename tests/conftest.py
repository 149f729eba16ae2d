"""What every test gets: marks that are checked, and clean ends."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.children import child_processes
from tools.requirements import read_table

# Peers and proxies that come as wheels have their programs beside the interpreter.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

# A machine that is busy takes its time, which is nobody's fault; what is found can be had again.
settings.register_profile(
    "mcpost", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("mcpost")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    table = read_table()
    known = {f"{row.id}/{side}" for row in table.values() for side in row.sides + row.later}
    for item in items:
        for mark in item.iter_markers("req"):
            for name in mark.args:
                if name not in known:
                    raise pytest.UsageError(f"{item.nodeid}: {name} is not in docs/requirements.md")


@pytest.fixture(scope="module", autouse=True)
def no_child_is_left() -> Iterator[None]:
    """A module's tests end every process that they started."""
    before = child_processes()
    yield
    gc.collect()
    left = child_processes() - before
    assert not left, f"processes left behind: {left}"
