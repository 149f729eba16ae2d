"""Descriptors on the loop: pipes, sockets, files."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcpost.server.pipes import Sink, Source
from tests.helpers.loop import run
from tests.helpers.until import DEADLINE, until


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            if os.path.exists(f"/proc/self/fd/{end}"):  # noqa: PTH110
                os.close(end)


class Reader:
    """A source that keeps what it reads."""

    def __init__(self, descriptor: int) -> None:
        self.data = b""
        self.ended = False
        self.source = Source(descriptor, self.take, self.end)

    def take(self, data: bytes) -> None:
        self.data += data

    def end(self) -> None:
        assert not self.ended
        self.ended = True


@pytest.mark.req("I-01/S")
def test_a_pipe_is_read_to_its_end() -> None:
    async def check() -> None:
        with pipe() as (source, sink):
            reader = Reader(source)
            reader.source.resume()
            os.write(sink, b"one")
            await until(lambda: reader.data == b"one")
            os.write(sink, b"two")
            os.close(sink)
            await until(lambda: reader.ended)

            assert reader.data == b"onetwo"

    run(check())


@pytest.mark.req("I-01/S")
@pytest.mark.parametrize("size", [0, 10, 1_000_000])
def test_a_plain_file_is_read_to_its_end(size: int, tmp_path: Path) -> None:
    async def check() -> None:
        (tmp_path / "in").write_bytes(b"x" * size)
        with (tmp_path / "in").open("rb") as file:
            reader = Reader(file.fileno())
            reader.source.resume()
            await until(lambda: reader.ended)

        assert len(reader.data) == size

    run(check())


def test_a_source_that_is_paused_reads_nothing() -> None:
    async def check() -> None:
        with pipe() as (source, sink):
            reader = Reader(source)
            reader.source.resume()
            reader.source.pause()
            os.write(sink, b"one")
            await asyncio.sleep(0.02)
            assert reader.data == b""
            reader.source.resume()
            await until(lambda: reader.data == b"one")
            reader.source.pause()

    run(check())


def test_a_source_leaves_its_descriptor_as_it_was() -> None:
    async def check() -> None:
        with pipe() as (source, _):
            reader = Reader(source)
            reader.source.resume()

            assert os.get_blocking(source)
            reader.source.pause()

    run(check())


class Writer:
    """A sink that notes what becomes of it."""

    def __init__(self, descriptor: int) -> None:
        self.drained = 0
        self.broken = 0
        self.sink = Sink(descriptor, self.drain, self.fail)

    def drain(self) -> None:
        self.drained += 1

    def fail(self) -> None:
        self.broken += 1


@pytest.mark.req("I-01/S")
def test_what_is_written_in_one_turn_goes_out_together_and_in_order() -> None:
    async def check() -> None:
        with pipe() as (source, sink):
            writer = Writer(sink)
            for part in (b"one", b"two", b"three"):
                writer.sink.write(part)
            assert await writer.sink.flush(DEADLINE)

            assert os.read(source, 100) == b"onetwothree"
            assert (writer.drained, writer.sink.pending) == (1, 0)
            writer.sink.close()
            assert os.get_blocking(sink)

    run(check())


@pytest.mark.req("I-01/S", "I-04/S")
def test_a_slow_reader_gets_all_of_it_and_the_loop_goes_on() -> None:
    async def check() -> None:
        with pipe() as (source, sink):
            writer = Writer(sink)
            parts = [bytes([65 + n]) * 300_000 for n in range(10)]
            for part in parts:
                writer.sink.write(part)
            await asyncio.sleep(0)
            assert writer.sink.pending > 2_000_000
            assert not await writer.sink.flush(0.01)
            reader = Reader(source)
            reader.source.resume()
            assert await writer.sink.flush(DEADLINE)
            await until(lambda: len(reader.data) == 3_000_000)

            assert reader.data == b"".join(parts)
            reader.source.pause()
            writer.sink.close()

    run(check())


@pytest.mark.req("I-02/S")
def test_a_reader_that_is_gone_is_told_once() -> None:
    async def check() -> None:
        with pipe() as (source, sink):
            writer = Writer(sink)
            os.close(source)
            writer.sink.write(b"one")
            await until(lambda: writer.broken)
            writer.sink.write(b"two")

            assert not await writer.sink.flush(DEADLINE)
            assert (writer.broken, writer.drained, writer.sink.pending) == (1, 0, 0)
            writer.sink.close()

    run(check())


@pytest.mark.req("I-01/S")
def test_one_socket_is_both_ends() -> None:
    async def check() -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            reader, writer = Reader(theirs.fileno()), Writer(theirs.fileno())
            reader.source.resume()
            ours.sendall(b"in")
            writer.sink.write(b"x" * 1_000_000)
            await until(lambda: reader.data == b"in")
            ours.setblocking(False)
            found = 0
            while found < 1_000_000:
                found += len(await asyncio.get_running_loop().sock_recv(ours, 1 << 20))

            assert await writer.sink.flush(DEADLINE)
            reader.source.pause()
            writer.sink.close()

    run(check())


def test_a_plain_file_is_written(tmp_path: Path) -> None:
    async def check() -> None:
        with (tmp_path / "out").open("wb") as file:
            writer = Writer(file.fileno())
            writer.sink.write(b"x" * 1_000_000)
            assert await writer.sink.flush(DEADLINE)
            writer.sink.close()

        assert (tmp_path / "out").stat().st_size == 1_000_000

    run(check())
