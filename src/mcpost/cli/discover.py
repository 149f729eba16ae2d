"""`mcpost discover`: what a server is, and what it can do."""

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
    print_text,
    run,
)
from mcpost.cli.calling import print_json as show_json

__all__ = ("discover",)


def discover(
    url: Url,
    header: Header = None,
    timeout: Timeout = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    proxy: Proxy = None,
    json: Json = False,
) -> None:
    """Show a server's name, versions and capabilities."""
    client = make_client(
        url, header=header, timeout=timeout, ca=ca, cert=cert, key=key, proxy=proxy
    )
    found = run(client, lambda client: client.discover())
    if json:
        show_json(found)
        return
    info = found.server_info
    print(cells(f"{info.title or info.name} {info.version}" if info else "(without a name)"))
    print(f"versions      {', '.join(found.supported_versions)}")
    print(f"capabilities  {', '.join(sorted(found.capabilities)) or 'none'}")
    if found.instructions:
        print_text(f"\n{found.instructions}")
