"""The flat schema of an elicited answer.

Spec: client/elicitation, "Requested Schema": an object whose properties are strings, numbers,
booleans, or choices of strings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mcpost.server.signature.chains import inline
from mcpost.server.signature.models import Model

__all__ = ("flat_model",)


@lru_cache(maxsize=256)
def flat_model(hint: Any) -> tuple[Model, dict[str, Any]]:
    """Make model and schema of a type that is asked for.

    Args:
        hint: A model, dataclass or TypedDict with flat fields.

    Returns:
        The model that reads an answer, and the schema to ask with: references are replaced by what
        they refer to, and an optional property by the property itself.

    Raises:
        UsageError: The type has no JSON Schema.
    """
    model = Model(hint)
    schema = model.schema()
    definitions = schema.pop("$defs", {})
    schema = inline(schema, definitions)
    properties = schema.get("properties", {})
    for name, each in properties.items():
        properties[name] = {
            key: value
            for key, value in inline(each, definitions).items()
            if not (key == "default" and value is None)
        }
    return model, schema
