"""Type hints: the parameters of a function, their schema and their validator.

Arguments arrive as JSON and are checked as JSON: strictly, so that `"5"` is no integer, while a
date comes from a string, an enum from its value and a tuple from an array. `5.0` is an integer, as
it is to JSON Schema.

Spec: server/tools, "Tool" (F-01); basic/index, "JSON Schema Usage" (J-07).
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec
from docstring_parser import parse as parse_docstring
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, core_schema
from typing_extensions import NotRequired, TypedDict

from mcpost.errors import BadMark, InvalidParams, UsageError
from mcpost.server.marks import Ask

__all__ = ("Model", "Parameters", "inline", "read_parameters")

_SAFE_INTEGER: Final = 2**53 - 1
_MAX_PROBLEMS: Final = 5


class _PlainSchema(GenerateJsonSchema):
    """Schemas without the titles that only repeat a name."""

    def field_title_should_be_set(self, schema: core_schema.CoreSchema | Any) -> bool:
        """No title is made of a field's name."""
        return False


@dataclass(slots=True)
class Asked:
    """A parameter that is asked for before the function runs."""

    resolve: Callable[..., Any]
    """Gives the value, or the question for it."""
    hint: Any
    """The type of the value."""
    needs: tuple[str, ...]
    """The parameters that `resolve` takes."""
    context: str | None
    """The one among its parameters that takes the Context."""


@dataclass(slots=True)
class Parameters:
    """The parameters of one function."""

    schema: dict[str, Any]
    """JSON Schema of the arguments, an object."""
    validate: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Checks arguments and gives the values by parameter name; raises InvalidParams."""
    names: tuple[str, ...]
    """The names that a caller gives, in order."""
    required: frozenset[str]
    context: str | None = None
    """Name of the parameter that takes the Context."""
    asks: dict[str, Asked] = field(default_factory=dict)
    """Parameters that are asked for."""
    summary: str | None = None
    """The docstring without its sections."""
    descriptions: dict[str, str] = field(default_factory=dict)
    returns: Any = None
    """The return annotation, resolved."""


def read_parameters(
    function: Callable[..., Any], *, context_type: type, strict: bool = True
) -> Parameters:
    """Read the parameters of a function.

    Args:
        function: The function, or any callable with a signature.
        context_type: The class whose annotation marks the context parameter.
        strict: Whether arguments are checked as strict JSON; otherwise they are text that is
            converted to the hinted types, as for prompts and URI templates.

    Returns:
        The parameters, compiled once; `validate` is on every call.

    Raises:
        UsageError: `*args`, a positional-only parameter, or a hint that cannot be resolved or has
            no schema.
    """
    name = getattr(function, "__name__", type(function).__name__)
    hints = _hints(function, name)
    summary, descriptions = _docstring(function)
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    context: str | None = None
    asks: dict[str, Asked] = {}
    open_ended = False
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, Any)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise UsageError(
                f"{name}: {parameter} cannot be filled, since arguments come by name; give every"
                " parameter a name that a caller can use"
            )
        if parameter.kind is parameter.VAR_KEYWORD:
            open_ended = True
            continue
        if _is_context(hint, context_type):
            context = parameter.name
            continue
        ask = _ask_of(hint)
        if ask is not None:
            asks[parameter.name] = _asked(ask, get_args(hint)[0], context_type)
            continue
        fields[parameter.name] = _field(parameter, hint, descriptions.get(parameter.name))
        default = _default_of(parameter)
        if default is not inspect.Parameter.empty:
            defaults[parameter.name] = default
    for asked, each in asks.items():
        unknown = set(each.needs) - fields.keys() - asks.keys()
        if unknown:
            raise UsageError(
                f"{name}: what asks for {asked!r} takes {', '.join(sorted(unknown))}, and there is"
                " no such parameter"
            )
    adapter = _adapter(name, fields, open_ended)
    schema = _finish_schema(
        adapter.json_schema(schema_generator=_PlainSchema), defaults, adapter_name=name
    )
    return Parameters(
        schema=schema,
        validate=_strict(adapter) if strict else _lax(adapter),
        names=tuple(fields),
        required=frozenset(fields) - frozenset(defaults),
        context=context,
        asks=asks,
        summary=summary,
        descriptions=descriptions,
        returns=hints.get("return"),
    )


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    target: Any = function
    while hasattr(target, "func") and hasattr(target, "keywords"):  # functools.partial
        target = target.func
    if not inspect.isroutine(target) and not inspect.isclass(target):
        target = type(target).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        # Names that exist where the function was made, but not in its module, as in a test's body.
        frame: Any = sys._getframe()
        names: dict[str, Any] = {}
        while frame is not None:
            names = {**frame.f_locals, **names}
            frame = frame.f_back
        try:
            return get_type_hints(target, localns=names, include_extras=True)
        except NameError:
            raise UsageError(f"{name}: a type hint cannot be resolved: {error}") from error


def _is_context(hint: Any, context_type: type) -> bool:
    if hint is context_type:
        return True
    return any(member is context_type for member in get_args(hint))


def _ask_of(hint: Any) -> Ask | None:
    if get_origin(hint) is not Annotated:
        return None
    return next((extra for extra in get_args(hint)[1:] if isinstance(extra, Ask)), None)


def _asked(ask: Ask, hint: Any, context_type: type) -> Asked:
    hints = _hints(ask.resolve, repr(ask))
    context: str | None = None
    needs: list[str] = []
    for parameter in inspect.signature(ask.resolve).parameters.values():
        if _is_context(hints.get(parameter.name), context_type):
            context = parameter.name
        else:
            needs.append(parameter.name)
    return Asked(ask.resolve, hint, tuple(needs), context)


def _default_of(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    if isinstance(default, FieldInfo):
        return default.get_default(call_default_factory=True, validated_data={}) if (
            not default.is_required()
        ) else inspect.Parameter.empty
    return default


def _field(parameter: inspect.Parameter, hint: Any, description: str | None) -> Any:
    extras: list[Any] = []
    if isinstance(parameter.default, FieldInfo):
        extras.append(parameter.default)
    elif description and not _is_described(hint):
        extras.append(Field(description=description))
    if extras:
        hint = Annotated[(hint, *extras)]
    return hint if _default_of(parameter) is inspect.Parameter.empty else NotRequired[hint]


def _is_described(hint: Any) -> bool:
    return any(
        isinstance(extra, FieldInfo) and extra.description
        for extra in (get_args(hint)[1:] if get_origin(hint) is Annotated else ())
    )


def _adapter(name: str, fields: dict[str, Any], open_ended: bool) -> TypeAdapter[dict[str, Any]]:
    arguments: Any = TypedDict("arguments", fields)  # type: ignore[operator]
    arguments.__pydantic_config__ = ConfigDict(
        extra="allow" if open_ended else "forbid", arbitrary_types_allowed=False
    )
    try:
        return TypeAdapter(arguments)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise UsageError(
            f"{name}: a type hint has no JSON Schema: {str(error).splitlines()[0]}"
        ) from error


def _strict(adapter: TypeAdapter[Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    validate_json = adapter.validator.validate_json
    encode = msgspec.json.encode

    def validate(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return validate_json(encode(arguments), strict=True)  # type: ignore[no-any-return]
        except ValidationError as error:
            problem = error
        # An integral float is an integer to JSON Schema; tried only where it can matter.
        if any(each["type"] == "int_type" for each in problem.errors(include_url=False)):
            try:
                return validate_json(  # type: ignore[no-any-return]
                    encode(_integers(arguments)), strict=True
                )
            except ValidationError as error:
                problem = error
        raise InvalidParams(_explain(problem))

    return validate


def _lax(adapter: TypeAdapter[Any]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    validate_python = adapter.validator.validate_python

    def validate(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return validate_python(dict(arguments))  # type: ignore[no-any-return]
        except ValidationError as error:
            raise InvalidParams(_explain(error)) from error

    return validate


def _integers(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _integers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_integers(each) for each in value]
    return value


def _explain(error: ValidationError) -> str:
    """Say what is wrong with arguments, without what only the validator's author understands."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    sentences = []
    for problem in problems[:_MAX_PROBLEMS]:
        path = ".".join(str(step) for step in problem["loc"]) or "arguments"
        sentences.append(f"{path}: {problem['msg']}")
    if len(problems) > _MAX_PROBLEMS:
        sentences.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return "; ".join(sentences)


def _docstring(function: Callable[..., Any]) -> tuple[str | None, dict[str, str]]:
    """Split a docstring into its prose and what it says of parameters (Google, NumPy, Sphinx)."""
    text = inspect.getdoc(function)
    if not text or (not inspect.isroutine(function) and text == type(function).__doc__):
        return None, {}
    parsed = parse_docstring(text)
    prose = "\n\n".join(
        part for part in (parsed.short_description, parsed.long_description) if part
    )
    return prose or None, {
        each.arg_name: each.description for each in parsed.params if each.description
    }


def _finish_schema(
    schema: dict[str, Any], defaults: dict[str, Any], *, adapter_name: str
) -> dict[str, Any]:
    """Make the schema that callers see, legal for marks."""
    schema.pop("title", None)
    schema.setdefault("properties", {})
    for name, default in defaults.items():
        # A default that JSON cannot say is the function's own business.
        try:
            plain = TypeAdapter(type(default)).dump_python(default, mode="json")
        except (PydanticSerializationError, PydanticSchemaGenerationError, PydanticUserError):
            continue
        for key, each in schema["properties"].items():
            if key == name and plain is not None:
                each["default"] = plain
    if _has_mark(schema):
        _straighten(schema, schema, (), adapter_name)
        _drop_unused_definitions(schema)
    return schema


def _has_mark(value: Any) -> bool:
    if isinstance(value, dict):
        return "x-mcp-header" in value or any(map(_has_mark, value.values()))
    return isinstance(value, list) and any(map(_has_mark, value))


def _straighten(
    node: dict[str, Any], root: dict[str, Any], path: tuple[str, ...], tool: str
) -> None:
    """Put every mark at the end of a chain of plain `properties` (H-03).

    On a chain that leads to a mark, a reference is replaced by what it refers to, and the union
    of an optional parameter with null by the parameter alone: absent is how it is left out.
    """
    for name, child in list(node.get("properties", {}).items()):
        if not _leads_to_mark(child, root, ()):
            continue
        place = (*path, name)
        plain = inline(child, root.get("$defs", {}))
        if len(place) > 32:
            raise BadMark(".".join(place), "a model that contains itself has a mark", tool=tool)
        if "x-mcp-header" in plain:
            if plain.get("default", "") is None:
                del plain["default"]
            if plain.get("type") == "integer":
                plain.setdefault("minimum", -_SAFE_INTEGER)
                plain.setdefault("maximum", _SAFE_INTEGER)
        node["properties"][name] = plain
        _straighten(plain, root, place, tool)


def inline(node: dict[str, Any], definitions: dict[str, Any] | None = None) -> dict[str, Any]:
    """Replace a schema's own reference by its target, and a union with null by the other member.

    Args:
        node: The schema.
        definitions: What its references lead to; by default its own `$defs`.
    """
    if definitions is None:
        definitions = node.get("$defs", {})
    while True:
        if "$ref" in node:
            target = copy.deepcopy(definitions[node["$ref"].rpartition("/")[2]])
            node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
            continue
        members = [each for each in node.get("anyOf", ()) if each != {"type": "null"}]
        if len(members) == 1:
            rest = {key: value for key, value in node.items() if key != "anyOf"}
            node = {**members[0], **rest}
            continue
        return node


def _leads_to_mark(node: Any, root: dict[str, Any], seen: Iterable[str]) -> bool:
    """Whether a mark stands on this property, or on one that it leads to."""
    if not isinstance(node, dict):
        return False
    if "x-mcp-header" in node:
        return True
    reference = node.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        target = root.get("$defs", {}).get(reference.rpartition("/")[2])
        if _leads_to_mark(target, root, (*seen, reference)):
            return True
    children = [*node.get("anyOf", ()), *node.get("properties", {}).values()]
    return any(_leads_to_mark(each, root, seen) for each in children)


def _drop_unused_definitions(schema: dict[str, Any]) -> None:
    definitions = schema.get("$defs", {})
    used: set[str] = set()
    rest: list[Any] = [{key: value for key, value in schema.items() if key != "$defs"}]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                name = reference.rpartition("/")[2]
                if name not in used:
                    used.add(name)
                    rest.append(definitions.get(name))
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
    kept = {name: value for name, value in definitions.items() if name in used}
    if kept:
        schema["$defs"] = kept
    else:
        schema.pop("$defs", None)


class Model:
    """A type, as a schema and a pair of converters: for results and for elicited answers.

    Args:
        hint: A type hint.

    Raises:
        UsageError: The type has no JSON Schema.
    """

    __slots__ = ("_adapter", "hint")

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(hint)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise UsageError(
                f"{hint!r} has no JSON Schema: {str(error).splitlines()[0]}"
            ) from error

    def schema(self, *, output: bool = False) -> dict[str, Any]:
        """Make its JSON Schema, of what it takes or of what it gives."""
        try:
            schema = self._adapter.json_schema(
                mode="serialization" if output else "validation", schema_generator=_PlainSchema
            )
        except (PydanticUserError, PydanticSchemaGenerationError) as error:
            raise UsageError(
                f"{self.hint!r} has no JSON Schema: {str(error).splitlines()[0]}"
            ) from error
        schema.pop("title", None)
        return schema

    def load(self, value: Any) -> Any:
        """Read a JSON value as the type; raises InvalidParams."""
        try:
            return self._adapter.validate_json(msgspec.json.encode(value), strict=True)
        except ValidationError as error:
            raise InvalidParams(_explain(error)) from error

    def dump(self, value: Any) -> Any:
        """Write a value of the type as JSON value; raises InvalidParams where it is none.

        A value that is of the type but was changed into something else since is checked again.
        """
        try:
            checked = self._adapter.validate_python(value, from_attributes=True)
            return self._adapter.dump_python(checked, mode="json", by_alias=True)
        except ValidationError as error:
            raise InvalidParams(_explain(error)) from error
        except PydanticSerializationError as error:
            raise InvalidParams(str(error)) from error
