"""Reading URLs and finding proxies."""

from __future__ import annotations

import pytest

from mcpost.client import Network
from mcpost.client.network import Proxy, parse_url
from mcpost.errors import BadTarget, UsageError


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("https://example.com/mcp", "example.com", "/mcp"),
        ("http://example.com:80", "example.com", "/"),
        ("https://example.com:8443/a b".replace(" ", "%20"), "example.com:8443", "/a%20b"),
        ("http://[::1]:9/mcp?x=1&y=%2F#part", "[::1]:9", "/mcp?x=1&y=%2F"),
        ("http://bücher.example/ü", "xn--bcher-kva.example", "/%C3%BC"),
    ],
)
def test_a_url_is_read(url: str, authority: str, target: str) -> None:
    address = parse_url(url)

    assert (address.authority, address.target) == (authority, target)


@pytest.mark.parametrize(
    "url",
    [
        "example.com/mcp",
        "ftp://example.com",
        "http:///mcp",
        "http://a:b@example.com/",
        "http://example.com:99999/",
        "http://example.com/\r\nX: y",
        "http://exa mple.com/",
    ],
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(BadTarget):
        parse_url(url)


def test_a_proxy_is_told_who_calls() -> None:
    proxy = Proxy.parse("http://ann:p%40ss@proxy.example:3128")

    assert proxy.address.authority == "proxy.example:3128"
    assert proxy.authorization == "Basic YW5uOnBAc3M="


def test_the_environment_is_heard_but_not_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "internal.example")

    def find(url: str, network: Network = Network()) -> bool:
        return network.proxy_for(parse_url(url)) is not None

    assert find("https://example.com/mcp")
    assert not find("https://internal.example/mcp")
    assert not find("https://localhost/mcp")
    assert not find("https://127.0.0.1/mcp")
    assert not find("https://example.com/mcp", Network(trust_env=False))
    assert find("https://127.0.0.1/mcp", Network(proxy="proxy.example:3128"))


def test_a_certificate_that_cannot_be_read_is_told() -> None:
    with pytest.raises(UsageError, match="certificate"):
        Network(ca="/does/not/exist.pem").context()
