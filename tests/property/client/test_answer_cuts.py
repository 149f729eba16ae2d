"""However an answer is cut, it amounts to the same; whatever bytes come, the reader survives."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.client.answer import AnswerReader
from mcpost.errors import McpostError
from mcpost.limits import ClientLimits

LIMITS = ClientLimits(max_answer=2_000, max_event=1_000, max_events=50)

NOTE = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}'
RESULT = '{"jsonrpc":"2.0","id":1,"result":{"a":"bücher \u2028"}}'.encode()
STREAM = b"\xef\xbb\xbf: hi\r\n\r\nid: 7\r\ndata: %b\r\n\r\n:\n\ndata: %b\n\n" % (NOTE, RESULT)

Outcome = tuple[int, Any]


def read(kind: bytes, pieces: list[bytes], status: int = 200) -> Outcome:
    """Read an answer; gives the number of notifications, and the response or the error."""
    reader = AnswerReader(1, LIMITS)
    reader.head(status, [(b"content-type", kind)])
    for piece in pieces:
        reader.body(piece)
    reader.end()
    try:
        outcome: Any = reader.result().response
    except McpostError as error:
        outcome = (type(error), str(error))
    return len(reader.notes), outcome


@pytest.mark.req("T-09/C", "T-13/C")
def test_a_stream_is_the_same_for_every_cut() -> None:
    whole = read(b"text/event-stream", [STREAM])
    assert whole[0] == 1
    assert whole[1].result == {"a": "bücher \u2028"}

    for cut in range(len(STREAM)):
        assert read(b"text/event-stream", [STREAM[:cut], STREAM[cut:]]) == whole
    assert read(b"text/event-stream", [STREAM[i : i + 1] for i in range(len(STREAM))]) == whole


@pytest.mark.req("T-14/C")
def test_a_stream_that_is_not_whole_is_lost_wherever_it_ends() -> None:
    for cut in range(len(STREAM)):
        _, outcome = read(b"text/event-stream", [STREAM[:cut]])
        assert outcome[0].__name__ == "ConnectionLost"


@given(st.lists(st.integers(0, len(RESULT)), max_size=5))
def test_json_is_the_same_in_any_pieces(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(RESULT)]
    pieces = [RESULT[a:b] for a, b in itertools.pairwise(places)]

    assert read(b"application/json", pieces) == read(b"application/json", [RESULT])


@given(
    st.sampled_from([b"application/json", b"text/event-stream", b"text/html", b""]),
    st.sampled_from([200, 202, 204, 302, 400, 401, 404, 429, 500, 503]),
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from([b"data: ", NOTE, RESULT, b"\n\n", b"\r", b":\n", b"{", b"x" * 1_500]),
        ),
        max_size=12,
    ),
)
def test_any_bytes_amount_to_a_response_or_an_error_of_ours(
    kind: bytes, status: int, pieces: list[bytes]
) -> None:
    read(kind, pieces, status)
