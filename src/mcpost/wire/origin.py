"""Who may call: `Origin` and `Host` as parsed values.

An origin is a scheme, a host and a port, and is compared as these three; never as text, never by
a prefix, so `http://localhost:5173.evil.com` is nobody's neighbour.

Spec: streamable-http, "Security & Endpoint" (T-03, T-04); RFC 6454, 6.1; RFC 9110, 7.2.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from mcpost.errors import UsageError

__all__ = ("Hosts", "Origin", "Origins", "is_loopback", "parse_host", "parse_origin")

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*")
# A registered name as browsers send it: letters, digits, hyphens and dots (IDNs come as punycode).
_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_\-.]*[A-Za-z0-9_])?\.?")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_MAX_LENGTH: Final = 512


class Origin(NamedTuple):
    """A serialised origin, parsed."""

    scheme: str
    host: str
    port: int


def parse_host(value: str) -> tuple[str, int | None] | None:
    """Read `host` or `host:port`.

    Args:
        value: The text, as in `Host` or in an origin.

    Returns:
        The host in lower case, an IPv6 address in its shortest form without brackets, and the port
        or `None`. `None` for anything else.

    Spec: RFC 9110, 7.2; RFC 3986, 3.2.2.
    """
    if len(value) > _MAX_LENGTH:
        return None
    if value.startswith("["):
        address, bracket, rest = value[1:].partition("]")
        if not bracket:
            return None
        try:
            host = str(ipaddress.IPv6Address(address))
        except ValueError:
            return None
        colon, port = rest[:1], rest[1:]
    else:
        name, colon, port = value.partition(":")
        if not _NAME.fullmatch(name):
            return None
        host = name.lower().removesuffix(".")
    if not colon:
        return host, None
    if colon != ":" or not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        return None
    return host, int(port)


def parse_origin(value: str) -> Origin | None:
    """Read an origin, as in `https://app.example.com:8443`.

    Args:
        value: The text of an `Origin` line or of a setting.

    Returns:
        The origin with its port filled in, or `None` for `null` and for anything that is not one
        scheme, host and port.

    Spec: RFC 6454, 6.1.
    """
    scheme, separator, rest = value.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        return None
    parsed = parse_host(rest)
    if parsed is None:
        return None
    host, port = parsed
    scheme = scheme.lower()
    return Origin(scheme, host, _DEFAULT_PORTS.get(scheme, 0) if port is None else port)


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether a host names this machine: `localhost` and its subdomains, 127.0.0.0/8, `::1`."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Origins:
    """The origins that may call.

    Args:
        allowed: Origins as text; `"null"` and `"*"` only where they stand here themselves. Empty
            means the default.

    Pages of this machine may always call: an attacker's page has another origin, and a rebound
    name is still the attacker's name.

    Raises:
        UsageError: A text that is no origin.
    """

    __slots__ = ("_allowed", "_any", "_loopback", "_null")

    def __init__(self, allowed: Iterable[str] = (), *, loopback: bool = True) -> None:
        self._any = False
        self._null = False
        self._loopback = loopback
        parsed = set()
        for text in allowed:
            if text == "*":
                self._any = True
            elif text == "null":
                self._null = True
            else:
                origin = parse_origin(text.removesuffix("/"))
                if origin is None:
                    raise UsageError(
                        f"{text!r} is no origin; write scheme, host and, if it is not the"
                        ' default, port: "https://app.example.com"'
                    )
                parsed.add(origin)
        self._allowed = frozenset(parsed)

    def allows(self, value: bytes) -> bool:
        """Whether the value of an `Origin` line may call (T-03)."""
        if self._any:
            return True
        text = value.decode("latin-1")
        if text == "null":
            return self._null
        origin = parse_origin(text)
        if origin is None:
            return False
        return origin in self._allowed or (
            self._loopback and origin.scheme in _DEFAULT_PORTS and is_loopback(origin.host)
        )


class Hosts:
    """The hosts that a request may name.

    Args:
        allowed: Hosts as text, with or without a port; `"*"` admits all. A host without a port
            admits every port.
        loopback: Whether the names of this machine are admitted too.

    Raises:
        UsageError: A text that is no host.
    """

    __slots__ = ("_allowed", "_any", "_loopback")

    def __init__(self, allowed: Iterable[str] = (), *, loopback: bool = True) -> None:
        self._any = False
        self._loopback = loopback
        parsed = set()
        for text in allowed:
            if text == "*":
                self._any = True
                continue
            host = parse_host(text)
            if host is None:
                raise UsageError(f'{text!r} is no host; write "example.com" or "example.com:8443"')
            parsed.add(host)
        self._allowed = frozenset(parsed)

    def allows(self, value: bytes) -> bool:
        """Whether the value of a `Host` line is one of ours (T-04)."""
        if self._any:
            return True
        parsed = parse_host(value.decode("latin-1"))
        if parsed is None:
            return False
        host, _ = parsed
        if parsed in self._allowed or (host, None) in self._allowed:
            return True
        return self._loopback and is_loopback(host)
