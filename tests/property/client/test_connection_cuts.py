"""However the bytes of an answer are cut, the connection tells the same; none make it fail."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpost.client.connection import Connection
from tests.helpers.loop import run

CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2;x=y\r\nab\r\n3\r\ncde\r\n0\r\nTrailer: t\r\n\r\n"
)
SIZED = b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabcde"
OPEN = b"HTTP/1.0 200 OK\r\nX: a\r\n\r\nabcde"


class Wire(asyncio.Transport):
    """The network, as a connection sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = True

    def write(self, data: Any) -> None:
        """Take a request."""

    def is_closing(self) -> bool:
        return not self.is_open

    def close(self) -> None:
        self.is_open = False

    abort = close

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0


class Told:
    """What a connection tells: the status, the body, and how it ended."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.ended = ""

    def take_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        assert not self.status
        self.status = status

    def take_body(self, data: bytes) -> None:
        assert self.status
        self.body += data

    def take_end(self) -> None:
        assert not self.ended
        self.ended = "end"

    def take_loss(self, error: Exception | None) -> None:
        assert not self.ended
        self.ended = f"loss {type(error).__name__}"


def converse(pieces: list[bytes]) -> tuple[int, bytes, str, bool]:
    """Feed the pieces of an answer and the end; gives what was told, and whether it was kept."""

    async def main() -> tuple[int, bytes, str, bool]:
        kept: list[Connection] = []
        forgotten: list[Connection] = []
        connection = Connection(4_096, kept.append, forgotten.append)
        wire, told = Wire(), Told()
        connection.connection_made(wire)
        connection.send(b"POST / HTTP/1.1\r\n\r\n", told)
        for piece in pieces:
            if wire.is_open:
                connection.data_received(piece)
        was_kept = connection.is_usable
        connection.connection_lost(None)
        assert forgotten == [connection]
        assert told.ended
        return told.status, told.body, told.ended, was_kept

    return run(main(), debug=False)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(CHUNKED, (200, b"abcde", "end", True), id="chunked"),
        pytest.param(SIZED, (404, b"abcde", "end", False), id="sized"),
        pytest.param(OPEN, (200, b"abcde", "end", False), id="to the end of the connection"),
    ],
)
def test_an_answer_is_the_same_for_every_cut(answer: bytes, told: tuple[Any, ...]) -> None:
    assert converse([answer]) == told
    assert converse([answer[i : i + 1] for i in range(len(answer))]) == told
    for cut in range(len(answer)):
        assert converse([answer[:cut], answer[cut:]]) == told


@pytest.mark.parametrize("answer", [CHUNKED, SIZED], ids=["chunked", "sized"])
def test_an_answer_that_is_not_whole_is_never_taken_for_one(answer: bytes) -> None:
    for cut in range(len(answer)):
        assert converse([answer[:cut]])[2] == "loss NoneType"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [
                    CHUNKED,
                    SIZED,
                    OPEN,
                    b"HTTP/1.1 200 OK\r\n",
                    b"\r\n\r\n",
                    b"0\r\n\r\n",
                    b"A: b\r\n",
                ]
            ),
        ),
        max_size=8,
    ),
    st.lists(st.integers(0, 200), max_size=4),
)
def test_any_bytes_end_once_and_leave_nothing_open(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]

    converse([data[a:b] for a, b in itertools.pairwise(places) if a < b])
