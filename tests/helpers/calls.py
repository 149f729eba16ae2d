"""Calling a server's features without a wire: literal parameters in, the result as JSON out."""

from __future__ import annotations

import inspect
import json
from typing import Any

from mcpost import Principal, Server
from mcpost.server.call import Call
from mcpost.wire import jsonrpc, meta

EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}


def make_call(
    method: str,
    params: dict[str, Any] | None = None,
    *,
    notes: list[dict[str, Any]] | None = None,
    capabilities: dict[str, Any] | None = None,
    principal: str | None = None,
    **more: Any,
) -> Call:
    """Make a call; `more` are further members of `_meta`, and `notes` gets its notifications."""
    said = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
        **more,
    }
    body = jsonrpc.encode_request(7, method, {**(params or {}), "_meta": said})
    request = jsonrpc.decode_message(body)
    assert isinstance(request, jsonrpc.Request)

    def notify(note: bytes) -> None:
        if notes is not None:
            notes.append(json.loads(note))

    return Call(
        request,
        meta.parse_meta(request),
        notify,
        principal=None if principal is None else Principal(principal),
    )


async def answer(server: Server, call: Call) -> dict[str, Any]:
    """Answer a call and give the result as a client would read it."""
    result = server.features.handle(call)
    if inspect.isawaitable(result):
        result = await result
    read: dict[str, Any] = json.loads(jsonrpc.encode_result(7, result))["result"]
    return read


async def ask(
    server: Server, method: str, params: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Make a call and answer it."""
    return await answer(server, make_call(method, params, **options))


async def call_tool(
    server: Server, name: str, arguments: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    """Call a tool; `retry` are further members of `params`."""
    retry = options.pop("retry", {})
    return await ask(
        server, "tools/call", {"name": name, "arguments": arguments or {}, **retry}, **options
    )
