"""Requests that go wrong in every way there is, made from good ones, and what an answer may be."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.helpers.http import body, lines

Lines = list[tuple[bytes, bytes]]

STATUSES = {200, 202, 204, 400, 403, 404, 405, 406, 413, 415, 503}
CODES = {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}

_PARAMS: list[tuple[str, dict[str, Any], str | None]] = [
    ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, "add"),
    ("tools/call", {"name": "count", "arguments": {"steps": 3}}, "count"),
    ("tools/call", {"name": "where", "arguments": {"region": "eu"}}, "where"),
    ("tools/call", {"name": "ask", "arguments": {}}, "ask"),
    ("tools/list", {}, None),
    ("server/discover", {}, None),
    ("resources/read", {"uri": "small://one"}, "small://one"),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, None),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}, None),
]
_VALUES: list[Any] = [
    None, True, 0, -1, 2**53, 1e400, 1.5, "", "x", "\x00", "é", "=?base64?eA==?=", [], {}, [[]],
    {"a": {}}, "io.modelcontextprotocol/protocolVersion", 10**30, "x" * 3000,
]  # fmt: skip
_HEADERS = [
    b"host", b"origin", b"accept", b"content-type", b"content-length", b"mcp-protocol-version",
    b"mcp-method", b"mcp-name", b"mcp-param-region", b"mcp-session-id", b"authorization", b"x",
]  # fmt: skip
_HEADER_VALUES = [
    b"", b" ", b"x", b"*/*", b"text/html;q=0", b"null", b"http://localhost", b"https://evil.com",
    b"application/json", b"\xff\xfe", b"2025-11-25", b"2026-07-28", b"tools/call", b"add",
    b"=?base64?YWRk?=", b"=?base64?!?=", b"9" * 40, b"a" * 9000,
]  # fmt: skip


@dataclass
class Sent:
    """One generated request."""

    method: str
    headers: Lines
    body: bytes

    @property
    def id(self) -> Any:
        """The id that a reader of the body would take for the request's, else `None`."""
        try:
            message = json.loads(self.body, object_pairs_hook=_once)
        except (ValueError, RecursionError):
            return None
        if not isinstance(message, dict) or message.get(_TWICE):
            return None
        if "method" not in message and ("result" in message or "error" in message):
            return None
        found = message.get("id")
        return found if type(found) in (int, str) else None

    @property
    def last_id(self) -> Any:
        """The id of a body that has two, else `None`."""
        try:
            message = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        return message.get("id") if isinstance(message, dict) else None


_TWICE = object()


def _once(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = dict(pairs)
    if len(found) != len(pairs):
        found[_TWICE] = True
    return found


def make_request(random: Random) -> Sent:
    """Make a request: a good one, with up to three things wrong about it."""
    method, params, name = random.choice(_PARAMS)
    message = json.loads(body(method, params, id=random.choice([0, 7, "a", "é"])))
    if random.random() < 0.5:
        message["params"]["_meta"]["progressToken"] = random.choice([0, "t", None, 1.5])
    headers = lines(method, name)
    if name == "where":
        headers.append((b"mcp-param-region", b"eu"))
    sent = Sent("POST", headers, b"")
    twists = [random.random() for _ in range(random.choice([0, 1, 1, 1, 2, 3]))]
    for twist in twists:
        if twist < 0.4:
            _change_json(random, message)
        elif twist < 0.8:
            _change_headers(random, sent)
        elif twist < 0.84:
            sent.method = random.choice(["GET", "DELETE", "OPTIONS", "PUT", "HEAD", "X"])
    sent.body = json.dumps(message, ensure_ascii=random.random() < 0.5).encode(
        errors="surrogatepass"
    )
    if any(twist >= 0.84 for twist in twists):
        sent.body = _change_bytes(random, sent.body)
    return sent


def _change_json(random: Random, message: dict[str, Any]) -> None:
    """Replace, remove or add a member somewhere."""
    place: Any = message
    while random.random() < 0.6:
        inner = [value for value in place.values() if isinstance(value, dict) and value]
        if not inner:
            break
        place = random.choice(inner)
    key = random.choice([*place, "id", "method", "result"])
    if random.random() < 0.3:
        place.pop(key, None)
    else:
        # A copy: the next change may go into it.
        place[key] = deepcopy(random.choice(_VALUES))


def _change_headers(random: Random, sent: Sent) -> None:
    kind = random.random()
    if kind < 0.3 and sent.headers:
        sent.headers.pop(random.randrange(len(sent.headers)))
    elif kind < 0.5 and sent.headers:
        sent.headers.append(random.choice(sent.headers))
    elif kind < 0.7 and sent.headers:
        at = random.randrange(len(sent.headers))
        sent.headers[at] = (sent.headers[at][0], random.choice(_HEADER_VALUES))
    else:
        sent.headers.append((random.choice(_HEADERS), random.choice(_HEADER_VALUES)))


def _change_bytes(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    kind = random.random()
    if kind < 0.3:
        return data[:at]
    if kind < 0.6:
        return data[:at] + random.randbytes(random.randrange(1, 4)) + data[at + 1 :]
    if kind < 0.7:
        return b"[" + data + b"]"
    if kind < 0.8:
        return b"[" * random.choice([10, 100_000])
    if kind < 0.9:
        return data.replace(b'{"', b'{"id": 7, "', random.randrange(3))
    return data + data


def check_answer(sent: Sent, status: int, content: bytes) -> None:
    """Check a whole answer: a known status, and a good response with the right id or none."""
    assert status in STATUSES, (status, sent)
    if status in (202, 204) or sent.method == "HEAD":
        assert content == b"", sent
        return
    check_response(sent, json.loads(content), status)


def check_response(sent: Sent, message: Any, status: int = 200) -> None:
    """Check the response that ends an answer."""
    assert message["jsonrpc"] == "2.0", sent
    if "result" in message:
        assert status == 200, sent
        assert set(message) == {"jsonrpc", "id", "result"}, sent
        assert message["id"] == sent.id, sent
        return
    assert set(message) <= {"jsonrpc", "id", "error"}, sent
    assert message["error"]["code"] in CODES, sent
    assert type(message["error"]["message"]) is str, sent
    if "id" in message:
        # An id is never made up, and never null; of two, either was there.
        assert message["id"] is not None, sent
        assert message["id"] in (sent.id, sent.last_id), (message, sent)
    else:
        # Only what was refused before the request could be read has none.
        assert sent.id is None or message["error"]["code"] in (-32700, -32600), (message, sent)


def check_events(sent: Sent, content: bytes) -> None:
    """Check a stream: notifications, then at most one response, and nothing after it."""
    parts = [part for part in content.split(b"\n\n") if part and part != b":"]
    messages = [json.loads(part.removeprefix(b"data: ")) for part in parts]
    for message in messages[:-1]:
        assert "method" in message, sent
        assert "id" not in message, sent
    if messages and "method" not in messages[-1]:
        check_response(sent, messages[-1])
