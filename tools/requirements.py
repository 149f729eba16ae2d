"""Which requirements have a test: `python -m tools.requirements [ID]`.

Without an id it prints each (id, side) of docs/requirements.md that no test names, and exits 1 if a
must is among them. With an id it prints where that one is stated, coded and tested.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "docs" / "requirements.md"
_ROW: Final = re.compile(r"^\| ([A-Z]-\d{2}) \| ([SCG() ]+) \| ([MSO]) \| (.+) \| (\S+) \|$")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One row of the table."""

    id: str
    sides: tuple[str, ...]
    """The sides that exist, as in `("S", "C")`."""
    later: tuple[str, ...]
    """The sides that do not exist yet."""
    level: str
    behaviour: str
    page: str
    line: int


def read_table(path: Path = TABLE) -> dict[str, Requirement]:
    """Read the table of requirements by id.

    Raises:
        ValueError: A line looks like a row and is none, or an id stands twice.
    """
    table: dict[str, Requirement] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not re.match(r"\| [A-Z]-\d", line):
            continue
        row = _ROW.match(line)
        if row is None or row[1] in table:
            raise ValueError(f"{path.name}:{number}: not a row of its own: {line}")
        sides = row[2].split()
        table[row[1]] = Requirement(
            id=row[1],
            sides=tuple(side for side in sides if not side.startswith("(")),
            later=tuple(side.strip("()") for side in sides if side.startswith("(")),
            level=row[3],
            behaviour=row[4],
            page=row[5],
            line=number,
        )
    return table


def find_marks(folder: Path = ROOT / "tests") -> Iterator[tuple[str, Path, int]]:
    """Find each `pytest.mark.req(…)`: the named id with its side, the file and the line."""
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.req":
                for argument in node.args:
                    yield str(ast.literal_eval(argument)), path, node.lineno


def print_missing(table: dict[str, Requirement]) -> int:
    """Print what no test names; give 1 if a must is among it."""
    tested = {name for name, *_ in find_marks()}
    failed = 0
    for row in table.values():
        for side in row.sides:
            if f"{row.id}/{side}" not in tested:
                print(f"{row.id}/{side}  {row.level}  {row.behaviour}")
                failed |= row.level == "M"
    promised = sum(len(row.sides) for row in table.values())
    shown = sum(f"{row.id}/{side}" in tested for row in table.values() for side in row.sides)
    print(f"{shown} of {promised} requirements have a test")
    return int(failed)


def print_one(row: Requirement) -> int:
    """Print where one requirement is stated, coded and tested."""
    print(f"{row.id} ({row.level}) {row.behaviour}")
    print(f"  stated  docs/requirements.md:{row.line}  {row.page}")
    for path in sorted((ROOT / "src").rglob("*.py")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if _names(line, row.id):
                print(f"  coded   {path.relative_to(ROOT)}:{number}")
    for name, path, number in find_marks():
        if name.partition("/")[0] == row.id:
            print(f"  tested  {path.relative_to(ROOT)}:{number}  as {name}")
    return 0


def _names(line: str, wanted: str) -> bool:
    if wanted in line:
        return True
    for first, last in re.findall(r"([A-Z]-\d{2}) to ([A-Z]-\d{2})", line):
        if first[0] == wanted[0] == last[0] and first <= wanted <= last:
            return True
    return False


def main(arguments: list[str]) -> int:
    """Run the command line."""
    table = read_table()
    if not arguments:
        return print_missing(table)
    row = table.get(arguments[0])
    if row is None:
        print(f"{arguments[0]} is no id of docs/requirements.md")
        return 2
    return print_one(row)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
