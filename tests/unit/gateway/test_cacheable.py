"""Which requests share an answer, and what may be kept of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpost.gateway.cacheable import Kept, key_of, read_kept, write_kept
from mcpost.wire.jsonrpc import Request, decode_message
from tests.helpers.http import body, lines

JSON = ((b"content-type", b"application/json"),)


def key(sent: bytes, *more: tuple[bytes, bytes], known: bool = False) -> bytes | None:
    message = decode_message(sent)
    assert isinstance(message, Request)
    head = [*lines("resources/read", "a:b"), *more]
    return key_of(message, sent, head, place=("here",), known=known)


def read(uri: str = "a:b", **meta: Any) -> bytes:
    return body("resources/read", {"uri": uri}, **meta)


def answer(**more: Any) -> bytes:
    found = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "public", **more}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": found}).encode()


@pytest.mark.req("F-05/G")
def test_the_same_said_otherwise_has_the_same_key() -> None:
    spelled = read().replace(b'"uri"', b'"\\u0075ri"').replace(b'"a:b"', b' "a\\u003ab"')

    assert key(read()) == key(read(id="x")) == key(read(traceparent="x", baggage="a=b"))
    # An escaped colon hides how often a key stands, so that request is not asked for at all.
    assert key(spelled) is None
    assert key(read().replace(b'"uri"', b'"\\u0075ri"')) == key(read())


def test_callers_that_the_gateway_knows_have_entries_of_their_own() -> None:
    token = (b"authorization", b"Bearer a")

    assert key(read(), token) is None
    assert key(read(), token, known=True) == key(read(), (b"cookie", b"b"), known=True)
    assert key(read(), token, known=True) != key(read(), known=True) == key(read())


@pytest.mark.parametrize("word", [b"no-cache", b"max-age=0, No-Store"])
def test_a_client_that_wants_a_fresh_answer_gets_one(word: bytes) -> None:
    assert key(read(), (b"cache-control", word)) is None


def test_a_request_of_another_revision_has_no_key() -> None:
    sent = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}'

    assert key(sent) is None


@pytest.mark.req("F-05/G")
def test_what_is_kept_is_told_with_another_id_and_less_time() -> None:
    kept = read_kept(200, JSON, answer(tools=[{"name": "é"}]), 7)

    assert kept is not None
    told = json.loads(write_kept(kept, 'a"b', 400))
    assert told == {
        "jsonrpc": "2.0",
        "id": 'a"b',
        "result": {
            "resultType": "complete",
            "cacheScope": "public",
            "tools": [{"name": "é"}],
            "ttlMs": 600,
        },
    }
    assert json.loads(write_kept(kept, 1, 5000))["result"]["ttlMs"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(answer()[:-1], id="cut"),
        pytest.param(b"[]", id="no message"),
        pytest.param(answer().replace(b'"id": 7', b'"id": 8'), id="of another request"),
        pytest.param(answer().replace(b'"id": 7', b'"id": "7"'), id="of another type"),
        pytest.param(
            answer().replace(b'"ttlMs"', b'"cacheScope": "private", "ttlMs"'), id="says two scopes"
        ),
        pytest.param(
            b'{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}', id="error"
        ),
        pytest.param(b'{"jsonrpc":"2.0","method":"ping","id":7}', id="request"),
    ],
)
def test_what_is_no_whole_answer_to_the_request_is_not_kept(wrong: bytes) -> None:
    assert read_kept(200, JSON, wrong, 7) is None


def test_header_lines_that_are_of_one_answer_are_not_kept() -> None:
    cors = (b"access-control-allow-origin", b"https://a.example")
    rest = ((b"date", b"x"), (b"server", b"y"), (b"x-request-id", b"z"), (b"vary", b"Origin"))

    kept = read_kept(200, (*JSON, cors, *rest), answer(), 7)

    assert kept is not None
    assert kept.lines == (*JSON, cors, (b"vary", b"Origin"))
    assert kept == Kept(1000, kept.result, kept.lines)
