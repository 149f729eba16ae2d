"""From figures to a page: tables, ratios, and the bars that the figures have to reach."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.machine import describe

__all__ = ("BARS", "Bar", "Figures")

Values = dict[str, float]


@dataclass
class Figures:
    """All figures of one run, by measurement and target."""

    tables: dict[str, tuple[str, Values]] = field(default_factory=dict)
    """Measurement to (unit, values by target)."""

    def put(self, measurement: str, unit: str, target: str, value: float) -> None:
        """Note a figure."""
        self.tables.setdefault(measurement, (unit, {}))[1][target] = value

    def get(self, measurement: str, target: str) -> float:
        """Read a figure; raises KeyError where it was not measured."""
        return self.tables[measurement][1][target]


@dataclass(frozen=True)
class Bar:
    """Something that has to hold."""

    text: str
    measure: Callable[[Figures], float]
    bound: float
    at_least: bool = True


def _ratio(measurement: str, ours: str, theirs: str) -> Callable[[Figures], float]:
    return lambda figures: figures.get(measurement, ours) / figures.get(measurement, theirs)


def _value(measurement: str, target: str) -> Callable[[Figures], float]:
    return lambda figures: figures.get(measurement, target)


ASGI, NATIVE = "mcpost-asgi", "mcpost-native"
ADD_16, ADD_64 = "add, 16 connections", "add, 64 connections"
EVENTS = "progress events, 16 connections"
FIRST = "first event"
LISTEN = "idle listen"
SPREAD = "one notice to all listens, first to last"

BARS = [
    Bar("ASGI: of the bare app, 16 connections", _ratio(ADD_16, ASGI, "bare"), 0.7),
    Bar("ASGI: of the bare app, 64 connections", _ratio(ADD_64, ASGI, "bare"), 0.7),
    Bar("ASGI: times official high level, 64", _ratio(ADD_64, ASGI, "official-high"), 7),
    Bar("ASGI: times official low level, 64", _ratio(ADD_64, ASGI, "official-low"), 6),
    Bar("ASGI: times fastmcp, 64", _ratio(ADD_64, ASGI, "fastmcp"), 25),
    Bar("ASGI: events, of the bare app", _ratio(EVENTS, ASGI, "bare"), 0.6),
    Bar("ASGI: first event, times the bare app", _ratio(FIRST, ASGI, "bare"), 2, at_least=False),
    Bar("ASGI: KB an idle listen", _value(LISTEN, ASGI), 26, at_least=False),
    Bar("native: of the bare app, 64 connections", _ratio(ADD_64, NATIVE, "bare"), 1.4),
    Bar("native: times official high level, 64", _ratio(ADD_64, NATIVE, "official-high"), 14),
    Bar("native: times fastmcp, 64", _ratio(ADD_64, NATIVE, "fastmcp"), 50),
    Bar("native: events, of the bare app", _ratio(EVENTS, NATIVE, "bare"), 3),
    Bar(
        "native: first event, times the bare app", _ratio(FIRST, NATIVE, "bare"), 1, at_least=False
    ),
    Bar("native: KB an idle listen", _value(LISTEN, NATIVE), 5, at_least=False),
    Bar("native: ms of one notice to all", _value(SPREAD, NATIVE), 30, at_least=False),
    Bar(
        "thread hop: of the official server's",
        lambda figures: _hop(figures, NATIVE) / _hop(figures, "official-high"),
        1 / 3,
        at_least=False,
    ),
    Bar("import mcpost, s above bare", _value("import", "mcpost"), 0.15, at_least=False),
    Bar("mcpost serve: s to the first answer", _value("start", "mcpost"), 0.5, at_least=False),
    Bar("mcpost serve: MB idle", _value("idle memory", "mcpost"), 50, at_least=False),
]


def _hop(figures: Figures, target: str) -> float:
    """Seconds that a call of a function that is not async takes longer, at one core."""
    sync = figures.get("add_sync, 16 connections", target)
    return 1 / sync - 1 / figures.get(ADD_16, target)


def judge(figures: Figures) -> list[tuple[Bar, float, bool]]:
    """Hold the bars against the figures; what was not measured is left out."""
    rows = []
    for bar in BARS:
        try:
            value = bar.measure(figures)
        except KeyError:
            continue
        holds = value >= bar.bound if bar.at_least else value <= bar.bound
        rows.append((bar, value, holds))
    return rows


def page(figures: Figures) -> str:
    """Write the page, in Markdown."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    lines = [f"# Measured on {day}", "", *describe(), ""]
    for measurement, (unit, values) in figures.tables.items():
        bare = values.get("bare")
        lines += [
            f"## {measurement} ({unit})",
            "",
            "| target | figure | of bare |",
            "| --- | ---: | ---: |",
        ]
        for target, value in values.items():
            share = f"{value / bare:.2f}" if bare else ""
            lines.append(f"| {target} | {_number(value)} | {share} |")
        lines.append("")
    lines += ["## Bars", "", "| bar | measured | bound | holds |", "| --- | ---: | ---: | --- |"]
    for bar, value, holds in judge(figures):
        sign = "≥" if bar.at_least else "≤"
        verdict = "yes" if holds else "**no**"
        lines.append(f"| {bar.text} | {_number(value)} | {sign} {_number(bar.bound)} | {verdict} |")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
