"""`mcpost read`: list the resources of a server, or read one."""

from __future__ import annotations

import sys
from base64 import b64decode
from typing import Annotated

from typer import Argument

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
from mcpost.client import Client
from mcpost.types import ReadResult, Resource, ResourceTemplate, TextResourceContents

__all__ = ("read",)


def read(
    url: Url,
    uri: Annotated[
        str | None, Argument(help="URI of the resource; without it all are listed.")
    ] = None,
    header: Header = None,
    timeout: Timeout = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    proxy: Proxy = None,
    json: Json = False,
) -> None:
    """Read a resource to the standard output, or list the resources and their templates."""
    client = make_client(
        url, header=header, timeout=timeout, ca=ca, cert=cert, key=key, proxy=proxy
    )
    if uri is not None:
        _print_contents(run(client, lambda client: client.read(uri)), as_json=json)
        return
    resources, templates = run(client, _list)
    if json:
        show_json({"resources": resources, "resourceTemplates": templates})
        return
    for each in resources:
        print(cells(each.uri, each.name, each.mime_type))
    for template in templates:
        print(cells(template.uri_template, template.name, template.mime_type))


async def _list(client: Client) -> tuple[list[Resource], list[ResourceTemplate]]:
    return await client.resources(), await client.templates()


def _print_contents(result: ReadResult, *, as_json: bool) -> None:
    if as_json:
        show_json(result)
        return
    for each in result.contents:
        if isinstance(each, TextResourceContents):
            print_text(each.text)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(b64decode(each.blob))
