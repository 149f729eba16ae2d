"""The measure for the others: an ASGI app that parses JSON, compares headers, and no more.

Its answers are canned. It is what any server on the same stack could reach at best.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bench import EVENTS

__all__ = ("DONE", "SUM", "app", "compare")


def _answer(text: str, structured: str) -> tuple[dict[str, Any], dict[str, Any]]:
    body = (
        f'{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}],'
        f'"structuredContent":{structured},"resultType":"complete"}}}}'
    ).encode()
    lines = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return (
        {"type": "http.response.start", "status": 200, "headers": lines},
        {"type": "http.response.body", "body": body},
    )


SUM: Final = _answer("3", "3")
DONE: Final = _answer("done", '"done"')
STREAM: Final = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream")],
}
PROGRESS: Final = (
    b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":'
    b'{"progressToken":1,"progress":%d,"total":100}}\n\n'
)
ACKNOWLEDGED: Final = {
    "type": "http.response.body",
    "body": b'data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged",'
    b'"params":{"notifications":{"toolsListChanged":true}}}\n\n',
    "more_body": True,
}
NOTICE: Final = {
    "type": "http.response.body",
    "body": b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}\n\n',
    "more_body": True,
}
LAST: Final = {"type": "http.response.body", "body": b"data: " + DONE[1]["body"] + b"\n\n"}

_decode: Final = msgspec.json.decode
_listening: Final[set[Any]] = set()


def compare(headers: Mapping[bytes, bytes], body: bytes) -> str:
    """Parse a body and compare its headers with it.

    Returns:
        The name of the tool that is called; the method where it is no call.

    Raises:
        ValueError: They differ.
    """
    message = _decode(body)
    method: str = message["method"]
    if headers[b"mcp-method"].decode() != method:
        raise ValueError("Mcp-Method is another one")
    if headers[b"mcp-protocol-version"] != b"2026-07-28":
        raise ValueError("the version is not served")
    if method != "tools/call":
        return method
    name: str = message["params"]["name"]
    if headers[b"mcp-name"].decode() != name:
        raise ValueError("Mcp-Name is another one")
    return name


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer one request."""
    if scope["type"] != "http":
        return
    name = compare(dict(scope["headers"]), (await receive())["body"])
    if name == "subscriptions/listen":
        await _listen(receive, send)
        return
    if name == "count":
        await _count(send)
        return
    if name == "notify":
        for each in list(_listening):
            await each(NOTICE)
    start, body = DONE if name == "notify" else SUM
    await send(start)
    await send(body)


async def _listen(receive: Any, send: Any) -> None:
    await send(STREAM)
    await send(ACKNOWLEDGED)
    _listening.add(send)
    await receive()
    _listening.discard(send)


async def _count(send: Any) -> None:
    await send(STREAM)
    for number in range(EVENTS):
        body = PROGRESS % number
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send(LAST)
