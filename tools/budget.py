"""Size budgets of the source: `python -m tools.budget` prints what is over them and exits 1.

What does not fit is cut into parts that do; a budget is not raised for it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "src" / "mcpost"

MAX_FILE: Final = 500
MAX_FUNCTION: Final = 60


class Over(NamedTuple):
    """Something that is over its budget."""

    where: str
    what: str


def main() -> int:
    """Check all budgets; gives the exit status."""
    found = [*files(), *functions(), *unfinished()]
    for over in found:
        print(f"{over.where}: {over.what}")
    if found:
        print(f"{len(found)} over budget")
    return 1 if found else 0


def sources() -> list[Path]:
    """All source files."""
    return sorted(SOURCE.rglob("*.py"))


def files() -> Iterator[Over]:
    """Files that are too long."""
    for path in sources():
        lines = len(path.read_text("utf-8").splitlines())
        if lines > MAX_FILE:
            yield Over(name(path), f"{lines} lines, {MAX_FILE} at most")


def functions() -> Iterator[Over]:
    """Functions that are too long, without their docstrings."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = length(node)
                if lines > MAX_FUNCTION:
                    where = f"{name(path)}:{node.lineno} {node.name}"
                    yield Over(where, f"{lines} lines, {MAX_FUNCTION} at most")


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def unfinished() -> Iterator[Over]:
    """Marks of unfinished work."""
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "Not" + "ImplementedError")
    for path in sources():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            for mark in marks:
                if mark in line:
                    yield Over(f"{name(path)}:{number}", f"{mark}: finish it, or say why not")


def name(path: Path) -> str:
    """A path as people write it."""
    return str(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
