"""Connections: kept, looked at before use, redirected, proxied, encrypted."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcpost.client import Client, Network
from mcpost.errors import ConnectFailed, Denied, TransportError
from mcpost.limits import ClientLimits
from tests.helpers.hostile import Hostile, event, good, head, page, stream
from tests.helpers.loop import run
from tests.helpers.until import until


def test_calls_one_after_the_other_share_a_connection() -> None:
    async def main() -> None:
        async with Hostile() as server, Client(server.url, era="modern", cache=False) as client:
            for _ in range(5):
                await client.discover()
            assert server.accepted == 1

    run(main())


def test_calls_at_once_have_a_connection_each_and_leave_no_more_than_the_limit() -> None:
    limits = ClientLimits(max_idle_connections=3)

    async def main() -> None:
        async with (
            Hostile() as server,
            Client(server.url, era="modern", cache=False, limits=limits) as client,
        ):
            await asyncio.gather(*(client.discover() for _ in range(8)))
            assert server.accepted == 8
            assert client.open_connections == 3
        assert client.open_connections == 0

    run(main())


def test_a_connection_that_the_server_closed_while_it_was_idle_is_not_used() -> None:
    """Even where the loop had no chance to see the end of it."""

    async def main() -> None:
        async with Hostile() as server, Client(server.url, era="modern", cache=False) as client:
            await client.discover()
            server.drop_connections()
            # The end arrives in the socket, and no turn of the loop has read it.
            await client.discover()
            assert server.accepted == 2
            assert len(server.requests) == 2

    run(main())


def test_an_idle_connection_is_closed_after_its_time() -> None:
    async def main() -> None:
        limits = ClientLimits(idle_connection=0.05)
        async with Hostile() as server, Client(server.url, era="modern", limits=limits) as client:
            await client.discover()
            assert client.open_connections == 1
            await until(lambda: not client.open_connections)

    run(main())


def test_a_stream_that_ends_in_order_leaves_its_connection_usable() -> None:
    def answer(message: dict[str, Any]) -> list[Any]:
        body = event(good(message["id"]))
        return [page(body, kind="text/event-stream")]

    async def main() -> None:
        async with Hostile(answer=answer) as server, Client(server.url, era="modern") as client:
            for _ in range(3):
                await client.request("tools/call", {"name": "x"})
            assert server.accepted == 1

    run(main())


def test_a_stream_that_stays_open_after_its_response_is_closed_soon() -> None:
    async def main() -> None:
        answer = lambda message: [stream(event(good(message["id"]))), 30.0]  # noqa: E731
        async with Hostile(answer=answer) as server, Client(server.url, era="modern") as client:
            await client.request("tools/call", {"name": "x"})
            await until(lambda: not client.open_connections)

    run(main())


@pytest.mark.parametrize(("status", "requests"), [(307, 4), (308, 3)])
def test_a_redirect_within_the_origin_is_followed_with_all_that_was_sent(
    status: int, requests: int
) -> None:
    """A permanent one is remembered."""

    def answer(message: dict[str, Any]) -> list[Any] | None:
        if b"POST /mcp/ " in server.heads[-1]:
            return None
        return [head(status, "Location: /mcp/", "Content-Length: 0")]

    server = Hostile(answer=answer)

    async def main() -> None:
        async with server:
            headers = {"Authorization": "Bearer x"}
            async with Client(server.url, era="modern", cache=False, headers=headers) as client:
                await client.discover()
                await client.discover()
        assert len(server.requests) == requests
        assert all(b"Authorization: Bearer x" in each for each in server.heads)
        assert server.requests[0] == server.requests[1]

    run(main())


def test_a_401_is_answered_with_new_credentials_once() -> None:
    tokens = iter(["old", "new", "newer", "newest"])
    current = {"Authorization": f"Bearer {next(tokens)}"}

    class Auth:
        async def headers(self) -> Mapping[str, str]:
            return dict(current)

        async def refused(self, denied: Denied, used: Mapping[str, str]) -> bool:
            assert denied.challenge == 'Bearer scope="x"'
            current["Authorization"] = f"Bearer {next(tokens)}"
            return True

    def answer(message: dict[str, Any]) -> list[Any] | None:
        if b"Bearer new\r\n" in server.heads[-1]:
            return None
        return [page(b"", 'WWW-Authenticate: Bearer scope="x"', status=401)]

    server = Hostile(answer=answer)

    async def main() -> None:
        async with server, Client(server.url, auth=Auth(), era="modern") as client:
            await client.discover()
        assert len(server.requests) == 2

    run(main())


class Proxy:
    """A proxy that tunnels, and notes who asked for what."""

    def __init__(self, target: int, refuse: bool = False) -> None:
        self._target = target
        self._refuse = refuse
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(request.decode())
        if self._refuse:
            writer.write(b"HTTP/1.1 407 Who are you\r\n\r\n")
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        if request.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            back.write(request)
        await asyncio.wait(
            [asyncio.ensure_future(pump(reader, back)), asyncio.ensure_future(pump(there, writer))]
        )


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
    except ConnectionError:
        pass
    writer.close()


def make_certificates(folder: Path) -> tuple[str, str]:
    """An authority that is its own server at 127.0.0.1; gives the files of certificate and key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=9))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(paths[0]), str(paths[1])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return make_certificates(tmp_path_factory.mktemp("tls"))


def server_context(certificates: tuple[str, str], *, wants_client: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificates)
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates[0])
    return context


def test_a_certificate_of_an_unknown_authority_is_refused(certificates: tuple[str, str]) -> None:
    async def main() -> None:
        async with (
            Hostile(tls=server_context(certificates)) as server,
            Client(server.url, era="modern") as client,
        ):
            with pytest.raises(ConnectFailed, match="not trusted"):
                await client.discover()

    run(main())


def test_authorities_and_certificates_of_ones_own_are_used(certificates: tuple[str, str]) -> None:
    certificate, key = certificates

    async def main() -> None:
        context = server_context(certificates, wants_client=True)
        async with Hostile(tls=context) as server:
            network = Network(ca=certificate, cert=certificate, key=key)
            async with Client(server.url, era="modern", network=network) as client:
                await client.discover()
            async with Client(server.url, era="modern", network=Network(ca=certificate)) as client:
                with pytest.raises(TransportError):
                    await client.discover()

    run(main())


@pytest.mark.parametrize("encrypted", [False, True], ids=["http", "https"])
def test_a_proxy_is_used_and_told_who_calls(certificates: tuple[str, str], encrypted: bool) -> None:
    async def main() -> None:
        context = server_context(certificates) if encrypted else None
        async with Hostile(tls=context) as server:
            proxy = Proxy(server.port)
            listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
            port = listener.sockets[0].getsockname()[1]
            network = Network(ca=certificates[0], proxy=f"http://ann:x@127.0.0.1:{port}")
            async with Client(server.url, era="modern", network=network, cache=False) as client:
                await client.discover()
                await client.discover()
            listener.close()

        where = f"CONNECT 127.0.0.1:{server.port}" if encrypted else f"POST {server.url}"
        assert [each.split(" HTTP")[0] for each in proxy.heads] == [where]
        assert "Proxy-Authorization: Basic YW5uOng=" in proxy.heads[0]
        seen_by_server = b"".join(server.heads)
        assert encrypted is (b"Proxy-Authorization" not in seen_by_server)

    run(main())


def test_a_proxy_that_refuses_the_tunnel_is_named(certificates: tuple[str, str]) -> None:
    async def main() -> None:
        proxy = Proxy(1, refuse=True)
        listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        network = Network(proxy=f"http://127.0.0.1:{port}")
        async with Client("https://127.0.0.1:1/mcp", network=network) as client:
            with pytest.raises(ConnectFailed, match=r"proxy .* 407"):
                await client.discover()
        listener.close()

    run(main())
