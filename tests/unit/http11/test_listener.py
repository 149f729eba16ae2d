"""Listening on sockets: TCP, TLS, Unix; the end; and many who mean no good."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import time
from pathlib import Path

import pytest

from mcpost.http11.limits import ConnectionLimits
from tests.helpers.loop import run
from tests.helpers.until import DEADLINE
from tests.unit.http11.sockets import GET, LAST_GET, Echo, make_certificate, serving, talk, until

WAIT = b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"


def test_a_tcp_port_is_listened_to_and_may_be_chosen_by_the_kernel() -> None:
    async def main() -> None:
        async with serving(Echo()) as listener:
            answer = await talk(listener.port, LAST_GET)
            assert answer.startswith(b"HTTP/1.1 200 OK\r\nx-path: /\r\n")
            assert listener.statistics().accepted == 1

    run(main())


def test_a_unix_socket_is_listened_to(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s"
        async with serving(Echo(), path=path) as listener:
            assert listener.port == 0
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(LAST_GET)
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
            writer.close()

    run(main())


def test_a_bound_socket_is_listened_to() -> None:
    async def main() -> None:
        bound = socket.create_server(("127.0.0.1", 0))
        async with serving(Echo(), sockets=(bound,)) as listener:
            assert listener.port == bound.getsockname()[1]
            assert await talk(listener.port, LAST_GET)

    run(main())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_tls_is_spoken(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.load_cert_chain(certificate, key)
    client.load_verify_locations(certificate)

    async def main() -> None:
        limits = ConnectionLimits(linger=0.1, tick=0.05)
        async with serving(Echo(), limits, tls=server) as listener:
            options = {"ssl": client, "server_hostname": "localhost"}
            assert b"200 OK" in await talk(listener.port, LAST_GET, **options)
            # A refusal lingers, though TLS cannot end one side alone.
            assert b" 400 " in await talk(listener.port, b"nonsense\r\n\r\n" + LAST_GET, **options)

    run(main())


def test_a_refusal_is_heard_by_a_client_that_sends_more_than_it_should() -> None:
    async def main() -> None:
        async with serving(Echo()) as listener:
            body = b"x" * 500_000
            length = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999\r\n\r\n"
            assert (await talk(listener.port, length + body)).startswith(b"HTTP/1.1 413 ")

    run(main())


def test_draining_lets_an_answer_come_to_its_end() -> None:
    async def main() -> None:
        app = Echo()
        async with serving(app) as listener:
            idle = asyncio.create_task(talk(listener.port, GET))
            busy = asyncio.create_task(talk(listener.port, WAIT))
            await app.arrived.wait()

            drained = asyncio.create_task(listener.drain(DEADLINE))
            assert (await idle).startswith(b"HTTP/1.1 200 ")
            assert not drained.done()
            with pytest.raises(ConnectionRefusedError):
                await talk(listener.port, GET)
            app.waiting[0].respond(200, (), b"late")

            assert (await busy).endswith(b"late")
            assert await drained

    run(main())


def test_draining_cuts_what_does_not_come_to_its_end() -> None:
    async def main() -> None:
        app = Echo()
        async with serving(app) as listener:
            gone: list[str] = []
            busy = asyncio.create_task(talk(listener.port, WAIT))
            await app.arrived.wait()
            app.waiting[0].watch(lambda: gone.append("gone"))

            assert not await listener.drain(0.05)
            assert gone == ["gone"]
            with pytest.raises(ConnectionResetError):
                await busy

    run(main())


def test_a_client_that_leaves_is_noticed_at_once() -> None:
    async def main() -> None:
        app = Echo()
        async with serving(app) as listener:
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(WAIT)
            await app.arrived.wait()
            gone = asyncio.Event()
            app.waiting[0].watch(gone.set)

            writer.close()

            await gone.wait()

    run(main())


def test_nothing_is_lost_of_a_large_stream_to_a_slow_reader() -> None:
    async def main() -> None:
        app = Echo()
        async with serving(app) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1000)
            writer.write(WAIT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            await app.arrived.wait()
            (exchange,) = app.waiting
            drained = asyncio.Event()
            exchange.on_drained(drained.set)
            exchange.start(200, (), 30_000_000)
            for _ in range(30):
                exchange.write(b"x" * 1_000_000)
            assert exchange.pending() > 0

            await reader.readuntil(b"\r\n\r\n")
            data = await reader.readexactly(30_000_000)
            exchange.end()

            assert data == 30_000_000 * b"x"
            assert await reader.read() == b""
            await drained.wait()
            writer.close()

    run(main())


def test_five_hundred_slow_heads_do_not_slow_an_honest_caller() -> None:
    """Each of them sends a byte now and then; the work of an honest call stays of its order."""

    async def main() -> None:
        limits = ConnectionLimits(head_timeout=1.5, tick=0.05, linger=0.1)
        async with serving(Echo(), limits) as listener:

            async def honest(calls: int) -> float:
                reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
                begun = time.process_time()
                for _ in range(calls):
                    writer.write(GET)
                    await reader.readuntil(b"\r\n\r\n")
                spent = time.process_time() - begun
                writer.close()
                return spent

            async def slow() -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
                writer.write(b"G")
                answer = asyncio.ensure_future(reader.read())
                while not answer.done():
                    writer.write(b"E")
                    await asyncio.wait([answer], timeout=0.1)
                writer.close()
                return await answer

            await honest(200)
            alone = await honest(200)
            slows = [asyncio.create_task(slow()) for _ in range(500)]
            await until(lambda: listener.statistics().accepted >= 502)
            beside = await honest(200)
            answers = await asyncio.gather(*slows)

            assert all(b" 408 " in answer for answer in answers)
            assert beside < 20 * alone + 0.5

    run(main(), debug=False)
