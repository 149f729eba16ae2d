"""Starting servers on one core, and looking at them from another."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT = 30.0
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = CORES[0]
LOAD_CORE = CORES[-1]


class Running(NamedTuple):
    """A server that takes connections."""

    name: str
    port: int
    pid: int

    def memory(self) -> int:
        """Bytes of resident memory of the process."""
        for line in Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0


def free_port() -> int:
    """A port that the kernel picks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def serving(name: str, command: list[str] | None = None) -> Iterator[Running]:
    """Run a server on the servers' core until the block ends."""
    port = free_port()
    command = command or [sys.executable, "-m", "bench.servers", name, str(port)]
    command = [part.replace("{port}", str(port)) for part in command]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        os.sched_setaffinity(process.pid, {SERVER_CORE})
        wait_for(port, process)
        yield Running(name, port, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a port takes connections."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.002)
    raise RuntimeError("the server did not start")


def describe() -> list[str]:
    """Say what was measured on, and with which versions."""
    names = ("mcpost", "mcp", "fastmcp", "uvicorn", "uvloop", "httptools", "msgspec")
    found = []
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    model = "unknown processor"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return [
        f"{model}, {len(CORES)} cores, server on one, load on another;"
        f" Python {platform.python_version()}",
        ", ".join(found),
    ]
