"""`mcpost tools`: the tools of a server."""

from __future__ import annotations

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
from mcpost.types import Tool

__all__ = ("tools",)


def tools(
    url: Url,
    header: Header = None,
    timeout: Timeout = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    proxy: Proxy = None,
    json: Json = False,
) -> None:
    """List the tools of a server: name, arguments, description; tab-separated."""
    client = make_client(
        url, header=header, timeout=timeout, ca=ca, cert=cert, key=key, proxy=proxy
    )
    found = run(client, lambda client: client.tools())
    if json:
        show_json(found)
        return
    for tool in found:
        print(cells(tool.name, _signature(tool), tool.description))


def _signature(tool: Tool) -> str:
    """The arguments as they are typed on the command line; the optional ones in brackets."""
    required = tool.input_schema.get("required", [])
    names = tool.input_schema.get("properties", {})
    return " ".join(f"{name}=" if name in required else f"[{name}=]" for name in names)
