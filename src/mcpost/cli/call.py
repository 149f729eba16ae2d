"""`mcpost call`: call a tool, with its progress as it comes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from typer import Argument, Exit, Option

from mcpost.cli.calling import (
    Ca,
    Cert,
    Header,
    Json,
    Key,
    MaxTimeout,
    Proxy,
    Retries,
    Timeout,
    Url,
    make_client,
    plain,
    print_json,
    print_text,
    read_arguments,
    run,
)
from mcpost.client import Client
from mcpost.types import CallResult, LogMessage, Progress, TextContent

__all__ = ("call",)


def call(
    url: Url,
    tool: Annotated[str, Argument(help="Name of the tool.")],
    arguments: Annotated[
        list[str] | None, Argument(help="key=value, typed by the tool's schema, or key:=JSON.")
    ] = None,
    input: Annotated[
        str | None,
        Option(help="All arguments as a JSON object; @FILE, or - for stdin."),
    ] = None,
    header: Header = None,
    timeout: Timeout = None,
    max_timeout: MaxTimeout = None,
    retry: Retries = None,
    log_level: Annotated[
        str | None, Option(help="Show what the server logs for the call, from this level on.")
    ] = None,
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    proxy: Proxy = None,
    json: Json = False,
) -> None:
    """Call a tool and print its result.

    Progress goes to the standard error: a bar on a terminal, lines elsewhere. Ctrl-C cancels the
    call. Exit status: 0 done, 1 the tool or the call failed, 2 used wrongly, 130 cancelled.
    """
    more: dict[str, Any] = {}
    if log_level is not None:
        more = {"on_log": _print_log, "log_level": log_level}
    client = make_client(
        url,
        header=header,
        timeout=timeout,
        max_timeout=max_timeout,
        retry=retry,
        ca=ca,
        cert=cert,
        key=key,
        proxy=proxy,
        **more,
    )
    result = run(client, lambda client: _call(client, tool, arguments or (), input))
    if json:
        print_json(result)
    else:
        _print_result(result)
    if result.is_error:
        raise Exit(1)


async def _call(client: Client, name: str, pairs: Sequence[str], text: str | None) -> CallResult:
    schemas = {tool.name: tool.input_schema for tool in await client.tools()} if pairs else {}
    arguments = read_arguments(pairs, text, schemas.get(name))
    with _shown_progress(name) as show:
        return await client.call(name, arguments, progress=show)


def _print_log(message: LogMessage) -> None:
    print_text(f"[{message.level}] {message.data}", error=True)


def _print_result(result: CallResult) -> None:
    for block in result.content:
        if isinstance(block, TextContent):
            print_text(block.text, error=result.is_error)
        else:
            print_text(f"({type(block).__name__}; --json shows it)", error=result.is_error)
    if not result.content and result.structured_content is not None:
        print_json(result.structured_content)


@contextmanager
def _shown_progress(name: str) -> Generator[Callable[[Progress], None]]:
    """Show progress from its first notice on: a bar on a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield _print_progress
        return
    # Imported here: most calls have no progress to draw.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    started: list[TaskID] = []

    def show(progress: Progress) -> None:
        if not started:
            bars.start()
            started.append(bars.add_task(name, total=progress.total))
        bars.update(
            started[0],
            completed=progress.progress,
            total=progress.total,
            description=plain(progress.message or name),
        )

    try:
        yield show
    finally:
        bars.stop()


def _print_progress(progress: Progress) -> None:
    total = "" if progress.total is None else f"/{progress.total:g}"
    message = plain(progress.message or "")
    print(f"{progress.progress:g}{total} {message}".rstrip(), file=sys.stderr)
