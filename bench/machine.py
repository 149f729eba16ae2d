"""Starting servers on one core, and looking at them from another."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
START_TIMEOUT: Final = 30.0
END_TIMEOUT: Final = 5.0
CORES: Final = sorted(os.sched_getaffinity(0))
SERVER_CORE: Final = CORES[0]
LOAD_CORE: Final = CORES[-1]
PACKAGES: Final = ("mcpost", "mcp", "fastmcp", "uvicorn", "uvloop", "httptools", "msgspec")


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
        raise RuntimeError(f"{self.name} has ended")

    def cpu(self) -> float:
        """Seconds of processor time that its threads have had."""
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text("ascii").split()[0])
        return total / 1e9


def prepare() -> None:
    """Take the generator's core, and as many files as there may be."""
    # By default the signal would end this process, and leave its servers behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    os.sched_setaffinity(0, {LOAD_CORE})
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """Have what is started in the block run on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def free_port() -> int:
    """A port that the kernel picks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command_of(name: str) -> list[str]:
    """The command that starts a target; `{port}` stands for its port."""
    return [sys.executable, "-m", "bench.servers", name, "{port}"]


def spawn(
    command: Sequence[str], port: int, log: IO[bytes], core: int = SERVER_CORE
) -> subprocess.Popen[bytes]:
    """Start a server on a core, mostly the servers' one."""
    with on_core(core):
        return subprocess.Popen(
            [part.replace("{port}", str(port)) for part in command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server, within some seconds."""
    process.terminate()
    try:
        process.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def serving(
    name: str, command: Sequence[str] | None = None, core: int = SERVER_CORE
) -> Iterator[Running]:
    """Run a server on a core until the block ends.

    Raises:
        RuntimeError: It does not start; says what it wrote last.
    """
    port = free_port()
    with tempfile.TemporaryFile() as log:
        process = spawn(command or command_of(name), port, log, core)
        try:
            if not _takes_connections(port, process):
                stop(process)
                log.seek(0)
                said = log.read()[-2000:].decode(errors="replace")
                raise RuntimeError(f"{name} does not start:\n{said}")
            yield Running(name, port, process.pid)
        finally:
            stop(process)


def _takes_connections(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.005)
    return False


def describe() -> list[str]:
    """Say what was measured on, and with which versions."""
    found = []
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    cores = "server on one core, generator on another"
    if SERVER_CORE == LOAD_CORE:
        cores = "server and generator on the same core"
    return [
        f"{_processor()}, {os.cpu_count()} cores, {cores};"
        f" {platform.system()} {platform.release()}, Python {platform.python_version()}",
        ", ".join(found),
    ]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
