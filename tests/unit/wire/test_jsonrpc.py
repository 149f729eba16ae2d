"""What one body may be, and how answers are written."""

from __future__ import annotations

import pytest

from mcpost.errors import (
    HeaderMismatch,
    InvalidRequest,
    MissingCapability,
    ParseError,
    UnsupportedVersion,
)
from mcpost.types.content import TextContent
from mcpost.wire.jsonrpc import (
    ErrorBody,
    Notification,
    Request,
    Response,
    decode_answer,
    decode_message,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    read_id,
)


def call(params: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}'.encode()


@pytest.mark.req("J-01/S", "T-09/S")
@pytest.mark.parametrize("request_id", [0, -1, 2**80, "", "a"], ids=str)
def test_a_request_has_an_integer_or_text_as_its_id(request_id: int | str) -> None:
    body = encode_request(request_id, "tools/list", {"cursor": "x"})

    assert decode_message(body) == Request(request_id, "tools/list", {"cursor": "x"})


@pytest.mark.req("J-01/S")
@pytest.mark.parametrize("request_id", ["null", "1.0", "1.5", "true", "[]", "{}"])
def test_any_other_id_is_refused(request_id: str) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"method":"tools/list"}' % request_id.encode()

    with pytest.raises(InvalidRequest) as caught:
        decode_message(body)
    assert (caught.value.code, caught.value.request_id) == (-32600, None)


@pytest.mark.req("T-08/S")
def test_a_message_without_an_id_is_a_notification() -> None:
    body = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'

    assert decode_message(body) == Notification("notifications/cancelled", {"requestId": 1})


def test_absent_params_are_an_empty_object() -> None:
    assert decode_message(b'{"jsonrpc":"2.0","id":1,"method":"x"}') == Request(1, "x", {})


@pytest.mark.req("T-07/S")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"hello", id="no JSON"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"x"', id="torn"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"x"} {}', id="two texts"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"x",}', id="comma at the end"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', id="no UTF-8"),
        pytest.param(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"x"}', id="BOM"),
        pytest.param('{"jsonrpc":"2.0","id":1,"method":"x"}'.encode("utf-16"), id="UTF-16"),
        pytest.param(call('{"n":NaN}'), id="NaN"),
        pytest.param(call('{"n":-Infinity}'), id="Infinity"),
        pytest.param(call('{"n":1e400,"m":NaN}'), id="NaN behind a huge number"),
        pytest.param(call('{"s":"\\ud800"}'), id="lone surrogate"),
        pytest.param(call('{"n":1e400,"s":"\\ud800"}'), id="lone surrogate, huge number"),
        pytest.param(call('{"n":1e400,"s":"\xff"}')[:-5] + b'\xff"}}', id="no UTF-8, huge number"),
        pytest.param(call('{"s":"a\nb"}'), id="raw line break in a string"),
        pytest.param(b"[" * 100_000, id="deep, torn"),
        pytest.param(call('{"d":' * 50_000 + "1" + "}" * 50_000), id="deep objects"),
        pytest.param(call('{"n":1e400,"d":' + "[" * 50_000 + "]" * 50_000 + "}"), id="deep, huge"),
    ],
)
def test_what_is_not_one_json_text_in_utf8_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        decode_message(body)
    assert (caught.value.code, caught.value.request_id) == (-32700, None)


@pytest.mark.req("T-07/S")
def test_at_any_depth_a_body_is_a_message_or_a_parse_error() -> None:
    outcomes = set()
    for depth in range(700, 1100):
        body = call('{"d":' + "[" * depth + "]" * depth + "}")
        try:
            outcomes.add(type(decode_message(body)))
        except ParseError:
            outcomes.add(ParseError)

    assert outcomes == {Request, ParseError}


@pytest.mark.req("T-07/S", "T-05/C")
@pytest.mark.parametrize(
    ("body", "request_id"),
    [
        pytest.param(b"[]", None, id="empty batch"),
        pytest.param(b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', None, id="batch"),
        pytest.param(b"[1e400]", None, id="batch with a huge number"),
        pytest.param(b'"x"', None, id="text"),
        pytest.param(b"null", None, id="null"),
        pytest.param(b'{"id":1,"method":"x"}', 1, id="no jsonrpc"),
        pytest.param(b'{"jsonrpc":"1.0","id":1,"method":"x"}', 1, id="another jsonrpc"),
        pytest.param(b'{"jsonrpc":2.0,"id":1,"method":"x"}', 1, id="jsonrpc as a number"),
        pytest.param(b'{"jsonrpc":"2.0","id":1}', 1, id="no method"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":3}', 1, id="method as a number"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"result":{}}', None, id="response"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"error":{}}', None, id="error response"),
        pytest.param(call("[1]"), 7, id="params as an array"),
        pytest.param(call("null"), 7, id="params null"),
        pytest.param(call('{"n":1e400000}'), 7, id="number out of range"),
        pytest.param(call('{"n":1e399,"m":' + "1" * 400 + ".5}"), 7, id="fraction out of range"),
        pytest.param(call('{"n":' + "1" * 5000 + "}"), 7, id="too many digits"),
        pytest.param(call('{"n":[' + "1e400," * 50 + "1]}"), 7, id="many expanding numbers"),
        pytest.param(b'{"jsonrpc":"2.0","id":' + b"1" * 5000 + b"}", None, id="id out of range"),
    ],
)
def test_what_is_not_one_request_or_notification_is_refused(
    body: bytes, request_id: int | None
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_message(body)
    assert (caught.value.code, caught.value.request_id) == (-32600, request_id)


@pytest.mark.req("T-22/S")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"jsonrpc":"2.0","id":7,"method":"a","method":"b"}', id="method"),
        pytest.param(b'{"jsonrpc":"2.0","id":7,"id":7,"method":"a"}', id="id, equal"),
        pytest.param(b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"method":"a"}', id="jsonrpc"),
        pytest.param(b'{"jsonrpc":"2.0","id":7,"method":"a","params":{},"params":{}}', id="params"),
        pytest.param(b'{"jsonrpc":"2.0","id":7,"method":"a","x":1,"x":2}', id="unknown member"),
        pytest.param(call('{"name":"a","name":"b"}'), id="name"),
        pytest.param(call('{"name":"a","\\u006eame":"b"}'), id="name, escaped"),
        pytest.param(call('{"name" :"a","name"\t: "b"}'), id="name, spaced"),
        pytest.param(call('{"x":"\\u003a","name":"a","name":"b"}'), id="name, colon escaped"),
        pytest.param(call('{"uri":"a","uri":"b"}'), id="uri"),
        pytest.param(call('{"_meta":{},"_meta":{}}'), id="_meta"),
        pytest.param(call('{"requestState":"a","requestState":"b"}'), id="requestState"),
        pytest.param(
            call('{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
                 '"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}'),
            id="version",
        ),
        pytest.param(call('{"arguments":{"region":"eu","region":"us"}}'), id="argument"),
        pytest.param(call('{"arguments":{"a":{"b":1,"b":1}}}'), id="nested argument"),
        pytest.param(call('{"arguments":{"a":[0,[{"b":1,"b":1}]]}}'), id="argument in arrays"),
        pytest.param(call('{"n":1e400,"arguments":{"b":1,"b":1}}'), id="beside a huge number"),
    ],
)  # fmt: skip
def test_a_key_that_stands_twice_at_a_mirrored_place_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode_message(body)
    assert caught.value.code == -32600


@pytest.mark.req("T-22/S")
def test_the_refusal_of_a_repeated_key_has_the_id_unless_the_id_may_be_repeated() -> None:
    with pytest.raises(InvalidRequest) as inside:
        decode_message(call('{"name":"a","name":"b"}'))
    with pytest.raises(InvalidRequest) as outside:
        decode_message(b'{"jsonrpc":"2.0","id":7,"id":8,"method":"a"}')

    assert (inside.value.request_id, outside.value.request_id) == (7, None)


@pytest.mark.req("T-22/S")
@pytest.mark.parametrize(
    "params",
    [
        pytest.param('{"_meta":{"clientInfo":{"a":1,"a":1}}}', id="inside of clientInfo"),
        pytest.param('{"x":[{"a":1,"a":1},{"a":1}],"arguments":{"a":1}}', id="elsewhere"),
        pytest.param('{"a":{"b":1,"b":1},"name":{},"arguments":{"c":{}}}', id="and gone"),
    ],
)
def test_a_key_that_stands_twice_elsewhere_is_let_through(params: str) -> None:
    assert isinstance(decode_message(call(params)), Request)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{ "name" : "a" , "arguments" : { "u" : "http://x:1" } }', id="spaced"),
        pytest.param('{"name":"\\":\\"name\\":","arguments":{"name":"a"}}', id="look-alikes"),
        pytest.param('{"\\u006eame":"\\u003a","arguments":{}}', id="escaped"),
        pytest.param('{"n":1E2,"m":1.50,"o":-0.0,"p":0.1e1}', id="numbers spelled otherwise"),
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_spelling_does_not_matter(text: str, kind: type) -> None:
    message = decode_message(kind(call(text)))

    assert isinstance(message, Request)
    assert message.id == 7


@pytest.mark.req("H-04/S")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 9007199254740993),
        ("-123456789012345678901234567890", -123456789012345678901234567890),
        ("1e400", 10**400),
        ("-12.5e400", -125 * 10**399),
        ("42.0", 42.0),
        ("1e-400", 0.0),
    ],
)
def test_integers_of_any_size_are_kept_exactly(text: str, value: int | float) -> None:
    message = decode_message(call(f'{{"arguments":{{"n":{text},"i":12,"f":0.5}}}}'))

    assert message.params["arguments"] == {"n": value, "i": 12, "f": 0.5}
    assert type(message.params["arguments"]["n"]) is type(value)


def test_a_result_is_one_compact_line() -> None:
    assert encode_result("a", {"resultType": "complete", "x": "\n\u2028"}) == (
        '{"jsonrpc":"2.0","id":"a","result":{"resultType":"complete","x":"\\n\u2028"}}'.encode()
    )
    assert encode_result(1, TextContent("hi")) == (
        b'{"jsonrpc":"2.0","id":1,"result":{"type":"text","text":"hi"}}'
    )


@pytest.mark.req("J-03/S", "T-19/S")
def test_an_error_carries_code_message_and_the_id() -> None:
    assert encode_error(HeaderMismatch("no", request_id=7)) == (
        b'{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"no"}}'
    )


@pytest.mark.req("T-17/S", "T-21/S")
def test_an_error_carries_its_data() -> None:
    version = encode_error(UnsupportedVersion("1", ("2026-07-28",), request_id=0))
    capability = encode_error(MissingCapability("no", {"sampling": {}}, request_id="x"))

    assert b'"id":0,"error":{"code":-32022,' in version
    assert version.endswith(b'"data":{"supported":["2026-07-28"],"requested":"1"}}}')
    assert capability == (
        b'{"jsonrpc":"2.0","id":"x","error":{"code":-32021,"message":"no",'
        b'"data":{"requiredCapabilities":{"sampling":{}}}}}'
    )


@pytest.mark.req("T-07/S")
def test_an_error_without_a_readable_id_has_no_id_member() -> None:
    assert encode_error(ParseError("no")) == (
        b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}'
    )


def test_requests_and_notifications_are_written_compactly() -> None:
    assert encode_request(1, "ping", {}) == b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}'
    assert encode_notification("n") == b'{"jsonrpc":"2.0","method":"n"}'
    assert encode_notification("n", {"a": 1}) == (
        b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}'
    )


@pytest.mark.req("J-01/C", "T-09/C")
@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":1e400}}', Response(1, {"a": 10**400})),
        (b'{"jsonrpc":"2.0","id":"a","result":{}}', Response("a", {})),
        (
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"gone","data":[1]}}',
            Response(1, error=ErrorBody(-32002, "gone", [1])),
        ),
        (b'{"jsonrpc":"2.0","error":{"code":1}}', Response(None, error=ErrorBody(1, ""))),
        (
            b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
            Response(None, error=ErrorBody(1, "x")),
        ),
        (b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}', Notification("n", {"a": 1})),
        (b'{"jsonrpc":"2.0","id":2,"method":"roots/list"}', Request(2, "roots/list", {})),
    ],
)
def test_what_a_server_sends_is_read(data: bytes, answer: object) -> None:
    assert decode_answer(data) == answer


@pytest.mark.req("J-01/C")
@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"1",
        b'{"id":1,"result":{}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
        b'{"jsonrpc":"2.0","id":true,"error":{"code":1}}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":[]}',
        b'{"jsonrpc":"2.0","id":1,"error":"x"}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1.5}}',
        b'{"jsonrpc":"2.0","method":"n","params":[]}',
    ],
)
def test_an_answer_of_another_shape_is_invalid(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_answer(data)


@pytest.mark.parametrize("data", [b"<html>", b"", b'{"a":"\xff"}', b"[" * 100_000])
def test_an_answer_that_is_no_json_is_a_parse_error(data: bytes) -> None:
    with pytest.raises(ParseError):
        decode_answer(data)


@pytest.mark.req("I-04/S", "I-04/C")
@pytest.mark.parametrize(
    ("head", "request_id"),
    [
        (b'{"jsonrpc":"2.0","id":12,"params":{"x":"', 12),
        (b'{"method":"x","params":{"id":1,"a":[{"id":2}]}, "id" : "a\\"b" , "z', 'a"b'),
        (b'{"id":1}', 1),
        (b'{"jsonrpc":"2.0","id":12', None),
        (b'{"jsonrpc":"2.0","id":null,"a', None),
        (b'{"jsonrpc":"2.0","id":1x,"a', None),
        (b'{"jsonrpc":"2.0","id":{"id":1},"a":', None),
        (b'{"params":{"id":1,', None),
        (b'["id",1,', None),
        (b'"' + b"\\" * 4000, None),
    ],
)
def test_the_id_is_read_from_the_first_bytes(head: bytes, request_id: int | str | None) -> None:
    assert read_id(head) == request_id
