"""`make run`: start the example library, call it over HTTP, show what went over the wire."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mcpost import Client
from mcpost.wire.mirror import compile_mirror, request_headers

ROOT: Final = Path(__file__).resolve().parent.parent
META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def main() -> int:
    """Run the demonstration; gives the exit status."""
    with tempfile.TemporaryDirectory() as directory, serving(Path(directory)) as url:
        print(f"$ mcpost serve examples/library.py:server\n{url}\n")
        show_call(url)
        asyncio.run(show_progress(url))
        return show_spoof(url)


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Serve the library on a port that the system picks; gives its URL."""
    command = [str(Path(sys.executable).parent / "mcpost"), "serve"]
    command += [str(ROOT / "examples" / "library.py") + ":server", "--port", "0"]
    environment = {"LIBRARY_DB": str(directory / "library.sqlite3"), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line.strip()}")
        yield found[0]
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


def post(url: str, name: str, arguments: dict[str, Any], lines: dict[str, str]) -> tuple[int, Any]:
    """POST a tools/call with the header lines given; gives status and body."""
    params = {"name": name, "arguments": arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    lines = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **lines,
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), lines)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def show_call(url: str) -> None:
    """Show one call as it goes over the wire."""
    arguments = {"query": "sea", "region": "eu"}
    region = {"type": "string", "x-mcp-header": "Region"}
    mirror = compile_mirror({"type": "object", "properties": {"region": region}})
    params = {"name": "search", "arguments": arguments}
    lines = dict(request_headers("tools/call", params, "2026-07-28", mirror))
    status, answer = post(url, "search", arguments, lines)
    print("POST /mcp")
    for name, value in lines.items():
        print(f"{name}: {value}")
    print(f"  {json.dumps(params)}")
    print(f"{status}")
    for book in answer["result"]["structuredContent"]:
        print(f"  {book['id']:3}  {book['title']}, {book['author']}")
    print()


async def show_progress(url: str) -> None:
    """Show a call that tells how far it is."""
    print("reindex, as it goes:")
    async with Client(url) as client:
        result = await client.call(
            "reindex",
            {"steps": 5, "delay": 0.05},
            progress=lambda told: print(f"  {told.progress:g} of {told.total:g}: {told.message}"),
        )
    print(f"  {result.data}\n")


def show_spoof(url: str) -> int:
    """Show that a call cannot go under another name."""
    lines = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "search",
    }
    status, answer = post(url, "place_hold", {"book_id": 3}, lines)
    print("a call of place_hold whose headers say search:")
    print(f"  {status} {answer['error']['code']}: {answer['error']['message']}")
    held = asyncio.run(read_holds(url))
    print(f"  holds in the database: {len(held)}")
    return 0 if status == 400 and not held else 1


async def read_holds(url: str) -> list[Any]:
    """Read which holds there are."""
    async with Client(url) as client:
        holds: list[Any] = json.loads((await client.read("library://holds")).text)
        return holds


if __name__ == "__main__":
    sys.exit(main())
