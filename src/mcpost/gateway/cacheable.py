"""What the shared cache may keep: which requests share an answer, and which answers are for all.

Two requests share an answer only if they say the same: in their parameters, in `_meta`, and in
every header line that goes on to the upstream, since an upstream may turn its answer on any of
them, and what one client makes it say is then given to others. Left out is what differs each time
and is about the way alone: the id, the trace, the earlier hops. Whoever asks for more than the
answer (progress, log messages, another round of input) is never given a kept one.

Spec: server/utilities/caching, "Cache Key", "Cache Scope Field" (F-05); RFC 9111, 3 and 4.1.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mcpost.errors import WireError
from mcpost.wire import jsonrpc
from mcpost.wire.accept import is_json, parse_accept
from mcpost.wire.caching import CACHEABLE, read_hints
from mcpost.wire.meta import LOG_LEVEL, PROGRESS_TOKEN, TRACE_KEYS

__all__ = ("CREDENTIALS", "Kept", "key_of", "read_kept", "write_kept")

CREDENTIALS: Final = frozenset({b"authorization", b"cookie", b"x-api-key"})
"""Header lines by which a server may know who calls."""

_Lines = Sequence[tuple[bytes, bytes]]

# Of the lines that go on, those that no answer turns on. `X-Forwarded-Host` is not among them: what
# a server writes into its answers may well be made of it.
_UNKEYED: Final = CREDENTIALS | {
    b"accept-encoding",
    b"cache-control",
    b"content-type",
    b"forwarded",
    b"mcp-method",
    b"mcp-name",
    b"mcp-protocol-version",
    b"pragma",
    b"via",
    b"x-correlation-id",
    b"x-forwarded-for",
    b"x-real-ip",
    b"x-request-id",
    *(key.encode() for key in TRACE_KEYS),
}
# What is kept is not coded, and so the same for all who might have liked it to be.
_UNSERVED: Final = _UNKEYED - {b"accept-encoding"} | {b"*"}
_UNSHARED: Final = frozenset({b"no-store", b"no-cache", b"private"})
_KEPT_LINES: Final = frozenset({b"content-type", b"vary", b"via"})
_encode_sorted: Final = msgspec.json.Encoder(order="deterministic").encode


def key_of(
    message: jsonrpc.Request,
    body: bytes,
    lines: _Lines,
    *,
    place: Iterable[str],
    query: bytes = b"",
    known: bool = False,
) -> bytes | None:
    """Find out under which key the answer to a request may be kept.

    Args:
        message: The request.
        body: What it was read from.
        lines: The header lines that go to the upstream.
        place: The upstream, and its endpoint where that is chosen by the request.
        query: Query of the target.
        known: Whether this gateway has checked who calls.

    Returns:
        The key; `None` where no kept answer may be given: the method has none, the request wants
        progress, log messages or another round of input, it says something twice, its client asks
        for a fresh answer or takes no JSON, or it carries credentials that nobody has checked. Of
        those whom the gateway knows, entries are apart from those of requests without credentials.

    Spec: server/utilities/caching, "Cache Key" (F-05).
    """
    params = message.params
    if message.method not in CACHEABLE or not params.keys().isdisjoint(_ROUNDS):
        return None
    meta = params.get("_meta")
    if type(meta) is not dict or not meta.keys().isdisjoint(_WISHES):
        return None
    if not jsonrpc.says_all(body, _encode_whole(message)):
        return None
    # Of one list of lines after the other comes the same; what has a secret in it is a list.
    head = _remembered(lines) if isinstance(lines, tuple) else _read_head(lines)
    if head is None or (head.has_credentials and not known):
        return None
    said = {name: value for name, value in meta.items() if name not in TRACE_KEYS}
    parts = (
        [*place],
        head.has_credentials,
        query.decode("latin-1"),
        message.method,
        {**params, "_meta": said},
    )
    return hashlib.sha256(head.said + _encode_sorted(parts)).digest()


class _Head(NamedTuple):
    """What the lines of a request have to do with its key."""

    has_credentials: bool
    said: bytes
    """As JSON."""


def _read_head(lines: _Lines) -> _Head | None:
    """Read the lines; `None` where their client takes no kept answer."""
    fields = _gather(lines)
    if not parse_accept(fields.get(b"accept", ())).json:
        return None
    if not _UNSHARED.isdisjoint(_tokens(fields.get(b"cache-control", ()))):
        return None
    said = {
        name.decode("latin-1"): [each.decode("latin-1") for each in values]
        for name, values in fields.items()
        if name not in _UNKEYED
    }
    return _Head(not CREDENTIALS.isdisjoint(fields), _encode_sorted(said))


_remembered = functools.lru_cache(maxsize=256)(_read_head)


_ROUNDS: Final = frozenset({"inputResponses", "requestState"})
_WISHES: Final = frozenset({PROGRESS_TOKEN, LOG_LEVEL})


def _encode_whole(message: jsonrpc.Request) -> bytes:
    return jsonrpc.encode_request(message.id, message.method, message.params)


def _gather(lines: _Lines) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in lines:
        found.setdefault(name, []).append(value)
    return found


def _tokens(values: Iterable[bytes]) -> set[bytes]:
    """The names in a list of tokens or directives, in lower case."""
    pieces = b",".join(values).lower().split(b",")
    return {piece.partition(b"=")[0].strip() for piece in pieces}


class Kept(NamedTuple):
    """An answer that all may have, but for its id and its age."""

    ttl_ms: int
    """For how long it was fresh when it came."""
    result: bytes
    """The result as JSON, without its `ttlMs` and its closing brace."""
    lines: tuple[tuple[bytes, bytes], ...]
    """Header lines that belong to it."""

    @property
    def size(self) -> int:
        """Bytes of what is kept."""
        return len(self.result) + sum(len(name) + len(value) for name, value in self.lines)


def is_for_all(status: int, lines: _Lines) -> bool:
    """Whether the head of an answer lets it be kept for all."""
    fields = _gather(lines)
    kind = fields.get(b"content-type", ())
    coding = _tokens(fields.get(b"content-encoding", ())) - {b"", b"identity"}
    if status != 200 or len(kind) != 1 or not is_json(kind[0]) or coding:
        return False
    if b"set-cookie" in fields or b"mcp-session-id" in fields:
        return False
    if not _UNSHARED.isdisjoint(_tokens(fields.get(b"cache-control", ()))):
        return False
    return _UNSERVED.isdisjoint(_tokens(fields.get(b"vary", ())))


def read_kept(status: int, lines: _Lines, body: bytes, request_id: jsonrpc.Id) -> Kept | None:
    """Read an answer.

    Args:
        status: Its HTTP status.
        lines: The header lines that go to the client.
        body: Its content, whole.
        request_id: The id that was asked with.

    Returns:
        What may be kept of it; `None` where it is no complete result that is `public` and fresh
        for some time, or where its headers say otherwise.

    Spec: server/utilities/caching, "Cacheable Results", "Cache Scope Field" (F-05).
    """
    if not is_for_all(status, lines):
        return None
    try:
        answer = jsonrpc.decode_answer(body)
    except WireError:
        return None
    if not isinstance(answer, jsonrpc.Response) or answer.result is None:
        return None
    hints = read_hints(answer.result)
    if (
        hints.scope != "public"
        or answer.id != request_id
        or type(answer.id) is not type(request_id)
    ):
        return None
    whole: dict[str, Any] = {"jsonrpc": "2.0", "id": answer.id, "result": answer.result}
    # Two hints in one answer are read by one reader so and by the next otherwise.
    if not jsonrpc.says_all(body, jsonrpc.encode(whole)):
        return None
    rest = {name: value for name, value in answer.result.items() if name != "ttlMs"}
    kept = [
        line for line in lines if line[0] in _KEPT_LINES or line[0].startswith(b"access-control-")
    ]
    return Kept(hints.ttl_ms, jsonrpc.encode(rest)[:-1], tuple(kept))


def write_kept(kept: Kept, request_id: jsonrpc.Id, age_ms: int) -> bytes:
    """Write the answer to another request.

    Args:
        kept: What was kept.
        request_id: The id of that request.
        age_ms: For how long it has been kept; its `ttlMs` is less by that.
    """
    left = max(kept.ttl_ms - age_ms, 0)
    # There is a member before: what is kept says for whom it is.
    return b'{"jsonrpc":"2.0","id":%b,"result":%b,"ttlMs":%d}}' % (
        jsonrpc.encode(request_id),
        kept.result,
        left,
    )
