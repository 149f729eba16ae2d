"""A call that one member of an aggregate serves: forwarded, with the URIs in its answer prefixed.

Streams go on event by event, as they come; only an event that names a resource is written anew. A
JSON answer is held until it is whole. One that is longer than `max_answer` goes on as it is.

Spec: streamable-http, "Receiving Messages" (T-09, T-13).
"""

from __future__ import annotations

from typing import Final

from mcpost.errors import TooLarge
from mcpost.gateway.addresses import prefix_message
from mcpost.gateway.blocks import Blocks
from mcpost.gateway.forward import Forward
from mcpost.http11.errors import CallFailed
from mcpost.http11.head import Response
from mcpost.wire.accept import is_json
from mcpost.wire.sse import Parser, encode_event

__all__ = ("Routed",)

_EVENTS: Final = b"text/event-stream"


class Routed(Forward):
    """One call to a member."""

    __slots__ = ("_blocks", "_json", "_max_answer", "_member", "_method", "_pieces", "_size")

    def route(self, method: str, member: str, max_answer: int) -> None:
        """Say what is asked, and of whom; before `send`.

        Args:
            method: The method of the call.
            member: The member.
            max_answer: Bytes of an answer, or of an event, that may be held.
        """
        self._method = method
        self._member = member
        self._max_answer = max_answer
        self._json: Response | None = None
        self._blocks: Blocks | None = None
        self._pieces: list[bytes] = []
        self._size = 0

    def on_head(self, response: Response) -> None:
        """See what kind of answer it is."""
        kind = response.fields.get(b"content-type", b"")
        coding = response.fields.get(b"content-encoding", b"identity")
        if coding.lower() == b"identity" and response.status == 200:
            if is_json(kind) and response.length <= self._max_answer:
                self._json = response
                assert self.endpoint is not None
                self.endpoint.reached()
                return
            if kind.partition(b";")[0].strip().lower() == _EVENTS and response.length < 0:
                self._blocks = Blocks(self._max_answer)
        super().on_head(response)

    def on_data(self, data: bytes) -> None:
        """Take a piece of it."""
        if self._json is not None:
            self._pieces.append(data)
            self._size += len(data)
            if self._size > self._max_answer:
                self._let_go(self._json)
            return
        if self._blocks is None:
            super().on_data(data)
            return
        ready = b"".join(
            self._prefix(block) if is_whole else block
            for block, is_whole in self._blocks.feed(data)
        )
        if ready:
            super().on_data(ready)

    def on_end(self) -> None:
        """It is whole."""
        response = self._json
        if response is not None:
            self._json = None
            body = prefix_message(b"".join(self._pieces), self._method, self._member)
            self.received += self._size
            self._answer(response, body)
        elif self._blocks is not None:
            left = self._blocks.end()
            if left:
                super().on_data(left)
        super().on_end()

    def on_failed(self, error: CallFailed) -> None:
        """There is none, or no whole one: what was held of it is not told."""
        self._json = None
        super().on_failed(error)

    def _let_go(self, response: Response) -> None:
        """It is longer than may be held: send it on as it is."""
        self._json = None
        super().on_head(response)
        held, self._pieces = b"".join(self._pieces), []
        super().on_data(held)

    def _prefix(self, block: bytes) -> bytes:
        try:
            events = Parser().feed(block)
        except TooLarge:
            return block
        if len(events) != 1:
            return block
        (event,) = events
        data = prefix_message(event.data, self._method, self._member)
        if data is event.data:
            return block
        name = None if event.event == "message" else event.event
        return encode_event(data, event=name, id=event.id, retry=event.retry)
