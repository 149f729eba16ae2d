"""From what a person typed to the server that is meant."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from mcpost.errors import BadTarget
from mcpost.server.app import Server

__all__ = ("load_server",)


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
    if path.suffix != ".py" and not path.is_file():
        return _load_module(place)
    if not path.is_file():
        raise BadTarget(f"there is no file {place}")
    # What stands beside the file can be imported from it, as when it is run.
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise BadTarget(f"{place} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (ImportError, SyntaxError) as error:
        raise BadTarget(f"{place} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if name == missing or name.startswith(f"{missing}."):
            raise BadTarget(f"there is no file or module {name!r}") from None
        raise BadTarget(f"{name} cannot be loaded: {error}") from error
    except (ImportError, SyntaxError, ValueError) as error:
        raise BadTarget(f"{name!r} cannot be loaded: {type(error).__name__}: {error}") from error
