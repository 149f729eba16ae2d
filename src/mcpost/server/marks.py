"""Marks that an author puts on a parameter, inside `Annotated`.

`Mirror` says that a parameter is mirrored into a header; `Ask` says that it is not the caller's to
give, but asked for before the function runs.

Spec: server/tools, "x-mcp-header" (H-01); patterns/mrtr (P-06).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ("Ask", "Mirror")


class Mirror:
    """Mirror a parameter into the header `Mcp-Param-{name}`.

    Use it as `Annotated[str | None, Mirror("Region")]`. The parameter is a string, an integer or a
    boolean, optional or not, at the root or in nested models; its name breaks no rule of the page,
    or registration of the tool fails with `BadMark`.

    Args:
        name: The part of the header's name that follows `Mcp-Param-`.

    Spec: server/tools, "x-mcp-header" (H-01 to H-04).
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Mirror({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mirror) and other.name == self.name

    def __hash__(self) -> int:
        return hash((Mirror, self.name))

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> Any:
        """Add the keyword to the parameter's schema; called while the schema is built."""
        return {**handler(core_schema), "x-mcp-header": self.name}


class Ask:
    """Ask for a parameter before the function runs.

    Use it as `Annotated[Address, Ask(where_to)]`. The parameter is not in the tool's schema.
    `where_to` may take parameters of the tool by name, other asked parameters, and a `Context`;
    it gives a value, or a question: `Elicit`, `Sample` or `Roots`, whose answer becomes the value.
    The function itself runs once, with all answers; nothing of it is replayed.

    Args:
        resolve: The function, plain or `async`.
    """

    __slots__ = ("resolve",)

    def __init__(self, resolve: Callable[..., Any]) -> None:
        self.resolve = resolve

    def __repr__(self) -> str:
        return f"Ask({getattr(self.resolve, '__name__', self.resolve)!r})"
