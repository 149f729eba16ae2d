"""A server that clients of both eras use."""

from __future__ import annotations

import asyncio

from mcpost import Context, Server

server = Server("both", version="1")


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
async def ask_all(ctx: Context) -> str:
    """Ask a person, a model, and for the roots."""
    person = await ctx.elicit(
        "Your name?", {"type": "object", "properties": {"name": {"type": "string"}}}
    )
    model = await ctx.sample("Say hello.", max_tokens=5)
    roots = await ctx.roots()
    return f"{(person.content or {})['name']}, {model.text}, {len(roots)}"


@server.tool
async def change() -> str:
    """Change the tools and a resource."""
    server.add_tool(add, name="more")
    server.remove_tool("more")
    server.notify_resource_updated("both://one")
    return "changed"


@server.resource("both://one")
def one() -> str:
    return "one"
