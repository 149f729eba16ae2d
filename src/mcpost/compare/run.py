"""One slow call on three wires, three times on each: to its end, cancelled, and cut off.

The server is a process of its own each time a wire begins. What its work came to is read from its
resource `library://runs`, past the recording; what the caller saw is what the caller got.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mcpost.client import Client, Retry
from mcpost.client.child import Command, start_child
from mcpost.client.inputs import Inputs
from mcpost.client.stdio import StdioTransport
from mcpost.compare.record import Message, Recorder, StdioTap
from mcpost.compare.relay import Relay
from mcpost.errors import ConnectFailed, McpostError, UsageError
from mcpost.limits import ClientLimits
from mcpost.types import Progress

__all__ = ("SCENARIOS", "WIRES", "Outcome", "Run", "compare")

WIRES: Final = ("stdio", "HTTP 2026-07-28", "HTTP 2025-11-25")
SCENARIOS: Final = ("to the end", "cancelled after 6", "cut off after 2")

_CANCEL_AFTER: Final = 6
_CUT_AFTER: Final = 2
_START: Final = 30.0
_DEADLINE: Final = 60.0
_SERVE: Final = "from mcpost.cli.main import main; main()"


class Run(msgspec.Struct):
    """What one run of the work came to."""

    state: str
    done: int
    steps: int


class Outcome(NamedTuple):
    """What one call came to."""

    wire: str
    scenario: str
    runs: list[Run]
    """The runs of the work, oldest first."""
    messages: list[Message]
    saw: str
    """What the caller saw."""
    seconds: float


class _Wire(NamedTuple):
    """A wire that is ready."""

    client: Client
    """Calls over it."""
    reader: Client
    """Reads past the recording."""
    recorder: Recorder
    cut: Callable[[], None]


async def compare(
    target: str,
    *,
    steps: int = 40,
    delay: float = 0.05,
    told: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """Make the nine calls.

    Args:
        target: The example library, as `FILE.py:NAME`.
        steps: Steps of the work.
        delay: Seconds of a step.
        told: Is told what is done now.

    Raises:
        UsageError: The file is not there.
        McpostError: The server cannot be started or called.
    """
    _check(target)
    outcomes: list[Outcome] = []
    for name in WIRES:
        with tempfile.TemporaryDirectory(prefix="mcpost-compare-") as folder:
            env = {"LIBRARY_DB": f"{folder}/library.sqlite3"}
            if "PYTHONPATH" in os.environ:
                env["PYTHONPATH"] = os.environ["PYTHONPATH"]
            opener = _over_stdio if name == WIRES[0] else _over_http
            async with asyncio.timeout(_DEADLINE), opener(name, target, env) as wire:
                for scenario in SCENARIOS:
                    told(f"{name}: {scenario}")
                    outcomes.append(await _call(wire, name, scenario, steps, delay))
    return outcomes


def _check(target: str) -> None:
    if not Path(target.partition(":")[0]).exists():
        raise UsageError(f"{target} is not there; name the example library, FILE.py:NAME")


async def _call(wire: _Wire, name: str, scenario: str, steps: int, delay: float) -> Outcome:
    """Make one call, and see what became of it."""
    await wire.client.tools()
    before = len(await _runs(wire.reader))
    heard: list[float] = []
    loop = asyncio.get_running_loop()
    task: asyncio.Task[str]

    def hear(progress: Progress) -> None:
        heard.append(progress.progress)
        if scenario == SCENARIOS[1] and len(heard) == _CANCEL_AFTER:
            task.cancel()
        elif scenario == SCENARIOS[2] and len(heard) == _CUT_AFTER:
            wire.cut()

    wire.recorder.start()
    began = loop.time()
    task = asyncio.ensure_future(_make(wire.client, steps, delay, hear))
    await asyncio.wait([task])
    seconds = loop.time() - began
    said = "a cancellation" if task.cancelled() else task.result()
    # What comes now was under way.
    await asyncio.sleep(max(4 * delay, 0.2))
    messages = wire.recorder.stop()
    runs = await _settled(wire.reader, max(4 * delay, 0.2))
    return Outcome(name, scenario, runs[before:], messages, _tell(said, heard), seconds)


async def _make(client: Client, steps: int, delay: float, hear: Callable[[Progress], None]) -> str:
    try:
        result = await client.call(
            "reindex", {"steps": steps, "delay": delay}, progress=hear, retry=Retry()
        )
    except McpostError as error:
        return f"{type(error).__name__}"
    return f"the result ({(result.structured_content or {}).get('done')} done)"


def _tell(said: str, heard: list[float]) -> str:
    """Say what the caller saw: its progress, in rows that rise, and the end."""
    rows: list[list[float]] = []
    for number in heard:
        if rows and number > rows[-1][-1]:
            rows[-1].append(number)
        else:
            rows.append([number])
    spans = ", then ".join(f"{row[0]:g}-{row[-1]:g}" for row in rows)
    gaps = sum(row[-1] - row[0] + 1 - len(row) for row in rows)
    return f"progress {spans}{' with gaps' if gaps else ''}; {said}"


async def _runs(reader: Client) -> list[Run]:
    read = await reader.read("library://runs")
    text = getattr(read.contents[0], "text", "[]")
    return msgspec.json.decode(text, type=list[Run])[::-1]


async def _settled(reader: Client, pause: float) -> list[Run]:
    """Read the runs until they stand still."""
    found = await _runs(reader)
    while True:
        await asyncio.sleep(pause)
        again = await _runs(reader)
        if again == found:
            return found
        found = again


def _serve(target: str, *more: str) -> list[str]:
    return [sys.executable, "-c", _SERVE, "serve", target, *more]


@asynccontextmanager
async def _over_stdio(name: str, target: str, env: dict[str, str]) -> AsyncIterator[_Wire]:
    recorder = Recorder()
    command = Command(_serve(target, "--stdio"), env)
    tapped = StdioTransport(command, inputs=Inputs(), limits=ClientLimits(), tap=StdioTap(recorder))

    def cut() -> None:
        recorder.add(False, "break", "server killed")
        if tapped.pid is not None:
            os.killpg(tapped.pid, signal.SIGKILL)

    async with (
        Client(command, cache=False, wrap=lambda _: tapped) as client,
        Client(command, cache=False) as reader,
    ):
        yield _Wire(client, reader, recorder, cut)


@asynccontextmanager
async def _over_http(name: str, target: str, env: dict[str, str]) -> AsyncIterator[_Wire]:
    recorder = Recorder()
    era = "modern" if name == WIRES[1] else "legacy"
    async with (
        _http_server(target, env) as port,
        Relay(port, recorder) as relay,
        Client(f"http://127.0.0.1:{relay.port}/mcp", era=era, cache=False) as client,
        Client(f"http://127.0.0.1:{port}/mcp", cache=False) as reader,
    ):
        yield _Wire(client, reader, recorder, relay.cut)


@asynccontextmanager
async def _http_server(target: str, env: dict[str, str]) -> AsyncIterator[int]:
    said = b""
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def take(data: bytes) -> None:
        nonlocal said
        said += data
        match = re.search(rb"http://[^:/]+:(\d+)/", said)
        if match is not None and not found.done():
            found.set_result(int(match[1]))

    def lost(reason: str) -> None:
        if not found.done():
            found.set_exception(ConnectFailed(reason))

    child = await start_child(Command(_serve(target, "--port", "0"), env), take, lost)
    try:
        async with asyncio.timeout(_START):
            port = await found
        yield port
    finally:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGTERM)
        await child.stop(5)
