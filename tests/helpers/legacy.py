"""A server for both eras, and sessions of the earlier one: literal messages over doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from mcpost import Context, Principal, Server
from mcpost.limits import ServerLimits
from mcpost.server.head import Head
from mcpost.server.settings import Settings
from mcpost.wire.accept import parse_accept
from tests.helpers.http import RecordingDoor

NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


class Gates:
    """Events by which a test holds a handler and lets it go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = False
        self.runs = 0


def make_server(limits: ServerLimits = ServerLimits(), gates: Gates | None = None) -> Server:
    """Make a server whose tools do what the tests need."""
    server = Server("both", version="1", instructions="Be kind.", limits=limits)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def count(steps: int, ctx: Context) -> int:
        for step in range(steps):
            ctx.progress(step + 1, steps)
            await asyncio.sleep(0)
        return steps

    @server.tool
    async def hold(ctx: Context) -> str:
        assert gates is not None
        gates.runs += 1
        ctx.progress(1, 2)
        gates.entered.set()
        try:
            await gates.go.wait()
        except asyncio.CancelledError:
            gates.cancelled = True
            raise
        ctx.progress(2, 2)
        return "held"

    @server.tool
    async def leave(ctx: Context) -> str:
        assert gates is not None
        ctx.close_stream()
        await gates.go.wait()
        return "left"

    @server.tool
    async def log(level: str, ctx: Context) -> str:
        ctx.log(level, "said")
        return "logged"

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Your name?", NAME)
        return f"Hello, {(answer.content or {}).get('name')}"

    @server.tool
    async def fail() -> str:
        raise RuntimeError("secret")

    @server.resource("both://one")
    def one() -> str:
        return "one"

    return server


class Http:
    """The endpoint of a server, spoken to by doors.

    Args:
        server: The server.
        limits: Its bounds.
        legacy: As for `Server.asgi`.
    """

    def __init__(
        self, server: Server, limits: ServerLimits | None = None, *, legacy: bool = True
    ) -> None:
        settings = Settings.make(limits=limits or server.limits)
        self.endpoint = server.endpoint(settings, legacy=legacy)
        self.tasks: list[asyncio.Task[None]] = []

    def send(
        self,
        message: Any,
        session: str | None = None,
        *,
        method: str = "POST",
        principal: str | None = None,
        **lines: str | None,
    ) -> RecordingDoor:
        """Send a message; `lines` are header lines, in which `None` removes one."""
        named: dict[str, str | None] = {
            "accept": "application/json, text/event-stream",
            "mcp-session-id": session,
            "mcp-protocol-version": None if session is None else "2025-11-25",
        }
        named |= {key.replace("_", "-"): value for key, value in lines.items()}
        headers = [(key.encode(), value.encode()) for key, value in named.items() if value]
        head = Head(method, "/mcp", headers)
        head.accepted = parse_accept(head.get_all(b"accept"))
        head.principal = None if principal is None else Principal(principal)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        door = RecordingDoor()
        rest = self.endpoint.begin(head, b"" if message is None else body, door)
        if rest is not None:
            self._spawn(rest)
        return door

    def get(self, session: str | None, **lines: str | None) -> RecordingDoor:
        """Open the stream of GET."""
        return self.send(None, session, method="GET", **lines)

    def open(self, version: str = "2025-11-25", **options: Any) -> str:
        """Open a session; gives its id."""
        capabilities = options.pop("capabilities", {})
        door = self.send(initialize(version, capabilities), **options)
        return dict(door.answers[0].headers)[b"mcp-session-id"].decode()

    def _spawn(self, rest: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(rest))


def initialize(version: str = "2025-11-25", capabilities: dict[str, Any] | None = None) -> Any:
    """Write the request that opens a session."""
    params = {
        "protocolVersion": version,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    return request("initialize", params, id=0)


def request(method: str, params: dict[str, Any] | None = None, *, id: Any = 1) -> Any:
    """Write a request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def call(name: str, *, id: Any = 1, token: Any = None, **arguments: Any) -> Any:
    """Write a call of a tool."""
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request("tools/call", params, id=id)


def cancel(id: Any) -> Any:
    """Write the notification that cancels a request."""
    params = {"requestId": id}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def text(message: Any) -> str:
    """The text of a tool's result."""
    return str(message["result"]["content"][0]["text"])


def events(door: RecordingDoor) -> list[tuple[str, Any]]:
    """The events of a stream as (id, message); one without data has `None`."""
    found = []
    for part in b"".join(door.chunks).decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in part.splitlines() if ": " in line)
        if "id" in fields:
            data = fields.get("data")
            found.append((fields["id"], json.loads(data) if data else None))
    return found


def messages(door: RecordingDoor) -> list[Any]:
    """The messages of a stream."""
    return [message for _, message in events(door) if message is not None]
