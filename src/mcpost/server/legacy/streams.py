"""Event streams that outlive their connections.

A stream is a row of numbered events. While a connection carries it, what is said goes out at once;
it is kept as well, and a client that comes back gets what came after the last event it names. An
event's id is the stream's name and the number, so it names one stream and a place in it.

Rules that a change must not break: an event is written to one connection at a time; a connection
that ends, for whatever reason, ends nothing but itself.

Spec: 2025-11-25, basic/transports, "Sending Messages to the Server", "Resumability and Redelivery"
(L-02).
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from typing import Final

from mcpost.server.head import STREAM, Door, Head, HeaderLines
from mcpost.server.legacy.store import EventStore
from mcpost.server.pulse import Lane
from mcpost.server.refusals import json_answer
from mcpost.wire.sse import COMMENT, encode_event
from mcpost.wire.status import OK

__all__ = ("CallStream", "Carrier", "Stream", "parse_event_id")

_log = logging.getLogger("mcpost.server")

_EVENT_ID: Final = re.compile(rb"([0-9]{1,12})-([0-9]{1,15})")


def parse_event_id(value: bytes) -> tuple[str, int] | None:
    """Read the id of an event: the stream's name, and the event's number in it."""
    found = _EVENT_ID.fullmatch(value)
    return None if found is None else (found[1].decode(), int(found[2]))


@dataclass(frozen=True, slots=True)
class Carrier:
    """What the streams of one session share."""

    session: str
    """The session's id."""
    store: EventStore
    keep_alive: Lane[Stream]
    """Where a stream waits until it has been silent for too long."""
    max_buffer: int
    """Bytes that may wait for a slow reader."""
    retry_ms: int
    primes: bool
    """Whether a stream starts with an event without data, which gives the client an id to come
    back with. Clients of the revisions before 2025-11-25 would read it as a broken message."""


class Stream:
    """One stream.

    Args:
        name: Its name in the session.
        carrier: What it shares with others.
    """

    __slots__ = ("_carrier", "_count", "_door", "_granted", "_retired", "_sent", "_unheard", "name")

    def __init__(self, name: str, carrier: Carrier) -> None:
        self.name = name
        self._carrier = carrier
        self._door: Door | None = None
        self._count = 0
        self._sent = 0
        self._granted = 0
        self._unheard: set[bytes] = set()
        self._retired = False

    @property
    def is_open(self) -> bool:
        """Whether a connection carries it."""
        return self._door is not None

    def say(self, message: bytes) -> None:
        """Say a message: to whoever listens, and to whoever comes back for it."""
        if self._retired:
            return
        self._count += 1
        carrier = self._carrier
        carrier.store.append(carrier.session, self.name, self._count, message)
        door = self._door
        if door is None:
            return
        if door.pending() > carrier.max_buffer + self._granted:
            _log.warning("a reader of stream %s left too much unread; it may resume", self.name)
            self._drop_door()
            door.abort()
            return
        self._write(door, self._count, message)

    def note(self, message: bytes) -> None:
        """Say what need not be said twice: unheard, it is kept once."""
        if self._door is None:
            if message in self._unheard:
                return
            self._unheard.add(message)
        self.say(message)

    def open(self, door: Door, lines: HeaderLines, after: int | None = None) -> None:
        """Carry the stream by a connection, instead of the one before.

        Args:
            door: The connection.
            lines: Further header lines of its answer.
            after: The last event that the client has; `None` if it names none, and gets what no
                connection has carried yet.
        """
        before = self._door
        self._drop_door()
        if before is not None:
            before.end()
        carrier = self._carrier
        if after is None:
            after = self._sent
        missed = carrier.store.after(carrier.session, self.name, after) or []
        self._door = door
        self._unheard.clear()
        door.start(OK, STREAM + lines)
        door.watch(lambda: self._leave(door))
        if carrier.primes:
            door.write(encode_event(b"", id=f"{self.name}-{after}", retry=carrier.retry_ms))
        else:
            # The head goes out with the first piece.
            door.write(COMMENT)
        for number, message in missed:
            self._write(door, number, message)
        # What is asked for again may be more than waits for a reader otherwise.
        self._granted = door.pending()
        carrier.keep_alive.touch(self)

    def close(self) -> None:
        """End the connection, once all of it is sent; what is said from now on is kept."""
        door = self._door
        self._drop_door()
        if door is not None:
            door.end()

    def retire(self) -> None:
        """End for good, with the session: nothing is kept any more."""
        self._retired = True
        self.close()

    def silence(self) -> None:
        """Send a comment, so that whoever is between does not take the silence for an end."""
        if self._door is not None:
            if not self._door.pending():
                self._door.write(COMMENT)
            self._carrier.keep_alive.touch(self)

    def _write(self, door: Door, number: int, message: bytes) -> None:
        self._sent = max(self._sent, number)
        door.write(encode_event(message, id=f"{self.name}-{number}"))
        self._carrier.keep_alive.touch(self)

    def _leave(self, door: Door) -> None:
        if self._door is door:
            self._drop_door()

    def _drop_door(self) -> None:
        self._door = None
        self._carrier.keep_alive.discard(self)


class CallStream(Stream):
    """The stream of one request (an `Outlet`): plain JSON, unless something has to be waited for.

    Args:
        name: Its name in the session.
        carrier: What it shares with others.
        door: The connection on which the request came.
        head: The request's head.

    Next: `finish`, once.
    """

    __slots__ = ("_asker", "_head", "decided", "is_finished")

    def __init__(self, name: str, carrier: Carrier, door: Door, head: Head) -> None:
        super().__init__(name, carrier)
        self._asker: Door | None = door
        self._head = head
        self.decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the answer is out, or has become a stream."""
        self.is_finished = False

    @property
    def can_ask(self) -> bool:
        """Whether the client takes streams, which carry requests to it."""
        return self._head.accepted.stream

    def say(self, message: bytes) -> None:
        """Say a message of the call; dropped for a client that takes no streams."""
        if self._head.accepted.stream:
            self.begin()
            super().say(message)

    def begin(self) -> None:
        """Let the answer be a stream from now on, if the client takes one."""
        if self._asker is not None and self._head.accepted.stream:
            door, self._asker = self._asker, None
            self.open(door, self._head.lines)
            self._decide()

    @property
    def primes(self) -> bool:
        """Whether its first event gives the client an id to come back with."""
        return self._carrier.primes

    def hang_up(self) -> None:
        """End the connection and keep the call, where the client has an id to come back with."""
        self.begin()
        if self.primes:
            self.close()

    def finish(self, message: bytes | None, instead: bytes) -> None:
        """End the answer.

        Args:
            message: The last message; `None` where nothing more is to be said.
            instead: What is said then to a client that takes no streams and has to get something.
        """
        if not self._head.accepted.json:
            self.begin()
        self.is_finished = True
        if self._asker is not None:
            door, self._asker = self._asker, None
            door.answer(json_answer(OK, message or instead, self._head.lines))
            self._decide()
            return
        if message is not None:
            super().say(message)
        self.close()

    def _decide(self) -> None:
        if not self.decided.done():
            self.decided.set_result(None)
