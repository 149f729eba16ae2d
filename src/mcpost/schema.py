"""JSON Schema written by others: bounded, offline, in the dialect that it names.

A schema without `$schema` is 2020-12; draft 4, 6, 7 and 2019-09 are supported where a schema names
them. A `$ref` is followed inside the schema only: nothing is ever fetched, and a schema that needs
something from elsewhere is refused rather than read as permissive.

What a schema may cost is bounded three times: its own size, before it is compiled; the work that
it asks for at one place of a value, where references multiply each other; and, for a schema that
refers to itself, the depth of the values that it is asked about.

Spec: basic/index, "JSON Schema Usage" (J-07).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from mcpost.errors import UsageError
from mcpost.limits import WireLimits

__all__ = ("DIALECTS", "SchemaError", "Validator", "compile_schema")

DIALECTS: Final = {
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
}
"""The dialects that are supported, by the URI that `$schema` names them with."""

_DEFAULT: Final = "https://json-schema.org/draft/2020-12/schema"
_MAX_MESSAGE: Final = 300
_LIMITS: Final = WireLimits()


class SchemaError(UsageError):
    """A schema that cannot be used: invalid, too large, of another dialect, or not whole."""


class Validator:
    """A schema, compiled by `compile_schema`."""

    __slots__ = ("_compiled", "_max_depth")

    def __init__(self, compiled: Any, max_depth: int | None) -> None:
        self._compiled = compiled
        self._max_depth = max_depth

    def check(self, value: Any) -> str | None:
        """Check a JSON value.

        Args:
            value: What `json.loads` gives.

        Returns:
            `None` if it is valid, else one sentence that names the place and the reason.
        """
        if self._max_depth is not None and _is_deeper(value, self._max_depth):
            return f"nested more than {self._max_depth} levels deep, so it is not checked"
        try:
            if self._compiled.is_valid(value):
                return None
            error = next(iter(self._compiled.iter_errors(value)))
        except (ValueError, TypeError) as problem:
            return f"not a JSON value: {problem}"
        path = ".".join(str(step) for step in error.instance_path)
        message = _shorten(str(error.message))
        return f"{path}: {message}" if path else message


def compile_schema(schema: Mapping[str, Any], limits: WireLimits = _LIMITS) -> Validator:
    """Compile a schema.

    Args:
        schema: The schema.
        limits: Bounds of its depth, of the number of its parts and of the work it may ask for.

    Returns:
        Its validator; equal schemas share one.

    Raises:
        SchemaError: The dialect is not supported, the schema is invalid in its dialect, it is
            beyond the bounds, or a `$ref` leads outside of it.

    Spec: basic/index, "JSON Schema Usage" (J-07).
    """
    _check_size(schema, limits)
    try:
        text = msgspec.json.encode(schema)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"the schema is no JSON: {error}") from error
    return _compile(text, limits)


@lru_cache(maxsize=512)
def _compile(text: bytes, limits: WireLimits) -> Validator:
    # Imported here: 24 ms and 15 MB that a program without foreign schemas does not need.
    import jsonschema_rs

    schema = msgspec.json.decode(text)
    dialect = schema.get("$schema", _DEFAULT)
    name = DIALECTS.get(str(dialect).removesuffix("#"))
    if name is None:
        raise SchemaError(
            f"the JSON Schema dialect {dialect!r} is not supported; use one of {list(DIALECTS)}"
        )
    max_depth = _Work(schema, limits).max_depth()
    try:
        compiled = getattr(jsonschema_rs, name)(schema, retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise SchemaError(f"the schema cannot be used: {_shorten(reason)}") from error
    return Validator(compiled, max_depth)


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside of the schema, and nothing is fetched")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE] + "..."


def _check_size(schema: Mapping[str, Any], limits: WireLimits) -> None:
    # A step down is a keyword and mostly a name or number too.
    max_levels = 2 * limits.max_schema_depth
    objects = values = 0
    rest: list[tuple[Any, int]] = [(schema, 0)]
    while rest:
        value, depth = rest.pop()
        values += 1
        if depth > max_levels:
            raise SchemaError(f"the schema is deeper than {limits.max_schema_depth} levels")
        if isinstance(value, Mapping):
            objects += 1
            rest.extend((child, depth + 1) for child in value.values())
        elif isinstance(value, (list, tuple)):
            rest.extend((child, depth + 1) for child in value)
        if objects > limits.max_schema_nodes or values > 10 * limits.max_schema_nodes:
            raise SchemaError(f"the schema has more than {limits.max_schema_nodes} subschemas")


def _is_deeper(value: Any, limit: int) -> bool:
    """Whether containers are nested more than so many levels deep."""
    level = [value] if isinstance(value, (dict, list)) else []
    depth = 0
    while level:
        depth += 1
        if depth > limit:
            return True
        level = [
            child
            for each in level
            for child in (each.values() if isinstance(each, dict) else each)
            if isinstance(child, (dict, list))
        ]
    return False


# Keywords whose subschemas look at the same place of the value as the schema they stand in.
_SAME_PLACE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_SAME_PLACE_OLD: Final = ("dependencies", "extends")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords that look at its children.
_CHILDREN: Final = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "items",
    "additionalItems",
    "prefixItems",
    "unevaluatedItems",
    "contains",
)


class _Work:
    """How often one place of a value is looked at, at most, by its depth.

    Two references to a schema that has two references itself make four looks at a place, and so
    on: twenty small definitions ask for a million. A schema that refers to itself does the same
    with the depth of the value.
    """

    def __init__(self, schema: Any, limits: WireLimits) -> None:
        self._limits = limits
        self._nodes: list[Any] = []
        self._index: dict[int, int] = {}
        self._anchors: dict[str, Any] = {}
        self._root = schema
        for node in _objects(schema):
            for keyword in ("$anchor", "$dynamicAnchor", "$id", "id"):
                name = node.get(keyword)
                if isinstance(name, str):
                    self._anchors[name.removeprefix("#")] = node
        # The order of `_nodes` is that of discovery from the root.
        self._number(schema)
        self._same: list[list[int]] = []
        self._below: list[list[int]] = []
        for node in self._nodes:  # grows while it is walked
            self._same.append([self._number(each) for each in self._same_place(node)])
            self._below.append([self._number(each) for each in _subschemas(node, _CHILDREN)])

    def max_depth(self) -> int | None:
        """Give the depth of values up to which the work stays within its bound, if it leaves it.

        Raises:
            SchemaError: The work is beyond it at the very first place.
        """
        looks = [0] * len(self._nodes)
        for depth in range(self._limits.max_value_depth):
            found = self._looks(looks)
            if found[0] > self._limits.max_schema_work:
                if depth == 0:
                    raise SchemaError("the schema's references multiply each other without bound")
                return depth
            if found == looks:
                return None
            looks = found
        return self._limits.max_value_depth

    def _looks(self, below: list[int]) -> list[int]:
        """Count the looks at the busiest place one level further down, for each schema."""
        bound = self._limits.max_schema_work + 1
        done: list[int] = [0] * len(self._nodes)
        open_: set[int] = set()
        rest = list(range(len(self._nodes)))[::-1]
        while rest:
            number = rest[-1]
            waiting = [each for each in self._same[number] if not done[each] and each not in open_]
            if not done[number] and waiting and number not in open_:
                open_.add(number)
                rest.extend(waiting)
                continue
            rest.pop()
            if not done[number]:
                open_.discard(number)
                own = max((below[each] for each in self._below[number]), default=0)
                if not below[number]:
                    own = 1
                # A circle at one place is walked once: the engine sees that it comes back.
                own += sum(done[each] for each in self._same[number])
                done[number] = min(max(own, below[number]), bound)
        return done

    def _number(self, node: Any) -> int:
        found = self._index.get(id(node))
        if found is None:
            found = self._index[id(node)] = len(self._nodes)
            self._nodes.append(node)
        return found

    def _same_place(self, node: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from _subschemas(node, _SAME_PLACE)
        yield from _subschemas(node, _SAME_PLACE_OLD)
        for keyword in _REFERENCES:
            reference = node.get(keyword)
            if isinstance(reference, str):
                target = self._follow(reference)
                if isinstance(target, dict):
                    yield target

    def _follow(self, reference: str) -> Any:
        base, _, fragment = reference.partition("#")
        start = self._anchors.get(base, self._root)
        if not fragment.startswith("/"):
            return self._anchors.get(fragment, start) if fragment else start
        target: Any = start
        for step in fragment[1:].split("/"):
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict):
                target = target.get(name)
            elif isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            else:
                return None
        return target


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            yield value
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)


def _subschemas(node: dict[str, Any], keywords: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for keyword in keywords:
        value = node.get(keyword)
        if isinstance(value, list):
            yield from (each for each in value if isinstance(each, dict))
        elif isinstance(value, dict):
            if keyword in ("properties", "patternProperties", "dependentSchemas", "dependencies"):
                yield from (each for each in value.values() if isinstance(each, dict))
            else:
                yield value
