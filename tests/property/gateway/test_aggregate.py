"""Addresses, cursors and event streams of an aggregate, whatever stands in them."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mcpost.gateway.addresses import MEMBER, join_name, join_uri, split_name, split_uri
from mcpost.gateway.blocks import Blocks
from mcpost.gateway.merging import Part, merge_list, read_cursor
from mcpost.wire.sse import Parser

MEMBERS = st.from_regex(MEMBER, fullmatch=True)
TEXTS = st.text(min_size=1, max_size=20)


@given(MEMBERS, TEXTS, st.sets(MEMBERS, max_size=4))
def test_an_address_leads_back_to_where_it_came_from(
    member: str, local: str, others: set[str]
) -> None:
    members = {member, *others}

    assert split_name(join_name(member, local), members) == (member, local)
    assert split_uri(join_uri(member, local), members) == (member, local)
    assert split_uri(join_uri(member.upper(), local), members) == (member, local)


@given(st.dictionaries(MEMBERS, st.text(max_size=8), min_size=1, max_size=4))
def test_a_cursor_leads_each_member_on_where_it_was(cursors: dict[str, str]) -> None:
    parts = [Part(member, {"nextCursor": cursor}) for member, cursor in cursors.items()]

    merged = merge_list("tools/list", parts, {}, "all")

    assert read_cursor({"cursor": merged["nextCursor"]}, cursors) == cursors


PIECES = st.lists(
    st.sampled_from([b"data: a", b": c", b"\n", b"\r\n", b"\r", b"\n\n", b"x" * 40]), max_size=20
)


@given(PIECES, st.lists(st.integers(0, 200), max_size=8), st.integers(1, 60))
def test_blocks_joined_are_the_stream_and_cuts_change_none(
    pieces: list[bytes], cuts: list[int], bound: int
) -> None:
    stream = b"".join(pieces)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    blocks = Blocks(bound)
    found = [
        block
        for start, end in itertools.pairwise(places)
        for block in blocks.feed(stream[start:end])
    ]
    rest = blocks.end()

    assert b"".join(block for block, _ in found) + rest == stream
    assert len(rest) <= bound
    if all(is_whole for _, is_whole in found):
        # Each block says by itself what it says in the stream.
        alone = [event.data for block, _ in found for event in Parser().feed(block)]
        assert alone == [event.data for event in Parser().feed(stream)]
