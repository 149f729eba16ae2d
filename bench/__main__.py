"""`python -m bench`: measure mcpost beside its peers, print the page and write it.

The page of a whole run goes to bench/results/, too. Targets take turns, each round with a fresh
server; figures are medians of the rounds. All traffic is loopback. It is no test: it exits with 0
whatever the figures are, unless `--strict`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench import client, gateway, load, report, startup, streams
from bench.figures import COMMAND, NATIVE, Figures, judge
from bench.load import ADD, ADD_SYNC, ADD_TRACED, COUNT, Ask
from bench.machine import ROOT, Running, prepare, serving

CALLERS: Final = (
    "bare ASGI",
    "bare protocol",
    "mcpost ASGI",
    NATIVE,
    "mcp low",
    "mcp high",
    "fastmcp",
)
READMES: Final = ("mcp, readme", "fastmcp, readme")
WITH_THREADS: Final = ("mcpost ASGI", NATIVE, "mcp high", "fastmcp")
STREAMERS: Final = ("bare ASGI", "mcpost ASGI", NATIVE, "mcp high, streams", "fastmcp, streams")
LISTENED: Final = ("bare ASGI", "mcpost ASGI", NATIVE, "mcp low, streams")
STARTED: Final = (COMMAND, "bare ASGI", "mcpost ASGI", NATIVE, "mcp high", "fastmcp")
IMPORTS: Final = {
    "mcpost": "import mcpost",
    "mcpost.Server": "from mcpost import Server",
    "mcpost.Client": "from mcpost import Client",
    "mcp": "import mcp",
    "mcp MCPServer": "from mcp.server.mcpserver import MCPServer",
    "fastmcp": "import fastmcp",
    "fastmcp FastMCP": "from fastmcp import FastMCP",
}


class Effort(NamedTuple):
    """How thorough a run is."""

    rounds: int
    seconds: int
    """Of load, for each figure."""
    sync_connections: tuple[int, ...]
    first_events: int
    listens: list[int]
    starts: int
    imports: int
    client_calls: int
    readmes: bool
    budget: float
    """Seconds after which no further round of a measurement begins."""


FULL: Final = Effort(3, 2, (1, 16, 64), 300, [1000, 2000], 5, 7, 1000, True, 500)
QUICK: Final = Effort(1, 1, (16,), 100, [1000], 1, 1, 200, False, 80)


class Run:
    """One run: what was asked for, and what was found.

    Args:
        options: The command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.effort = QUICK if options.quick else FULL
        self.figures = Figures()
        self.broken: list[str] = []
        """What could not be measured, and why."""
        self._targets: list[str] | None = options.targets
        self._end = time.monotonic() + self.effort.budget

    def chosen(self, names: Iterable[str]) -> list[str]:
        """The targets that are asked for."""
        if self._targets is None:
            return list(names)
        return [name for name in names if any(part in name for part in self._targets)]

    def turns(self, names: Iterable[str], rounds: int) -> Iterator[str]:
        """All targets in turn, several times; further rounds only while there is time."""
        for number in range(rounds):
            if number and time.monotonic() > self._end:
                return
            yield from self.chosen(names)

    @contextmanager
    def noting(self, what: str, name: str) -> Iterator[None]:
        """Note what goes wrong with one target, and go on with the others."""
        sys.stderr.write(f"{what}: {name}\n")
        try:
            yield
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            self.broken.append(f"{what}, {name}: {error}")


def calls(run: Run) -> None:
    """Measure calls a second."""
    names = [*CALLERS, *(READMES if run.effort.readmes else ())]
    for name in run.turns(names, run.effort.rounds):
        with run.noting("calls", name), serving(name) as server:
            # The readmes' `add` is not async.
            plan = [(ADD, connections) for connections in (1, 16, 64)]
            if name in WITH_THREADS:
                plan += [(ADD_SYNC, connections) for connections in run.effort.sync_connections]
            _pace(run, server, ADD, 16, warm_up=True)
            for ask, connections in plan:
                _pace(run, server, ask, connections)


def _pace(run: Run, server: Running, ask: Ask, connections: int, *, warm_up: bool = False) -> None:
    seconds = 1 if warm_up else run.effort.seconds
    found = load.pace(server, ask, connections, seconds)
    if not warm_up:
        for kind, value in found._asdict().items():
            run.figures.put(f"{kind} {ask.tool}/{connections}", server.name, value)


def events(run: Run) -> None:
    """Measure events of progress, and the first one."""
    for name in run.turns(STREAMERS, run.effort.rounds):
        with run.noting("events", name), serving(name) as server:
            _pace(run, server, COUNT, 16, warm_up=True)
            _pace(run, server, COUNT, 16)
            first = streams.first_event(server, run.effort.first_events)
            run.figures.put("first event", name, first)


def listens(run: Run) -> None:
    """Measure idle listens, and one notice to all of them."""
    for name in run.turns(LISTENED, run.effort.rounds):
        with run.noting("listens", name), serving(name) as server:
            found = streams.listens(server, run.effort.listens)
            for count, one in zip(run.effort.listens, found, strict=True):
                run.figures.put(f"listen/{count}", name, one.memory)
                run.figures.put(f"heard/{count}", name, one.all_heard)
                run.figures.put(f"spread/{count}", name, one.spread)


def starts(run: Run) -> None:
    """Measure imports and starts."""
    imports = {name: IMPORTS[name] for name in run.chosen(IMPORTS)}
    with run.noting("import", ", ".join(imports)):
        for name, value in startup.import_times(imports, run.effort.imports).items():
            run.figures.put("import", name, value)
    with tempfile.TemporaryDirectory() as directory:
        commands = {COMMAND: startup.command_line(Path(directory))}
        for name in run.turns(STARTED, run.effort.starts):
            with run.noting("start", name):
                command = commands.get(name)
                run.figures.put("first answer", name, startup.first_answer(name, command))
        for name in run.chosen(STARTED):
            with run.noting("idle memory", name):
                run.figures.put("idle", name, startup.idle_memory(name, commands.get(name)))


def clients(run: Run) -> None:
    """Measure what a call costs its client."""
    with run.noting("client", ", ".join(client.CLIENTS)):
        found = client.measure(run.effort.rounds, run.effort.client_calls)
        for name, costs in found.items():
            for at_once, micros in costs.items():
                run.figures.put(f"client/{at_once}", name, micros / 1e6)


def proxies(run: Run) -> None:
    """Measure what stands between a caller and a server."""
    for name in run.turns(gateway.TARGETS, run.effort.rounds):
        with run.noting("gateway", name), gateway.proxying(name) as proxy:
            if name != gateway.FASTMCP:
                load.pace(proxy, ADD, 16, 1)
            for connections, seconds in gateway.loads_for(name, run.effort.seconds):
                found = load.pace(proxy, ADD, connections, seconds)
                for kind, value in found._asdict().items():
                    run.figures.put(f"{kind} proxied/{connections}", name, value)
            if name != gateway.FASTMCP:
                found = load.pace(proxy, ADD_TRACED, 16, run.effort.seconds)
                run.figures.put("rate traced/16", name, found.rate)
                run.figures.put("cpu traced/16", name, found.cpu)
    for name in run.turns((gateway.NOTED,), 1):
        with run.noting("gateway, streams", name), gateway.proxying(name, streams=True) as proxy:
            (found,) = streams.listens(proxy, [1000])
            run.figures.put("proxied streams", name, found.memory)


PLAN: Final[dict[str, Callable[[Run], None]]] = {
    "calls": calls,
    "events": events,
    "listens": listens,
    "start": starts,
    "client": clients,
    "gateway": proxies,
}


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(PLAN), help="measure only these")
    parser.add_argument("--targets", nargs="+", help="only servers with these words in their name")
    parser.add_argument("--quick", action="store_true", help="short and rough, two minutes at most")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the page")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a bar does not hold")
    return parser.parse_args()


def main() -> int:
    """Run what is asked for.

    Returns:
        The exit status: 0; 2 if something is broken, 1 if `--strict` and a bar does not hold.
    """
    options = arguments()
    prepare()
    run = Run(options)
    for name in options.only or PLAN:
        PLAN[name](run)
    generator = "wrk" if shutil.which("wrk") else "a generator in Python, slower than some servers"
    effort = run.effort
    rounds = "one round" if effort.rounds == 1 else f"medians of {effort.rounds} rounds"
    remarks = [f"Load by {generator}; {rounds} of {effort.seconds} s."]
    text = report.page(run.figures, remarks)
    if not (options.only or options.targets):
        folder = ROOT / "bench" / "results"
        folder.mkdir(exist_ok=True)
        kind = "-quick" if options.quick else ""
        (folder / f"{report.today()}{kind}.md").write_text(text, "utf-8")
    print(json.dumps(report.as_data(run.figures, remarks), indent=2) if options.json else text)
    for line in run.broken:
        print(line, file=sys.stderr)
    if run.broken:
        return 2
    return int(options.strict and not all(verdict.holds for verdict in judge(run.figures)))


if __name__ == "__main__":
    sys.exit(main())
