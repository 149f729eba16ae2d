"""How a client reaches its server: TLS, certificates, proxies.

Spec: RFC 9110, 9.3.6 (CONNECT); RFC 9112, 3.2 (forms of the request target).
"""

from __future__ import annotations

import ipaddress
import ssl
from base64 import b64encode
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from mcpost.errors import BadTarget, UsageError

__all__ = ("Address", "Network", "Proxy", "parse_url")

_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """Where a server is: an origin, and the target of its requests."""

    scheme: str
    host: str
    port: int
    target: str
    """Path and query, as they stand in the request line."""

    @property
    def authority(self) -> str:
        """Host and port as the `Host` header spells them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme and authority, as in `https://example.com`."""
        return f"{self.scheme}://{self.authority}"

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_url(url: str) -> Address:
    """Read the URL of a server.

    Args:
        url: An `http:` or `https:` URL; a fragment is dropped.

    Raises:
        BadTarget: It is no such URL, or it carries a user name.
    """
    if not url.isprintable() or " " in url:
        raise BadTarget(f"{url!r} has a character that no URL has")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadTarget(f"{url!r} is not a URL: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise BadTarget(f'{url!r} is not the URL of a server; write "https://example.com/mcp"')
    if parts.username is not None:
        raise BadTarget("a URL with a user name is not used; give `headers` or `auth` instead")
    target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    if parts.query:
        query = quote(parts.query, safe="/?%:@!$&'()*+,;=~-._")
        target = f"{target}?{query}"
    host = parts.hostname
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], target)


class Proxy(NamedTuple):
    """An HTTP proxy."""

    address: Address
    authorization: str | None
    """The value of `Proxy-Authorization`, `None` where the proxy's URL has no user name."""

    @classmethod
    def parse(cls, url: str) -> Proxy:
        """Read a proxy's URL, as in `http://user:password@proxy.example:3128`.

        Raises:
            BadTarget: It is no `http:` or `https:` URL.
        """
        parts = urlsplit(url if "://" in url else f"http://{url}")
        credentials = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            credentials = f"Basic {b64encode(pair.encode()).decode('ascii')}"
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
        return cls(parse_url(bare.geturl()), credentials)


@dataclass(frozen=True, slots=True)
class Network:
    """What stands between a client and its server.

    `Client(url, network=Network(ca="corporate.pem"))`
    """

    proxy: str | None = None
    """URL of an HTTP proxy; `None` asks the environment where `trust_env` says so."""

    trust_env: bool = True
    """Whether `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` are heard; loopback is never proxied."""

    ca: str | None = None
    """File with the certificates of further authorities to trust."""

    cert: str | None = None
    """File with this client's certificate chain."""

    key: str | None = None
    """File with the certificate's private key, where it does not stand in `cert`."""

    key_password: str | None = None
    """Password of the private key."""

    tls: ssl.SSLContext | None = None
    """A context to use as it is, instead of `ca`, `cert` and `key`."""

    def context(self) -> ssl.SSLContext:
        """Make the TLS context; it reads files, so make it once.

        Raises:
            UsageError: A file cannot be read or is not what it should be.
        """
        if self.tls is not None:
            return self.tls
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        try:
            if self.ca is not None:
                context.load_verify_locations(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key, self.key_password)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"a certificate cannot be loaded: {error}") from error
        return context

    def proxy_for(self, address: Address) -> Proxy | None:
        """Tell which proxy leads to a server, `None` for the straight way."""
        if self.proxy is not None:
            return Proxy.parse(self.proxy)
        if not self.trust_env or address.is_loopback:
            return None
        # Imported here: it brings an HTTP client with it.
        import urllib.request

        found = urllib.request.getproxies().get(address.scheme)
        host = f"{address.host}:{address.port}"
        if found is None or urllib.request.proxy_bypass(host):
            return None
        return Proxy.parse(found)
