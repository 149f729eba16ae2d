"""The two ends of a header value are exact inverses."""

from __future__ import annotations

from base64 import b64encode
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.errors import HeaderMismatch, UsageError
from mcpost.wire.fields import decode_value, encode_value, parse_integer

SAFE = 2**53 - 1
TEXT = st.text() | st.text(alphabet="=?base64 \t\r\nYQ") | st.from_regex(r"=\?base64\?.*\?=")


@pytest.mark.req("H-07/C", "H-07/S", "H-09/S")
@given(TEXT)
def test_text_comes_back_as_it_was(text: str) -> None:
    line = encode_value(text).encode("ascii")

    assert decode_value(line) == text
    assert line == line.strip()
    assert all(0x20 <= byte < 0x7F for byte in line)


@pytest.mark.req("H-09/S")
@given(st.binary() | st.binary().map(lambda raw: b"=?base64?" + raw + b"?="))
def test_any_bytes_are_read_or_refused(line: bytes) -> None:
    try:
        text = decode_value(line)
    except HeaderMismatch:
        return
    if line.startswith(b"=?base64?") and line.endswith(b"?="):
        # One text has one encoded spelling.
        assert line == b"=?base64?" + b64encode(text.encode()) + b"?="
    else:
        assert text.encode("ascii") == line


@pytest.mark.req("H-04/C", "H-10/S")
@given(st.integers() | st.integers(-SAFE, SAFE) | st.floats())
def test_numbers_are_digits_or_refused(value: int | float) -> None:
    try:
        line = encode_value(value)
    except UsageError:
        assert value != value or abs(value) > SAFE or value != int(value)
        return
    assert parse_integer(line) == value
    assert line.removeprefix("-").isdigit()


@pytest.mark.req("H-10/S")
@given(st.integers(-(10**30), 10**30), st.integers(0, 40), st.integers(-40, 40))
def test_every_spelling_of_an_integer_is_that_integer(
    number: int, zeros: int, exponent: int
) -> None:
    digits = str(abs(number))
    sign = "-" if number < 0 else ""
    if exponent > 0:
        whole, fraction = digits[:-exponent] or "0", digits[-exponent:].rjust(exponent, "0")
    else:
        whole, fraction = digits + "0" * -exponent if number else "0", ""
    fraction += "0" * zeros
    spelled = f"{sign}{whole}{'.' if fraction else ''}{fraction}e{exponent}"

    assert parse_integer(spelled) == number


@pytest.mark.req("H-10/S")
@given(st.from_regex(r"\A-?(0|[1-9][0-9]{0,5})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?\Z"))
def test_a_json_number_is_read_as_the_reference_reads_it(text: str) -> None:
    exact = Fraction(text)
    assert parse_integer(text) == (int(exact) if exact.denominator == 1 else None)
