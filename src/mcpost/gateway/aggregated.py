"""Several upstreams behind one endpoint: which of them answers a request, or that all do.

| method | answered by |
| --- | --- |
| `tools/call`, `prompts/get` | the member before the `.` of the name |
| `resources/read` | the member before the `+` of the URI |
| `completion/complete` | the member of its `ref` |
| `server/discover`, the lists | all members, merged |
| `subscriptions/listen` | all that are asked for something, fanned in |
| anything else | nobody: 404, -32601 |

What goes to a member has the member's own name or URI in its body and, encoded anew, in `Mcp-Name`:
so the member's own comparison of the two still holds.

Spec: streamable-http, "Server Validation" (T-18, T-19, H-07).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mcpost.errors import InvalidParams, InvalidRequest, MethodNotFound, WireError
from mcpost.gateway import refusals
from mcpost.gateway.access_log import Note
from mcpost.gateway.addresses import readdress, split_address, split_name, split_uri
from mcpost.gateway.cached import Asked, Cached
from mcpost.gateway.fan_in import FanIn
from mcpost.gateway.fan_out import FanOut
from mcpost.gateway.forward import Forward
from mcpost.gateway.merging import LISTS
from mcpost.gateway.policy import Aggregate
from mcpost.gateway.routed import Routed
from mcpost.wire import jsonrpc
from mcpost.wire.mirror import NAMED

__all__ = ("Aggregated",)

_DISCOVER: Final = "server/discover"
_LISTEN: Final = "subscriptions/listen"
_COMPLETE: Final = "completion/complete"


class _Way(NamedTuple):
    """Where a call goes, and what has to be said there."""

    member: str
    changed: dict[str, Any]
    """The parameters that are otherwise there."""


class Aggregated:
    """Serves the aggregates of one gateway.

    Args:
        cached: The shared cache.
        close: Counts and logs a request that has ended, with its status.
        running: Where forwarded requests are noted while they run.
        ended: Told when one of those has ended.
    """

    def __init__(
        self,
        cached: Cached,
        close: Callable[[Note, int], None],
        running: set[Forward],
        ended: Callable[[Forward], None],
    ) -> None:
        self.merging: set[FanOut | FanIn] = set()
        """Requests to several members that are under way."""
        self._cached = cached
        self._close = close
        self._running = running
        self._ended = ended

    def streams(self) -> int:
        """Listens that are open now."""
        return sum(isinstance(each, FanIn) and each.is_open for each in self.merging)

    def serve(self, aggregate: Aggregate, asked: Asked, message: jsonrpc.Request | None) -> None:
        """Answer, now or later, a request whose headers and body are known to agree.

        Args:
            aggregate: The aggregate that it is for.
            asked: The request.
            message: Its body, read; `None` for a notification.
        """
        if message is None:
            self._refuse(asked, None, 400, InvalidRequest("nobody here takes this notification"))
            return
        method = message.method
        try:
            if method == _LISTEN:
                self._merge(FanIn(aggregate, asked, message, self._over))
            elif method == _DISCOVER or method in LISTS:
                self._merge(FanOut(aggregate, asked, message, self._cached, self._over))
            elif method in NAMED or method == _COMPLETE:
                self._route(aggregate, asked, message)
            else:
                error = MethodNotFound(f"{method[:80]!a} is served by no member")
                self._refuse(asked, message.id, 404, error)
        except InvalidParams as error:
            self._refuse(asked, message.id, 200, error)

    def _merge(self, work: FanOut | FanIn) -> None:
        self.merging.add(work)
        try:
            work.start()
        except InvalidParams:
            self.merging.discard(work)
            raise

    def _over(self, work: FanOut | FanIn, status: int) -> None:
        self.merging.discard(work)
        self._close(work.asked.note, status)

    def _refuse(
        self, asked: Asked, request_id: jsonrpc.Id | None, status: int, error: WireError
    ) -> None:
        answer = refusals.refused_by(status, error, request_id=request_id)
        asked.exchange.respond(*answer)
        self._close(asked.note, status)

    def _route(self, aggregate: Aggregate, asked: Asked, message: jsonrpc.Request) -> None:
        """Forward a call to the member that its address names."""
        way = _find_way(message, aggregate)
        upstream = aggregate.members[way.member]
        generation, note = asked.generation, asked.note
        # What the head names was found there before, with the lines that it leads to.
        is_named = message.method in NAMED
        lines = asked.lines if is_named else generation.lines(asked.request, upstream)
        note.verdict = note.verdict._replace(upstream=upstream)
        forward = Routed(
            asked.exchange,
            asked.request,
            generation.groups[upstream],
            lines=lines,
            note=note,
            ended=self._ended,
            heads=asked.heads if is_named else None,
        )
        forward.route(message.method, way.member, aggregate.max_answer)
        self._running.add(forward)
        forward.send(readdress(asked.body, way.changed))


def _find_way(message: jsonrpc.Request, aggregate: Aggregate) -> _Way:
    """Read the address of a call.

    Raises:
        InvalidParams: -32602; there is none, or it is of no member.
    """
    method, params, members = message.method, message.params, aggregate.members
    if method == _COMPLETE:
        ref = params.get("ref")
        if type(ref) is not dict:
            ref = {}
        kind = ref.get("type")
        if kind == "ref/prompt":
            found = split_name(_text(ref, "name", "ref.name"), members)
            return _Way(found.member, {"ref": {**ref, "name": found.local}})
        if kind == "ref/resource":
            found = split_uri(_text(ref, "uri", "ref.uri"), members)
            return _Way(found.member, {"ref": {**ref, "uri": found.local}})
        raise InvalidParams('"ref" has to be a reference to a prompt or to a resource')
    place = NAMED[method]
    found = split_address(method, _text(params, place, place), members)
    return _Way(found.member, {place: found.local})


def _text(holder: Any, key: str, place: str) -> str:
    value = holder.get(key)
    if type(value) is not str:
        raise InvalidParams(f'"{place}" has to be a text')
    return value
