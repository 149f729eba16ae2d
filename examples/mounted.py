"""An MCP server inside a FastAPI app: `uvicorn examples.mounted:app`.

Nothing has to be wired: no lifespan, no redirect; `/tools` and `/tools/` are both served, and the
rest of the app stays as it is.
"""

from __future__ import annotations

from fastapi import FastAPI

from mcpost import Context, Server
from mcpost.server.asgi import mount

server = Server("clock", version="1.0")


@server.tool
async def countdown(start: int, ctx: Context) -> str:
    """Count down from a number."""
    for done in range(start):
        ctx.progress(done + 1, start)
    return f"{start} … lift-off"


app = FastAPI(title="An app with tools")
mount(app, "/tools", server.asgi("/tools"))


@app.get("/")
async def home() -> dict[str, str]:
    """Say where the tools are."""
    return {"tools": "/tools"}
