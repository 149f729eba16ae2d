"""Every bound of this package, with its default, unit and reason.

A limit is a field of one of these frozen dataclasses; `dataclasses.replace` makes another set.
Sizes are bytes, times are seconds, counts are counts. `docs/limits.md` shows the same table.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from mcpost.errors import UsageError

__all__ = ("AggregateLimits", "CacheLimits", "ClientLimits", "ServerLimits", "WireLimits")

MIB = 1024 * 1024


class _Bounds:
    """What all sets have in common: a bound that nothing could keep is an error where it is set."""

    __slots__ = ()

    _may_be_none_at_all: ClassVar[frozenset[str]] = frozenset()
    """Counts that may be 0. Times may be, except those of `_more_than_none`."""

    _more_than_none: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            # Hints are postponed, so they are text.
            if field.type == "float":
                kind, least, fits = "a number", 0, isinstance(value, (int, float))
                fits = fits and (value != 0 or field.name not in self._more_than_none)
            else:
                kind, fits = "a whole number", isinstance(value, int)
                least = 0 if field.name in self._may_be_none_at_all else 1
            # Not `value < least`, which a NaN is not.
            if not fits or isinstance(value, bool) or not value >= least:
                name = f"{type(self).__name__}.{field.name}"
                above = "above 0" if field.name in self._more_than_none else f"from {least} on"
                raise UsageError(f"{name} is {kind} {above}, not {value!r}")


@dataclass(frozen=True, slots=True)
class WireLimits(_Bounds):
    """Bounds of the pure parsers, for either end."""

    max_header_value: int = 8 * 1024
    """Bytes of one mirrored header value; nginx refuses a header line above about 8 KiB."""

    max_sse_line: int = 16 * MIB
    """Bytes of one line of an event stream (one `data:` line carries one whole message)."""

    max_sse_event: int = 16 * MIB
    """Bytes of the data of one event."""

    max_stdio_line: int = 64 * MIB
    """Bytes of one line of stdio; above it that message is lost and the stream goes on."""

    max_schema_depth: int = 64
    """Nesting of a schema that is compiled or searched for marks."""

    max_schema_nodes: int = 10_000
    """Subschemas of a schema that is compiled or searched for marks."""

    max_schema_work: int = 10_000_000
    """Looks at one place of a value that a schema may ask for; each takes some 10 ns."""

    max_value_depth: int = 512
    """Nesting of a value that is checked against a schema."""


@dataclass(frozen=True, slots=True)
class ServerLimits(_Bounds):
    """Bounds of a server."""

    _may_be_none_at_all: ClassVar[frozenset[str]] = frozenset(
        {
            "max_calls",
            "max_queued",
            "retry_after",
            "max_listens",
            "max_sessions",
            "max_session_events",
        }
    )
    _more_than_none: ClassVar[frozenset[str]] = frozenset({"progress_rate"})

    max_body: int = 4 * MIB
    """Bytes of a request body; 413 above it, before it is read to the end."""

    body_timeout: float = 30.0
    """Seconds for a request body to arrive once its head has; 408 after it."""

    max_calls: int = 1_000
    """Calls that run at once, over all connections (listens are not calls)."""

    max_queued: int = 1_000
    """Calls that wait for a place; 503 with `Retry-After` above it."""

    queue_timeout: float = 10.0
    """Seconds a call waits for a place; 503 after it."""

    retry_after: int = 1
    """Seconds that `Retry-After` says on a 503."""

    call_timeout: float = 3_600.0
    """Seconds a call may run in all; it is cancelled after it and answered with -32603."""

    threads: int = 40
    """Threads that run functions that are not `async`."""

    keep_alive: float = 15.0
    """Seconds of silence after which a comment is sent; proxies cut idle streams from 30 s on."""

    max_stream_buffer: int = 1 * MIB
    """Bytes waiting for a slow reader of a stream; progress is dropped from a quarter of it on,
    and at the bound the stream is closed, which cancels the call."""

    progress_rate: float = 1_000.0
    """Progress notifications a second for one call; above it the newest replaces the one that
    waits."""

    progress_burst: int = 200
    """Progress notifications that may go at once before `progress_rate` holds."""

    max_listens: int = 10_000
    """Listen streams open at once; 503 with `Retry-After` above it."""

    max_listen_uris: int = 1_000
    """Resource URIs in one listen's filter; -32602 above it."""

    drain_grace: float = 3.0
    """Seconds that running calls get after SIGTERM before they are cancelled."""

    request_state_ttl: float = 600.0
    """Seconds for which a `requestState` is accepted after it was sealed."""

    max_request_state: int = 256 * 1024
    """Bytes of a `requestState`, sealed; a larger one is refused."""

    max_input_rounds: int = 16
    """Round trips for input that one call may ask for."""

    page_size: int = 1_000
    """Entries in one page of a list."""

    max_sessions: int = 10_000
    """Sessions of earlier revisions; above it the longest idle one ends, or 503."""

    max_initialize: int = 64 * 1024
    """Bytes of the request that opens a session, of which it remembers a part; 413 above it."""

    session_idle: float = 1_800.0
    """Seconds without a request, a call or an open stream after which a session ends."""

    max_session_events: int = 10_000
    """Events of one session that are kept for a client that comes back for them."""

    max_session_bytes: int = 4 * MIB
    """Bytes of the kept events of one session."""

    max_stored_bytes: int = 256 * MIB
    """Bytes of the kept events of all sessions; above it the longest idle lose theirs."""

    max_batch: int = 100
    """Messages in one batch (revision 2025-03-26 alone has batches)."""

    resume_delay: float = 1.0
    """Seconds that a client is asked to wait before it comes back for a stream (`retry:`)."""


@dataclass(frozen=True, slots=True)
class ClientLimits(_Bounds):
    """Bounds of a client."""

    _may_be_none_at_all: ClassVar[frozenset[str]] = frozenset(
        {"max_redirects", "max_idle_connections", "max_cache_entries", "max_resumes"}
    )

    connect_timeout: float = 10.0
    """Seconds for a connection to stand, TLS included."""

    timeout: float = 60.0
    """Seconds without a sign of life from a call (progress and comments are signs of life)."""

    max_timeout: float = 600.0
    """Seconds for a call in all, whatever arrives; retries and input rounds included."""

    max_answer: int = 64 * MIB
    """Bytes of a JSON answer."""

    max_head: int = 64 * 1024
    """Bytes of an answer's head, and of what stands between two pieces of a body."""

    max_redirects: int = 3
    """Redirects within the server's origin that one request follows."""

    max_idle_connections: int = 64
    """Connections that are kept open while no call uses them."""

    idle_connection: float = 30.0
    """Seconds that an unused connection is kept open."""

    max_event: int = 16 * MIB
    """Bytes of one event of a stream."""

    max_notes: int = 1_000
    """Notifications of one call that wait for a slow callback; the stream is not read above it."""

    max_events: int = 1_000_000
    """Events of one call's stream."""

    max_pages: int = 1_000
    """Pages that a list walks."""

    max_input_rounds: int = 16
    """Round trips for input that a call follows."""

    max_cache_entries: int = 1_024
    """Entries of the response cache, least recently used first out."""

    max_ttl: float = 86_400.0
    """Seconds that a cached answer is kept at most, whatever its `ttlMs` says."""

    start_timeout: float = 30.0
    """Seconds for a server on stdio to start and answer for the first time."""

    probe_timeout: float = 5.0
    """Seconds for a server on stdio to answer `server/discover`; silence means an earlier era."""

    exit_timeout: float = 2.0
    """Seconds a child has to exit once its input is closed, and again after SIGTERM."""

    max_resumes: int = 10
    """Times in a row that a stream of an earlier revision is asked for again without success."""

    max_asked: int = 100
    """Requests of a server of an earlier revision that are answered at once."""


@dataclass(frozen=True, slots=True)
class AggregateLimits(_Bounds):
    """Bounds of a gateway's aggregates; a policy sets the last two in `[aggregates.NAME]`."""

    max_members: int = 32
    """Members of one aggregate."""

    wait: float = 10.0
    """Seconds that a member has for its part of a list, or to acknowledge a listen."""

    max_answer: int = 8 * MIB
    """Bytes of a member's part of a list; it is missing above it. Of another answer, or of an
    event, as many are held so that the URIs in it can be prefixed; a longer one is passed on."""


@dataclass(frozen=True, slots=True)
class CacheLimits(_Bounds):
    """Bounds of a gateway's shared cache; a policy sets them in `[cache]`."""

    _may_be_none_at_all: ClassVar[frozenset[str]] = frozenset({"max_entries", "max_waiting"})

    max_entries: int = 1_024
    """Answers, least recently used first out."""

    max_bytes: int = 16 * MIB
    """Bytes of all answers."""

    max_entry: int = 1 * MIB
    """Bytes of one answer; a longer one is not kept."""

    max_ttl: float = 3_600.0
    """Seconds for which an answer is kept at most, whatever its `ttlMs` says."""

    max_waiting: int = 1_000
    """Requests that wait for one answer; others go to the upstream themselves."""

    wait: float = 5.0
    """Seconds that a request waits for another one's answer; then it goes itself."""
