"""The example library, served as a user serves it, for the clients of others."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers.until import DEADLINE

ROOT = Path(__file__).resolve().parent.parent.parent


class Library(NamedTuple):
    """A library that is served."""

    url: str
    port: int
    database: Path

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the database itself."""
        with closing(sqlite3.connect(self.database, timeout=DEADLINE)) as rows:
            return rows.execute(sql).fetchall()

    def wait_until(self, sql: str, wanted: Any) -> list[tuple[Any, ...]]:
        """Ask until the first value is the one that is waited for; fails at a deadline."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            found = self.query(sql)
            if found and found[0][0] == wanted:
                return found
            time.sleep(0.02)  # the database of another process tells nobody when it changes
        raise AssertionError(f"{sql} gives {self.query(sql)}, and not {wanted}")


@contextmanager
def served(
    folder: Path, *options: str, target: str = "examples/library.py:server"
) -> Iterator[Library]:
    """Serve the library in a child process, with its database in a folder."""
    database = folder / "library.sqlite3"
    command = [
        str(Path(sys.executable).parent / "mcpost"),
        "serve",
        target,
        "--port",
        "0",
        *options,
    ]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LIBRARY_DB": str(database), "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", process.stdout.readline())
        assert found, "the server did not say where it listens"
        library = Library(found[0], int(found[1]), database)
        # The library makes its database when it is first asked.
        lines = ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: resources/read"]
        lines.append("Mcp-Name: library://holds")
        read = request_bytes(library.port, "resources/read", {"uri": "library://holds"}, lines)
        assert exchange(library.port, read)[0] == 200
        yield library
    finally:
        process.terminate()
        process.wait(DEADLINE)
        process.stdout.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The example library."""
    with served(tmp_path_factory.mktemp("library"), "--keep-alive", "0.05") as found:
        yield found


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request_bytes(
    port: int, method: str, params: dict[str, Any], lines: list[str], **meta: Any
) -> bytes:
    """A whole request, its header lines as they are given."""
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": method,
            "params": {**params, "_meta": {**META, **meta}},
        }
    ).encode()
    head = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *lines,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def exchange(port: int, request: bytes) -> tuple[int, dict[str, Any]]:
    """Send a request on a connection of its own; gives the status and the response."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE) as connection:
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        with http.client.HTTPResponse(connection) as answer:
            answer.begin()
            body = answer.read()
    if answer.headers.get_content_type() == "text/event-stream":
        # What takes longer than a keep-alive becomes a stream.
        body = body.rpartition(b"data: ")[2]
    return answer.status, json.loads(body)
