"""Start-up: import, first answer, memory of an idle server."""

from __future__ import annotations

import contextlib
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from bench.load import call_body, raw_request
from bench.machine import ROOT, free_port, serving

SERVER = """from mcpost import Server

server = Server("bench")


@server.tool
async def add(a: int, b: int) -> int:
    return a + b
"""
TIMEOUT = 20.0


class Started(NamedTuple):
    """How a server starts."""

    first_answer: float
    """Seconds from the start of the process to the end of its first answer."""
    memory: int
    """Bytes of resident memory when it is idle."""


def import_time(module: str, runs: int) -> float:
    """Seconds that an import adds to a bare interpreter: the difference of the medians."""

    def median(code: str) -> float:
        return statistics.median(_run(code) for _ in range(runs))

    median("pass")
    return median(f"import {module}") - median("pass")


def _run(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    return time.perf_counter() - start


def command(name: str, directory: Path) -> list[str]:
    """The command that starts a server: ours by its own command line."""
    if name == "mcpost":
        path = directory / "bench_server.py"
        path.write_text(SERVER, "utf-8")
        mcpost = str(Path(sys.executable).parent / "mcpost")
        return [mcpost, "serve", f"{path}:server", "--port", "{port}"]
    return [sys.executable, "-m", "bench.servers", name, "{port}"]


def start(name: str, directory: Path, runs: int) -> Started:
    """Measure the start of a server: medians."""
    times = [_first_answer(command(name, directory)) for _ in range(runs)]
    with serving(name, command(name, directory)) as server:
        time.sleep(0.5)
        memory = server.memory()
    return Started(statistics.median(times), memory)


def _first_answer(template: list[str]) -> float:
    port = free_port()
    parts = [part.replace("{port}", str(port)) for part in template]
    request = raw_request(port, "tools/call", "add", call_body("add", {"a": 1, "b": 2}))
    begun = time.perf_counter()
    process = subprocess.Popen(
        parts, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while time.perf_counter() - begun < TIMEOUT:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as one:
                one.sendall(request)
                if b"200 OK" in one.recv(65536):
                    return time.perf_counter() - begun
            time.sleep(0.002)
        raise RuntimeError("there was no first answer")
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
