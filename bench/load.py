"""Requests a second: with wrk where it is installed, else with a generator of our own.

Every target is asked once before it is measured, and its answer read, so that nobody measures
errors; under load every answer has to have status 200 and the size of that first one.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import math
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httptools
import uvloop

from bench import EVENTS
from bench.machine import LOAD_CORE, Running, on_core

ANSWER_TIMEOUT: Final = 10.0
META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
TRACE: Final = "0" * 32
"""What stands for the id of a trace, where each request has its own."""
TRACED: Final = """
local before, after, count
function init()
  local whole = wrk.format()
  local from, to = whole:find("%s", 1, true)
  before, after, count = whole:sub(1, from - 1), whole:sub(to + 1), 0
end
function request()
  count = count + 1
  return before .. string.format("%%032x", count) .. after
end
"""
SCRIPT: Final = """wrk.method = "POST"
wrk.body = %s
%s
function done(summary, latency, requests)
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout + errors.status
  io.write(string.format("\\nfound %%d %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    summary.bytes, lost, latency:percentile(50), latency:percentile(99)))
end
"""


class Ask(NamedTuple):
    """One call, again and again."""

    tool: str
    arguments: dict[str, Any]
    text: str
    """What the result has to say."""
    events: int = 0
    """How many events of progress have to come before it."""
    traced: bool = False
    """Whether each request has a trace of its own, so that no two heads are the same."""

    @property
    def headers(self) -> dict[str, str]:
        """The header lines of the request."""
        trace = {"traceparent": f"00-{TRACE}-0000000000000001-01"} if self.traced else {}
        return headers("tools/call", self.tool) | trace

    @property
    def body(self) -> bytes:
        """The body of the request."""
        token = {"progressToken": 1} if self.events else {}
        params = {"name": self.tool, "arguments": self.arguments, "_meta": {**META, **token}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return json.dumps(message, separators=(",", ":")).encode()


ADD: Final = Ask("add", {"a": 1, "b": 2}, "3")
ADD_TRACED: Final = ADD._replace(traced=True)
ADD_SYNC: Final = Ask("add_sync", {"a": 1, "b": 2}, "3")
COUNT: Final = Ask("count", {}, "done", EVENTS)
NOTIFY: Final = Ask("notify", {}, "done")


class Pace(NamedTuple):
    """How fast a server answers one kind of call."""

    rate: float
    """Calls a second."""
    cpu: float
    """Seconds of the server's processor time for one."""
    share: float
    """Share of its core that the server had: below 1 it was not at its limit."""
    p50: float
    """Seconds from request to answer, median."""
    p99: float
    """Seconds from request to answer, of the slowest hundredth."""


def headers(method: str, name: str | None = None) -> dict[str, str]:
    """The header lines of a request."""
    lines = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    return lines if name is None else {**lines, "Mcp-Name": name}


def raw_request(port: int, lines: dict[str, str], body: bytes) -> bytes:
    """The bytes of a whole request to a port of this machine."""
    head = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        *(f"{key}: {value}" for key, value in lines.items()),
        f"Content-Length: {len(body)}",
    ]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body


def check(server: Running, ask: Ask) -> int:
    """Ask once, and read the answer.

    Returns:
        Bytes of its body.

    Raises:
        RuntimeError: The answer is not what it has to be.
    """
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_TIMEOUT)
    try:
        connection.request("POST", "/mcp", ask.body, ask.headers)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    kind = (answer.headers.get("Content-Type") or "").partition(";")[0]
    texts = [body] if kind == "application/json" else _events_of(body)
    try:
        messages = [json.loads(text) for text in texts]
        said = messages[-1]["result"]["content"][0]["text"]
        told = sum(each.get("method") == "notifications/progress" for each in messages)
    except (ValueError, LookupError, AttributeError):
        said, told = None, -1
    if answer.status != 200 or said != ask.text or told != ask.events:
        raise RuntimeError(
            f"{server.name} answers {ask.tool} with {answer.status}, {told} events: {body[-300:]!r}"
        )
    return len(body)


def _events_of(body: bytes) -> list[bytes]:
    lines = [line.strip() for line in body.splitlines()]
    return [line[5:].strip() for line in lines if line.startswith(b"data:") and line[5:].strip()]


def pace(server: Running, ask: Ask, connections: int, seconds: int) -> Pace:
    """Measure one server once.

    Raises:
        RuntimeError: An answer was not what it has to be.
    """
    size = check(server, ask)
    wrk = shutil.which("wrk")
    cpu, begun = server.cpu(), time.perf_counter()
    if wrk is not None:
        load = _wrk(wrk, server, ask, connections, seconds)
    else:
        load = uvloop.run(_generate(server.port, ask, connections, seconds))
    spent, busy = time.perf_counter() - begun, server.cpu() - cpu
    if load.lost or load.answers < connections:
        raise RuntimeError(f"{server.name}: of {ask.tool} {load.lost} calls went wrong")
    if load.size < size or (not ask.events and load.size > size + 1024):
        raise RuntimeError(f"{server.name}: answers of {load.size:.0f} bytes instead of {size}")
    return Pace(load.answers / load.seconds, busy / load.answers, busy / spent, load.p50, load.p99)


class _Load(NamedTuple):
    answers: int
    seconds: float
    size: float
    """Bytes of one answer, its head included or not."""
    lost: int
    p50: float
    p99: float


def _wrk(wrk: str, server: Running, ask: Ask, connections: int, seconds: int) -> _Load:
    lines = "\n".join(
        f"wrk.headers[{json.dumps(key)}] = {json.dumps(value)}"
        for key, value in ask.headers.items()
    )
    with tempfile.TemporaryDirectory() as directory, on_core(LOAD_CORE):
        path = Path(directory) / "post.lua"
        script = SCRIPT % (json.dumps(ask.body.decode()), lines)
        path.write_text(script + TRACED % TRACE if ask.traced else script, "utf-8")
        command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(path)]
        command += [f"http://127.0.0.1:{server.port}/mcp"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + 30, check=True
        )
    for line in done.stdout.splitlines():
        if line.startswith("found "):
            answers, micros, size, lost, p50, p99 = map(int, line.split()[1:])
            return _Load(answers, micros / 1e6, size / max(answers, 1), lost, p50 / 1e6, p99 / 1e6)
    raise RuntimeError(f"wrk did not say what it found:\n{done.stdout}{done.stderr}")


class _Caller(asyncio.Protocol):
    """Sends one request after the other on one connection, and reads the answers."""

    def __init__(self, request: bytes, traces: Iterator[int] | None) -> None:
        self._request = request
        self._traces = traces
        self._parser = httptools.HttpResponseParser(self)
        self._transport: Any = None
        self._sent = 0.0
        self._size = 0
        self.sizes = 0
        self.lost = 0
        self.times: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost += 1

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, part: bytes) -> None:
        self._size += len(part)

    def on_message_complete(self) -> None:
        self.times.append(time.perf_counter() - self._sent)
        self.lost += self._parser.get_status_code() != 200
        self.sizes += self._size
        self._send()

    def _send(self) -> None:
        self._size = 0
        self._sent = time.perf_counter()
        request = self._request
        if self._traces is not None:
            request = request.replace(TRACE.encode(), b"%032x" % next(self._traces), 1)
        self._transport.write(request)


async def _generate(port: int, ask: Ask, connections: int, seconds: int) -> _Load:
    loop = asyncio.get_running_loop()
    request = raw_request(port, ask.headers, ask.body)
    traces = itertools.count(1) if ask.traced else None
    start = time.perf_counter()
    made = [
        await loop.create_connection(lambda: _Caller(request, traces), "127.0.0.1", port)
        for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    spent = time.perf_counter() - start
    callers = [caller for _, caller in made]
    times = [each for caller in callers for each in caller.times]
    size = sum(caller.sizes for caller in callers) / max(len(times), 1)
    lost = sum(caller.lost for caller in callers)
    for transport, _ in made:
        transport.abort()
    cuts = statistics.quantiles(times, n=100) if len(times) > 1 else [math.nan] * 99
    return _Load(len(times), spent, size, lost, cuts[49], cuts[98])
