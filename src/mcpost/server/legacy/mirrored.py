"""`Mcp-*` headers on requests of revisions that have none.

Nobody has to send them there, but whoever stands between may have read them. So what is sent is
compared with the body, by the one check there is, and what is not sent is not missed.

Spec: streamable-http, "Server Validation" (T-19, H-09).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mcpost.errors import HeaderMismatch, UsageError
from mcpost.server.call import Headers
from mcpost.wire.agreement import check_agreement
from mcpost.wire.jsonrpc import Request
from mcpost.wire.meta import lenient_meta
from mcpost.wire.mirror import EMPTY, Mirror, request_headers
from mcpost.wire.versions import PROTOCOL_VERSION_HEADER, SESSION_HEADER

__all__ = ("check_mirrored",)

_PREFIX: Final = b"mcp-"
_OWN: Final = frozenset({PROTOCOL_VERSION_HEADER, SESSION_HEADER})


def check_mirrored(
    headers: Headers, request: Request, mirror_of: Callable[[str], Mirror | None]
) -> HeaderMismatch | None:
    """Compare the mirrored headers that a request happens to have with its body.

    Args:
        headers: Header lines, names in lower case.
        request: The decoded body.
        mirror_of: Gives the mirror of a tool by its name.

    Returns:
        `None` if there are none or all agree, else the first disagreement.
    """
    if not any(name.startswith(_PREFIX) and name not in _OWN for name, _ in headers):
        return None
    sent = dict(headers)
    tool = request.params.get("name")
    mirror = mirror_of(tool) if request.method == "tools/call" and type(tool) is str else None
    version = sent.get(PROTOCOL_VERSION_HEADER, b"").decode("latin-1")
    try:
        known = request_headers(request.method, request.params, version, mirror or EMPTY)
    except UsageError as error:
        return HeaderMismatch(f"Header mismatch: {error}", request_id=request.id)
    lines = [(name.lower().encode(), value.encode()) for name, value in known]
    missing = [line for line in lines if line[0] not in sent]
    meta = lenient_meta(request.params, version, {})
    return check_agreement([*headers, *missing], request, meta, mirror_of)
