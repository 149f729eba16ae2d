"""`mcpost compare`: how one slow call differs on three wires, measured."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mcpost.compare.page import draw_page
from mcpost.compare.run import compare as make_calls
from mcpost.compare.table import format_table

__all__ = ("compare",)


def compare(
    target: Annotated[
        str, Argument(help="The example library, FILE.py:NAME.")
    ] = "examples/library.py:server",
    html: Annotated[
        Path | None, Option(help="Write a page that draws the recorded messages.")
    ] = None,
    steps: Annotated[int, Option(help="Steps of the slow call.", min=10, max=1000)] = 40,
    delay: Annotated[float, Option(help="Seconds of a step.", min=0.01, max=1)] = 0.05,
) -> None:
    """Make one slow call over stdio, this revision's HTTP and that of 2025-11-25, and compare."""
    outcomes = asyncio.run(
        make_calls(target, steps=steps, delay=delay, told=lambda what: print(what, file=sys.stderr))
    )
    print(format_table(outcomes))
    if html is not None:
        html.write_text(draw_page(outcomes), encoding="utf-8")
