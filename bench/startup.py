"""Start-up: what an import costs, the first answer, the memory of an idle server."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final, NamedTuple

from bench.load import ADD, check
from bench.machine import ROOT, SERVER_CORE, command_of, free_port, on_core, serving, spawn, stop

SERVER: Final = """from mcpost import Server

server = Server("bench")


@server.tool
async def add(a: int, b: int) -> int:
    return a + b
"""
TIMEOUT: Final = 20.0
SETTLE: Final = 0.5


class Spent(NamedTuple):
    """What a process took."""

    wall: float
    """Seconds from its start."""
    cpu: float
    """Seconds of processor time."""


def run_code(code: str) -> Spent:
    """Run a line of Python in an interpreter of its own."""
    with on_core(SERVER_CORE):
        before, begun = os.times(), time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=TIMEOUT)
        wall, after = time.perf_counter() - begun, os.times()
    user = after.children_user - before.children_user
    return Spent(wall, user + after.children_system - before.children_system)


def import_times(statements: dict[str, str], runs: int) -> dict[str, float]:
    """Measure imports, in turn.

    Args:
        statements: What to run, by name.
        runs: How often.

    Returns:
        By name the seconds above a bare interpreter, medians.
    """
    every = {"": "pass", **statements}
    found: dict[str, list[float]] = {name: [] for name in every}
    for code in every.values():
        run_code(code)  # so that its files are in the cache
    for _ in range(runs):
        for name, code in every.items():
            found[name].append(run_code(code).wall)
    bare = statistics.median(found[""])
    return {name: statistics.median(found[name]) - bare for name in statements}


def command_line(directory: Path, port: str = "{port}") -> list[str]:
    """The command by which our users start a server."""
    path = directory / "bench_server.py"
    path.write_text(SERVER, "utf-8")
    mcpost = Path(sys.executable).parent / "mcpost"
    return [str(mcpost), "serve", f"{path}:server", "--port", port]


def first_answer(name: str, command: list[str] | None = None) -> float:
    """Measure the seconds from the start of a server's process to the end of its first answer."""
    port = free_port()
    with tempfile.TemporaryFile() as log:
        begun = time.perf_counter()
        process = spawn(command or command_of(name), port, log)
        try:
            while time.perf_counter() - begun < TIMEOUT and process.poll() is None:
                if _answers(port):
                    return time.perf_counter() - begun
                time.sleep(0.002)
        finally:
            stop(process)
        log.seek(0)
        said = log.read()[-2000:].decode(errors="replace")
        raise RuntimeError(f"{name} gives no first answer:\n{said}")


def _answers(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request("POST", "/mcp", ADD.body, ADD.headers)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def idle_memory(name: str, command: list[str] | None = None) -> int:
    """Measure the bytes of resident memory of a server that has answered once and is idle."""
    with serving(name, command) as server:
        check(server, ADD)
        time.sleep(SETTLE)
        return server.memory()
