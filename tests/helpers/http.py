"""Requests as bytes and as heads, spelled literally, and a small server to send them to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any

from mcpost import Context, Mirror, Server
from mcpost.limits import ServerLimits
from mcpost.server.head import Answer, Head, HeaderLines
from mcpost.server.refusals import json_answer
from tests.helpers.until import DEADLINE

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL_ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}


def body(method: str, params: dict[str, Any] | None = None, *, id: Any = 7, **meta: Any) -> bytes:
    """Write a request; `meta` are further members of `_meta`, in which `None` removes one."""
    said = {key: value for key, value in {**META, **meta}.items() if value is not None}
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return json.dumps({**message, "params": {**(params or {}), "_meta": said}}).encode()


def lines(
    method: str, name: str | None = None, *more: tuple[str, str], **changed: str | None
) -> list[tuple[bytes, bytes]]:
    """Write header lines; `changed` replaces some (`accept="*/*"`), or removes them with `None`."""
    found: dict[str, str | None] = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": method,
        "mcp-name": name,
    }
    found |= {key.replace("_", "-"): value for key, value in changed.items()}
    kept = [(key, value) for key, value in found.items() if value is not None]
    return [(key.encode(), value.encode("latin-1")) for key, value in [*kept, *more]]


def post(sent: bytes, headers: list[tuple[bytes, bytes]], path: str = "/mcp") -> bytes:
    """Write a whole POST."""
    head = b"".join(b"%b: %b\r\n" % line for line in headers)
    length = b"content-length: %d\r\n" % len(sent)
    return b"POST %b HTTP/1.1\r\n%b%b\r\n%b" % (path.encode(), head, length, sent)


def call(name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> bytes:
    """Write a whole POST that calls a tool."""
    sent = body("tools/call", {"name": name, "arguments": arguments or {}}, **meta)
    return post(sent, lines("tools/call", name))


def listen(id: Any = 7, **wanted: Any) -> bytes:
    """Write a whole POST that listens."""
    sent = body("subscriptions/listen", {"notifications": wanted}, id=id)
    return post(sent, lines("subscriptions/listen"))


class RecordingDoor:
    """A door that keeps what it is told; `taken` is what its peer has read so far."""

    in_task = True

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.heads: list[tuple[int, dict[bytes, bytes]]] = []
        self.chunks: list[bytes] = []
        self.ended = False
        self.aborted = False
        self.reads = True
        self.gone: Any = None
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that a call to this door brings about."""
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def answer(self, answer: Answer) -> None:
        self.answers.append(answer)
        self._changed.set()

    def answer_json(self, status: int, body: bytes, lines: HeaderLines) -> None:
        self.answer(json_answer(status, body, lines))

    def start(self, status: int, headers: HeaderLines) -> None:
        self.heads.append((status, dict(headers)))

    def write(self, chunk: bytes) -> None:
        self.chunks.append(chunk)
        self._changed.set()

    def end(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.aborted = True

    def pending(self) -> int:
        return 0 if self.reads else sum(map(len, self.chunks))

    def watch(self, gone: Any) -> None:
        assert self.gone is None
        self.gone = gone
        self._changed.set()

    @property
    def status(self) -> int:
        return self.answers[-1].status

    @property
    def json(self) -> Any:
        return json.loads(self.answers[-1].body)

    @property
    def events(self) -> list[Any]:
        """The data of the events, comments left out."""
        parts = b"".join(self.chunks).split(b"\n\n")
        return [json.loads(part[6:]) for part in parts if part.startswith(b"data: ")]

    @property
    def comments(self) -> int:
        return sum(part == b":" for part in b"".join(self.chunks).split(b"\n\n"))


def head(headers: list[tuple[bytes, bytes]], method: str = "POST", path: str = "/mcp") -> Head:
    """Make a head of header lines."""
    return Head(method, path, headers)


def make_server(limits: ServerLimits = ServerLimits(), **options: Any) -> Server:
    """Make a server whose tools do what the tests of the endpoint need."""
    server = Server("small", limits=limits, **options)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(steps: int, ctx: Context, delay: float = 0) -> int:
        for step in range(steps):
            ctx.progress(step + 1, steps)
            await asyncio.sleep(delay)
        return steps

    @server.tool
    async def where(region: Annotated[str | None, Mirror("Region")] = None) -> str:
        return str(region)

    @server.tool
    async def ask(ctx: Context) -> str:
        ctx.require({"sampling": {}})
        return "asked"

    @server.tool
    async def fail() -> str:
        raise RuntimeError("secret")

    @server.resource("small://one")
    def one() -> str:
        return "one"

    return server
