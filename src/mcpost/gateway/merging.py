"""What an aggregate says for all of its members: lists, `server/discover`, cursors.

| what | merged how |
| --- | --- |
| entries | all, in the order of the members, with their prefixes |
| `nextCursor` | the cursors of those members that have more, as one |
| `capabilities` | what any member has, of what an aggregate can pass on |
| `supportedVersions` | what all members have |
| `instructions` | each under its member's name |
| `ttlMs`, `cacheScope` | the least; `public` if all are |

An answer in which a member is missing says so in `_meta`, and may not be kept.

Spec: server/discover; server/utilities/pagination (F-04), caching (F-05).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mcpost.errors import InvalidParams
from mcpost.gateway.addresses import join_name, join_uri
from mcpost.version import __version__
from mcpost.wire import jsonrpc
from mcpost.wire.caching import read_hints
from mcpost.wire.meta import SERVER_INFO
from mcpost.wire.versions import MODERN

__all__ = (
    "LISTS",
    "UNAVAILABLE",
    "Part",
    "merge_discover",
    "merge_list",
    "read_cursor",
    "say_missing",
)

UNAVAILABLE: Final = "mcpost/unavailable"
"""Member of a result's `_meta`: which members of the aggregate have no part in it, and why."""

_Join = Callable[[str, str], str]

LISTS: Final[Mapping[str, tuple[str, str, _Join]]] = {
    "tools/list": ("tools", "name", join_name),
    "prompts/list": ("prompts", "name", join_name),
    "resources/list": ("resources", "uri", join_uri),
    "resources/templates/list": ("resourceTemplates", "uriTemplate", join_uri),
}
"""The lists: where the entries stand, what each is known by, and how that is prefixed."""

_CAPABILITIES: Final = ("tools", "prompts", "resources", "completions", "logging")


class Part(NamedTuple):
    """What one member has answered."""

    member: str
    result: Mapping[str, Any]


def read_cursor(params: Mapping[str, Any], members: Collection[str]) -> dict[str, str] | None:
    """Read which members go on where.

    Args:
        params: Parameters of a list request.
        members: The members that there are.

    Returns:
        The cursor of each member that has more; `None` for the first page, which is of all.

    Raises:
        InvalidParams: -32602; it is no cursor that an aggregate of these members has given.

    Spec: server/utilities/pagination, "Error Handling" (F-04).
    """
    cursor = params.get("cursor")
    if cursor is None:
        return None
    try:
        raw = base64.urlsafe_b64decode(cursor) if type(cursor) is str else b""
        found = msgspec.json.decode(raw, type=dict[str, str])
    except (ValueError, binascii.Error, msgspec.DecodeError, RecursionError):
        found = {}
    # Each part is its member's own word, which the member checks: there is nothing to seal.
    if not found or not found.keys() <= set(members) or _write_cursor(found) != cursor:
        raise InvalidParams("this cursor is none that was given here")
    return found


def _write_cursor(cursors: Mapping[str, str]) -> str:
    return base64.urlsafe_b64encode(jsonrpc.encode(cursors)).decode("ascii")


def merge_list(
    method: str, parts: Sequence[Part], missing: Mapping[str, str], name: str
) -> dict[str, Any]:
    """Merge one page of each member.

    Args:
        method: One of `LISTS`.
        parts: What the members have answered, in their order.
        missing: The members that have not, and why.
        name: Name of the aggregate.
    """
    place, known_by, join = LISTS[method]
    entries: list[Any] = []
    cursors: dict[str, str] = {}
    for member, result in parts:
        found = result.get(place)
        entries += [
            {**entry, known_by: join(member, entry[known_by])}
            for entry in (found if type(found) is list else [])
            if type(entry) is dict and type(entry.get(known_by)) is str
        ]
        cursor = result.get("nextCursor")
        if type(cursor) is str:
            cursors[member] = cursor
    merged: dict[str, Any] = {"resultType": "complete", place: entries}
    if cursors:
        merged["nextCursor"] = _write_cursor(cursors)
    return _finish(merged, parts, missing, name)


def merge_discover(parts: Sequence[Part], missing: Mapping[str, str], name: str) -> dict[str, Any]:
    """Merge what the members say of themselves; arguments as for `merge_list`.

    Extensions and experimental capabilities are left out: their methods have no prefix to go by.
    """
    capabilities: dict[str, dict[str, Any]] = {}
    versions = list(MODERN)
    instructions: list[str] = []
    for member, result in parts:
        offered = result.get("capabilities")
        for key in _CAPABILITIES:
            value = offered.get(key) if type(offered) is dict else None
            if type(value) is dict:
                mine = capabilities.setdefault(key, {})
                mine.update({flag: True for flag, is_set in value.items() if is_set is True})
        served = result.get("supportedVersions")
        versions = [each for each in versions if type(served) is list and each in served]
        text = result.get("instructions")
        if type(text) is str and text:
            instructions.append(f"## {member}\n\n{text}")
    merged: dict[str, Any] = {
        "resultType": "complete",
        "supportedVersions": versions,
        "capabilities": capabilities,
    }
    if instructions:
        merged["instructions"] = "\n\n".join(instructions)
    return _finish(merged, parts, missing, name)


def say_missing(missing: Mapping[str, str]) -> str:
    """Say in one line which members are missing, and why."""
    return "; ".join(f"member {member!r}: {why}" for member, why in missing.items())


def _finish(
    merged: dict[str, Any], parts: Sequence[Part], missing: Mapping[str, str], name: str
) -> dict[str, Any]:
    hints = [read_hints(part.result) for part in parts]
    is_public = bool(hints) and not missing and all(each.scope == "public" for each in hints)
    merged["ttlMs"] = 0 if missing else min((each.ttl_ms for each in hints), default=0)
    merged["cacheScope"] = "public" if is_public else "private"
    meta: dict[str, Any] = {SERVER_INFO: {"name": name, "version": __version__}}
    if missing:
        meta[UNAVAILABLE] = dict(missing)
    merged["_meta"] = meta
    return merged
