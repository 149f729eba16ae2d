"""`python -m bench`: measure, print the page, write it to bench/results/."""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from bench import load, report, startup, streams
from bench.machine import ROOT, Running, serving

PEERS = ["bare", "mcpost-asgi", "mcpost-native", "official-low", "official-high", "fastmcp"]
STREAMERS = ["bare", "mcpost-asgi", "mcpost-native", "official-high-stream"]
NOTIFIERS = ("bare", "mcpost-asgi", "mcpost-native")


def main() -> int:
    """Run what is asked for; gives the exit status."""
    options = arguments()
    plan = {
        "calls": calls,
        "events": events,
        "listens": listens,
        "start": starts,
    }
    figures = report.Figures()
    for name in options.only or plan:
        plan[name](figures, options)
    text = report.page(figures)
    print(text)
    if options.json:
        print(json.dumps(figures.tables))
    if options.write:
        folder = ROOT / "bench" / "results"
        folder.mkdir(exist_ok=True)
        day = text.splitlines()[0].rpartition(" ")[2]
        (folder / f"{day}.md").write_text(text, "utf-8")
    held = [holds for _, _, holds in report.judge(figures)]
    return 1 if options.strict and not all(held) else 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=["calls", "events", "listens", "start"])
    parser.add_argument("--targets", nargs="+", help="measure only these servers")
    parser.add_argument("--quick", action="store_true", help="short and rough")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON too")
    parser.add_argument("--write", action="store_true", help="write the page to bench/results/")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a bar does not hold")
    return parser.parse_args()


def chosen(names: Iterable[str], options: argparse.Namespace) -> list[str]:
    """The targets that are asked for and can be run here."""
    there = [
        name
        for name in names
        if name != "mcpost-native" or importlib.util.find_spec("mcpost.server.native")
    ]
    return [name for name in there if not options.targets or name in options.targets]


def rounds(names: list[str], count: int, measure: Callable[[Running], float]) -> dict[str, float]:
    """Measure all targets in turn, several times; gives the medians."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(count):
        for name in names:
            with serving(name) as server:
                found[name].append(measure(server))
    return {name: statistics.median(values) for name, values in found.items()}


def calls(figures: report.Figures, options: argparse.Namespace) -> None:
    """Measure requests a second."""
    seconds, count = (1.0, 1) if options.quick else (3.0, 3)
    for tool, connections in (("add", 1), ("add", 16), ("add", 64), ("add_sync", 16)):
        names = [
            name
            for name in chosen(PEERS, options)
            if tool == "add" or name not in ("bare", "official-low")
        ]

        def measure(server: Running, tool: str = tool, connections: int = connections) -> float:
            load.check(server, tool)
            load.requests_per_second(server, tool, connections, 0.5)
            return load.requests_per_second(server, tool, connections, seconds)

        for name, value in rounds(names, count, measure).items():
            figures.put(f"{tool}, {connections} connections", "requests/s", name, value)


def events(figures: report.Figures, options: argparse.Namespace) -> None:
    """Measure events a second, and the first one."""
    seconds, count = (1.0, 1) if options.quick else (3.0, 3)
    names = chosen(STREAMERS, options)
    found = rounds(names, count, lambda server: streams.events_per_second(server, 16, seconds))
    for name, value in found.items():
        figures.put(report.EVENTS, "events/s", name, value)
    for name, value in rounds(
        names, count, lambda server: streams.first_event(server, 300)
    ).items():
        figures.put(report.FIRST, "ms", name, value * 1000)


def listens(figures: report.Figures, options: argparse.Namespace) -> None:
    """Measure idle listens."""
    count = 1000 if options.quick else 2000
    for name in chosen(STREAMERS, options):
        with serving(name) as server:
            found = streams.listens(server, count, notify=name in NOTIFIERS)
        figures.put(report.LISTEN, "KB", name, found.memory / 1024)
        if found.spread:
            figures.put(report.SPREAD, "ms", name, found.spread * 1000)


def starts(figures: report.Figures, options: argparse.Namespace) -> None:
    """Measure start-up."""
    runs = 3 if options.quick else 9
    for module in ("mcpost", "mcp", "fastmcp"):
        figures.put(
            "import", "s above a bare interpreter", module, startup.import_time(module, runs)
        )
    with tempfile.TemporaryDirectory() as directory:
        for name in ("mcpost", "official-high", "bare"):
            found = startup.start(name, Path(directory), runs)
            figures.put("start", "s to the first answer", name, found.first_answer)
            figures.put("idle memory", "MB", name, found.memory / 1e6)


if __name__ == "__main__":
    sys.exit(main())
