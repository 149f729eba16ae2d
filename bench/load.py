"""Requests a second: wrk where it is installed, else a generator of our own.

Every target is asked once before it is measured, so that nobody measures errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from bench.machine import LOAD_CORE, Running

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def headers(method: str, name: str | None) -> dict[str, str]:
    """The header lines of a request."""
    lines = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    return lines if name is None else {**lines, "Mcp-Name": name}


def call_body(tool: str, arguments: dict[str, Any], **meta: Any) -> bytes:
    """The body of a tools/call."""
    params = {"name": tool, "arguments": arguments, "_meta": {**META, **meta}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def raw_request(port: int, method: str, name: str | None, body: bytes) -> bytes:
    """The bytes of a whole request to a port of this machine."""
    lines = [f"{key}: {value}" for key, value in headers(method, name).items()]
    head = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", *lines, f"Content-Length: {len(body)}"]
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body


def check(server: Running, tool: str) -> None:
    """Ask once; raises RuntimeError where the answer is wrong."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/mcp",
        call_body(tool, {"a": 1, "b": 2}),
        headers("tools/call", tool),
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read().decode()
    if answer.status != 200 or '"text":"3"' not in text.replace(" ", ""):
        raise RuntimeError(f"{server.name} answers {answer.status} {text[:200]}")


def requests_per_second(server: Running, tool: str, connections: int, seconds: float) -> float:
    """Measure one target once."""
    body = call_body(tool, {"a": 1, "b": 2})
    wrk = shutil.which("wrk")
    if wrk is not None:
        return _wrk(wrk, server, tool, body, connections, seconds)
    os.sched_setaffinity(0, {LOAD_CORE})
    request = raw_request(server.port, "tools/call", tool, body)
    return asyncio.run(_generate(server.port, request, connections, seconds))


def _wrk(
    wrk: str, server: Running, tool: str, body: bytes, connections: int, seconds: float
) -> float:
    lines = "\n".join(
        f"wrk.headers[{json.dumps(key)}] = {json.dumps(value)}"
        for key, value in headers("tools/call", tool).items()
    )
    script = f'wrk.method = "POST"\nwrk.body = {json.dumps(body.decode())}\n{lines}\n'
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "post.lua"
        path.write_text(script, "utf-8")
        command = [wrk, "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(path)]
        command += [f"http://127.0.0.1:{server.port}/mcp"]
        if shutil.which("taskset"):
            command = ["taskset", "-c", str(LOAD_CORE), *command]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds + 30, check=True
        )
    if "Non-2xx" in done.stdout:
        raise RuntimeError(f"{server.name} answered with errors:\n{done.stdout}")
    found = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if found is None:
        raise RuntimeError(f"wrk said nothing of requests:\n{done.stdout}")
    return float(found[1])


class _Caller(asyncio.Protocol):
    """Sends one request after the other on one connection."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._rest = b""
        self._transport: Any = None
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        head, separator, body = self._rest.partition(b"\r\n\r\n")
        if not separator:
            return
        found = re.search(rb"content-length: (\d+)", head.lower())
        if found is None or len(body) < int(found[1]):
            return
        self._rest = b""
        self.answers += 1
        self._transport.write(self._request)


async def _generate(port: int, request: bytes, connections: int, seconds: float) -> float:
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: _Caller(request), "127.0.0.1", port)
        for _ in range(connections)
    ]
    start, before = time.perf_counter(), sum(caller.answers for _, caller in made)
    await asyncio.sleep(seconds)
    spent = time.perf_counter() - start
    answers = sum(caller.answers for _, caller in made) - before
    for transport, _ in made:
        transport.abort()
    return answers / spent
