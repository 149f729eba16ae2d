"""From figures to a page in Markdown."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from bench import EVENTS
from bench.figures import BARE, Figures, added, hop, judge
from bench.machine import describe

__all__ = ("as_data", "page", "today")

ENOUGH: Final = 0.9
"""Share of its core below which a server that should be at its limit was not."""

Cell = Callable[[Figures, str], float | None]


class Table(NamedTuple):
    """A table: a row for each target, a column for each of its cells."""

    title: str
    rows_of: str
    """The measurement whose targets are the rows."""
    columns: dict[str, Cell]


def _cell(measurement: str, unit: float = 1) -> Cell:
    def read(figures: Figures, target: str) -> float | None:
        value = figures.find(measurement, target)
        return None if value is None else value / unit

    return read


def _of_bare(measurement: str) -> Cell:
    def read(figures: Figures, target: str) -> float | None:
        value, bare = figures.find(measurement, target), figures.find(measurement, BARE)
        return None if value is None or bare is None else value / bare

    return read


def _hop(kind: str) -> Cell:
    def read(figures: Figures, target: str) -> float | None:
        try:
            return hop(figures, target, kind) * 1e6
        except KeyError:
            return None

    return read


def _added(figures: Figures, target: str) -> float | None:
    try:
        return added(figures, target) * 1e6
    except KeyError:
        return None


TABLES: Final = (
    Table(
        "tools/call of an async `add`: calls a second at 1, 16 and 64 connections",
        "rate add/64",
        {
            "1": _cell("rate add/1"),
            "16": _cell("rate add/16"),
            "64": _cell("rate add/64"),
            "of bare, 16": _of_bare("rate add/16"),
            "of bare, 64": _of_bare("rate add/64"),
            "CPU us a call, 64": _cell("cpu add/64", 1e-6),
            "p50 ms, 1": _cell("p50 add/1", 1e-3),
            "p99 ms, 64": _cell("p99 add/64", 1e-3),
            "share of core, 64": _cell("share add/64"),
        },
    ),
    Table(
        "tools/call of an `add` that is not async: calls a second",
        "rate add_sync/16",
        {
            "1": _cell("rate add_sync/1"),
            "16": _cell("rate add_sync/16"),
            "64": _cell("rate add_sync/64"),
            "CPU us a call, 16": _cell("cpu add_sync/16", 1e-6),
            "thread hop, us (pace, 16)": _hop("rate"),
            "thread hop, us (CPU, 16)": _hop("cpu"),
        },
    ),
    Table(
        f"tools/call with {EVENTS} events of progress, 16 connections",
        "rate count/16",
        {
            "events/s": _cell("rate count/16", 1 / EVENTS),
            "of bare": _of_bare("rate count/16"),
            "CPU us an event": _cell("cpu count/16", EVENTS * 1e-6),
            "first event, ms": _cell("first event", 1e-3),
            "share of core": _cell("share count/16"),
        },
    ),
    Table(
        "idle `subscriptions/listen`",
        "listen/1000",
        {
            "KB each of 1,000": _cell("listen/1000", 1024),
            "KB each of 2,000": _cell("listen/2000", 1024),
            "one notice to 1,000: ms until all have it": _cell("heard/1000", 1e-3),
            "1,000, first to last: ms": _cell("spread/1000", 1e-3),
            "one notice to 2,000: ms until all have it": _cell("heard/2000", 1e-3),
            "2,000, first to last: ms": _cell("spread/2000", 1e-3),
        },
    ),
    Table(
        "start",
        "first answer",
        {"s to the first answer": _cell("first answer"), "MB idle": _cell("idle", 1e6)},
    ),
    Table(
        "clients: CPU time of a call",
        "client/1",
        {
            "one after the other, us": _cell("client/1", 1e-6),
            "32 at once, us": _cell("client/32", 1e-6),
        },
    ),
    Table(
        "proxies in front of one cheap server: calls of `add` a second at 1, 16 and 64 connections",
        "rate proxied/1",
        {
            "1": _cell("rate proxied/1"),
            "16": _cell("rate proxied/16"),
            "64": _cell("rate proxied/64"),
            "16, each head its own": _cell("rate traced/16"),
            "CPU us a call, 16": _cell("cpu proxied/16", 1e-6),
            "CPU us a call, 64": _cell("cpu proxied/64", 1e-6),
            "CPU us, each head its own": _cell("cpu traced/16", 1e-6),
            "p50 ms, 1": _cell("p50 proxied/1", 1e-3),
            "added, us": _added,
            "p99 ms, 64": _cell("p99 proxied/64", 1e-3),
            "share of core, 64": _cell("share proxied/64"),
            "KB an open stream": _cell("proxied streams", 1024),
        },
    ),
    Table("import", "import", {"s above a bare interpreter": _cell("import")}),
)


def today() -> str:
    """The date of today, in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def page(figures: Figures, remarks: Sequence[str]) -> str:
    """Write the page.

    Args:
        figures: What was measured.
        remarks: What a reader has to know of how.
    """
    lines = [f"# Measured on {today()}", "", *_paragraphs([*describe(), *remarks])]
    starved = _starved(figures)
    if starved:
        lines += [
            f"Caution: {', '.join(starved)} had less than {ENOUGH:.0%} of a core at 64"
            " connections: something else ran, or the generator was the slower side. Trust the"
            " ratios by CPU time more than those by pace.",
            "",
        ]
    for table in TABLES:
        lines += _table(table, figures)
    verdicts = judge(figures)
    if verdicts:
        lines += ["## Bars", "", "| bar | measured | by CPU time | bound | ok |"]
        lines.append("| --- | ---: | ---: | ---: | --- |")
    for bar, value, by_cpu, holds in verdicts:
        bound = f"{'≥' if bar.at_least else '≤'} {_number(bar.bound)}"
        cells = [bar.text, _number(value), _number(by_cpu), bound, "yes" if holds else "**no**"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines).rstrip() + "\n"


def as_data(figures: Figures, remarks: Sequence[str]) -> dict[str, Any]:
    """Everything of a run, ready for JSON."""
    return {
        "date": today(),
        "machine": [*describe(), *remarks],
        "figures": figures.found,
        "bars": [
            {
                "bar": bar.text,
                "measured": value,
                "by_cpu": by_cpu,
                "bound": bar.bound,
                "at_least": bar.at_least,
                "ok": holds,
            }
            for bar, value, by_cpu, holds in judge(figures)
        ],
    }


def _paragraphs(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in (text, "")]


def _starved(figures: Figures) -> list[str]:
    shares = figures.found.get("share add/64", {})
    return [target for target in shares if figures.get("share add/64", target) < ENOUGH]


def _table(table: Table, figures: Figures) -> list[str]:
    targets = list(figures.found.get(table.rows_of, {}))
    columns = {
        name: [cell(figures, target) for target in targets] for name, cell in table.columns.items()
    }
    shown = {
        name: cells for name, cells in columns.items() if any(each is not None for each in cells)
    }
    if not shown:
        return []
    lines = [f"## {table.title}", "", f"| server | {' | '.join(shown)} |"]
    lines.append(f"| --- |{' ---: |' * len(shown)}")
    for number, target in enumerate(targets):
        row = [_number(cells[number]) for cells in shown.values()]
        lines.append(f"| {target} | {' | '.join(row)} |")
    return [*lines, ""]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
