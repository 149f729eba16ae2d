"""The endpoint of the earlier revisions: POST, GET and DELETE, beside the current one at its URL.

`mcpost.server.endpoint` checks the head, decides the era and hands over what is legacy. A session
is opened by `initialize`; everything else names it, or is refused.

Spec: 2025-11-25, basic/transports, "Streamable HTTP" (L-01 to L-03).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from mcpost.errors import InternalError, InvalidRequest, Refused, WireError
from mcpost.limits import ServerLimits
from mcpost.server import refusals
from mcpost.server.admission import busy
from mcpost.server.bus import Bus
from mcpost.server.features import Features
from mcpost.server.head import STREAM, Answer, Door, Head, HeaderLines
from mcpost.server.legacy.batch import answer_batch, is_batch, read_batch
from mcpost.server.legacy.mirrored import check_mirrored
from mcpost.server.legacy.session import SERVED
from mcpost.server.legacy.store import EventStore, MemoryStore
from mcpost.server.legacy.streams import CallStream, parse_event_id
from mcpost.server.legacy.table import HttpSession, Table
from mcpost.server.work import drive
from mcpost.wire.accept import parse_accept
from mcpost.wire.jsonrpc import (
    Notification,
    Request,
    Response,
    decode_answer,
    encode_error,
)
from mcpost.wire.sse import encode_event
from mcpost.wire.status import OK
from mcpost.wire.versions import SESSION_HEADER, Era, era_of

__all__ = ("LegacyEndpoint",)

Rest = Coroutine[Any, Any, None]

_STUBBORN: Final = 0.5
"""Seconds that a stopped call gets to end."""
_ENDED: Final = Answer(OK, ((b"content-length", b"0"),))


class LegacyEndpoint:
    """Answers requests of the earlier revisions.

    Args:
        features: What it serves.
        bus: Where changes come from.
        limits: The bounds.
        store: Makes the store of one event loop; events are kept in memory by default.

    All of it happens on an event loop. An endpoint may be used on several, each with sessions of
    its own.
    """

    def __init__(
        self,
        features: Features,
        bus: Bus,
        limits: ServerLimits,
        *,
        store: Callable[[ServerLimits], EventStore] = MemoryStore,
    ) -> None:
        self._features = features
        self._bus = bus
        self._limits = limits
        self._make_store = store
        self._tables: dict[asyncio.AbstractEventLoop, Table] = {}

    def handle(
        self, head: Head, body: bytes, message: Request | Notification | None, door: Door
    ) -> Rest | None:
        """Answer a request that is marked as legacy, or is not a POST.

        Args:
            head: Its head, checked; the method is POST, GET or DELETE.
            body: Its body.
            message: The body as a request or notification; `None` where it is neither.
            door: Where the answer goes.

        Returns:
            `None` if the answer is out, or is a stream; else what waits until that is so.
        """
        try:
            if head.method == "POST":
                return self._post(head, body, message, door)
            if era_of(head.headers, None) is Era.MODERN:
                raise Refused(
                    405,
                    "this endpoint is spoken to with POST: every message is one",
                    ((b"allow", b"POST"),),
                )
            if head.method == "GET":
                self._get(head, door)
            else:
                self._here().end(self._session(head))
                door.answer(_with(_ENDED, head.lines))
        except WireError as error:
            door.answer(refusals.answer_error(error, head.lines))
        except Refused as refused:
            request_id = message.id if isinstance(message, Request) else None
            door.answer(refusals.answer_refused(refused, head.lines, request_id))
        return None

    async def drain(self, grace: float) -> None:
        """End what is open on this loop: streams of GET at once, calls within their grace.

        Args:
            grace: Seconds that running calls get; then they are stopped.
        """
        table = self._here()
        table.draining = True
        sessions = table.all()
        for session in sessions:
            session.own.close()
        await _wait_for(sessions, grace)
        for session in sessions:
            session.core.stop_calls(InternalError("the server is shutting down"))
        await _wait_for(sessions, _STUBBORN)
        for session in sessions:
            table.end(session)

    def _here(self) -> Table:
        loop = asyncio.get_running_loop()
        table = self._tables.get(loop)
        if table is None:
            for other in [each for each in list(self._tables) if each.is_closed()]:
                self._tables.pop(other, None)
            store = self._make_store(self._limits)
            table = self._tables[loop] = Table(self._features, self._bus, self._limits, store)
        return table

    def _session(self, head: Head) -> HttpSession:
        """Find the session that a request names.

        Raises:
            Refused: 400 where it names none, 404 where there is none such for this caller.
        """
        named = head.get_all(SESSION_HEADER)
        if len(named) != 1:
            raise Refused(400, "name the session in Mcp-Session-Id; initialize opens one")
        session = self._here().find(named[0], head.principal)
        if session is None:
            raise Refused(404, "there is no such session (any more); initialize opens one")
        return session

    def _post(
        self, head: Head, body: bytes, message: Request | Notification | None, door: Door
    ) -> Rest | None:
        if isinstance(message, Request):
            self._check_mirrored(head, message)
            if message.method == "initialize" and not head.get_all(SESSION_HEADER):
                if len(body) > self._limits.max_initialize:
                    raise Refused(
                        413, f"initialize is larger than {self._limits.max_initialize} bytes"
                    )
                self._open(head, message, door)
                return None
            return self._call(self._session(head), message, head, door)
        session = self._session(head)
        if message is None and is_batch(body):
            if session.core.version != "2025-03-26":
                raise InvalidRequest("this revision has no batches: every message is its own POST")
            return self._batch(session, body, head, door)
        taken = message or decode_answer(body)
        if isinstance(taken, Request):
            # Readable as a request, and yet refused as one: a key in it stands twice.
            raise InvalidRequest("a key of the request stands twice", request_id=taken.id)
        session.core.take(taken)
        door.answer(_with(refusals.ACCEPTED, head.lines))
        return None

    def _check_mirrored(self, head: Head, request: Request) -> None:
        problem = check_mirrored(head.headers, request, self._features.mirror_of)
        if problem is not None:
            raise problem

    def _open(self, head: Head, request: Request, door: Door) -> None:
        table = self._here()
        if table.draining:
            raise busy(self._limits, "the server is shutting down")
        core = table.make_core(head.principal)
        message = core.begin(request, _Nowhere())
        assert isinstance(message, bytes)
        if core.version is None:
            door.answer(refusals.json_answer(400, message, head.lines))
            return
        session = table.add(core)
        if session is None:
            raise busy(self._limits, "the server has all the sessions it can take")
        line = (SESSION_HEADER, session.id.encode())
        _send(door, head, message, (line, *head.lines))

    def _call(self, session: HttpSession, request: Request, head: Head, door: Door) -> Rest | None:
        if self._here().draining:
            raise busy(self._limits, "the server is shutting down")
        stream = session.open_call(door, head)
        if stream.primes and request.method in SERVED:
            # The client can come back for the answer, however early it loses the connection.
            stream.begin()
        answer = session.core.begin(request, stream, head.headers)
        if isinstance(answer, bytes):
            session.close_call(stream)
            stream.finish(answer, answer)
            return None
        cancelled = InvalidRequest("the request was cancelled", request_id=request.id)
        session.spawn(_work(session, stream, answer, encode_error(cancelled)))
        return _undecided(stream)

    def _get(self, head: Head, door: Door) -> None:
        if not parse_accept(head.get_all(b"accept")).stream:
            raise Refused(406, "what GET gives is a stream: send Accept: text/event-stream")
        session = self._session(head)
        if self._here().draining:
            raise busy(self._limits, "the server is shutting down")
        named = head.get_all(b"last-event-id")
        if not named:
            session.own.open(door, head.lines)
            return
        found = parse_event_id(named[0]) if len(named) == 1 else None
        if found is None:
            raise Refused(400, "Last-Event-ID is none of the ids of this session's events")
        name, number = found
        try:
            stream = session.stream_named(name)
        except KeyError:
            raise Refused(400, "the events after this Last-Event-ID are not kept") from None
        stream.open(door, head.lines, number)
        if name not in session.calls and stream is not session.own:
            # The call has ended: there is nothing to come.
            stream.close()

    def _batch(self, session: HttpSession, body: bytes, head: Head, door: Door) -> Rest | None:
        if self._here().draining:
            raise busy(self._limits, "the server is shutting down")
        items = read_batch(body, self._limits.max_batch)
        for each in items:
            if isinstance(each, Request):
                self._check_mirrored(head, each)
        quiet = [each for each in items if isinstance(each, (Notification, Response))]
        if len(quiet) == len(items):
            for each in quiet:
                session.core.take(each)
            door.answer(_with(refusals.ACCEPTED, head.lines))
            return None
        stream = session.open_call(door, head)
        work = answer_batch(session.core, items, stream, head.headers)
        session.spawn(_work(session, stream, work, b"[]"))
        return _undecided(stream)


class _Nowhere:
    """An outlet for what has nothing to say."""

    can_ask = False

    def say(self, message: bytes) -> None:
        """Nothing is said before a session is open."""

    def hang_up(self) -> None:
        """There is nothing to let go."""


async def _work(
    session: HttpSession,
    stream: CallStream,
    rest: Coroutine[Any, Any, bytes | None],
    instead: bytes,
) -> None:
    """Run a call to its end, whatever happens to connections meanwhile."""
    answer: bytes | None = None
    try:
        # Whatever has to wait becomes a stream, so that its client can come back for it.
        answer = await drive(rest, stream.begin)
    finally:
        session.close_call(stream)
        stream.finish(answer, instead)


def _undecided(stream: CallStream) -> Rest | None:
    """What waits until an answer is out or is a stream; `None` where that is so."""
    return None if stream.decided.done() else _wait(stream.decided)


async def _wait(decided: asyncio.Future[None]) -> None:
    await decided


async def _wait_for(sessions: list[HttpSession], seconds: float) -> None:
    tasks = {task for session in sessions for task in session.tasks}
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)


def _send(door: Door, head: Head, message: bytes, lines: HeaderLines) -> None:
    """Answer with one message, in the form that the client takes."""
    if head.accepted.json:
        door.answer(refusals.json_answer(OK, message, lines))
    else:
        door.start(OK, STREAM + lines)
        door.write(encode_event(message))
        door.end()


def _with(answer: Answer, lines: HeaderLines) -> Answer:
    return Answer(answer.status, answer.headers + lines, answer.body)
