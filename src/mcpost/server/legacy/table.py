"""The sessions of one event loop: found by id, ended when idle, bounded in number.

Spec: 2025-11-25, basic/transports, "Session Management" (L-01).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any, Final

from mcpost.limits import ServerLimits
from mcpost.server.admission import Admission
from mcpost.server.bus import Bus, Notice
from mcpost.server.call import Principal
from mcpost.server.features import Features
from mcpost.server.head import Door, Head
from mcpost.server.legacy.changes import Hearing, notes_for
from mcpost.server.legacy.session import Session
from mcpost.server.legacy.store import EventStore
from mcpost.server.legacy.streams import CallStream, Carrier, Stream
from mcpost.server.pulse import Lane
from mcpost.wire.versions import LEGACY

__all__ = ("HttpSession", "Table")

_ID_BYTES: Final = 16
_OWN: Final = "0"
"""Name of the stream that belongs to no request: the one of GET."""


class HttpSession:
    """A session over HTTP: its id, its streams, and the tasks of its calls.

    Args:
        core: What it does.
        carrier: What its streams share.
    """

    __slots__ = ("_carrier", "_count", "calls", "core", "id", "own", "tasks")

    def __init__(self, core: Session, carrier: Carrier) -> None:
        self.id = carrier.session
        self.core = core
        self._carrier = carrier
        self._count = 0
        self.own = Stream(_OWN, carrier)
        """Carries what belongs to no request."""
        self.calls: dict[str, CallStream] = {}
        """The streams of calls that have not ended, by name."""
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def is_used(self) -> bool:
        """Whether a call runs or a connection is open."""
        return bool(self.calls) or self.own.is_open

    def open_call(self, door: Door, head: Head) -> CallStream:
        """Make the stream of a new call; `close_call` ends it."""
        self._count += 1
        stream = CallStream(str(self._count), self._carrier, door, head)
        self.calls[stream.name] = stream
        return stream

    def close_call(self, stream: CallStream) -> None:
        """Forget the stream of a call; its events are kept."""
        self.calls.pop(stream.name, None)

    def stream_named(self, name: str) -> Stream:
        """Find a stream that a client comes back for; an ended one has what is kept of it.

        Raises:
            KeyError: There is no such stream, or nothing of it is kept.
        """
        if name == _OWN:
            return self.own
        stream = self.calls.get(name)
        if stream is not None:
            return stream
        if self._carrier.store.after(self.id, name, 0) is None:
            raise KeyError(name)
        return Stream(name, self._carrier)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a call's work in a task that no connection owns."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def close(self) -> None:
        """End it: calls stop, streams close."""
        self.core.close()
        for stream in (self.own, *self.calls.values()):
            stream.retire()


class Table:
    """The sessions of one event loop.

    Args:
        features: What they serve.
        bus: Where changes come from.
        limits: The bounds.
        store: Where events are kept.
    """

    def __init__(
        self, features: Features, bus: Bus, limits: ServerLimits, store: EventStore
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.draining = False
        self._features = features
        self._limits = limits
        self._store = store
        self._admission = Admission(self.loop, limits)
        self._keep_alive: Lane[Stream] = Lane(self.loop, limits.keep_alive, Stream.silence)
        self._idle: Lane[HttpSession] = Lane(self.loop, limits.session_idle, self._expire)
        self._sessions: dict[str, HttpSession] = {}
        self._hearing = Hearing(bus, self._tell)

    def __len__(self) -> int:
        return len(self._sessions)

    def make_core(self, principal: Principal | None) -> Session:
        """Make what a session does; it is on no list before `add`."""
        return Session(self._features, self._limits, self._admission, principal=principal)

    def add(self, core: Session) -> HttpSession | None:
        """Give a session an id and a place; `None` where all places are in use."""
        if len(self._sessions) >= self._limits.max_sessions and not self._make_room():
            return None
        limits = self._limits
        carrier = Carrier(
            secrets.token_hex(_ID_BYTES),
            self._store,
            self._keep_alive,
            limits.max_stream_buffer,
            round(limits.resume_delay * 1000),
            primes=core.version == LEGACY[0],
        )
        session = HttpSession(core, carrier)
        self._sessions[session.id] = session
        self._hearing.start()
        self._idle.touch(session)
        return session

    def find(self, session_id: bytes, principal: Principal | None) -> HttpSession | None:
        """Find a session of this caller, which is then in use; another's is as good as none."""
        session = self._sessions.get(session_id.decode("latin-1"))
        if session is None:
            return None
        owner = session.core.principal
        if (None if owner is None else owner.id) != (None if principal is None else principal.id):
            return None
        # The order of the table is that of last use.
        self._sessions[session.id] = self._sessions.pop(session.id)
        self._idle.touch(session)
        return session

    def end(self, session: HttpSession) -> None:
        """End a session: its id is unknown from now on."""
        if self._sessions.pop(session.id, None) is None:
            return
        self._idle.discard(session)
        session.close()
        self._store.drop(session.id)
        if not self._sessions:
            self._hearing.stop()

    def all(self) -> list[HttpSession]:
        """The sessions, the longest unused first."""
        return list(self._sessions.values())

    def _make_room(self) -> bool:
        for session in self._sessions.values():
            if not session.is_used:
                self.end(session)
                return True
        return False

    def _expire(self, session: HttpSession) -> None:
        if session.is_used:
            self._idle.touch(session)
        else:
            self.end(session)

    def _tell(self, notice: Notice) -> None:
        for session in self._sessions.values():
            for note in notes_for(session.core, notice):
                session.own.note(note)
