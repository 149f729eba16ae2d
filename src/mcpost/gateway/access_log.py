"""The access log: one JSON object a line for each request, once it has ended.

No argument value is among it, and no header but those that a verdict is made from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from mcpost.gateway.decide import Facts, Verdict
from mcpost.gateway.quota import Ticket

__all__ = ("AccessLog", "Note")


_FREE = Ticket()


@dataclass(slots=True)
class Note:
    """What is remembered of a request until it ends."""

    http_method: str
    facts: Facts
    verdict: Verdict
    started: float
    """Of `time.perf_counter`."""
    ticket: Ticket = _FREE
    fields: Mapping[bytes, bytes] | None = None
    """The request's header lines by name, where spans are written."""
    cache: Literal["hit", "miss"] | None = None
    """Whether the shared cache had the answer; `None` where it was not asked."""

    def seconds(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.started


class AccessLog:
    """Writes the lines.

    Args:
        write: Takes each line, with its end.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def add(self, note: Note, status: int, **more: Any) -> None:
        """Write one line.

        Args:
            note: The request.
            status: What the client was told; 0 where it left before.
            more: Further members; those that are `None` are left out.
        """
        facts, verdict = note.facts, note.verdict
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "http": note.http_method,
            "method": facts.method,
            "name": facts.name,
            "version": facts.version,
            "client": facts.peer,
            "principal": facts.principal.name if facts.principal else None,
            "verdict": verdict.action,
            "rule": verdict.rule or None,
            "reason": verdict.reason or None,
            "status": status,
            "cache": note.cache,
            "seconds": round(note.seconds(), 6),
            **more,
        }
        kept = {key: value for key, value in line.items() if value is not None}
        self._write(msgspec.json.encode(kept) + b"\n")
