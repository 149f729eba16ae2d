"""What the tests of your server need: call it in process, and see what went over the wire.

```
from mcpost.testing import connect

async with connect(server) as client:
    assert (await client.call("add", {"a": 1, "b": 2})).data == 3
```

The calls go through the server's own endpoint, with headers, limits and checks, without a socket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mcpost.client import Client
from mcpost.client.attempt import Attempt, Outgoing, Reply
from mcpost.client.inprocess import AsgiApp, Servable
from mcpost.client.transport import Transport
from mcpost.wire.jsonrpc import Notification

__all__ = ("Exchange", "Recorder", "connect")


def connect(server: Servable | AsgiApp, record: Recorder | None = None, **options: Any) -> Client:
    """Make a client of a server in this process.

    Args:
        server: The `Server`, or an ASGI application that it made with settings of its own.
        record: Keeps what is exchanged.
        options: As for `mcpost.client.Client`.
    """
    return Client(server, wrap=record.wrap if record is not None else None, **options)


@dataclass(slots=True)
class Exchange:
    """One request and what came back."""

    request: Outgoing
    notifications: list[Notification] = field(default_factory=list[Notification])
    reply: Reply | None = None
    """`None` where none came."""


class Recorder:
    """A transport that passes everything on and keeps it, for a test to look at.

    `client = connect(server, record=(recorder := Recorder()))`

    Args:
        limit: Exchanges that are kept; the oldest go first.
    """

    def __init__(self, limit: int = 1_000) -> None:
        self._limit = limit
        self.exchanges: list[Exchange] = []
        """What was exchanged, in the order of the requests."""

    def wrap(self, transport: Transport) -> Transport:
        """Put this recorder before a transport."""
        return _Recording(self, transport)

    def note(self, exchange: Exchange) -> None:
        """Keep an exchange."""
        self.exchanges.append(exchange)
        del self.exchanges[: -self._limit]


class _Recording:
    def __init__(self, recorder: Recorder, transport: Transport) -> None:
        self._recorder = recorder
        self._transport = transport

    @property
    def mirrors(self) -> bool:
        return self._transport.mirrors

    @property
    def name(self) -> str:
        return self._transport.name

    @property
    def open_connections(self) -> int:
        return self._transport.open_connections

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        exchange = Exchange(out)
        self._recorder.note(exchange)
        hear = attempt.hear

        def listen(note: Notification) -> Any:
            exchange.notifications.append(note)
            return hear(note) if hear is not None else None

        attempt.hear = listen
        exchange.reply = await self._transport.send(out, attempt)
        return exchange.reply

    async def close(self) -> None:
        await self._transport.close()
