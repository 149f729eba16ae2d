"""The exact reader."""

from __future__ import annotations

import pytest

from mcpost.errors import InvalidRequest, ParseError
from mcpost.wire.exact import ExactReading


@pytest.mark.req("H-04/S")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1e400", 10**400),
        (b"-1.5e+0400", -15 * 10**399),
        (b"1" * 4300, int("1" * 4300)),
        (b"1e308", 1e308),
        (b"[0.5, 1, -0.0]", [0.5, 1, -0.0]),
        (b"[" + b",".join([b"1e309"] * 16) + b"]", [10**309] * 16),
    ],
)
def test_numbers_beyond_a_double_are_exact_integers(text: bytes, value: object) -> None:
    assert ExactReading(text).message == value


@pytest.mark.req("T-07/S")
@pytest.mark.parametrize(
    "text",
    [b"1e4300", b"1" * 4301, b"1" * 400 + b".5", b"[" + b",".join([b"1e309"] * 17) + b"]"],
    ids=["digits of a power", "digits", "fraction", "many that expand"],
)
def test_a_number_that_is_too_large_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequest, match="out of range"):
        ExactReading(text)


@pytest.mark.req("T-07/S")
@pytest.mark.parametrize(
    "text", [b"NaN", b"-Infinity", b'"\\udc00"', b'{"\\ud800":1}', b"\xff", b"{", b"[" * 10_000]
)
def test_what_is_no_json_in_utf8_is_a_parse_error(text: bytes) -> None:
    with pytest.raises(ParseError):
        ExactReading(text)


@pytest.mark.req("T-22/S")
def test_the_place_of_a_repeated_key_is_named() -> None:
    reading = ExactReading(b'{"id":7,"params":{"arguments":[{"a":{"b":1,"b":1}}]}}')

    with pytest.raises(InvalidRequest, match='"arguments"') as caught:
        reading.refuse_repeated()
    assert caught.value.request_id == 7


@pytest.mark.req("T-22/S")
def test_a_repeated_key_that_is_itself_lost_is_none_of_ours() -> None:
    ExactReading(b'{"method":"m","x":[{"a":{"b":1,"b":1},"a":2}],"y":{}}').refuse_repeated()
