"""What a head has to be before the body is worth reading.

The checks stand in the order in which they refuse: the HTTP method (405), `Host` and `Origin`
(403), who calls (401, 403), the media type (415), the size (413), and what the caller takes (406).

Spec: streamable-http, "Security & Endpoint", "Sending Messages" (T-01 to T-07, T-24).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcpost.errors import Refused
from mcpost.server import refusals
from mcpost.server.cors import VARY, answer_preflight, lines_for
from mcpost.server.head import Answer, Head, HeaderLines
from mcpost.server.settings import Settings
from mcpost.wire.accept import Accepted, is_json, parse_accept
from mcpost.wire.agreement import Routing, read_routing
from mcpost.wire.versions import Era, era_of

__all__ = ("Gate",)

_MAX_DIGITS: Final = 18
_MAX_PASSED: Final = 1024

Lines = Mapping[bytes, bytes]
"""Values by name; of a name that stands twice the last."""

Names = frozenset[bytes]
_NONE: Final[Names] = frozenset()


class Gate:
    """The checks of one endpoint.

    Args:
        settings: Its settings.
        others: HTTP methods besides POST that are answered for clients of earlier revisions.
    """

    __slots__ = ("_digits", "_not_allowed", "_others", "_passed", "_settings", "_too_large")

    def __init__(self, settings: Settings, others: frozenset[str] = frozenset()) -> None:
        self._settings = settings
        self._others = others
        # A length of fewer digits than the bound has is within it.
        self._digits = len(str(settings.limits.max_body))
        self._passed: dict[
            tuple[str | bytes | None, ...], tuple[Accepted, HeaderLines, Routing | None]
        ] = {}
        # What earlier revisions do with GET and DELETE is nothing that this one allows (T-02).
        allowed = ["POST", "OPTIONS"] if settings.varies else ["POST"]
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
        lines = head.fields
        if len(lines) != len(head.headers):
            return self._check_lines(head, lines, _find_twice(head))
        # A client says the same with every request, so most heads were judged before.
        said = (
            head.method,
            lines.get(b"host"),
            lines.get(b"origin"),
            lines.get(b"content-type"),
            lines.get(b"accept"),
            lines.get(b"mcp-protocol-version"),
            lines.get(b"mcp-method"),
            lines.get(b"mcp-name"),
        )
        passed = self._passed.get(said)
        length = lines.get(b"content-length", b"0")
        if passed is not None and length.isdigit() and len(length) < self._digits:
            head.accepted, head.lines, head.routing = passed
            return None
        refusal = self._check_lines(head, lines, _NONE)
        if refusal is None and head.method == "POST":
            head.routing = read_routing(head.headers, lines)
            if len(self._passed) >= _MAX_PASSED:
                self._passed.clear()
            self._passed[said] = head.accepted, head.lines, head.routing
        return refusal

    async def check_caller(self, head: Head) -> Answer | None:
        """Check a head, and find out who calls; as `check` in all else."""
        lines = head.fields
        twice = _find_twice(head)
        refusal = self._check_source(head, lines, twice)
        authenticate = self._settings.authenticate
        if refusal is None and authenticate is not None:
            try:
                head.principal = await authenticate(head)
            except Refused as refused:
                refusal = refusals.answer_refused(refused, head.lines)
        head.routing = read_routing(head.headers, lines)
        return refusal or self._check_content(head, lines, twice)

    def _check_lines(self, head: Head, lines: Lines, twice: Names) -> Answer | None:
        return self._check_source(head, lines, twice) or self._check_content(head, lines, twice)

    def _check_source(self, head: Head, lines: Lines, twice: Names) -> Answer | None:
        """Method, `Host` and `Origin`."""
        origin = lines.get(b"origin")
        preflight = head.method == "OPTIONS" and origin is not None
        if head.method != "POST" and not preflight and not self._is_legacy(head):
            return self._not_allowed
        hosts = self._settings.hosts
        if hosts is not None:
            host = lines.get(b"host")
            if host is None or not hosts.allows(host.strip()) or b"host" in twice:
                return refusals.HOST
        if origin is None:
            if self._settings.varies:
                head.lines = (VARY,)
            return None
        origin = origin.strip()
        # Two lines are nobody's: a proxy and this server might each believe another one.
        if not self._settings.origins.allows(origin) or b"origin" in twice:
            return refusals.ORIGIN
        if preflight:
            return answer_preflight(head, origin)
        head.lines = lines_for(origin)
        return None

    def _is_legacy(self, head: Head) -> bool:
        return head.method in self._others and era_of(head.headers, None) is Era.LEGACY

    def _check_content(self, head: Head, lines: Lines, twice: Names) -> Answer | None:
        """Media type, size, and what is accepted."""
        if head.method != "POST":
            return None
        if not is_json(lines.get(b"content-type")) or b"content-type" in twice:
            return _with(refusals.CONTENT_TYPE, head)
        length = lines.get(b"content-length")
        if length is not None:
            length = length.strip()
            if not length.isdigit() or len(length) > _MAX_DIGITS:
                return _with(refusals.LENGTH, head)
            if int(length) > self._settings.limits.max_body:
                return _with(self._too_large, head)
        accept = lines.get(b"accept")
        if accept is not None:
            head.accepted = parse_accept(
                head.get_all(b"accept") if b"accept" in twice else (accept,)
            )
            if not (head.accepted.json or head.accepted.stream):
                return _with(refusals.NOT_ACCEPTABLE, head)
        return None


def _find_twice(head: Head) -> Names:
    """The names of which there is more than one line."""
    names = [name for name, _ in head.headers]
    return frozenset(name for name in names if names.count(name) > 1)


def _with(answer: Answer, head: Head) -> Answer:
    if not head.lines:
        return answer
    return Answer(answer.status, answer.headers + head.lines, answer.body)
