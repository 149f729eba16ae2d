"""What a client knows of its server's tools: how their arguments are mirrored, what they promise.

A tool whose marks break the rules is left out, with one warning that names it and the reason; the
others stay. The book is filled from `tools/list`, and asked once for a tool that it does not know.

Spec: tools, "x-mcp-header"; streamable-http, "Client Behavior" (H-01, H-05, H-12, F-01).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mcpost.errors import BadMark, RpcError, Timeout, TransportError
from mcpost.schema import SchemaError, Validator, compile_schema
from mcpost.types import Tool
from mcpost.wire.mirror import EMPTY, Mirror, compile_mirror

__all__ = ("KnownTool", "ToolBook")

_log = logging.getLogger("mcpost.client")


class KnownTool:
    """One tool, as far as calling it needs."""

    __slots__ = ("_validator", "is_repeatable", "mirror", "output_schema")

    def __init__(self, tool: Tool, mirror: Mirror) -> None:
        self.mirror = mirror
        """How its arguments are mirrored."""
        hints = tool.annotations
        self.is_repeatable = hints is not None and bool(
            hints.idempotent_hint or hints.read_only_hint
        )
        """Whether its author says that calling it twice does no more than calling it once."""
        self.output_schema = tool.output_schema
        """JSON Schema of its structured content, `None` where it promises none."""
        self._validator: Validator | None = None

    def check_output(self, value: Any) -> str | None:
        """Check structured content against the schema; gives one sentence where it does not fit.

        A schema that cannot be used is a problem too: what it would refuse is not known.
        """
        if self.output_schema is None:
            return None
        try:
            if self._validator is None:
                self._validator = compile_schema(self.output_schema)
        except SchemaError as error:
            return str(error)
        return self._validator.check(value)


Load = Callable[[bool], Awaitable[list[Tool]]]


class ToolBook:
    """The tools of one server.

    Args:
        load: Fetches the whole list; told whether it has to be fresh.
        mirrors: Whether the transport mirrors arguments; where it does not, marks do not matter.
    """

    def __init__(self, load: Load, *, mirrors: bool) -> None:
        self._load = load
        self._mirrors = mirrors
        self._filling: asyncio.Task[list[Tool]] | None = None
        self._known: dict[str, KnownTool] = {}
        self._warned: set[tuple[str, str]] = set()
        self.is_filled = False
        """Whether a whole list has been read since the last change."""

    def get(self, name: str) -> KnownTool | None:
        """Tell what is known of a tool."""
        return self._known.get(name)

    def take(self, tools: Iterable[Tool]) -> list[Tool]:
        """Take a whole list.

        Returns:
            The tools that may be called, in the order of the list (H-05).
        """
        kept: list[Tool] = []
        known: dict[str, KnownTool] = {}
        for tool in tools:
            try:
                mirror = compile_mirror(tool.input_schema) if self._mirrors else EMPTY
            except BadMark as error:
                self._warn(tool.name, f"{error.path}: {error.rule}")
                continue
            kept.append(tool)
            known[tool.name] = KnownTool(tool, mirror)
        self._known = known
        self.is_filled = True
        return kept

    def forget(self) -> None:
        """The list has changed: what is known still serves, what is not is asked for again."""
        self.is_filled = False

    async def find(self, name: str, within: float) -> KnownTool | None:
        """Tell what is known of a tool, after fetching the list where none has been read.

        Calls that need the list at the same time share one fetch; where that fails, each goes on
        by itself.

        Args:
            name: Its name.
            within: Seconds that the fetch may take.

        Raises:
            TransportError: The list could not be had; `sent` is `no`, since the call was not made.
        """
        known = self._known.get(name)
        if known is not None or self.is_filled or not self._mirrors:
            return known
        try:
            async with asyncio.timeout(within):
                while not self.is_filled:
                    await self._fill()
        except TimeoutError:
            raise Timeout("total", within, sent="no") from None
        except RpcError as error:
            # A server without a list may have the tool all the same; it has no marks then.
            _log.debug("the tools cannot be listed: %s", error)
            self.is_filled = True
        except TransportError as error:
            error.sent = "no"
            raise
        return self._known.get(name)

    async def refresh(self, name: str) -> Mirror:
        """Fetch the list anew and give the mirror of a tool (H-12)."""
        self.take(await self._load(True))
        known = self._known.get(name)
        return known.mirror if known is not None else EMPTY

    async def close(self) -> None:
        """Wait until a fetch that was under way has ended, once its client is closed."""
        if self._filling is not None:
            await asyncio.wait([self._filling])

    async def _fill(self) -> None:
        mine = self._filling is None
        if self._filling is None:
            self._filling = asyncio.ensure_future(self._read_list())
            self._filling.add_done_callback(self._filled)
        try:
            await asyncio.shield(self._filling)
        except TransportError:
            # The failure of a shared fetch is that of the call which began it.
            if mine:
                raise

    async def _read_list(self) -> list[Tool]:
        return self.take(await self._load(False))

    def _filled(self, task: asyncio.Task[list[Tool]]) -> None:
        self._filling = None
        # Read, so that the loop does not report what every waiter has had.
        if not task.cancelled():
            task.exception()

    def _warn(self, tool: str, reason: str) -> None:
        if (tool, reason) not in self._warned:
            self._warned.add((tool, reason))
            _log.warning("tool %r is left out: %s", tool, reason)
