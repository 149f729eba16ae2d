"""`mcpost prompts`: list the prompts of a server, or get one."""

from __future__ import annotations

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
    read_arguments,
    run,
)
from mcpost.cli.calling import print_json as show_json
from mcpost.types import Prompt, TextContent

__all__ = ("prompts",)


def prompts(
    url: Url,
    name: Annotated[
        str | None, Argument(help="Name of the prompt; without it all are listed.")
    ] = None,
    arguments: Annotated[list[str] | None, Argument(help="key=value.")] = None,
    header: Header = None,
    timeout: Timeout = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    proxy: Proxy = None,
    json: Json = False,
) -> None:
    """Print the messages of a prompt, or list the prompts."""
    client = make_client(
        url, header=header, timeout=timeout, ca=ca, cert=cert, key=key, proxy=proxy
    )
    if name is None:
        found = run(client, lambda client: client.prompts())
        if json:
            show_json(found)
            return
        for prompt in found:
            print(cells(prompt.name, _signature(prompt), prompt.description))
        return
    given = read_arguments(arguments or (), None, None)
    result = run(client, lambda client: client.prompt(name, given))
    if json:
        show_json(result)
        return
    for message in result.messages:
        block = message.content
        text = block.text if isinstance(block, TextContent) else f"({type(block).__name__})"
        print_text(f"{message.role}: {text}")


def _signature(prompt: Prompt) -> str:
    return " ".join(
        f"{each.name}=" if each.required else f"[{each.name}=]" for each in prompt.arguments or ()
    )
