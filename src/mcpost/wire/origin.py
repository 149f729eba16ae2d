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

__all__ = (
    "LOOPBACK_HOSTS",
    "LOOPBACK_ORIGINS",
    "Hosts",
    "Origin",
    "Origins",
    "is_loopback",
    "parse_host",
    "parse_origin",
)

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*")
# A registered name as browsers send it: letters, digits, hyphens and dots (IDNs come as punycode).
_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_\-.]*[A-Za-z0-9_])?")
_PORT: Final = re.compile(r"[0-9]{1,5}")
_MAX_LENGTH: Final = 512
"""Bytes of a value that are read; a name has at most 253."""


class Origin(NamedTuple):
    """A serialised origin, parsed."""

    scheme: str
    """In lower case."""
    host: str
    """As `parse_host` gives it."""
    port: int
    """The scheme's default port where none is written, 0 where the scheme has none."""


def parse_host(value: str) -> tuple[str, int | None] | None:
    """Read `host` or `host:port`.

    Args:
        value: The text, as in `Host` or in an origin.

    Returns:
        The host in lower case without the dot of the root, an IPv6 address in its shortest form
        without brackets, and the port or `None`. `None` for anything else.

    Spec: RFC 9110, 7.2; RFC 3986, 3.2.2.
    """
    if len(value) > _MAX_LENGTH:
        return None
    if value.startswith("["):
        address, bracket, rest = value[1:].partition("]")
        host = _ipv6(address)
        if not bracket or host is None:
            return None
        colon, port = rest[:1], rest[1:]
    else:
        name, colon, port = value.partition(":")
        host = name.lower().removesuffix(".")
        if not _NAME.fullmatch(host):
            return None
    if not colon:
        return host, None
    if colon != ":" or not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        return None
    return host, int(port)


def _ipv6(address: str) -> str | None:
    # A zone names an interface of the machine that wrote it; nothing is known of it here.
    if "%" in address:
        return None
    try:
        return str(ipaddress.IPv6Address(address))
    except ValueError:
        return None


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


def is_loopback(host: str) -> bool:
    """Whether a host names this machine: `localhost`, 127.0.0.0/8 or `::1`.

    Args:
        host: A host as `parse_host` gives it. A name that merely begins or ends like one of these
            is another machine's.
    """
    if host in ("localhost", "::1"):
        return True
    try:
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False


def _list(texts: Iterable[str], setting: str) -> Iterable[str]:
    """Refuse one text where a list is meant: it would be taken for a list of characters."""
    if isinstance(texts, str):
        raise UsageError(f"{setting} is a list: write [{texts!r}]")
    return texts


class Origins:
    """The origins that may call.

    Args:
        allowed: Origins as text; `"null"` and `"*"` (any) only where they stand here themselves.
        loopback: Whether pages of this machine may call as well, at any port. An attacker's page
            is never one of them: a rebound name is still the attacker's name.

    Raises:
        UsageError: A text that is no origin.

    Spec: streamable-http, "Security & Endpoint" (T-03).
    """

    __slots__ = ("_allowed", "_any", "_decide", "_loopback", "_null")

    def __init__(self, allowed: Iterable[str] = (), *, loopback: bool = True) -> None:
        texts = {text.removesuffix("/") for text in _list(allowed, "origins")}
        self._any = "*" in texts
        self._null = "null" in texts
        self._loopback = loopback
        self._allowed = frozenset(_read_origin(text) for text in texts - {"*", "null"})
        self._decide = lru_cache(maxsize=256)(self._compare)

    @classmethod
    def parse(cls, texts: Iterable[str], *, loopback: bool = True) -> Origins:
        """Read a list of settings; the same as the constructor."""
        return cls(texts, loopback=loopback)

    @property
    def any(self) -> bool:
        """Whether every origin may call."""
        return self._any

    def allows(self, value: bytes) -> bool:
        """Whether the value of the one `Origin` line of a request may call (T-03)."""
        return self._any or (len(value) <= _MAX_LENGTH and self._decide(value))

    def _compare(self, value: bytes) -> bool:
        text = value.decode("latin-1")
        if text == "null":
            return self._null
        origin = parse_origin(text)
        if origin is None:
            return False
        return origin in self._allowed or (
            self._loopback and origin.scheme in _DEFAULT_PORTS and is_loopback(origin.host)
        )


def _read_origin(text: str) -> Origin:
    origin = parse_origin(text)
    if origin is None:
        raise UsageError(
            f"{text!r} is no origin; write scheme, host and, if it is not the default, port:"
            ' "https://app.example.com"'
        )
    return origin


class Hosts:
    """The hosts that a request may name.

    Args:
        allowed: Hosts as text; one without a port admits every port, `"*"` admits all hosts.
        loopback: Whether the names of this machine are admitted too, at any port.

    Raises:
        UsageError: A text that is no host.

    Spec: streamable-http, "Security & Endpoint" (T-04).
    """

    __slots__ = ("_allowed", "_any", "_decide", "_loopback")

    def __init__(self, allowed: Iterable[str] = (), *, loopback: bool = True) -> None:
        texts = set(_list(allowed, "hosts"))
        self._any = "*" in texts
        self._loopback = loopback
        self._allowed = frozenset(_read_host(text) for text in texts - {"*"})
        self._decide = lru_cache(maxsize=256)(self._compare)

    @classmethod
    def parse(cls, texts: Iterable[str], *, loopback: bool = True) -> Hosts:
        """Read a list of settings; the same as the constructor."""
        return cls(texts, loopback=loopback)

    def allows(self, value: bytes) -> bool:
        """Whether the value of the one `Host` line of a request names this server (T-04)."""
        return self._any or (len(value) <= _MAX_LENGTH and self._decide(value))

    def _compare(self, value: bytes) -> bool:
        parsed = parse_host(value.decode("latin-1"))
        if parsed is None:
            return False
        host, _ = parsed
        if parsed in self._allowed or (host, None) in self._allowed:
            return True
        return self._loopback and is_loopback(host)


def _read_host(text: str) -> tuple[str, int | None]:
    host = parse_host(text)
    if host is None:
        raise UsageError(f'{text!r} is no host; write "example.com" or "example.com:8443"')
    return host


LOOPBACK_ORIGINS: Final = Origins()
"""Pages of this machine only: the default of a server that nobody configured."""

LOOPBACK_HOSTS: Final = Hosts()
"""Names of this machine only: the default of a server that is bound to it."""
