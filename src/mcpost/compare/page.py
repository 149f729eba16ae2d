"""The page: for each kind of call three swim-lanes, drawn from the recorded messages.

One self-contained file: inline SVG, no script, light and dark by the reader's setting, and black on
white when it is printed. A colour never says anything that a shape or a word does not say as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from mcpost.compare.record import Message
from mcpost.compare.run import SCENARIOS, WIRES, Outcome
from mcpost.compare.table import HEAD, cells

__all__ = ("draw_page",)

_WIDTH: Final = 1080
_LEFT: Final = 120
_RIGHT: Final = 30
_LANE: Final = 176
_CLIENT: Final = 58
_SERVER: Final = 118
_FLIGHT: Final = 7
_CHARACTER: Final = 6.4
_ROWS: Final = 3
_ROW: Final = 14

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fbfaf7; --ink: #1c1d21; --faint: #6a6d76;
  --rule: #d9d6cd; --band: #f1efe8; --ask: #1d4f9c; --step: #8a8d96; --done: #1c6b3c;
  --cut: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper: #16171a; --ink: #ecebe6; --faint: #a0a3ab;
  --rule: #3a3c42; --band: #1f2125; --ask: #8ab4f8; --step: #83868f; --done: #7fcf9b;
  --cut: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 70rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .4rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .4rem; }
p { margin: .3rem 0; max-width: 46rem; color: var(--faint); }
figure { margin: .5rem 0 0; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 46rem; height: auto; }
svg text { font: 11px/1 system-ui, sans-serif; fill: var(--ink); }
svg .name { font-weight: 600; font-size: 12px; } svg .end, svg .axis { fill: var(--faint); }
svg .axis { text-anchor: middle; }
svg .band { fill: var(--band); } svg .line { stroke: var(--rule); stroke-width: 1.5; }
svg .request { stroke: var(--ask); fill: var(--ask); stroke-width: 1.8; }
svg .note, svg .error { stroke: var(--cut); fill: var(--cut); stroke-width: 1.8; }
svg .progress { stroke: var(--step); fill: var(--step); stroke-width: 1.1; }
svg .result { stroke: var(--done); fill: var(--done); stroke-width: 1.8; }
svg .break { stroke: var(--cut); fill: none; stroke-width: 1.8; stroke-dasharray: 4 3; }
svg .lead { stroke: var(--rule); stroke-width: 1; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin-top: 1rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .7rem .4rem 0;
  border-bottom: 1px solid var(--rule); } th { color: var(--faint); font-weight: 600; }
details { margin-top: .6rem; } summary { cursor: pointer; color: var(--faint); }
ol { columns: 18rem; font-size: .82rem; padding-left: 2.2rem; }
@media print { :root { --paper: #fff; --ink: #000; --faint: #444; --rule: #999; --band: #f4f4f4;
  --ask: #003a8c; --step: #666; --done: #00531f; --cut: #9c0000; }
  body { padding: 0; font-size: 11pt; }
  section { break-inside: avoid; } details { display: none; } svg { min-width: 0; } }
"""

_MARKS: Final = "".join(
    f'<marker id="tip-{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6"'
    f' orient="auto"><path class="{kind}" d="M1 1 L7 4 L1 7 Z" stroke="none"/></marker>'
    for kind in ("request", "progress", "note", "result", "error")
)


def draw_page(outcomes: Sequence[Outcome]) -> str:
    """Draw the page.

    Args:
        outcomes: What `compare` gave.

    Returns:
        A whole HTML document.
    """
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>One slow call on three wires</title><style>{_STYLE}</style></head><body>",
        "<h1>One slow call on three wires</h1>",
        "<p>Each arrow is a message that was recorded, at its time; grey ones are progress."
        " The table is counted from the same recording, and from what the server says its work"
        " came to.</p>",
        _table(outcomes),
    ]
    for scenario in SCENARIOS:
        chosen = [each for each in outcomes if each.scenario == scenario]
        if chosen:
            parts.append(_section(scenario, chosen))
    return "\n".join([*parts, "</body></html>\n"])


def _table(outcomes: Sequence[Outcome]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in HEAD)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells(each)) + "</tr>"
        for each in outcomes
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>'
        "</table></div>"
    )


def _section(scenario: str, outcomes: Sequence[Outcome]) -> str:
    lists = "".join(
        f"<details><summary>{escape(each.wire)}: {len(each.messages)} recorded</summary><ol>"
        + "".join(f"<li>{_spell(message)}</li>" for message in each.messages)
        + "</ol></details>"
        for each in outcomes
    )
    title = escape(scenario.capitalize())
    return f"<section><h2>{title}</h2><figure>{_svg(scenario, outcomes)}</figure>{lists}</section>"


def _spell(message: Message) -> str:
    way = "client → server" if message.to_server else "server → client"
    if message.kind == "break":
        way = "cut:"
    return escape(f"{message.at:.3f} s {way} {message.text}")


def _svg(scenario: str, outcomes: Sequence[Outcome]) -> str:
    """Draw the lanes of one kind of call, on one scale of time."""
    last = max((each.messages[-1].at for each in outcomes if each.messages), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT - _FLIGHT) / max(last, 0.001)
    height = _LANE * len(outcomes) + 24
    lanes = [_lane(each, index * _LANE, scale) for index, each in enumerate(outcomes)]
    label = escape(f"{scenario}: messages between client and server on {', '.join(WIRES)}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">'
        f"<defs>{_MARKS}</defs>{''.join(lanes)}{_axis(last, scale, height)}</svg>"
    )


def _lane(outcome: Outcome, top: int, scale: float) -> str:
    ends = ((top + _CLIENT, "client"), (top + _SERVER, "server"))
    parts = [
        f'<rect class="band" x="0" y="{top + 2}" width="{_WIDTH}" height="{_LANE - 8}" rx="6"/>',
        f'<text class="name" x="10" y="{top + 20}">{escape(outcome.wire)}</text>',
    ]
    for y, name in ends:
        parts.append(
            f'<line class="line" x1="{_LEFT - 50}" y1="{y}" x2="{_WIDTH - 12}" y2="{y}"/>'
            f'<text class="end" x="10" y="{y + 4}">{name}</text>'
        )
    free = {True: [0.0] * _ROWS, False: [0.0] * _ROWS}
    for message in outcome.messages:
        x = _LEFT + message.at * scale
        parts.append(_arrow(message, x, top))
        if message.kind != "progress":
            parts.append(_label(message, x, top, free[message.to_server]))
    return "".join(parts)


def _arrow(message: Message, x: float, top: int) -> str:
    if message.kind == "break":
        middle = top + (_CLIENT + _SERVER) / 2
        return (
            f'<line class="break" x1="{x:.1f}" y1="{top + _CLIENT - 4}" x2="{x:.1f}"'
            f' y2="{top + _SERVER + 4}"/><path class="note" d="M{x - 5:.1f} {middle - 5}l10 10m0'
            '-10l-10 10"/>'
        )
    start, end = (_CLIENT, _SERVER) if message.to_server else (_SERVER, _CLIENT)
    return (
        f'<line class="{message.kind}" x1="{x:.1f}" y1="{top + start}" x2="{x + _FLIGHT:.1f}"'
        f' y2="{top + end}" marker-end="url(#tip-{message.kind})"/>'
    )


def _label(message: Message, x: float, top: int, free: list[float]) -> str:
    """Write what a message is, in the first row with room; near the right edge to the left."""
    width = len(message.text) * _CHARACTER + 8
    left = min(x - 2, _WIDTH - 12 - width)
    row = next((row for row, until in enumerate(free) if until <= left), None)
    if row is None:
        return ""
    free[row] = left + width
    y = top + (_CLIENT - 8 - row * _ROW if message.to_server else _SERVER + 16 + row * _ROW)
    return f'<text x="{left:.1f}" y="{y}">{escape(message.text)}</text>'


def _axis(last: float, scale: float, height: int) -> str:
    step = next(
        (step for step in (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0) if last / step <= 12), 60.0
    )
    ticks = []
    for count in range(int(last / step) + 1):
        x = _LEFT + count * step * scale
        ticks.append(f'<text class="axis" x="{x:.1f}" y="{height - 6}">{count * step:g} s</text>')
    return "".join(ticks)
