"""The connections to one upstream, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpost.http11.call import Outgoing
from mcpost.http11.errors import ConnectFailed, ConnectionLost, Misuse, PoolFull, TimedOut
from mcpost.http11.limits import PoolLimits
from mcpost.http11.listener import Listener
from mcpost.http11.pool import Pool, Upstream
from tests.helpers.loop import run
from tests.unit.http11.sockets import Echo, Fetched, fetch, make_certificate, serving, until

POST = Outgoing(b"POST", b"/a?b", [], b"abc")
WAIT = Outgoing(b"GET", b"/wait", [])


@contextlib.asynccontextmanager
async def pooled(app: Any, **limits: Any) -> AsyncIterator[tuple[Pool, Listener[Any]]]:
    async with serving(app) as listener:
        pool = Pool(Upstream("127.0.0.1", listener.port), listener.hub, PoolLimits(**limits))
        try:
            yield pool, listener
        finally:
            await pool.close()


def test_a_connection_is_made_once_and_used_again() -> None:
    async def main() -> None:
        async with pooled(Echo()) as (pool, listener):
            for _ in range(3):
                got = await fetch(pool, POST)
                assert (got.status, got.body) == (200, b"abc")
                assert (b"x-path", b"/a") in got.headers
            assert listener.statistics().accepted == 1
            assert pool.statistics().idle == 1

    run(main())


def test_a_body_is_streamed_both_ways() -> None:
    async def main() -> None:
        async with pooled(Echo()) as (pool, _):
            receiver = Fetched()
            call = pool.send(Outgoing(b"POST", b"/", [], None), receiver)
            drained = asyncio.Event()
            call.on_drained(drained.set)
            for _ in range(10):
                call.write(b"x" * 100_000)
                while call.pending() > 100_000:
                    await drained.wait()
                    drained.clear()
            call.end()
            await receiver.over.wait()
            assert receiver.body == b"x" * 1_000_000

    run(main())


def test_requests_beyond_the_connections_wait_for_one() -> None:
    async def main() -> None:
        app = Echo()
        async with pooled(app, max_connections=1) as (pool, listener):
            first, second = Fetched(), Fetched()
            pool.send(WAIT, first)
            await app.arrived.wait()
            pool.send(POST, second)
            assert pool.statistics().waiting == 1

            app.waiting[0].respond(200, ())
            await second.over.wait()

            assert second.body == b"abc"
            assert listener.statistics().accepted == 1

    run(main())


def test_requests_beyond_those_that_may_wait_are_refused() -> None:
    async def main() -> None:
        async with pooled(Echo(), max_waiting=1) as (pool, _):
            pool.send(POST, Fetched())
            with pytest.raises(PoolFull):
                pool.send(POST, Fetched())

    run(main())


def test_a_request_that_waits_too_long_fails_unsent() -> None:
    async def main() -> None:
        app = Echo()
        limits = {"max_connections": 1, "connect_timeout": 0.5, "tick": 0.05}
        async with pooled(app, **limits) as (pool, _):
            pool.send(WAIT, Fetched())
            await app.arrived.wait()
            got = await fetch(pool, POST)

            assert isinstance(got.error, TimedOut)
            assert (got.error.phase, got.error.sent) == ("connect", "no")
            assert pool.statistics().waiting == 0

    run(main())


def test_a_request_may_be_cancelled_while_it_waits() -> None:
    async def main() -> None:
        async with pooled(Echo()) as (pool, _):
            receiver = Fetched()
            pool.send(POST, receiver).cancel()
            assert pool.statistics().waiting == 0
            assert (await fetch(pool, POST)).body == b"abc"
            assert not receiver.over.is_set()

    run(main())


def test_more_is_kept_only_as_long_as_there_is_room() -> None:
    async def main() -> None:
        app = Echo()
        async with pooled(app, max_idle=1) as (pool, _):
            got = await asyncio.gather(*(fetch(pool, POST) for _ in range(5)))
            assert [each.body for each in got] == 5 * [b"abc"]
            assert pool.statistics().idle == 1

    run(main())


def test_nobody_there_is_a_failure_and_nothing_was_sent() -> None:
    async def main() -> None:
        async with pooled(Echo()) as (pool, listener):
            await listener.close()
            got = await asyncio.gather(*(fetch(pool, POST) for _ in range(3)))
            assert [type(each.error) for each in got] == 3 * [ConnectFailed]
            assert [each.error.sent for each in got if each.error] == 3 * ["no"]

    run(main())


def test_an_upstream_that_ends_an_idle_connection_costs_no_call() -> None:
    async def main() -> None:
        app = Echo()
        async with pooled(app) as (pool, listener):
            await fetch(pool, POST)
            (connection,) = listener._connections
            connection.close()
            await until(lambda: not pool.statistics().open)
            assert (await fetch(pool, POST)).body == b"abc"

    run(main())


def test_an_upstream_that_ends_as_it_is_asked_is_not_asked_again() -> None:
    async def main() -> None:
        asked: list[bytes] = []

        async def one_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.close()

        server = await asyncio.start_server(one_answer, "127.0.0.1", 0)
        async with server, pooled(Echo()) as (other, _):
            pool = Pool(Upstream("127.0.0.1", server.sockets[0].getsockname()[1]), other.hub)
            assert (await fetch(pool, WAIT)).status == 204
            got = await fetch(pool, WAIT)

            assert isinstance(got.error, ConnectionLost)
            assert got.error.sent == "maybe"
            assert len(asked) == 2
            await pool.close()

    run(main())


def test_a_call_that_leaves_is_seen_by_the_upstream() -> None:
    async def main() -> None:
        app = Echo()
        async with pooled(app) as (pool, _):
            call = pool.send(WAIT, Fetched())
            await app.arrived.wait()
            gone = asyncio.Event()
            app.waiting[0].watch(gone.set)
            call.cancel()
            await gone.wait()

    run(main())


def test_closing_a_pool_fails_what_runs() -> None:
    async def main() -> None:
        app = Echo()
        async with pooled(app) as (pool, _):
            running, waiting = Fetched(), Fetched()
            pool.send(WAIT, running)
            await app.arrived.wait()
            pool.send(WAIT, waiting)
            await pool.close()

            assert isinstance(running.error, ConnectionLost)
            assert isinstance(waiting.error, ConnectFailed)
            with pytest.raises(PoolFull):
                pool.send(POST, Fetched())

    run(main())


def test_a_request_that_is_none_takes_no_connection() -> None:
    async def main() -> None:
        async with pooled(Echo()) as (pool, _):
            await fetch(pool, POST)
            with pytest.raises(Misuse):
                pool.send(Outgoing(b"GET", b"/ /", []), Fetched())
            assert pool.statistics().idle == 1

    run(main())


def test_an_early_body_is_bounded() -> None:
    async def main() -> None:
        async with pooled(Echo(), max_early_request=10) as (pool, _):
            receiver = Fetched()
            call = pool.send(Outgoing(b"POST", b"/", [], None), receiver)
            call.write(b"0123456789")
            assert call.pending() == 10
            with pytest.raises(Misuse, match="pending"):
                call.write(b"a")
            call.end()
            await receiver.over.wait()
            assert receiver.body == b"0123456789"

    run(main())


def test_a_unix_socket_is_called(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "s"
        async with serving(Echo(), path=path) as listener:
            pool = Pool(Upstream("inside", path=str(path)), listener.hub)
            assert (await fetch(pool, POST)).body == b"abc"
            await pool.close()

    run(main())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_tls_is_spoken_and_its_certificate_checked(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    server.load_cert_chain(certificate, key)
    client.load_verify_locations(certificate)

    async def main() -> None:
        async with serving(Echo(), tls=server) as listener:
            for name, body in (("localhost", b"abc"), ("other", b"")):
                upstream = Upstream("127.0.0.1", listener.port, tls=client, server_name=name)
                pool = Pool(upstream, listener.hub)
                got = await fetch(pool, POST)
                assert got.body == body
                assert bool(got.error) is (not body)
                await pool.close()

    run(main())


@pytest.mark.parametrize(
    ("upstream", "authority"),
    [
        (Upstream("a"), "a"),
        (Upstream("a", 8080), "a:8080"),
        (Upstream("::1", 81), "[::1]:81"),
        (Upstream("a", path="/s"), "a"),
    ],
)
def test_the_host_is_named_as_in_a_url(upstream: Upstream, authority: str) -> None:
    assert upstream.authority == authority
