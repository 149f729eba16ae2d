"""From what a person typed to the server that is meant."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

from mcpost.errors import BadTarget
from mcpost.server.app import Server

__all__ = ("load_server",)

_OTHERS: Final = (
    "<",
    str(Path(__file__).parent.parent),
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)
"""How the files begin that are not the target's own: what is wrong is told of those that are."""


def load_server(target: str) -> Server:
    """Find a server.

    Args:
        target: `file.py:name` or `package.module:name`; without a name the module's only server.

    Raises:
        BadTarget: There is no such file, module or server; what the module itself raises while it
            is loaded is told with its place.
    """
    place, _, name = target.rpartition(":")
    # `C:\server.py` has a colon that names nothing.
    if not place or name.startswith(("\\", "/")):
        place, name = target, ""
    module = _load(place)
    if name:
        found = _attribute(module, place, name)
        if not isinstance(found, Server):
            raise BadTarget(f"{place}:{name} is a {type(found).__name__}, not a Server")
        return found
    servers = {key: each for key, each in vars(module).items() if isinstance(each, Server)}
    if len(set(map(id, servers.values()))) != 1:
        names = f"several ({', '.join(servers)})" if servers else "none"
        raise BadTarget(f"{place} should have one Server and has {names}; write {place}:NAME")
    return next(iter(servers.values()))


def _attribute(module: ModuleType, place: str, name: str) -> object:
    value: object = module
    for step in name.split("."):
        try:
            value = getattr(value, step)
        except AttributeError:
            raise BadTarget(f"{place} has no {name!r}") from None
    return value


def _load(place: str) -> ModuleType:
    path = Path(place)
    # What stands beside the file can be imported from it, as when it is run.
    if path.is_file():
        sys.path.insert(0, str(path.resolve().parent))
        return _executed(place, lambda: _load_file(path, place))
    if path.suffix == ".py" or not all(part.isidentifier() for part in place.split(".")):
        raise BadTarget(f"there is no file {place}")
    sys.path.insert(0, str(Path.cwd()))
    return _executed(place, lambda: importlib.import_module(place))


def _executed(place: str, load: Callable[[], ModuleType]) -> ModuleType:
    """Run the code of a target, which may raise anything."""
    try:
        return load()
    except BadTarget:
        raise
    # This is the border of the command line: what another's code raises ends as one line.
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{place}.".startswith(f"{missing}."):
            raise BadTarget(f"there is no file or module {place!r}") from None
        raise BadTarget(f"{place}: {_last_line(error)}") from error
    except SystemExit as error:
        raise BadTarget(
            f"{place} ends the program while it is loaded: {_last_line(error)}"
        ) from error


def _load_file(path: Path, place: str) -> ModuleType:
    name = path.stem
    # Under its own name it is the same module to what it imports; but it takes no other's name.
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"served_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadTarget(f"{place} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _last_line(error: BaseException) -> str:
    """An exception and the place that it comes from, in one line."""
    said = " ".join(str(error).split())
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    # A syntax error names its place itself.
    if isinstance(error, SyntaxError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not each.filename.startswith(_OTHERS)]
    place = (own or frames)[-1]
    return f"{text} ({Path(place.filename).name}, line {place.lineno})"
