"""Names and URIs of an aggregate: which member they are of, and what they are called there.

A tool or prompt `search` of the member `github` is `github.search`; its resource `file:///a` is
`github+file:///a`, which is a URI still: the member stands before the scheme (RFC 3986, 3.1 allows
`+` in one). Both are undone by cutting at the first `.` or `+`, which no member has in its name, so
an address alone tells where it leads, in every process and after every restart.

Spec: server/tools, "Tool Names"; RFC 3986, 3.1; RFC 6570 (templates keep their form).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mcpost.errors import InvalidParams
from mcpost.wire import jsonrpc

__all__ = (
    "MEMBER",
    "Address",
    "join_name",
    "join_uri",
    "prefix_message",
    "readdress",
    "split_address",
    "split_name",
    "split_uri",
)

MEMBER: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
"""What a member may be called: schemes know no case, so there are no capitals."""

_EXCERPT: Final = 80


class Address(NamedTuple):
    """What a prefixed name or URI leads to."""

    member: str
    local: str
    """How the member calls it."""


def join_name(member: str, name: str) -> str:
    """Write the name of a member's tool or prompt as the aggregate's clients know it."""
    return f"{member}.{name}"


def join_uri(member: str, uri: str) -> str:
    """Write the URI, or the URI template, of a member's resource as clients know it."""
    return f"{member}+{uri}"


def split_name(name: str, members: Collection[str]) -> Address:
    """Read a prefixed name.

    Raises:
        InvalidParams: -32602; it begins with no member's prefix.
    """
    return _split(name, ".", "name", members)


def split_uri(uri: str, members: Collection[str]) -> Address:
    """Read a prefixed URI or URI template; the prefix, as all of a scheme, knows no case.

    Raises:
        InvalidParams: -32602; it begins with no member's prefix.
    """
    return _split(uri, "+", "URI", members)


def split_address(method: str, text: str, members: Collection[str]) -> Address:
    """Read what a method that carries `Mcp-Name` names; raises as the two above."""
    return (split_uri if method == "resources/read" else split_name)(text, members)


def _split(text: str, mark: str, kind: str, members: Collection[str]) -> Address:
    prefix, found, local = text.partition(mark)
    member = prefix.lower() if mark == "+" else prefix
    if not found or not local or member not in members:
        prefixes = ", ".join(f"{each}{mark}" for each in members)
        raise InvalidParams(
            f"{text[:_EXCERPT]!a} is of no member here: a {kind} begins with one of {prefixes}"
        )
    return Address(member, local)


def readdress(body: bytes, changed: Mapping[str, Any]) -> bytes:
    """Write a request again with other parameters; all else stays as it was spelled.

    Args:
        body: A request that `decode_message` has read.
        changed: The parameters to replace; `None` takes one away.
    """
    message = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    params: dict[str, Any] = dict(
        msgspec.json.decode(message.get("params", b"{}"), type=dict[str, msgspec.Raw])
    )
    for name, value in changed.items():
        if value is None:
            params.pop(name, None)
        else:
            params[name] = value
    return jsonrpc.encode({**message, "params": params})


# Content that names a resource says so in its type; what does not is passed on unread.
_HINT: Final = b'"resource'
_HINTED: Final = frozenset({"tools/call", "prompts/get"})


def prefix_message(data: bytes, method: str, member: str) -> bytes:
    """Prefix the URIs in a member's answer, so that its client can read what they name.

    Args:
        data: One JSON-RPC message of the member, an answer or a notification.
        method: The method that is answered.
        member: The member.

    Returns:
        The message with the URIs of resource links and embedded resources (`tools/call`,
        `prompts/get`) or of the contents (`resources/read`) prefixed; the same bytes where there
        are none, or where it cannot be read: its client will see for itself.
    """
    if method in _HINTED and _HINT not in data:
        return data
    try:
        message = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    result = message.get("result") if type(message) is dict else None
    if type(result) is not dict or not _prefix_result(result, method, member):
        return data
    return jsonrpc.encode(message)


def _prefix_result(result: dict[str, Any], method: str, member: str) -> bool:
    """Prefix in place; tells whether anything was changed."""
    if method == "resources/read":
        return _prefix_each(result.get("contents"), member)
    blocks = _as_list(result.get("content"))
    for each in _as_list(result.get("messages")):
        blocks += _as_list(each.get("content") if type(each) is dict else None)
    changed = False
    for block in blocks:
        if type(block) is not dict:
            continue
        if block.get("type") == "resource_link":
            changed |= _prefix_each([block], member)
        elif block.get("type") == "resource":
            changed |= _prefix_each([block.get("resource")], member)
    return changed


def _prefix_each(holders: Any, member: str) -> bool:
    changed = False
    for each in _as_list(holders):
        if type(each) is dict and type(each.get("uri")) is str:
            each["uri"] = join_uri(member, each["uri"])
            changed = True
    return changed


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if type(value) is list else [value]
