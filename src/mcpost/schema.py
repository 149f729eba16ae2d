"""JSON Schema written by others: bounded, offline, in the dialect that it names.

A schema without `$schema` is 2020-12; draft 4, 6, 7 and 2019-09 are supported where a schema names
them. A `$ref` is followed inside the schema only: nothing is ever fetched, and a schema that needs
something from elsewhere is refused rather than read as permissive.

Spec: basic/index, "JSON Schema Usage" (J-07).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

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


class SchemaError(UsageError):
    """A schema that cannot be used: invalid, too large, of another dialect, or not whole."""


class Validator:
    """A schema, compiled."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def check(self, value: Any) -> str | None:
        """Check a JSON value.

        Args:
            value: What `json.loads` gives.

        Returns:
            `None` if it is valid, else one sentence that names the place and the reason.
        """
        if self._compiled.is_valid(value):
            return None
        error = next(iter(self._compiled.iter_errors(value)))
        path = ".".join(str(step) for step in error.instance_path)
        message = str(error.message)
        if len(message) > _MAX_MESSAGE:
            message = message[:_MAX_MESSAGE] + "..."
        return f"{path}: {message}" if path else message


def compile_schema(schema: Mapping[str, Any], limits: WireLimits = WireLimits()) -> Validator:
    """Compile a schema.

    Args:
        schema: The schema.
        limits: Bounds of its depth and of the number of its parts.

    Returns:
        Its validator; equal schemas share one.

    Raises:
        SchemaError: The dialect is not supported, the schema is invalid in its dialect, it is
            beyond the bounds, or a `$ref` leads outside of it.

    Spec: basic/index, "JSON Schema Usage" (J-07).
    """
    _check_bounds(schema, limits)
    return _compile(msgspec.json.encode(schema))


@lru_cache(maxsize=512)
def _compile(text: bytes) -> Validator:
    # Imported here: 24 ms and 15 MB that a program without foreign schemas does not need.
    import jsonschema_rs

    schema = msgspec.json.decode(text)
    dialect = schema.get("$schema", _DEFAULT)
    name = DIALECTS.get(str(dialect).removesuffix("#"))
    if name is None:
        raise SchemaError(
            f"the JSON Schema dialect {dialect!r} is not supported; use one of {list(DIALECTS)}"
        )
    try:
        return Validator(getattr(jsonschema_rs, name)(schema, retriever=_refuse))
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = getattr(error, "message", None) or str(error)
        raise SchemaError(f"the schema cannot be used: {reason[:_MAX_MESSAGE]}") from error


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside of the schema and is not fetched")


def _check_bounds(schema: Mapping[str, Any], limits: WireLimits) -> None:
    count = 0
    rest: list[tuple[Any, int]] = [(schema, 0)]
    while rest:
        value, depth = rest.pop()
        count += 1
        if depth > 2 * limits.max_schema_depth or count > 4 * limits.max_schema_nodes:
            raise SchemaError(
                f"the schema is deeper than {limits.max_schema_depth} levels or larger than"
                f" {limits.max_schema_nodes} subschemas; see WireLimits"
            )
        if isinstance(value, Mapping):
            rest.extend((child, depth + 1) for child in value.values())
        elif isinstance(value, list):
            rest.extend((child, depth + 1) for child in value)
