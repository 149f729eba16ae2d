"""When a file has changed and is whole again (mcpost.gateway.watched)."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mcpost.gateway.watched import Stamp, Watched, stamp_of

A, B, C = (1, 1, 10, 100), (1, 2, 10, 100), (1, 2, 11, 101)


def looks(first: Stamp | None, *stamps: Stamp | None) -> list[bool]:
    watched = Watched(first)
    return [watched.look(each) for each in stamps]


def test_what_stays_the_same_is_not_read_again() -> None:
    assert looks(A, A, A, A) == [False, False, False]


def test_a_change_is_read_once_it_has_stayed_the_same_for_one_look() -> None:
    assert looks(A, B, B, B) == [False, True, False]


def test_a_file_that_is_being_written_is_left_alone() -> None:
    assert looks(A, B, C, B, C, C, C) == [False, False, False, False, True, False]


def test_a_file_that_was_gone_is_read_if_it_came_back_as_another() -> None:
    assert looks(A, None, None, A, A) == [False, False, False, False]
    assert looks(A, None, B, B) == [False, False, True]
    assert looks(None, None, B, B) == [False, False, True]


def test_a_change_that_is_taken_back_before_it_was_read_is_none() -> None:
    assert looks(A, B, A, A) == [False, False, False]


@given(st.lists(st.sampled_from([A, B, C, None]), max_size=30))
def test_each_reading_is_of_a_settled_file_that_was_not_read_before(
    stamps: list[Stamp | None],
) -> None:
    watched, read = Watched(A), A
    before: Stamp | None = A
    for stamp in stamps:
        if watched.look(stamp):
            assert stamp is not None
            assert stamp == before
            assert stamp != read
            read = stamp
        elif stamp is not None and stamp == before:
            assert stamp == read
        before = stamp


def test_every_way_to_save_gives_another_stamp(tmp_path: Path) -> None:
    file, other, link = tmp_path / "a", tmp_path / "b", tmp_path / "link"
    assert stamp_of(file) is None
    file.write_text("one")
    stamps = [stamp_of(file)]
    # In place, to the same length.
    file.write_text("two")
    os.utime(file, ns=(1, 1))
    stamps.append(stamp_of(file))
    other.write_text("two")
    os.utime(other, ns=(1, 1))
    other.replace(file)
    stamps.append(stamp_of(file))
    link.symlink_to(file)
    assert stamp_of(link) == stamp_of(file)
    other.write_text("six")
    link.unlink()
    link.symlink_to(other)
    stamps.append(stamp_of(link))

    assert None not in stamps
    assert len(set(stamps)) == len(stamps)
