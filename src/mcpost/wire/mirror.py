"""From a tool's input schema to the headers that mirror its arguments.

`compile_mirror` reads the `x-mcp-header` marks of a schema once, when a tool is registered or
listed; the `Mirror` it gives writes the header lines of one call, and is what a server compares
received headers with. A mark that breaks a rule makes the whole tool invalid.

Spec: streamable-http, "Custom Headers from Tool Parameters"; tools, "x-mcp-header" (H-01 to H-05).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from mcpost.errors import BadMark, UsageError
from mcpost.limits import WireLimits
from mcpost.wire.fields import encode_value, is_token

__all__ = (
    "EMPTY",
    "KEYWORD",
    "NAMED",
    "Mark",
    "Mirror",
    "compile_mirror",
    "looks_secret",
    "request_headers",
)

KEYWORD: Final = "x-mcp-header"
"""The schema keyword that marks a property."""

NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods that carry `Mcp-Name`, and the parameter that it mirrors (T-19)."""

MarkType = Literal["string", "integer", "boolean"]
_TYPES: Final = ("string", "integer", "boolean")

# Keywords whose value is instance data: what looks like a mark inside is none.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
# Keywords whose value maps names, which are no keywords, to subschemas.
_NAMES: Final = frozenset(
    {
        "properties",
        "patternProperties",
        "$defs",
        "definitions",
        "dependentSchemas",
        "dependencies",
    }
)


class Mark(NamedTuple):
    """One marked parameter."""

    name: str
    """The mark's value, as in `Region`."""
    header: bytes
    """Name of its header in lower case, as in `mcp-param-region`."""
    path: tuple[str, ...]
    """The property names from the root of the arguments to the value."""
    type: MarkType
    """The JSON Schema type of the parameter."""


class Mirror:
    """The marks of one tool, compiled."""

    __slots__ = ("headers", "marks")

    def __init__(self, marks: tuple[Mark, ...]) -> None:
        self.marks = marks
        self.headers = frozenset(mark.header for mark in marks)
        """Lower-case names of all headers that are recognised for this tool."""

    def lines(self, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Write the headers that mirror the arguments of one call.

        Args:
            arguments: The call's `arguments`.

        Returns:
            Pairs of name and value, as in `[("Mcp-Param-Region", "eu")]`; a parameter that is
            null or absent has no line (H-06).

        Raises:
            UsageError: A value that no header can stand for (H-04); it is never skipped, because
                the server would have to refuse the call.
        """
        lines: list[tuple[str, str]] = []
        for mark in self.marks:
            value = value_at(arguments, mark.path)
            if value is not None:
                lines.append((f"Mcp-Param-{mark.name}", encode_value(value)))
        return lines


EMPTY: Final = Mirror(())
"""The mirror of a tool without marks."""


def value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    """Read the value at an exact path, `None` where the path leads nowhere."""
    value = arguments
    for name in path:
        # `dict` first, since the test for any mapping is slow and arguments off the wire are one.
        if not isinstance(value, (dict, Mapping)):
            return None
        value = value.get(name)
    return value


def compile_mirror(schema: Mapping[str, Any], limits: WireLimits = WireLimits()) -> Mirror:
    """Read the marks of an input schema.

    Args:
        schema: A tool's `inputSchema`.
        limits: Bounds of depth and number of subschemas; a schema beyond them is searched no
            further and refused, since a mark could hide there.

    Returns:
        The compiled marks, in the order of the schema.

    Raises:
        BadMark: A mark breaks a rule, with its path and the rule.

    Spec: tools, "x-mcp-header" (H-01 to H-05).
    """
    marks: list[Mark] = []
    seen: set[bytes] = set()
    for path, keywords, subschema in _subschemas(schema, limits):
        if KEYWORD not in subschema:
            continue
        mark = _read_mark(path, keywords, subschema)
        if mark.header in seen:
            raise BadMark(_spell(keywords), f"the header name {mark.name!r} is used twice")
        seen.add(mark.header)
        marks.append(mark)
    return Mirror(tuple(marks)) if marks else EMPTY


# A subschema: its property path (`None` off the chain), the keywords to it, and itself.
_Place = tuple[tuple[str, ...] | None, tuple[str, ...], Mapping[str, Any]]


def _subschemas(schema: Mapping[str, Any], limits: WireLimits) -> Iterator[_Place]:
    """Walk every object of a schema that may be a subschema, in the order of the text.

    Keywords that are not known are searched as well: a `$ref` may point into them.
    """
    rest: list[_Place] = [((), (), schema)]
    count = 0
    while rest:
        place = rest.pop()
        path, keywords, subschema = place
        count += 1
        # A step down is a keyword and mostly a name or number too.
        if count > limits.max_schema_nodes or len(keywords) > 2 * limits.max_schema_depth:
            raise BadMark(_spell(keywords), "the schema is too large or too deep to be searched")
        yield place
        children = list(_children(path, keywords, subschema))
        rest.extend(reversed(children))


def _children(
    path: tuple[str, ...] | None, keywords: tuple[str, ...], schema: Mapping[str, Any]
) -> Iterator[_Place]:
    for keyword, value in schema.items():
        if keyword in _DATA or keyword == KEYWORD:
            continue
        if keyword in _NAMES and isinstance(value, Mapping):
            on_chain = path is not None and keyword == "properties"
            for name, child in value.items():
                if isinstance(child, Mapping):
                    step = (*path, name) if on_chain and path is not None else None
                    yield step, (*keywords, keyword, name), child
        elif isinstance(value, Mapping):
            yield None, (*keywords, keyword), value
        elif isinstance(value, list):
            for index, child in enumerate(value):
                if isinstance(child, Mapping):
                    yield None, (*keywords, keyword, str(index)), child


def _read_mark(
    path: tuple[str, ...] | None, keywords: tuple[str, ...], schema: Mapping[str, Any]
) -> Mark:
    where = _spell(keywords)
    name = schema[KEYWORD]
    if not isinstance(name, str) or not name:
        raise BadMark(where, f"{KEYWORD!r} has to be a string that is not empty")
    if not is_token(name):
        raise BadMark(where, f"the header name {name!r} has a character that no HTTP token has")
    if not path:
        raise BadMark(where, "a mark has to be reached from the root through 'properties' alone")
    kind = schema.get("type")
    # A list of one type says the same as the type; a list of more is no primitive type.
    if isinstance(kind, list) and len(kind) == 1:
        kind = kind[0]
    if kind not in _TYPES:
        raise BadMark(where, f"a marked parameter is a string, integer or boolean, not {kind!r}")
    return Mark(name, f"mcp-param-{name.lower()}".encode(), path, kind)


def _spell(keywords: tuple[str, ...]) -> str:
    return ".".join(keywords) or "the root"


_SECRET: Final = re.compile(
    r"(?:^|[_\-.])(?:api[_\-]?key|auth|authorization|bearer|card[_\-]?number|credentials?|cvv|"
    r"otp|passcode|passphrase|passw(?:or)?d|pin|private[_\-]?key|pwd|secret|session[_\-]?id|ssn|"
    r"token)s?(?:$|[_\-.\d])"
)
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def looks_secret(name: str) -> bool:
    """Whether a parameter's name reads like a secret, which intermediaries should not see (H-14).

    Spec: tools, "x-mcp-header": secrets and personal data are not to be mirrored.
    """
    return _SECRET.search(_HUMP.sub("_", name).lower()) is not None


def request_headers(
    method: str, params: Mapping[str, Any], version: str, mirror: Mirror = EMPTY
) -> list[tuple[str, str]]:
    """Write all mirrored headers of one request.

    Args:
        method: The request's method.
        params: Its parameters.
        version: The protocol version that its `_meta` names.
        mirror: The mirror of the tool that is called.

    Returns:
        Pairs of name and value: `MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name` where the method
        has one, and a line a mirrored argument.

    Raises:
        UsageError: A value that no header can stand for.

    Spec: streamable-http, "Client Behavior" (T-16, T-19, H-01).
    """
    for text in (version, method):
        # These two are never encoded, so what no header can carry would end the line early.
        if not (text.isascii() and text.isprintable()):
            raise UsageError(f"{text!r} cannot stand in a header")
    lines = [("MCP-Protocol-Version", version), ("Mcp-Method", method)]
    source = NAMED.get(method)
    if source is not None and isinstance(params.get(source), str):
        lines.append(("Mcp-Name", encode_value(params[source])))
    if mirror.marks and method == "tools/call":
        lines.extend(mirror.lines(params.get("arguments") or {}))
    return lines
