"""An event stream gives the same events for every way to cut it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.wire.sse import Parser, ServerSentEvent, encode_event

STREAM = (
    "\ufeff: hello\r\n\r\ndata: {\"a\":\"\u2028\"}\r\ndata:2\r\rid: 7\nevent: x\n"
    "retry: 50\ndata\n\n:\r\n\ndata: é\r\n\r\ndata: unfinished\r"
).encode()  # fmt: skip


def reference(stream: bytes) -> list[tuple[bytes, str, str]]:
    """The standard's algorithm, on the whole stream and letter by letter."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events = []
    data, kind, last_id = b"", b"", b""
    for line in text.split(b"\n")[:-1]:
        if line == b"":
            if data:
                events.append((data[:-1], kind.decode(errors="replace") or "message", last_id))
            data, kind = b"", b""
            continue
        name, colon, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if colon and not name:
            continue
        if name == b"data":
            data += value + b"\n"
        elif name == b"event":
            kind = value
        elif name == b"id" and b"\0" not in value:
            last_id = value
    return [(data, kind, last.decode(errors="replace")) for data, kind, last in events]


def feed(pieces: list[bytes]) -> tuple[list[ServerSentEvent], tuple[object, ...]]:
    parser = Parser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events, (parser.comments, parser.last_event_id, parser.retry, parser.end())


def as_reference(events: list[ServerSentEvent]) -> list[tuple[bytes, str, str]]:
    return [(event.data, event.event, event.id or "") for event in events]


@pytest.mark.req("T-09/C", "T-13/C")
def test_every_cut_and_every_pair_of_cuts_gives_the_same() -> None:
    whole = feed([STREAM])

    assert as_reference(whole[0]) == reference(STREAM)
    assert len(whole[0]) == 3
    assert feed([STREAM[i : i + 1] for i in range(len(STREAM))]) == whole
    for first, second in itertools.combinations_with_replacement(range(len(STREAM) + 1), 2):
        assert feed([STREAM[:first], STREAM[first:second], STREAM[second:]]) == whole


LINES = st.sampled_from(
    [b"data", b"data:", b"data: x", b"data:  y", b"event: e", b"event", b"id: 1", b"id", b"id: \0",
     b"retry: 5", b"retry: x", b":", b": c", b"foo: bar", b"\xef\xbb\xbf", b"", b"", b"\xff"]
)  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join)).map(b"".join) | st.binary()


@pytest.mark.req("T-09/C")
@given(STREAMS, st.lists(st.integers(0, 200)))
def test_any_stream_is_read_as_the_standard_reads_it(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    events, state = feed([stream[start:end] for start, end in itertools.pairwise(places)])

    assert as_reference(events) == reference(stream)
    assert (events, state) == feed([stream])


@pytest.mark.req("T-09/S", "T-09/C", "T-11/S")
@given(
    st.lists(
        st.tuples(
            st.text().map(str.encode),
            st.none() | st.text(alphabet="ab é", min_size=1),
            st.none() | st.integers(0, 10**6),
        )
    )
)
def test_what_is_written_is_read(written: list[tuple[bytes, str | None, int | None]]) -> None:
    stream = b"".join(encode_event(d, event=kind, retry=retry) for d, kind, retry in written)

    events = Parser().feed(stream)

    assert [(event.event, event.retry) for event in events] == [
        (kind or "message", retry) for _, kind, retry in written
    ]
    for event, (data, _, _) in zip(events, written, strict=True):
        assert event.data == data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
