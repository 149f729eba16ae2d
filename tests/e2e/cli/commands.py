"""The commands as a person runs them: in a process of its own, with a deadline."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.until import DEADLINE

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "examples" / "library.py"
MCPOST = str(Path(sys.executable).parent / "mcpost")


def mcpost(
    *arguments: str | Path, cwd: Path = ROOT, input: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [MCPOST, *map(str, arguments)],
        cwd=cwd,
        input=input,
        stdin=subprocess.DEVNULL if input is None else None,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )


@contextmanager
def started(*arguments: str | Path, cwd: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """Start a command; it is ended at the latest when the block is left."""
    process = subprocess.Popen(
        [MCPOST, *map(str, arguments)],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    """The first line that a command says; empty if it ended without one."""
    assert process.stdout is not None
    return process.stdout.readline().strip()
