"""Origin and Host as parsed values."""

from __future__ import annotations

import pytest

from mcpost.errors import UsageError
from mcpost.wire.origin import (
    LOOPBACK_HOSTS,
    LOOPBACK_ORIGINS,
    Hosts,
    Origin,
    Origins,
    is_loopback,
    parse_host,
    parse_origin,
)


@pytest.mark.req("T-03/S")
@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://App.Example.com", Origin("https", "app.example.com", 443)),
        ("HTTP://a:8080", Origin("http", "a", 8080)),
        ("http://a:80", Origin("http", "a", 80)),
        ("http://[0:0::1]:1", Origin("http", "::1", 1)),
        ("vscode-webview://abc", Origin("vscode-webview", "abc", 0)),
    ],
)
def test_an_origin_is_scheme_host_and_port(text: str, origin: Origin) -> None:
    assert parse_origin(text) == origin


@pytest.mark.req("T-03/S")
@pytest.mark.parametrize(
    "text",
    [
        "", "null", "*", "localhost", "http:/a", "://a", "1x://a", "http://", "http://a/", "http://a/b",
        "http://u@a", "http://a?b", "http://a#b", "http://a:", "http://a:x", "http://a:0",
        "http://a:65536", "http://a:999999", "http://localhost:5173.evil.com", "http://a b",
        "http://[::1", "http://[::1]x", "http://[::1]x1", "http://[::1%25eth0]", "http://[1.2.3.4]",
        "http://-a", "http://é", "http://a:٤", "http://" + "a" * 600, "http://a, http://b", "http://..",
    ],
)  # fmt: skip
def test_what_is_no_origin_is_none(text: str) -> None:
    assert parse_origin(text) is None


@pytest.mark.req("T-04/S")
@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("localhost", ("localhost", None)),
        ("LocalHost.:8000", ("localhost", 8000)),
        ("[::0001]", ("::1", None)),
        ("[::1]:8000", ("::1", 8000)),
        ("my_host-1.example.com", ("my_host-1.example.com", None)),
    ],
)
def test_a_host_is_a_name_or_address_and_a_port(text: str, host: tuple[str, int | None]) -> None:
    assert parse_host(text) == host


@pytest.mark.req("T-03/S", "T-04/S")
@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("127.1", False),
        ("128.0.0.1", False),
        ("0.0.0.0", False),
        ("2130706433", False),
        ("0127.0.0.1", False),
        ("::", False),
        ("::ffff:127.0.0.1", False),
        ("localhost.evil.com", False),
        ("127.0.0.1.evil.com", False),
        ("evil-localhost", False),
    ],
)
def test_only_this_machines_own_names_are_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.req("T-03/S")
@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (b"http://localhost", True),
        (b"http://localhost:5173", True),
        (b"https://127.0.0.1:8443", True),
        (b"http://[::1]:3000", True),
        (b"HTTP://LOCALHOST:3000", True),
        (b"null", False),
        (b"", False),
        (b"http://localhost:5173.evil.com", False),
        (b"http://localhost.evil.com", False),
        (b"http://evil.com", False),
        (b"file://localhost", False),
        (b"http://localhost, http://evil.com", False),
        (b"http://localhost" + b"x" * 1000, False),
        (b"http://\xe9", False),
    ],
)
def test_by_default_only_pages_of_this_machine_may_call(value: bytes, allowed: bool) -> None:
    assert LOOPBACK_ORIGINS.allows(value) is allowed


@pytest.mark.req("T-03/S", "T-24/S")
def test_configured_origins_are_compared_by_scheme_host_and_port() -> None:
    origins = Origins.parse(["https://App.example.com/", "http://b:8080"], loopback=False)

    assert origins.allows(b"https://app.example.com")
    assert origins.allows(b"https://app.example.com:443")
    assert origins.allows(b"http://b:8080")
    assert not origins.allows(b"http://app.example.com")
    assert not origins.allows(b"https://app.example.com:8443")
    assert not origins.allows(b"https://app.example.com.evil.com")
    assert not origins.allows(b"http://b")
    assert not origins.allows(b"http://localhost")
    assert not origins.any


@pytest.mark.req("T-03/S")
def test_null_and_any_are_allowed_only_where_they_are_named() -> None:
    with_null = Origins(["null"])
    with_any = Origins(["*"])

    assert with_null.allows(b"null")
    assert not with_null.allows(b"http://evil.com")
    assert with_any.any
    assert with_any.allows(b"null")
    assert with_any.allows(b"http://evil.com")


@pytest.mark.parametrize("text", ["app.example.com", "https://a/b", "https://*.example.com", ""])
def test_a_setting_that_is_no_origin_is_a_mistake(text: str) -> None:
    with pytest.raises(UsageError, match="no origin"):
        Origins([text])


@pytest.mark.req("T-04/S")
@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (b"localhost", True),
        (b"localhost:8000", True),
        (b"127.0.0.1", True),
        (b"127.0.0.1:1", True),
        (b"[::1]", True),
        (b"[::1]:8000", True),
        (b"", False),
        (b"evil.com", False),
        (b"evil.com:8000", False),
        (b"localhost:8000.evil.com", False),
        (b"localhost@evil.com", False),
        (b"::1", False),
        (b"localhost" * 100, False),
    ],
)
def test_by_default_only_names_of_this_machine_are_hosts(value: bytes, allowed: bool) -> None:
    assert LOOPBACK_HOSTS.allows(value) is allowed


@pytest.mark.req("T-04/S")
def test_a_configured_host_without_a_port_admits_every_port() -> None:
    hosts = Hosts.parse(["example.com", "b:8080", "[fe80::1]"], loopback=False)

    assert hosts.allows(b"example.com")
    assert hosts.allows(b"EXAMPLE.com.:8443")
    assert hosts.allows(b"b:8080")
    assert hosts.allows(b"[FE80:0::1]:9")
    assert not hosts.allows(b"b")
    assert not hosts.allows(b"localhost")
    assert Hosts(["*"]).allows(b"anything at all")


def test_a_setting_that_is_no_host_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="no host"):
        Hosts(["http://a"])


@pytest.mark.parametrize(("kind", "setting"), [(Origins, "origins"), (Hosts, "hosts")])
def test_one_text_in_place_of_a_list_is_refused(kind: type, setting: str) -> None:
    with pytest.raises(UsageError, match=f"{setting} is a list"):
        kind("https://app.example.com")
