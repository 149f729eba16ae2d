"""Header values and what they stand for."""

from __future__ import annotations

import pytest

from mcpost.errors import HeaderMismatch, UsageError
from mcpost.wire.fields import decode_value, encode_value, is_token, parse_integer


@pytest.mark.req("H-08/C", "H-08/S")
@pytest.mark.parametrize(
    ("value", "line"),
    [
        pytest.param("us-west1", "us-west1", id="plain ASCII"),
        pytest.param("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?=", id="not ASCII"),
        pytest.param(" padded ", "=?base64?IHBhZGRlZCA=?=", id="outer blanks"),
        pytest.param("line1\nline2", "=?base64?bGluZTEKbGluZTI=?=", id="line break"),
        pytest.param("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", id="sentinel"),
    ],
)
def test_the_rows_of_the_encoding_table_come_out(value: str, line: str) -> None:
    assert encode_value(value) == line
    assert decode_value(line.encode("ascii")) == value


@pytest.mark.req("H-06/C", "H-07/C")
@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("", ""),
        ("a b", "a b"),
        ("~!", "~!"),
        ("a, b", "a, b"),
        ("a\tb", "=?base64?YQli?="),
        ("\x7f", "=?base64?fw==?="),
        (" ", "=?base64?IA==?="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ("=?base64?abc", "=?base64?abc"),
        ("=?BASE64?YQ==?=", "=?BASE64?YQ==?="),
        (42, "42"),
        (-7, "-7"),
        (0, "0"),
        (9007199254740991, "9007199254740991"),
        (-9007199254740991, "-9007199254740991"),
        (42.0, "42"),
        (-0.0, "0"),
        (1e15, "1000000000000000"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_values_are_written_as_the_rules_say(value: str | int | float, line: str) -> None:
    assert encode_value(value) == line


@pytest.mark.req("H-04/C")
@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), 10**400, 1e16, 1.5, float("inf"), float("nan"), "\ud800", None, [], {}],
    ids=repr,
)
def test_what_no_header_can_stand_for_is_refused(value: object) -> None:
    with pytest.raises(UsageError):
        encode_value(value)  # type: ignore[arg-type]


@pytest.mark.req("H-09/S")
@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"", ""),
        (b"a\tb", "a\tb"),
        (b"=?base64?SGVsbG8=?=", "Hello"),
        (b"=?base64??=", ""),
        (b"SGVsbG8=", "SGVsbG8="),
        (b"=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        (b"SGVsbG8=?=", "SGVsbG8=?="),
        (b"=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),
    ],
)
def test_a_line_is_read_as_its_sender_meant(line: bytes, value: str) -> None:
    assert decode_value(line) == value


@pytest.mark.req("H-09/S")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"caf\xe9", id="Latin-1"),
        pytest.param("café".encode(), id="UTF-8"),
        pytest.param(b"a\x00b", id="NUL"),
        pytest.param(b"a\rb", id="CR"),
        pytest.param(b"a\x7f", id="DEL"),
        pytest.param(b"=?base64?SGVsbG8?=", id="no padding"),
        pytest.param(b"=?base64?SGVs!!!bG8=?=", id="another alphabet"),
        pytest.param(b"=?base64?SGVs bG8=?=", id="a blank"),
        pytest.param(b"=?base64?SGVsbG9=?=", id="unused bits"),
        pytest.param(b"=?base64?SGVsbG8==?=", id="too much padding"),
        pytest.param(b"=?base64?-_8=?=", id="the alphabet of URLs"),
        pytest.param(b"=?base64?/w==?=", id="no UTF-8"),
        pytest.param(b"=?base64?7aCA?=", id="a surrogate"),
        pytest.param(b"=?base64?=", id="markers overlap"),
    ],
)
def test_a_malformed_line_is_refused(line: bytes) -> None:
    with pytest.raises(HeaderMismatch) as caught:
        decode_value(line)
    assert caught.value.code == -32020


@pytest.mark.req("H-10/S")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("42.0", 42),
        ("-42.000", -42),
        ("4.2e1", 42),
        ("4200E-2", 42),
        ("0.5e1", 5),
        ("-0", 0),
        ("0.0e99999999999", 0),
        ("9007199254740993.0", 9007199254740993),
        ("1e+0016", 10**16),
        ("1.5", None),
        ("1e-1", None),
        ("9007199254740992.5", None),
        ("1e9999999999999999", None),
        ("1e-9999999999999999", None),
        ("1e4300", None),
        ("1" * 4301, None),
        ("+1", None),
        ("01", None),
        (".5", None),
        ("1.", None),
        ("1_0", None),
        ("٤٢", None),
        ("0x2a", None),
        (" 42", None),
        ("NaN", None),
        ("", None),
    ],
)
def test_a_number_is_read_as_the_exact_integer_it_stands_for(text: str, value: int | None) -> None:
    assert parse_integer(text) == value


@pytest.mark.req("H-02/S", "H-02/C")
@pytest.mark.parametrize(
    ("name", "good"),
    [("Region", True), ("a-b_c.d!#$%&'*+^`|~9", True)]
    + [(name, False) for name in ("", "a b", "a:b", "é", "a\n", "a\x00", "a/b", '"a"', "(a)")],
)
def test_a_header_name_is_a_token(name: str, good: bool) -> None:
    assert is_token(name) is good
