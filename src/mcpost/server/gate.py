"""What a head has to be before the body is worth reading.

The checks stand in the order in which they refuse: the HTTP method (405), `Host` and `Origin`
(403), who calls (401, 403), the media type (415), the size (413), and what the caller takes (406).

Spec: streamable-http, "Security & Endpoint", "Sending Messages" (T-01 to T-07, T-24).
"""

from __future__ import annotations

from typing import Final

from mcpost.errors import Refused
from mcpost.server import refusals
from mcpost.server.cors import VARY, answer_preflight, lines_for
from mcpost.server.head import Answer, Head
from mcpost.server.settings import Settings
from mcpost.wire.accept import is_json, parse_accept

__all__ = ("Gate",)

_READ: Final = frozenset({b"host", b"origin", b"content-type", b"content-length", b"accept"})
_NONE: Final[list[bytes]] = []
_DIGITS: Final = 18

Lines = dict[bytes, list[bytes]]


class Gate:
    """The checks of one endpoint.

    Args:
        settings: Its settings.
        others: HTTP methods besides POST that the endpoint answers (earlier revisions).
    """

    __slots__ = ("_not_allowed", "_others", "_settings", "_too_large")

    def __init__(self, settings: Settings, others: frozenset[str] = frozenset()) -> None:
        self._settings = settings
        self._others = others
        allowed = ["POST", *sorted(others)]
        if settings.varies:
            allowed.append("OPTIONS")
        self._not_allowed = refusals.refusal(
            405,
            "this endpoint is spoken to with POST: every message is one",
            (b"allow", ", ".join(allowed).encode()),
        )
        self._too_large = refusals.refusal(
            413,
            f"the body is larger than {settings.limits.max_body} bytes; see max_body",
            refusals.CLOSE,
        )

    @property
    def authenticates(self) -> bool:
        """Whether heads are checked by `check_caller` instead of `check`."""
        return self._settings.authenticate is not None

    @property
    def too_large(self) -> Answer:
        """The refusal of a body that turns out to be too large while it is read."""
        return self._too_large

    def check(self, head: Head) -> Answer | None:
        """Check a head, where nobody has to say who they are.

        Args:
            head: The head; what it accepts and the CORS lines of its answers are noted in it.

        Returns:
            `None` if the body is to be read, else the answer.
        """
        lines = _read(head)
        return self._check_source(head, lines) or self._check_content(head, lines)

    async def check_caller(self, head: Head) -> Answer | None:
        """Check a head, and find out who calls; as `check` in all else."""
        lines = _read(head)
        refusal = self._check_source(head, lines)
        authenticate = self._settings.authenticate
        if refusal is None and authenticate is not None:
            try:
                head.principal = await authenticate(head)
            except Refused as refused:
                refusal = refusals.answer_refused(refused, head.lines)
        return refusal or self._check_content(head, lines)

    def _check_source(self, head: Head, lines: Lines) -> Answer | None:
        """Method, `Host` and `Origin`."""
        asks = head.method == "OPTIONS" and b"origin" in lines
        if head.method != "POST" and head.method not in self._others and not asks:
            return self._not_allowed
        hosts = self._settings.hosts
        if hosts is not None:
            named = lines.get(b"host", _NONE)
            if len(named) != 1 or not hosts.allows(named[0].strip()):
                return refusals.HOST
        origins = lines.get(b"origin", _NONE)
        if origins:
            # Two lines are nobody's: a proxy and this server might each believe another one.
            origin = origins[0].strip()
            if len(origins) > 1 or not self._settings.origins.allows(origin):
                return refusals.ORIGIN
            if asks:
                return answer_preflight(head, origin)
            head.lines = lines_for(origin)
        elif self._settings.varies:
            head.lines = (VARY,)
        return None

    def _check_content(self, head: Head, lines: Lines) -> Answer | None:
        """Media type, size, and what is accepted."""
        if head.method != "POST":
            return None
        types = lines.get(b"content-type", _NONE)
        if len(types) != 1 or not is_json(types[0].strip()):
            return _with(refusals.CONTENT_TYPE, head)
        for length in lines.get(b"content-length", _NONE):
            digits = length.strip()
            if not digits.isdigit() or len(digits) > _DIGITS:
                return _with(refusals.LENGTH, head)
            if int(digits) > self._settings.limits.max_body:
                return _with(self._too_large, head)
        head.accepted = parse_accept(lines.get(b"accept", _NONE))
        if not (head.accepted.json or head.accepted.stream):
            return _with(refusals.NOT_ACCEPTABLE, head)
        return None


def _read(head: Head) -> Lines:
    lines: Lines = {}
    for name, value in head.headers:
        if name in _READ:
            lines.setdefault(name, []).append(value)
    return lines


def _with(answer: Answer, head: Head) -> Answer:
    if not head.lines:
        return answer
    return Answer(answer.status, answer.headers + head.lines, answer.body)
