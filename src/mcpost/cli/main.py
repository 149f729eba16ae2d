"""`mcpost`: finds the command, loads that one alone, and turns errors into one line.

Exit status: 0 done, 1 failed, 2 used wrongly, 130 interrupted.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import typer
from typer.core import TyperGroup

from mcpost.errors import McpostError, UsageError

__all__ = ("main",)

COMMANDS: Final = (
    "serve",
    "discover",
    "tools",
    "call",
    "read",
    "prompts",
    "listen",
    "compare",
    "gateway",
    "export",
)
"""The commands; each is the function, or the group of verbs, of that name in the module of that
name."""


class Commands(TyperGroup):
    """Loads a command when it is asked for, so that each starts as fast as it can."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mcpost.cli.{cmd_name.replace('-', '_')}")
        found = getattr(module, cmd_name.replace("-", "_"))
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        single = typer.Typer(
            add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
        )
        single.command(cmd_name)(found)
        return typer.main.get_command(single)


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="The Model Context Protocol over HTTP: one URL, and every message is one POST.",
)


@app.callback(invoke_without_command=True)
def version(
    ctx: typer.Context,
    show: bool = typer.Option(False, "--version", help="Show the version and exit."),
) -> None:
    """The Model Context Protocol over HTTP: one URL, and every message is one POST."""
    if show:
        from mcpost import __version__

        print(f"mcpost {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())
        raise typer.Exit(2)


def main() -> None:
    """Run the command line."""
    try:
        app()
    except UsageError as error:
        sys.exit(_complain(error, 2))
    except McpostError as error:
        sys.exit(_complain(error, 1))
    except KeyboardInterrupt:
        sys.exit(130)


def _complain(error: McpostError, status: int) -> int:
    # The words may be a server's; none of them may drive the terminal.
    print("mcpost:", "".join(c if c.isprintable() else " " for c in str(error)), file=sys.stderr)
    return status
