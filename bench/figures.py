"""The figures of a run, and the bars that some of them have to reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ("BARS", "Bar", "Figures", "Verdict", "judge")

ASGI: Final = "mcpost ASGI"
NATIVE: Final = "mcpost native"
BARE: Final = "bare ASGI"
LOW: Final = "mcp low"
HIGH: Final = "mcp high"
FASTMCP: Final = "fastmcp"
STREAMS: Final = "mcp high, streams"
COMMAND: Final = "mcpost serve"
GATEWAY: Final = "mcpost gateway"
NGINX: Final = "nginx"
ENVOY: Final = "Envoy, exported"
PROXY: Final = "fastmcp proxy"
DIRECT: Final = "no proxy"


class Figures:
    """What was measured: for each measurement and target the figures of all rounds."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, list[float]]] = {}
        """By measurement, then by target. Times are seconds, sizes are bytes."""

    def put(self, measurement: str, target: str, value: float) -> None:
        """Note the figure of one round."""
        self.found.setdefault(measurement, {}).setdefault(target, []).append(value)

    def get(self, measurement: str, target: str) -> float:
        """The median of all rounds; raises KeyError where nothing was measured."""
        return statistics.median(self.found[measurement][target])

    def find(self, measurement: str, target: str) -> float | None:
        """The median of all rounds, `None` where nothing was measured."""
        values = self.found.get(measurement, {}).get(target)
        return None if values is None else statistics.median(values)


Measure = Callable[[Figures], float]


class Bar(NamedTuple):
    """Something that has to hold."""

    text: str
    measure: Measure
    bound: float
    at_least: bool = True
    by_cpu: Measure | None = None
    """The same by processor time, on which the rest of the machine's work has less influence."""


class Verdict(NamedTuple):
    """A bar and what was measured."""

    bar: Bar
    value: float
    by_cpu: float | None
    holds: bool


def _times(call: str, ours: str, theirs: str) -> Measure:
    return lambda figures: figures.get(f"rate {call}", ours) / figures.get(f"rate {call}", theirs)


def _times_by_cpu(call: str, ours: str, theirs: str) -> Measure:
    return lambda figures: figures.get(f"cpu {call}", theirs) / figures.get(f"cpu {call}", ours)


def _of(measurement: str, ours: str, theirs: str) -> Measure:
    return lambda figures: figures.get(measurement, ours) / figures.get(measurement, theirs)


def _value(measurement: str, target: str, unit: float = 1) -> Measure:
    return lambda figures: figures.get(measurement, target) / unit


def hop(figures: Figures, target: str, kind: str = "cpu") -> float:
    """Seconds that a call of a function in a thread takes longer than one on the loop.

    By processor time (`cpu`), or by the pace of a server at its limit (`rate`).
    """
    inside, outside = (figures.get(f"{kind} {tool}/16", target) for tool in ("add", "add_sync"))
    return outside - inside if kind == "cpu" else 1 / outside - 1 / inside


def added(figures: Figures, target: str) -> float:
    """Seconds that a proxy adds to a call, the median at one connection."""
    return figures.get("p50 proxied/1", target) - figures.get("p50 proxied/1", DIRECT)


def _faster(title: str, call: str, ours: str, theirs: str, bound: float) -> Bar:
    return Bar(title, _times(call, ours, theirs), bound, by_cpu=_times_by_cpu(call, ours, theirs))


def _most(title: str, measure: Measure, bound: float) -> Bar:
    return Bar(title, measure, bound, at_least=False)


BARS: Final = (
    _faster("ASGI, async `add` at 16: times the bare app", "add/16", ASGI, BARE, 0.7),
    _faster("ASGI, async `add` at 64: times the bare app", "add/64", ASGI, BARE, 0.7),
    _faster("ASGI at 16: times mcp high level", "add/16", ASGI, HIGH, 7),
    _faster("ASGI at 64: times mcp high level", "add/64", ASGI, HIGH, 7),
    _faster("ASGI at 16: times mcp low level", "add/16", ASGI, LOW, 6),
    _faster("ASGI at 64: times mcp low level", "add/64", ASGI, LOW, 6),
    _faster("ASGI at 16: times fastmcp", "add/16", ASGI, FASTMCP, 25),
    _faster("ASGI at 64: times fastmcp", "add/64", ASGI, FASTMCP, 25),
    _faster("ASGI, events a second: times the bare app", "count/16", ASGI, BARE, 0.6),
    _most("ASGI, first event: times the bare app's time", _of("first event", ASGI, BARE), 2),
    _most("ASGI, an idle listen of 1,000: KB", _value("listen/1000", ASGI, 1024), 26),
    _faster("native, async `add` at 64: times the bare app", "add/64", NATIVE, BARE, 1.4),
    _faster("native at 64: times mcp high level", "add/64", NATIVE, HIGH, 14),
    _faster("native at 64: times fastmcp", "add/64", NATIVE, FASTMCP, 50),
    _faster("native, events a second: times the bare app", "count/16", NATIVE, BARE, 3),
    _most("native, first event: times the bare app's time", _of("first event", NATIVE, BARE), 1),
    _most("native, an idle listen of 2,000: KB", _value("listen/2000", NATIVE, 1024), 5),
    _most(
        "native, one notice to 2,000: ms from first to last",
        _value("spread/2000", NATIVE, 1e-3),
        30,
    ),
    _most(
        "thread hop, native: times mcp high level's CPU time",
        lambda figures: hop(figures, NATIVE) / hop(figures, HIGH),
        1 / 3,
    ),
    _most(
        "thread hop, ASGI: times mcp high level's CPU time",
        lambda figures: hop(figures, ASGI) / hop(figures, HIGH),
        1 / 3,
    ),
    _most("`import mcpost`: s above a bare interpreter", _value("import", "mcpost"), 0.15),
    _most("`mcpost serve`: s to the first answer", _value("first answer", COMMAND), 0.5),
    _most("`mcpost serve`, idle: MB", _value("idle", COMMAND, 1e6), 50),
    _most(
        "client, one call after the other: times the official client's CPU time",
        _of("client/1", "mcpost", "official"),
        1 / 4,
    ),
    _most(
        "client, 32 calls at once: times the official client's CPU time",
        _of("client/32", "mcpost", "official"),
        1 / 4,
    ),
    _faster("gateway, 20 rules, at 16: times Envoy with them", "proxied/16", GATEWAY, ENVOY, 1),
    _faster("gateway, 20 rules, at 64: times Envoy with them", "proxied/64", GATEWAY, ENVOY, 1),
    _faster("gateway at 16: times nginx without rules", "proxied/16", GATEWAY, NGINX, 0.5),
    _faster("gateway at 64: times nginx without rules", "proxied/64", GATEWAY, NGINX, 0.5),
    _faster("gateway at 16: times fastmcp's proxy", "proxied/16", GATEWAY, PROXY, 100),
    _most(
        "gateway, time added to a call: times what nginx adds",
        lambda figures: added(figures, GATEWAY) / added(figures, NGINX),
        2,
    ),
    _most("gateway, an open stream of 1,000: KB", _value("proxied streams", GATEWAY, 1024), 8),
)


def judge(figures: Figures) -> list[Verdict]:
    """Hold the bars against the figures; what was not measured is left out."""
    verdicts = []
    for bar in BARS:
        value = _try(bar.measure, figures)
        if value is None:
            continue
        by_cpu = None if bar.by_cpu is None else _try(bar.by_cpu, figures)
        holds = value >= bar.bound if bar.at_least else value <= bar.bound
        verdicts.append(Verdict(bar, value, by_cpu, holds))
    return verdicts


def _try(measure: Measure, figures: Figures) -> float | None:
    try:
        return measure(figures)
    except (KeyError, ZeroDivisionError):
        return None
