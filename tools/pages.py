"""Pages of the documentation that are made of the code: `python -m tools.pages [--check]`.

docs/limits.md is made of `mcpost.limits`, docs/errors.md of `mcpost.errors`. With `--check`
nothing is written, and a page that is not up to date is an error.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from mcpost import errors, limits
from mcpost.wire.status import status_of

ROOT: Final = Path(__file__).resolve().parent.parent
NOTE: Final = "<!-- Made by `make fix`; change the docstrings that it is made of. -->"


def main(arguments: list[str]) -> int:
    """Write or check the pages; gives the exit status."""
    pages: dict[str, Callable[[], Iterator[str]]] = {
        "docs/limits.md": limits_page,
        "docs/errors.md": errors_page,
    }
    stale = []
    for name, make in pages.items():
        path = ROOT / name
        text = "\n".join(make()) + "\n"
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
            print(f"wrote {name}")
    if stale and "--check" in arguments:
        print(f"not up to date: {', '.join(stale)}; run `make fix`")
        return 1
    return 0


def limits_page() -> Iterator[str]:
    """Make the page of limits."""
    yield from (
        "# Limits",
        "",
        NOTE,
        "",
        "Every bound has a default and can be set: `dataclasses.replace` makes another set of it,"
        " as in `Server(…, limits=replace(ServerLimits(), max_body=65536))`. Sizes are bytes, times"
        " are seconds.",
    )
    for name in limits.__all__:
        found = getattr(limits, name)
        described = attribute_docs(limits, name)
        yield from ("", f"## {name}", "", paragraph(inspect.getdoc(found) or ""), "")
        yield from ("| setting | default | what it bounds |", "| --- | ---: | --- |")
        for each in fields(found):
            what = described.get(each.name, "")
            yield f"| `{each.name}` | {number(each.default, what)} | {what} |"


def errors_page() -> Iterator[str]:
    """Make the page of errors."""
    yield from (
        "# Errors",
        "",
        NOTE,
        "",
        "All errors of this package are of one tree, below `mcpost.McpostError`.",
        "",
        "| error | is a | code | HTTP | when |",
        "| --- | --- | ---: | ---: | --- |",
    )
    for name in errors.__all__:
        found = getattr(errors, name)
        if not (inspect.isclass(found) and issubclass(found, errors.McpostError)):
            continue
        parent = found.__bases__[0].__name__
        code, status = codes(found)
        yield f"| `{name}` | `{parent}` | {code} | {status} | {first_sentence(found)} |"


def codes(found: type) -> tuple[str, str]:
    """The JSON-RPC code and the HTTP status of an error that is answered with."""
    if not issubclass(found, errors.WireError) or found is errors.WireError:
        return "", ""
    bare = errors.WireError("")
    bare.__class__ = found
    return str(found.code), str(status_of(bare))


def attribute_docs(module: ModuleType, name: str) -> dict[str, str]:
    """Read the strings that stand under the fields of a class."""
    tree = ast.parse(inspect.getsource(module))
    body = next(
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name
    )
    found = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            value = getattr(text, "value", None)
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[field.target.id] = paragraph(inspect.cleandoc(value.value))
    return found


def paragraph(text: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def first_sentence(found: type) -> str:
    """The first paragraph of a class's docstring."""
    return paragraph(inspect.getdoc(found) or "")


def number(value: Any, what: str) -> str:
    """Write a default as people read it."""
    if what.startswith("Bytes") and value >= 1024 and value % 1024 == 0:
        mib, rest = divmod(value, 1024 * 1024)
        return f"{mib} MiB" if not rest else f"{value // 1024} KiB"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
