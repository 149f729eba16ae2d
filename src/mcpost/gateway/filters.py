"""The filter of a listen, for each member of an aggregate, and what they honour, together.

Spec: patterns/subscriptions, "Notification Filter", "Acknowledgment" (P-04).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from mcpost.errors import InvalidParams
from mcpost.gateway.addresses import join_uri, split_uri
from mcpost.wire.meta import SUBSCRIPTION_ID

__all__ = ("ACKNOWLEDGED", "join_filters", "read_notice", "split_filter")

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

_FLAGS: Final = ("toolsListChanged", "promptsListChanged", "resourcesListChanged")
_URIS: Final = "resourceSubscriptions"
_UPDATED: Final = "notifications/resources/updated"
_NOTICES: Final = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    _UPDATED: _URIS,
}


def split_filter(params: Mapping[str, Any], members: Collection[str]) -> dict[str, dict[str, Any]]:
    """Tell what to ask of each member.

    Args:
        params: Parameters of `subscriptions/listen`.
        members: The members, in their order.

    Returns:
        The filter for each member that is asked for anything; for all of them where nothing is
        asked, since such a listen stands, too. A URI goes to its own member; one that is of no
        member is left out, so that the acknowledgement does not name it.

    Raises:
        InvalidParams: -32602; there is no filter, or a part of it has the wrong type.
    """
    asked = params.get("notifications")
    if type(asked) is not dict:
        raise InvalidParams('"notifications" has to be an object: the filter of the listen')
    flags: dict[str, Any] = {}
    for flag in _FLAGS:
        value = asked.get(flag, False)
        if type(value) is not bool:
            raise InvalidParams(f'"notifications.{flag}" has to be true or false')
        if value:
            flags[flag] = True
    uris = asked.get(_URIS, [])
    if type(uris) is not list or any(type(uri) is not str for uri in uris):
        raise InvalidParams(f'"notifications.{_URIS}" has to be a list of URIs')
    found = {member: dict(flags) for member in members}
    for uri in dict.fromkeys(uris):
        try:
            member, local = split_uri(uri, members)
        except InvalidParams:
            continue
        found[member].setdefault(_URIS, []).append(local)
    return {member: wanted for member, wanted in found.items() if wanted} or found


def join_filters(honoured: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Put together what the members honour, by the member's name, as their client knows it."""
    joined: dict[str, Any] = {}
    uris: list[str] = []
    for member, filter in honoured.items():
        joined.update({flag: True for flag in _FLAGS if filter.get(flag) is True})
        found = filter.get(_URIS)
        told = found if type(found) is list else []
        uris += [join_uri(member, uri) for uri in told if type(uri) is str]
    return {**joined, _URIS: uris} if uris else joined


def read_notice(
    method: str,
    params: Mapping[str, Any],
    member: str,
    honoured: Mapping[str, Any],
    subscription: int | str,
) -> dict[str, Any] | None:
    """Write a member's notification for the one who listens.

    Args:
        method: Its method.
        params: Its parameters.
        member: The member.
        honoured: What this member has honoured.
        subscription: Id of the listen, as its client knows it.

    Returns:
        The parameters with their URI prefixed; `None` for what was not asked for (P-04).
    """
    wanted = _NOTICES.get(method)
    if wanted is None or not honoured.get(wanted):
        return None
    meta = params.get("_meta")
    told = {**(meta if type(meta) is dict else {}), SUBSCRIPTION_ID: subscription}
    found = {**params, "_meta": told}
    if method == _UPDATED:
        uri = params.get("uri")
        if type(uri) is not str:
            return None
        found["uri"] = join_uri(member, uri)
    return found
