"""`mcpost listen`: print the changes of a server as they come."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Option

from mcpost.cli.calling import (
    Ca,
    Cert,
    Header,
    Json,
    Key,
    Proxy,
    Timeout,
    Url,
    cells,
    make_client,
    run,
)
from mcpost.cli.calling import print_json as show_json
from mcpost.client import Client
from mcpost.types import (
    Change,
    PromptsChanged,
    Reconnected,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
)

__all__ = ("listen",)


def listen(
    url: Url,
    tools: Annotated[bool, Option(help="Changes of the list of tools.")] = True,
    prompts: Annotated[bool, Option(help="Changes of the list of prompts.")] = True,
    resources: Annotated[bool, Option(help="Changes of the list of resources.")] = True,
    uri: Annotated[list[str] | None, Option(help="Changes of this resource; repeatable.")] = None,
    header: Header = None,
    timeout: Timeout = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    proxy: Proxy = None,
    json: Json = False,
) -> None:
    """Print changes until the server ends the subscription or Ctrl-C does."""
    client = make_client(
        url, header=header, timeout=timeout, ca=ca, cert=cert, key=key, proxy=proxy
    )

    async def follow(client: Client) -> None:
        async with client.listen(
            tools=tools, prompts=prompts, resources=resources, uris=uri or ()
        ) as changes:
            print(f"listening: {', '.join(changes.honoured) or 'nothing'}", file=sys.stderr)
            async for change in changes:
                if json:
                    show_json({"change": type(change).__name__, "detail": change})
                else:
                    print(_spell(change), flush=True)

    run(client, follow)


def _spell(change: Change | Reconnected) -> str:
    match change:
        case ToolsChanged():
            return "tools changed"
        case PromptsChanged():
            return "prompts changed"
        case ResourcesChanged():
            return "resources changed"
        case ResourceUpdated():
            return cells(f"resource updated: {change.uri}")
        case _:
            return f"reconnected after {change.seconds:.1f} s; changes may have been missed"
