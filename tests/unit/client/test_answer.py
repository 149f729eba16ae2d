"""Reading an answer takes no more memory than the answer, and knows when it may come again."""

from __future__ import annotations

import tracemalloc

import pytest

from mcpost.client.answer import AnswerReader, retry_after
from mcpost.limits import ClientLimits


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
def test_many_small_pieces_take_no_more_memory_than_one(kind: bytes) -> None:
    reader = AnswerReader(1, ClientLimits())
    reader.head(200, [(b"content-type", kind)])
    tracemalloc.start()
    try:
        for _ in range(200_000):
            reader.body(b" ")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"0", 0.0),
        (b" 7 ", 7.0),
        (b"Tue, 01 Dec 2026 10:00:30 GMT", 30.0),
        (b"Tue, 01 Dec 2026 09:00:00 GMT", 0.0),
        (b"-1", None),
        (b"1.5", None),
        (b"soon", None),
        (b"", None),
        (b"9" * 400, 999_999_999.0),
    ],
)
def test_the_time_to_come_back_is_seconds_or_a_date(value: bytes, seconds: float | None) -> None:
    assert retry_after(value, b"Tue, 01 Dec 2026 10:00:00 GMT") == seconds


def test_a_date_without_a_date_to_compare_with_tells_nothing() -> None:
    assert retry_after(b"Tue, 01 Dec 2026 10:00:30 GMT") is None
