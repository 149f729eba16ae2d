"""What the endpoint of this revision does with a head, a body and a door: the order of refusals.

1. The head (`mcpost.server.gate`): 405, 403, 401, 415, 413, 406.
2. The body (`mcpost.wire.jsonrpc`): 400 with -32700 or -32600.
3. The request's own fields: 400 with -32602; headers against body: 400 with -32020; the version:
   400 with -32022; the method: 404 with -32601.
4. Room for one more: 503.
5. What the method itself comes to: 200, or 400 with -32021 for a missing capability.

Rules that a change must not break: the era is decided from body and headers together, so that no
request reaches a tool around the agreement check; every refusal of a request that could be read
carries its id.

Spec: streamable-http, "Sending Messages", "Server Validation" (T-05 to T-08, T-16 to T-23).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import get_ident
from typing import Any, Final, Protocol

from mcpost.errors import (
    HeaderMismatch,
    InvalidParams,
    MethodNotFound,
    Refused,
    UnsupportedVersion,
    WireError,
)
from mcpost.server import refusals
from mcpost.server.admission import Admission, busy
from mcpost.server.bus import Bus
from mcpost.server.call import Call
from mcpost.server.features import Features
from mcpost.server.gate import Gate
from mcpost.server.head import Answer, Door, Head
from mcpost.server.listen import METHOD, Listen, Listens, can_listen, read_filter
from mcpost.server.offers import ToolOffer
from mcpost.server.pulse import Lane
from mcpost.server.reply import Reply, Terms
from mcpost.server.settings import Settings
from mcpost.server.work import Crew, Stop, Work
from mcpost.wire import jsonrpc
from mcpost.wire.agreement import check_agreement
from mcpost.wire.jsonrpc import Notification, Request
from mcpost.wire.meta import RequestMeta, parse_meta
from mcpost.wire.versions import MODERN, Era, era_of

__all__ = ("Endpoint", "Legacy")

PATIENCE: Final = 0.01
"""Seconds that a call may take before its caller is watched: most are over by then."""

STUBBORN: Final = 0.5
"""Seconds that a stopped call gets to end."""

Rest = Coroutine[Any, Any, None]


class Legacy(Protocol):
    """What answers requests of earlier revisions at the same URL."""

    def handle(
        self, head: Head, body: bytes, message: Request | Notification | None, door: Door
    ) -> Rest | None:
        """Answer a request whose headers or body mark it as legacy.

        Args:
            head: Its head, checked; the method is POST, GET or DELETE.
            body: Its body.
            message: The body as a request or notification; `None` where it is neither.
            door: Where the answer goes.

        Returns:
            As `Endpoint.begin`.
        """
        ...

    async def drain(self, grace: float) -> None:
        """End what is open on this loop; as `Endpoint.drain`."""


class _Room:
    """What an endpoint holds on one event loop."""

    __slots__ = ("crew", "draining", "listens", "loop", "thread")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        features: Features,
        bus: Bus,
        settings: Settings,
    ) -> None:
        limits = settings.limits
        self.loop = loop
        self.thread = get_ident()
        self.draining = False
        self.listens = Listens(loop, bus, limits, features.info)
        terms = Terms(Lane(loop, limits.keep_alive, Reply.silence), limits.max_stream_buffer)
        self.crew = Crew(
            terms,
            Admission(loop, limits),
            features.handle,
            Lane(loop, PATIENCE, Work.become_long),
            Lane(loop, limits.call_timeout, lambda work: work.stop(Stop.TIMEOUT)),
            set(),
        )


class Endpoint:
    """The rules of one endpoint; doors bring it requests.

    Args:
        features: What it serves.
        bus: Where changes are heard of.
        settings: Its settings.
        legacy: What answers requests of earlier revisions; `None` refuses them.

    A door calls `check_head` (or awaits `check_caller` where `authenticates`), reads the body if
    that gave `None`, and calls `begin`. All of it happens on an event loop; an endpoint may be
    used on several.
    """

    def __init__(
        self, features: Features, bus: Bus, settings: Settings, legacy: Legacy | None = None
    ) -> None:
        self._features = features
        self._bus = bus
        self.settings = settings
        self._legacy = legacy
        others = frozenset({"GET", "DELETE"}) if legacy is not None else frozenset[str]()
        self._gate = Gate(settings, others)
        self._room: _Room | None = None
        self._rooms: dict[asyncio.AbstractEventLoop, _Room] = {}
        self.check_head = self._gate.check
        self.check_caller = self._gate.check_caller
        self.authenticates = self._gate.authenticates
        self.too_large = self._gate.too_large

    def begin(self, head: Head, body: bytes, door: Door) -> Rest | None:
        """Answer a request.

        Args:
            head: Its head, which `check_head` let pass.
            body: Its whole body.
            door: Where the answer goes.

        Returns:
            `None` if the answer is out, or a stream that stays open; else the rest of the call,
            to be awaited in a task that this call may cancel and that then goes on as if it had
            not been.
        """
        if head.method != "POST" and self._legacy is not None:
            return self._legacy.handle(head, body, None, door)
        message: Request | Notification | None = None
        try:
            message = jsonrpc.decode_message(body)
            if type(message) is Request:
                offer = self._features.express.find(head, message) if door.in_task else None
                if offer is not None:
                    return self._begin_express(offer, head, message, door)
                return self._begin_request(head, message, parse_meta(message), door)
            if self._legacy is not None and era_of(head.headers, message) is Era.LEGACY:
                return self._legacy.handle(head, body, message, door)
            if type(message) is Notification:
                _check_notification(head, message)
            door.answer(Answer(202, refusals.ACCEPTED.headers + head.lines))
        except WireError as error:
            # Of a request that carries modern `_meta` no header makes a legacy one.
            if self._legacy is not None and era_of(head.headers, message) is Era.LEGACY:
                return self._legacy.handle(head, body, message, door)
            door.answer(refusals.answer_error(_for_initialize(error, message), head.lines))
        except Refused as refused:
            request_id = message.id if type(message) is Request else None
            door.answer(refusals.answer_refused(refused, head.lines, request_id))
        return None

    def end_listen(self, door: Door) -> bool:
        """End the listen that goes to a door, with its result; false where there is none (P-05).

        For a door whose server takes back the task that holds it: it is shutting down.
        """
        return self._here().listens.end(door)

    async def drain(self, grace: float) -> None:
        """End what is open on this loop: each listen with its result, calls within their grace.

        Args:
            grace: Seconds that running calls get; then they are stopped.

        New requests are refused from the start.
        """
        room = self._here()
        room.draining = True
        room.listens.close()
        drains = [self._stop_calls(room, grace)]
        if self._legacy is not None:
            drains.append(self._legacy.drain(grace))
        await asyncio.gather(*drains)

    async def _stop_calls(self, room: _Room, grace: float) -> None:
        await _wait_for(room.crew.running, grace)
        for work in list(room.crew.running):
            work.stop(Stop.SHUTDOWN)
        # A handler may take its time over the cancellation, or not mind it at all.
        await _wait_for(room.crew.running, STUBBORN)

    def _here(self) -> _Room:
        room = self._room
        # Asked this way, because `get_running_loop` costs a system call before Python 3.12. A
        # thread runs one loop at a time, so a loop that runs and is of this thread is this one.
        if room is None or room.thread != get_ident() or not room.loop.is_running():
            room = self._enter(asyncio.get_running_loop())
        return room

    def _enter(self, loop: asyncio.AbstractEventLoop) -> _Room:
        room = self._rooms.get(loop)
        if room is None:
            for other in [each for each in list(self._rooms) if each.is_closed()]:
                self._rooms.pop(other, None)
            room = _Room(loop, self._features, self._bus, self.settings)
            self._rooms[loop] = room
        room.thread = get_ident()
        self._room = room
        return room

    def _begin_express(
        self, offer: ToolOffer, head: Head, request: Request, door: Door
    ) -> Rest | None:
        """Begin a call on the short way; what it has not said yet is said on the way of all."""
        room = self._here()
        features = self._features
        if room.draining or not room.crew.admission.is_free:
            return self._begin_request(head, request, parse_meta(request), door)
        try:
            begun = features.express.begin(offer, head, request, door)
        except InvalidParams:
            return self._begin_request(head, request, parse_meta(request), door)
        if begun is None:
            return None
        work = Work(door, head, request.id, room.crew)
        call = Call(
            request, parse_meta(request), work.note, headers=head.headers, principal=head.principal
        )
        return work.begin(call, features.go_on(call, begun))

    def _begin_request(
        self, head: Head, request: Request, meta: RequestMeta, door: Door
    ) -> Rest | None:
        features = self._features
        problem = check_agreement(
            head.headers, request, meta, features.mirror_of, head.fields, head.routing
        )
        if problem is not None:
            raise problem
        if meta.protocol_version not in MODERN:
            raise UnsupportedVersion(meta.protocol_version, MODERN, request_id=request.id)
        room = self._here()
        if request.method == METHOD:
            self._listen(room, head, request, door)
            return None
        if not features.knows(request.method):
            raise MethodNotFound(
                f"method {request.method!r} is not served here", request_id=request.id
            )
        if room.draining:
            raise busy(self.settings.limits, "the server is shutting down")
        work = Work(door, head, request.id, room.crew)
        return work.begin(
            Call(request, meta, work.note, headers=head.headers, principal=head.principal)
        )

    def _listen(self, room: _Room, head: Head, request: Request, door: Door) -> None:
        capabilities = self._features.capabilities()
        if not can_listen(capabilities):
            raise MethodNotFound("this server has no changes to tell", request_id=request.id)
        try:
            honoured = read_filter(request.params, capabilities, self.settings.limits)
        except WireError as error:
            error.request_id = request.id
            raise
        if not head.accepted.stream:
            raise Refused(406, "a listen is a stream: send Accept: text/event-stream")
        refused = room.listens.check_room()
        if room.draining:
            refused = busy(self.settings.limits, "the server is shutting down")
        if refused is not None:
            raise refused
        listen = Listen(
            door, request, head, room.crew.terms, honoured=honoured, listens=room.listens
        )
        room.listens.open(listen, honoured)


async def _wait_for(running: set[Work], seconds: float) -> None:
    """Wait until the calls are over, but no longer than that."""
    own = asyncio.current_task()
    tasks = {work.task for work in running if work.task is not None and work.task is not own}
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)


def _for_initialize(error: WireError, message: Request | Notification | None) -> WireError:
    """Tell a client of an earlier revision the versions: it has nothing else to show its user."""
    if type(message) is not Request or message.method != "initialize":
        return error
    if not isinstance(error, InvalidParams):
        return error
    asked = message.params.get("protocolVersion")
    return UnsupportedVersion(asked if type(asked) is str else "", MODERN, request_id=message.id)


def _check_notification(head: Head, message: Notification) -> None:
    """Refuse a notification whose headers say something else, or a version that is not served."""
    for method in head.get_all(b"mcp-method"):
        if method != message.method.encode(errors="replace"):
            raise HeaderMismatch("header mismatch: Mcp-Method is not the body's method")
    for version in head.get_all(b"mcp-protocol-version"):
        text = version.decode("latin-1")
        if text not in MODERN:
            raise UnsupportedVersion(text, MODERN)
