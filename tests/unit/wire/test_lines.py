"""One message a line."""

from __future__ import annotations

import pytest

from mcpost.errors import UsageError
from mcpost.limits import WireLimits
from mcpost.wire.lines import LineParser, TooLong, encode_line


@pytest.mark.req("I-01/S", "I-01/C")
def test_a_message_is_one_line() -> None:
    assert encode_line(b'{"a":"\\n"}') == b'{"a":"\\n"}\n'
    for message in (b"a\nb", b"a\rb", b"a\n"):
        with pytest.raises(UsageError):
            encode_line(message)


@pytest.mark.req("I-01/S", "I-01/C", "I-04/S")
@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\r\n \t\na\n\n", [b"a"]),
        (b"a\nb", [b"a"]),
        (b"a\rb\n", [b"a\rb"]),
        (b" a \n", [b" a "]),
        ("a\u2028b\n".encode(), ["a\u2028b".encode()]),
        (b"\xff\n", [b"\xff"]),
        (b"", []),
    ],
)
def test_lines_end_with_lf_or_crlf_and_blank_ones_are_passed_over(
    stream: bytes, lines: list[bytes]
) -> None:
    assert LineParser().feed(stream) == lines


@pytest.mark.req("I-04/S", "I-04/C")
def test_a_line_comes_in_any_pieces() -> None:
    parser = LineParser()

    assert [parser.feed(piece) for piece in (b"a", b"b\r", b"\nc\nd", b"", b"e")] == [
        [], [], [b"ab", b"c"], [], [],
    ]  # fmt: skip
    assert parser.end() == b"de"
    assert parser.end() is None


@pytest.mark.parametrize(("rest", "given"), [(b"", None), (b" \r", None), (b"a\r", b"a")])
def test_what_stands_at_the_end_without_a_line_end_is_given_back(
    rest: bytes, given: bytes | None
) -> None:
    parser = LineParser()
    parser.feed(b"x\n" + rest)

    assert parser.end() == given


LIMITS = WireLimits(max_stdio_line=4)


@pytest.mark.req("I-04/S", "I-04/C")
@pytest.mark.parametrize("pieces", [[b"12345\nab\n"], [b"123", b"45", b"6\r\n", b"ab\n"]])
def test_a_line_over_the_limit_is_reported_once_and_the_rest_goes_on(pieces: list[bytes]) -> None:
    parser = LineParser(LIMITS)

    lines = [line for piece in pieces for line in parser.feed(piece)]

    assert [type(line) for line in lines] == [TooLong, bytes]
    assert lines[1] == b"ab"


@pytest.mark.req("I-04/S")
def test_a_line_of_exactly_the_limit_passes_with_either_end() -> None:
    assert LineParser(LIMITS).feed(b"1234\n") == [b"1234"]
    assert LineParser(LIMITS).feed(b"1234\r\n") == [b"1234"]


@pytest.mark.req("I-04/S", "I-04/C")
def test_a_line_without_an_end_is_reported_early_and_kept_no_longer() -> None:
    parser = LineParser(WireLimits(max_stdio_line=10_000))

    lines = parser.feed(b'{"id":1,' + b" " * 20_000)

    assert lines == [TooLong(b'{"id":1,' + b" " * 4088, 10_000)]
    assert parser.feed(b"x" * 20_000) == []
    assert parser.end() is None
