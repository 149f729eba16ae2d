"""Any bytes are one message or one error; the same repeated key is always refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.errors import InvalidRequest, ParseError
from mcpost.wire.jsonrpc import Request, decode_answer, decode_message, encode_request, read_id

KEYS = st.sampled_from(["name", "uri", "_meta", "arguments", "a", "b:", '":', "\u003a"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
) | st.text(alphabet='ab:"\\/é ')


class Pairs(list[tuple[str, Any]]):
    """An object as written, with keys that may stand twice."""


VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=4).map(Pairs)
    ),
    max_leaves=12,
)
PARAMS = st.lists(st.tuples(KEYS, VALUES), max_size=4).map(Pairs)
BLANKS = st.text(alphabet=" \t\r\n", max_size=2)


def write(value: Any, draw: Any) -> str:
    """Write a value with any blanks and any escapes."""
    blank = draw(BLANKS)
    if isinstance(value, Pairs):
        members = (f"{spell(k, draw)}{draw(BLANKS)}:{write(v, draw)}" for k, v in value)
        return f"{blank}{{{','.join(members)}}}{blank}"
    if isinstance(value, list):
        return f"{blank}[{','.join(write(item, draw) for item in value)}]{blank}"
    return f"{blank}{spell(value, draw) if isinstance(value, str) else json.dumps(value)}{blank}"


def spell(text: str, draw: Any) -> str:
    how = draw(st.sampled_from(["plain", "ascii", "all"]))
    if how == "all":
        return '"' + "".join(f"\\u{ord(character):04x}" for character in text) + '"'
    return json.dumps(text, ensure_ascii=how == "ascii")


def repeats(value: Any, *, deep: bool) -> bool:
    if isinstance(value, Pairs):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or (
            deep and any(repeats(inner, deep=True) for _, inner in value)
        )
    return deep and isinstance(value, list) and any(repeats(item, deep=True) for item in value)


@pytest.mark.req("T-22/S")
@given(PARAMS, st.data())
def test_a_repeated_key_is_refused_exactly_at_the_mirrored_places(
    params: Pairs, data: st.DataObject
) -> None:
    body = f'{{"jsonrpc":"2.0","id":7,"method":"m","params":{write(params, data.draw)}}}'
    last = dict(params)
    refused = (
        repeats(params, deep=False)
        or repeats(last.get("_meta"), deep=False)
        or repeats(last.get("arguments"), deep=True)
    )

    if refused:
        with pytest.raises(InvalidRequest) as caught:
            decode_message(body.encode())
        assert caught.value.request_id == 7
    else:
        message = decode_message(body.encode())
        assert isinstance(message, Request)
        assert message.params == json.loads(body)["params"]


@pytest.mark.req("T-07/S")
@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:0123e.-"\\u \n').map(str.encode))
def test_any_bytes_are_a_message_or_one_of_two_errors(body: bytes) -> None:
    for decode in (decode_message, decode_answer):
        with contextlib.suppress(ParseError, InvalidRequest):
            decode(body)
    read_id(body)


PIECES = st.sampled_from(
    [b"1e400", b"NaN", b'"\\ud800"', b"1" * 5000, b"[" * 2000, b'{"a":1,"a":2}', b"\xff"]
)


@pytest.mark.req("T-07/S", "J-01/S")
@given(
    PIECES,
    st.integers(0, 100),
    st.integers(0, 3),
)  # fmt: skip
def test_a_message_spoilt_anywhere_is_a_message_or_one_of_two_errors(
    piece: bytes, place: int, length: int
) -> None:
    body = encode_request(1, "tools/call", {"name": "a", "arguments": {"n": 1, "s": "x"}})

    try:
        message = decode_message(body[:place] + piece + body[place + length :])
    except (ParseError, InvalidRequest):
        return
    assert isinstance(message, Request) or message.method == "tools/call"


@given(
    st.integers() | st.text(),
    st.dictionaries(st.text(), st.integers() | st.text(), max_size=3),
    st.booleans(),
)
def test_the_id_is_found_wherever_it_stands(
    request_id: int | str, params: dict[str, int | str], last: bool
) -> None:
    message: dict[str, Any] = {"id": request_id, "params": {**params, "id": 99}}
    if last:
        message = dict(reversed(message.items()))

    assert read_id(json.dumps(message, ensure_ascii=False).encode()) == request_id
