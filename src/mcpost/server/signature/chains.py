"""Schemas that are legal for marks, and schemas without references.

A mark has to be reached through `properties` alone, with no union and no reference on the way.
Optional parameters and nested models are written with just those, so here they are straightened:
a reference is replaced by what it refers to, and a union with null by its other member, since
absence says the same.

Spec: server/tools, "x-mcp-header" (H-03, H-04).
"""

from __future__ import annotations

import copy
from typing import Any

from mcpost.errors import BadMark
from mcpost.wire.fields import SAFE_INTEGER
from mcpost.wire.mirror import KEYWORD

__all__ = ("inline", "rooted", "straighten")

_MAX_DEPTH = 32


def straighten(schema: dict[str, Any]) -> None:
    """Put every mark of a schema of arguments at the end of a chain of plain `properties`.

    Args:
        schema: The schema; it is changed where marks stand, and only there.

    Raises:
        BadMark: A model that contains itself has a mark, so the chain has no end.
    """
    if not _has_mark(schema):
        return
    _straighten(schema, schema.get("$defs", {}), ())
    _drop_unused_definitions(schema)


def inline(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Replace a schema's own reference by its target, and a union with null by the other member.

    Args:
        node: The schema.
        definitions: What its references lead to.
    """
    while True:
        node = _follow(node, definitions)
        members = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
        if len(members) == 1:
            node = {**members[0], **{key: value for key, value in node.items() if key != "anyOf"}}
            continue
        return node


def _follow(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Replace a schema's own reference by its target, beside which the schema may say more."""
    while "$ref" in node:
        target = copy.deepcopy(definitions[node["$ref"].rpartition("/")[2]])
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """Put what a schema's root refers to into the root, so that it says its type itself."""
    if "$ref" not in schema:
        return schema
    definitions = schema.get("$defs", {})
    found = {**_follow(schema, definitions), "$defs": definitions}
    _drop_unused_definitions(found)
    return found


def _has_mark(value: Any) -> bool:
    if isinstance(value, dict):
        return KEYWORD in value or any(map(_has_mark, value.values()))
    return isinstance(value, list) and any(map(_has_mark, value))


def _straighten(node: dict[str, Any], definitions: dict[str, Any], path: tuple[str, ...]) -> None:
    for name, child in list(node.get("properties", {}).items()):
        if not _leads_to_mark(child, definitions, frozenset()):
            continue
        place = (*path, name)
        if len(place) > _MAX_DEPTH:
            raise BadMark(
                f"properties.{place[0]}", "a model that contains itself cannot have a mark inside"
            )
        plain = inline(child, definitions)
        node["properties"][name] = plain
        if KEYWORD in plain:
            _bound(plain)
        # What was optional with null is so by being left out.
        if plain.get("default", "") is None:
            del plain["default"]
        _straighten(plain, definitions, place)


def _bound(schema: dict[str, Any]) -> None:
    """Keep a mirrored integer within what every reader of a header reads exactly (H-04)."""
    if schema.get("type") != "integer":
        return
    for keyword, limit, choose in (("minimum", -SAFE_INTEGER, max), ("maximum", SAFE_INTEGER, min)):
        schema[keyword] = choose(schema.get(keyword, limit), limit)


def _leads_to_mark(node: Any, definitions: dict[str, Any], seen: frozenset[str]) -> bool:
    """Whether a mark stands on this property, or on one that it leads to."""
    if not isinstance(node, dict):
        return False
    if KEYWORD in node:
        return True
    reference = node.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        target = definitions.get(reference.rpartition("/")[2])
        if _leads_to_mark(target, definitions, seen | {reference}):
            return True
    children = [*node.get("anyOf", ()), *node.get("properties", {}).values()]
    return any(_leads_to_mark(each, definitions, seen) for each in children)


def _drop_unused_definitions(schema: dict[str, Any]) -> None:
    definitions = schema.pop("$defs", {})
    used: dict[str, Any] = {}
    rest: list[Any] = [schema]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                name = reference.rpartition("/")[2]
                if name in definitions and name not in used:
                    used[name] = definitions[name]
                    rest.append(definitions[name])
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
    if used:
        schema["$defs"] = {name: each for name, each in definitions.items() if name in used}
