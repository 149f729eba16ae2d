"""What the commands that call a server share: their options, typed arguments, and the end.

Spec: server/tools (arguments are typed by the tool's input schema).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import msgspec
from typer import Argument, Option

from mcpost.client import Client, Network, Retry
from mcpost.errors import UsageError

__all__ = (
    "Ca",
    "Cert",
    "Header",
    "Json",
    "Key",
    "MaxTimeout",
    "Proxy",
    "Retries",
    "Timeout",
    "Url",
    "cells",
    "make_client",
    "plain",
    "print_json",
    "print_text",
    "read_arguments",
    "run",
)

T = TypeVar("T")

Url = Annotated[str, Argument(help="URL of the server, as in https://example.com/mcp.")]
Header = Annotated[
    list[str] | None,
    Option("--header", "-H", help="A header line, as in 'Authorization: Bearer …'; repeatable."),
]
Json = Annotated[bool, Option("--json", help="Print JSON, for other programs to read.")]
Timeout = Annotated[float | None, Option(help="Seconds without a sign of life.")]
MaxTimeout = Annotated[float | None, Option(help="Seconds in all.")]
Retries = Annotated[
    int | None,
    Option("--retry", help="Make a call that was lost up to this often; it may then run twice."),
]
Ca = Annotated[str | None, Option(help="File with certificates of authorities to trust.")]
Cert = Annotated[str | None, Option(help="File with this client's certificate.")]
Key = Annotated[str | None, Option(help="File with the certificate's private key.")]
Proxy = Annotated[str | None, Option(help="URL of an HTTP proxy.")]

_TOKEN = "MCPOST_TOKEN"


def make_client(
    url: str,
    *,
    header: Sequence[str] | None = None,
    timeout: float | None = None,
    max_timeout: float | None = None,
    retry: int | None = None,
    ca: str | None = None,
    cert: str | None = None,
    key: str | None = None,
    proxy: str | None = None,
    **more: Any,
) -> Client:
    """Make a client of the options of a command.

    A token in the environment variable MCPOST_TOKEN is sent as `Authorization: Bearer`.
    """
    headers: dict[str, str] = {}
    for line in header or ():
        name, colon, value = line.partition(":")
        if not colon:
            raise UsageError(f"{line!r} is no header line; write 'Name: value'")
        headers[name.strip()] = value.strip()
    token = os.environ.get(_TOKEN)
    if token and "authorization" not in map(str.lower, headers):
        headers["Authorization"] = f"Bearer {token}"
    return Client(
        url,
        headers=headers,
        timeout=timeout,
        max_timeout=max_timeout,
        retry=None if retry is None else Retry(attempts=max(retry, 1)),
        network=Network(ca=ca, cert=cert, key=key, proxy=proxy),
        **more,
    )


def run(client: Client, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do something with a client, and close it.

    Ctrl-C cancels what is under way, which tells the server, and says so.
    """

    async def main() -> T:
        async with client:
            return await work(client)

    try:
        return asyncio.run(main())
    except KeyboardInterrupt:
        print("mcpost: cancelled; the server was told", file=sys.stderr)
        raise


def print_json(value: Any) -> None:
    """Print a value as JSON: indented for a person, on one line for a pipe."""
    text = msgspec.json.encode(value)
    if sys.stdout.isatty():
        text = msgspec.json.format(text, indent=2)
    print(text.decode(), flush=True)


def cells(*columns: Any) -> str:
    """A line of columns, separated by tabs; what stands in a cell stays on the line."""
    return "\t".join(" ".join(plain(str(column or "")).split()) for column in columns)


def plain(text: str) -> str:
    """A server's text for a terminal: without the control characters that would drive it."""
    return "".join(c for c in text if c in "\n\t" or c.isprintable())


def print_text(text: str, *, error: bool = False) -> None:
    """Print a server's text: as it is into a file or pipe, plain on a terminal."""
    where = sys.stderr if error else sys.stdout
    print(plain(text) if where.isatty() else text, file=where)


def read_arguments(
    pairs: Sequence[str], text: str | None, schema: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Read the arguments of a call.

    Args:
        pairs: `key=value`, typed by the schema, or `key:=JSON`.
        text: A JSON object, `@FILE`, or `-` for the standard input; pairs add to it.
        schema: The tool's input schema, `None` where it is not known.

    Raises:
        UsageError: A pair is none, or its value is not of the type that the schema names.
    """
    arguments = _read_object(text) if text is not None else {}
    properties = (schema or {}).get("properties", {})
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{pair!r} is no argument; write key=value or key:=JSON")
        if name.endswith(":"):
            arguments[name[:-1]] = _decode(value, name[:-1])
        else:
            arguments[name] = _typed(name, value, properties.get(name))
    return arguments


def _read_object(text: str) -> dict[str, Any]:
    if text == "-":
        text = sys.stdin.read()
    elif text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{text[1:]} cannot be read: {error.strerror}") from error
    found: dict[str, Any] | None = _decode(text, "the input")
    if not isinstance(found, dict):
        raise UsageError("the arguments are a JSON object")
    return found


def _decode(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{what} is not JSON: {error}") from error


def _typed(name: str, text: str, schema: Any) -> Any:
    """Read a value as the type of the schema; as text where that is allowed or nothing is said."""
    kinds = _kinds(schema)
    if not kinds or "string" in kinds:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, str) and "array" in kinds:
        return [_typed(name, each, schema.get("items")) for each in text.split(",")]
    if not any(_is(value, kind) for kind in kinds):
        raise UsageError(f"{name}={text}: the tool wants {' or '.join(sorted(kinds))}")
    return value


def _kinds(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    found = cast("dict[str, Any]", schema)
    kind = found.get("type")
    kinds: set[str] = {kind} if isinstance(kind, str) else set(kind or ())
    for each in (*found.get("anyOf", ()), *found.get("oneOf", ())):
        kinds |= _kinds(each)
    return kinds


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    types: dict[str, type | tuple[type, ...]] = {
        "integer": int,
        "number": (int, float),
        "object": dict,
        "array": list,
    }
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return kind in types and isinstance(value, types[kind])
