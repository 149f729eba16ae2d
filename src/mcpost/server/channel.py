"""Both eras over one channel of lines: what comes in as a line is answered by lines.

A modern request carries its version and capabilities in `_meta` and is answered for itself;
`initialize` opens the one session that the channel has for the revisions before. There are no
headers, so there is nothing for a body to agree with.

Rules that a change must not break: of a cancelled request nothing more is said; a line that cannot
be read costs that line and nothing else; whatever the server ends by itself is told.

Spec: basic/transports/stdio (I-01, I-04, P-02, P-05, V-05).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from mcpost.errors import (
    InternalError,
    InvalidRequest,
    MethodNotFound,
    ParseError,
    Refused,
    UnsupportedVersion,
    WireError,
)
from mcpost.limits import ServerLimits
from mcpost.server.admission import Admission
from mcpost.server.bus import Bus, Notice
from mcpost.server.call import Call
from mcpost.server.features import Features
from mcpost.server.head import Answer, Head, HeaderLines
from mcpost.server.legacy.batch import answer_batch, is_batch, read_batch
from mcpost.server.legacy.changes import Hearing, notes_for
from mcpost.server.legacy.session import Session
from mcpost.server.listen import METHOD, Listen, Listens, can_listen, read_filter
from mcpost.server.pulse import Lane
from mcpost.server.reply import Reply, Terms
from mcpost.server.work import Crew, Stop, Work
from mcpost.wire.jsonrpc import (
    Id,
    Notification,
    Request,
    Response,
    decode_answer,
    encode_error,
    encode_notification,
    read_id,
)
from mcpost.wire.lines import TooLong
from mcpost.wire.meta import has_modern_meta, parse_meta
from mcpost.wire.versions import MODERN

__all__ = ("Channel",)

_log = logging.getLogger("mcpost.server")

_PATIENCE: Final = 0.01
_STUBBORN: Final = 0.5
"""Seconds that a stopped call gets to end."""
_HEAD: Final = Head("POST", "", ())
"""The head of requests that have none."""
_EVENT_START: Final = len(b"data: ")
_EVENT_END: Final = -len(b"\n\n")
_NOTE: Final = b'{"jsonrpc":"2.0","method":"notifications/'
_PROGRESS: Final = _NOTE + b'progress"'


class _LineDoor:
    """A door for one answer: what would be an event of a stream is a line."""

    __slots__ = ("_channel", "_id")

    in_task = False

    def __init__(self, channel: Channel, request_id: Id) -> None:
        self._channel = channel
        self._id = request_id

    def answer(self, answer: Answer) -> None:
        self._channel.finish(self._id)
        self._channel.say(answer.body)

    def answer_json(self, status: int, body: bytes, lines: HeaderLines) -> None:
        self._channel.finish(self._id)
        self._channel.say(body)

    def start(self, status: int, headers: HeaderLines) -> None:
        """A line has no head."""

    def write(self, chunk: bytes) -> None:
        if chunk.startswith(b"data: "):
            self._channel.say(chunk[_EVENT_START:_EVENT_END])

    def end(self) -> None:
        self._channel.finish(self._id)

    def abort(self) -> None:
        self._channel.finish(self._id)

    def pending(self) -> int:
        # One slow reader reads all answers: what floods is dropped by the channel, and no answer
        # is cut off for it.
        return 0

    def watch(self, gone: Callable[[], None]) -> None:
        """A request is cancelled by name."""


class _LineOutlet:
    """Where the calls of the session say what they have to say."""

    __slots__ = ("hang_up", "say")

    can_ask = True

    def __init__(self, say: Callable[[bytes], None]) -> None:
        self.say = say
        self.hang_up: Callable[[], None] = lambda: None


class Channel:
    """One channel.

    Args:
        features: What is served.
        bus: Where changes come from.
        limits: The bounds.
        write: Takes one encoded message for the peer; does not wait.
        pending: Tells how many bytes wait for the peer.
        legacy: Whether the revisions with a handshake are served too.

    Next: `receive` each line, `drain` at the end; all on one event loop.
    """

    def __init__(
        self,
        features: Features,
        bus: Bus,
        limits: ServerLimits,
        *,
        write: Callable[[bytes], None],
        pending: Callable[[], int] = lambda: 0,
        legacy: bool = True,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._features = features
        self._limits = limits
        self._write = write
        self._pending = pending
        self._loop = loop
        self._draining = False
        # There is nobody between the two ends who would take silence for an end.
        terms = Terms(Lane(loop, 0, Reply.silence), limits.max_stream_buffer)
        admission = Admission(loop, limits)
        self._crew = Crew(
            terms,
            admission,
            features.handle,
            Lane(loop, _PATIENCE, Work.become_long),
            Lane(loop, limits.call_timeout, lambda work: work.stop(Stop.TIMEOUT)),
            set(),
        )
        self._listens = Listens(loop, bus, limits, features.info)
        self._open: dict[Id, Reply] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: Session | None = None
        if legacy:
            self._session = Session(features, limits, admission)
        self._outlet = _LineOutlet(self.say)
        self._hearing = Hearing(bus, self._tell)

    def receive(self, line: bytes | TooLong) -> None:
        """Take a line.

        Args:
            line: What `LineParser.feed` gives.
        """
        if isinstance(line, TooLong):
            text = f"the line is longer than {line.limit} bytes; see WireLimits.max_stdio_line"
            self.say(encode_error(ParseError(text, request_id=read_id(line.head))))
            return
        try:
            if self._takes_batches() and is_batch(line):
                self._batch(line)
                return
            message = decode_answer(line)
        except WireError as error:
            if error.request_id is None and isinstance(error, ParseError):
                error.request_id = read_id(line[:4096])
            self.say(encode_error(error))
            return
        if isinstance(message, Request):
            self._request(message)
        elif isinstance(message, Notification) and message.method == "notifications/cancelled":
            self._cancel(message)
        elif self._session is not None:
            self._session.take(message)

    def say(self, message: bytes) -> None:
        """Say something; where the peer does not keep up, notifications are dropped.

        Progress goes first, since the next says more than the one before.
        """
        if message.startswith(_NOTE):
            bound = self._limits.max_stream_buffer
            pending = self._pending()
            if pending > bound or (pending > bound >> 2 and message.startswith(_PROGRESS)):
                return
        self._write(message)

    def finish(self, request_id: Id) -> None:
        """Take note that a request has its answer."""
        self._open.pop(request_id, None)

    async def drain(self, grace: float) -> None:
        """End what is open: each listen with its result, calls within their grace.

        Args:
            grace: Seconds that running calls get; then they are stopped.
        """
        self._draining = True
        self._hearing.stop()
        listens = [each for each in self._open.values() if isinstance(each, Listen)]
        self._listens.close()
        for listen in listens:
            params = {"requestId": listen.id, "reason": "the server is shutting down"}
            self.say(encode_notification("notifications/cancelled", params))
        await self._wait_calls(grace)
        for work in list(self._crew.running):
            work.stop(Stop.SHUTDOWN)
        if self._session is not None:
            self._session.stop_calls(InternalError(Stop.SHUTDOWN.value))
        await self._wait_calls(_STUBBORN)
        if self._session is not None:
            self._session.close()

    async def _wait_calls(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    def _request(self, request: Request) -> None:
        session = self._session
        if session is not None and _is_legacy(session, request):
            self._begin_legacy(session, request)
            return
        try:
            if self._draining:
                raise InternalError(Stop.SHUTDOWN.value)
            if request.id in self._open:
                raise InvalidRequest("a request with this id is running")
            self._begin(request)
        except WireError as error:
            error.request_id = request.id
            self.say(encode_error(error))
        except Refused as refused:
            self.say(encode_error(InternalError(refused.reason, request_id=request.id)))

    def _begin(self, request: Request) -> None:
        if request.method == "initialize" and not has_modern_meta(request.params):
            # The only thing that a client of an earlier revision can show its user.
            asked = request.params.get("protocolVersion")
            raise UnsupportedVersion(asked if type(asked) is str else "", MODERN)
        meta = parse_meta(request)
        if meta.protocol_version not in MODERN:
            raise UnsupportedVersion(meta.protocol_version, MODERN)
        if request.method == METHOD:
            self._listen(request)
            return
        if not self._features.knows(request.method):
            raise MethodNotFound(f"method {request.method!r} is not served here")
        work = Work(_LineDoor(self, request.id), _HEAD, request.id, self._crew)
        self._open[request.id] = work
        rest = work.begin(Call(request, meta, work.note))
        if rest is not None:
            self._spawn(rest)

    def _listen(self, request: Request) -> None:
        capabilities = self._features.capabilities()
        if not can_listen(capabilities):
            raise MethodNotFound("this server has no changes to tell")
        honoured = read_filter(request.params, capabilities, self._limits)
        refused = self._listens.check_room()
        if refused is not None:
            raise refused
        listen = Listen(
            _LineDoor(self, request.id),
            request,
            _HEAD,
            self._crew.terms,
            honoured=honoured,
            listens=self._listens,
        )
        self._open[request.id] = listen
        self._listens.open(listen, honoured)

    def _begin_legacy(self, session: Session, request: Request) -> None:
        if self._draining:
            error = InternalError(Stop.SHUTDOWN.value, request_id=request.id)
            self.say(encode_error(error))
            return
        answer = session.begin(request, self._outlet)
        if isinstance(answer, bytes):
            self.say(answer)
        else:
            self._spawn(self._say_answer(answer))
        if session.version is not None:
            self._hearing.start()

    async def _say_answer(self, rest: Coroutine[Any, Any, bytes | None]) -> None:
        answer = await rest
        if answer is not None:
            self.say(answer)

    def _takes_batches(self) -> bool:
        return self._session is not None and self._session.version == "2025-03-26"

    def _batch(self, line: bytes) -> None:
        session = self._session
        assert session is not None
        items = read_batch(line, self._limits.max_batch)
        quiet = [each for each in items if isinstance(each, (Notification, Response))]
        if len(quiet) == len(items):
            for each in quiet:
                session.take(each)
        else:
            self._spawn(self._say_answer(answer_batch(session, items, self._outlet)))

    def _cancel(self, message: Notification) -> None:
        request_id = message.params.get("requestId")
        if type(request_id) is not int and type(request_id) is not str:
            return
        reply = self._open.get(request_id)
        if reply is None:
            if self._session is not None:
                self._session.take(message)
        else:
            self.finish(request_id)
            reply.gone()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell(self, notice: Notice) -> None:
        if self._session is not None:
            for note in notes_for(self._session, notice):
                self.say(note)


def _is_legacy(session: Session, request: Request) -> bool:
    """Whether a request belongs to the session: until that is open, only what opens it does."""
    if has_modern_meta(request.params):
        return False
    return session.version is not None or request.method in ("initialize", "ping")
