"""What crosses a hop: header lines of a request to the upstream's, of a response to the client's.

Fields that are about one connection end with it, those that `Connection` names too. What says who
called is written anew: a client's own word for it is kept only where that is trusted.

Spec: RFC 9110, 7.6.1 (Connection) and 7.6.3 (Via); RFC 7239 (Forwarded); streamable-http, "Server
Behavior for Custom Headers" (H-11).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Final

from mcpost.http11.encode import HeaderLines
from mcpost.http11.head import Request, Response

__all__ = ("VIA", "Hop", "forward_request", "forward_response", "hides_a_fact")

VIA: Final = b"1.1 mcpost"
"""How this gateway calls itself in `Via`."""

_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# The engine writes the length and answers `Expect` by itself; the upstream's name is its own.
_REQUEST_OWN: Final = _HOP | {b"content-length", b"expect", b"host", b"via"}
_RESPONSE_OWN: Final = _HOP | {b"content-length", b"via"}
_CALLER: Final = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
_FEW: Final = 8
_SHORT: Final = 256
# A verdict rests on these, or the upstream does: none of them is about one connection.
_FACTS: Final = frozenset({b"accept", b"authorization", b"content-type", b"host", b"origin"})


@dataclass(frozen=True, slots=True)
class Hop:
    """How requests go to one upstream."""

    is_audience: bool = False
    """Whether `Authorization` is meant for it; else the field ends here."""
    withheld: frozenset[bytes] = frozenset()
    """Further fields that end here, as one that carries a key of this gateway."""
    trusts_forwarded: bool = False
    """Whether what a client says of earlier hops is kept, and added to."""
    scheme: bytes = b"http"
    """How clients reach this gateway: `http` or `https`."""
    dropped: frozenset[bytes] = field(init=False)
    """All fields that end here, whatever `Connection` says."""

    def __post_init__(self) -> None:
        own = frozenset() if self.is_audience else frozenset({b"authorization"})
        object.__setattr__(self, "dropped", _REQUEST_OWN | _CALLER | self.withheld | own)


def hides_a_fact(request: Request) -> bytes | None:
    """Name a field that `Connection` would take away though a verdict may rest on it.

    What was decided here would then not be what the upstream sees.
    """
    if b"connection" not in request.fields:
        return None
    for option in request.connection_options():
        if option in request.fields and (option.startswith(b"mcp-") or option in _FACTS):
            return option
    return None


def forward_request(request: Request, hop: Hop) -> tuple[tuple[bytes, bytes], ...]:
    """Write the header lines that go to the upstream.

    Lines keep their order, unknown ones too; `Host` is left to the pool.

    Args:
        request: The head that came.
        hop: How requests go to this upstream.
    """
    dropped, fields = hop.dropped, request.fields
    if b"connection" in fields:
        dropped |= request.connection_options()
    kept = [line for line in request.headers if line[0] not in dropped]
    host = fields.get(b"host", b"")
    if hop.trusts_forwarded:
        kept += _caller_lines(request.peer, host, hop.scheme, _earlier(request))
    elif len(host) <= _SHORT:
        kept += _own_caller_lines(request.peer, host, hop.scheme)
    else:
        kept += _caller_lines(request.peer, host, hop.scheme, {})
    kept.append((b"via", _via(request.headers) if b"via" in fields else VIA))
    return tuple(kept)


def forward_response(response: Response) -> tuple[tuple[bytes, bytes], ...]:
    """Write the header lines that go to the client; the length is left to the connection."""
    if len(response.headers) <= _FEW:
        return _remembered(tuple(response.headers))
    return _forward_response(response.headers)


def _forward_response(headers: HeaderLines) -> tuple[tuple[bytes, bytes], ...]:
    dropped = _RESPONSE_OWN
    for name, value in headers:
        if name == b"connection":
            dropped |= {option.strip() for option in value.lower().split(b",")}
    kept = [line for line in headers if line[0] not in dropped]
    kept.append((b"via", _via(headers)))
    return tuple(kept)


# Servers say much the same with every response of a second.
_remembered = functools.lru_cache(maxsize=256)(_forward_response)


def _via(headers: HeaderLines) -> bytes:
    earlier = [value for name, value in headers if name == b"via"]
    return b", ".join([*earlier, VIA])


def _earlier(request: Request) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in request.headers:
        if name in _CALLER:
            found[name] = found[name] + b", " + value if name in found else value
    return found


@functools.lru_cache(maxsize=1024)
def _own_caller_lines(address: str | None, host: bytes, scheme: bytes) -> HeaderLines:
    return _caller_lines(address, host, scheme, {})


def _caller_lines(
    address: str | None, host: bytes, scheme: bytes, earlier: dict[bytes, bytes]
) -> HeaderLines:
    peer = (address or "unknown").encode("ascii", "replace")
    chain = earlier.get(b"x-forwarded-for")
    # RFC 7239, 6: an IPv6 address stands in brackets, and then in quotes.
    node = b'"[%b]"' % peer if b":" in peer else peer
    element = b"for=%b;proto=%b" % (node, scheme)
    if host:
        element += b';host="%b"' % host
    before = earlier.get(b"forwarded")
    lines = [
        (b"x-forwarded-for", peer if chain is None else chain + b", " + peer),
        (b"x-forwarded-proto", earlier.get(b"x-forwarded-proto", scheme)),
        (b"forwarded", element if before is None else before + b", " + element),
    ]
    if host:
        lines.append((b"x-forwarded-host", earlier.get(b"x-forwarded-host", host)))
    return lines
