"""The table: what nine calls came to, counted from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcpost.compare.run import Outcome

__all__ = ("HEAD", "cells", "format_table")

HEAD: Final = (
    "wire",
    "call",
    "steps done",
    "work ran",
    "messages to server / client",
    "the caller saw",
)


def cells(outcome: Outcome) -> tuple[str, ...]:
    """Give the cells of one call's row."""
    steps = " + ".join(str(run.done) for run in outcome.runs) or "0"
    total = outcome.runs[-1].steps if outcome.runs else 0
    sent = [each.to_server for each in outcome.messages if each.kind != "break"]
    times = len(outcome.runs)
    return (
        outcome.wire,
        outcome.scenario,
        f"{steps} of {total}",
        {1: "once", 2: "twice"}.get(times, f"{times} times"),
        f"{sum(sent)} / {len(sent) - sum(sent)}",
        outcome.saw,
    )


def format_table(outcomes: Sequence[Outcome]) -> str:
    """Write the table, as Markdown that reads well as text too."""
    rows = [HEAD, *map(cells, outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    rule = tuple("-" * width for width in widths)
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (rows[0], rule, *rows[1:])
    ]
    return "\n".join(lines)
