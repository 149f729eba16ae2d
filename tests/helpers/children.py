"""The processes that this one has started and that still run."""

from __future__ import annotations

import os
from pathlib import Path


def child_processes() -> set[tuple[int, str]]:
    """Give the running children as (pid, command line); empty where there is no /proc."""
    found = set()
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in task.read_text("ascii").split():
            command = _command(int(pid))
            if command and "multiprocessing.resource_tracker" not in command:
                found.add((int(pid), command))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def is_running(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return status != "Z"
