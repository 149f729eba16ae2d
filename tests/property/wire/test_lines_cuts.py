"""Lines are the same for every way to cut their stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.limits import WireLimits
from mcpost.wire.lines import LineParser, TooLong

LIMITS = WireLimits(max_stdio_line=4)


def kinds(pieces: list[bytes]) -> list[bytes | None]:
    parser = LineParser(LIMITS)
    lines = [line for piece in pieces for line in parser.feed(piece)]
    return [None if isinstance(line, TooLong) else line for line in lines]


@pytest.mark.req("I-01/S", "I-04/S", "I-04/C")
@given(st.lists(st.sampled_from([b"a", b"b ", b"\r", b"\n", b"\r\n", b"long line"])))
def test_every_cut_gives_the_same_lines(pieces: list[bytes]) -> None:
    stream = b"".join(pieces) + b"\n"
    expected = [line.removesuffix(b"\r") for line in stream.split(b"\n")]

    assert kinds([stream]) == [
        None if len(line) > 4 else line for line in expected if len(line) > 4 or line.strip()
    ]
    assert kinds([stream[i : i + 1] for i in range(len(stream))]) == kinds([stream])
    for cut in range(len(stream)):
        assert kinds([stream[:cut], stream[cut:]]) == kinds([stream])
    assert kinds([*pieces, b"\n"]) == kinds([stream])
