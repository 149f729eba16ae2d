"""The short way of a call that asks nothing, tells nothing and does not wait.

Most calls are such: a tool whose function takes nothing but arguments, on the loop, done at its
first step. Of them nothing has to be kept, so nothing is made: no `Call`, no `Work`, no context of
questions. What turns out to be more (a function that has to wait, or that runs in a thread, an
exception, a question, an answer that has no plain form) goes on where it stands on the way of all
calls (`Begun`), which is the only place that knows what errors and waiting come to.

Spec: streamable-http (T-10, T-16, T-23).
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from mcpost.errors import WireError
from mcpost.server.head import Door, Head
from mcpost.server.offers import ToolOffer
from mcpost.server.questions import InputRequired
from mcpost.server.work import resume
from mcpost.wire import jsonrpc
from mcpost.wire.jsonrpc import Request
from mcpost.wire.meta import CLIENT_CAPABILITIES, LOG_LEVEL, PROTOCOL_VERSION
from mcpost.wire.status import OK
from mcpost.wire.versions import MODERN

__all__ = ("Begun", "Express")

CALL = "tools/call"


class Begun(NamedTuple):
    """A call whose function has taken its first step, and is not done with it."""

    offer: ToolOffer
    rest: Awaitable[Any]
    """What is left: the other steps, or the exception or value that the first came to."""


class Express:
    """The short way of one server's tools.

    Args:
        find: Finds a tool by its name.
        run_plain: Runs a function that is not `async`, with its arguments.
        made_by: What `_meta` of each result says of this server.
    """

    __slots__ = ("_end", "_find", "_run_plain")

    def __init__(
        self,
        find: Callable[[Any], ToolOffer | None],
        run_plain: Callable[[Callable[..., Any], dict[str, Any]], Coroutine[Any, Any, Any]],
        made_by: Mapping[str, Any],
    ) -> None:
        self._find = find
        self._run_plain = run_plain
        self._end = b',"resultType":"complete","_meta":%b}}' % jsonrpc.encode(made_by)

    def find(self, head: Head, request: Request) -> ToolOffer | None:
        """Find the tool of a request that may take the short way.

        Args:
            head: Its head.
            request: The request.

        Returns:
            The tool; `None` for whatever is not plainly right, or more than a plain call. It says
            that headers and body agree to the byte, and that `_meta` is as it has to be.
        """
        params = request.params
        meta = params.get("_meta")
        if type(meta) is not dict or request.method != CALL:
            return None
        name = params.get("name")
        version = meta.get(PROTOCOL_VERSION)
        if head.routing != (version, CALL, name) or version not in MODERN:
            return None
        offer = self._find(name)
        if offer is None or not offer.is_express:
            return None
        if type(meta.get(CLIENT_CAPABILITIES)) is not dict:
            return None
        if LOG_LEVEL in meta or "traceparent" in meta:
            return None
        if "requestState" in params or "inputResponses" in params:
            return None
        return offer

    def begin(self, offer: ToolOffer, head: Head, request: Request, door: Door) -> Begun | None:
        """Take the first step of a call, and answer if that was all.

        Args:
            offer: Its tool.
            head: Its head.
            request: The request.
            door: Where the answer goes.

        Returns:
            `None` if the answer is out, else the call to go on with.

        Raises:
            InvalidParams: The arguments are not what the tool takes; nothing has run.
        """
        arguments = request.params.get("arguments")
        function = offer.function
        values = function.bind({} if type(arguments) is not dict else arguments)
        try:
            if function.is_async:
                step = function.call(**values)
            else:
                step = self._run_plain(function.call, values)
            if type(step) is not types.CoroutineType:
                return Begun(offer, step)
            waited_for = step.send(None)
        except StopIteration as stop:
            value = stop.value
        except BaseException as error:  # noqa: BLE001 - raised again by what is left
            return Begun(offer, _raise(error))
        else:
            return Begun(offer, resume(step, waited_for))
        if type(value) is InputRequired or not head.accepted.json:
            return Begun(offer, _give(value))
        try:
            members = function.encode_members(value)
        except WireError:
            # Of a value that cannot be said the other way tells.
            members = None
        if members is None:
            return Begun(offer, _give(value))
        start = b'{"jsonrpc":"2.0","id":%b,"result":{' % jsonrpc.encode(request.id)
        door.answer_json(OK, b"".join((start, members, self._end)), head.lines)
        return None


async def _raise(error: BaseException) -> Any:
    raise error


async def _give(value: Any) -> Any:
    return value
