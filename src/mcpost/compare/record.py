"""What passes on a wire, written down: which message, which way, when.

Spec: basic/transports.
"""

from __future__ import annotations

import time
from typing import Literal, NamedTuple

from mcpost.errors import WireError
from mcpost.wire.jsonrpc import Notification, Request, decode_answer
from mcpost.wire.lines import LineParser, TooLong

__all__ = ("Kind", "Message", "Recorder", "StdioTap")

Kind = Literal["request", "progress", "note", "result", "error", "break"]


class Message(NamedTuple):
    """One thing that passed."""

    at: float
    """Seconds since the recording began."""
    to_server: bool
    kind: Kind
    text: str
    """What it is, in few words."""


class Recorder:
    """Writes down what passes while it is on."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """What has passed since `start`."""
        self._began: float | None = None

    def start(self) -> None:
        """Begin anew."""
        self.messages = []
        self._began = time.monotonic()

    def stop(self) -> list[Message]:
        """End, and give what was written down."""
        self._began = None
        return self.messages

    def add(self, to_server: bool, kind: Kind, text: str) -> None:
        """Write down one thing."""
        if self._began is not None:
            self.messages.append(Message(time.monotonic() - self._began, to_server, kind, text))

    def add_json(self, to_server: bool, data: bytes) -> None:
        """Write down a message of JSON-RPC."""
        try:
            message = decode_answer(data)
        except WireError:
            self.add(to_server, "error", "no message")
            return
        if isinstance(message, Request):
            self.add(to_server, "request", f"{message.method} (id {message.id})")
        elif isinstance(message, Notification):
            name = message.method.removeprefix("notifications/")
            if name == "progress":
                self.add(to_server, "progress", f"progress {message.params.get('progress'):g}")
            else:
                self.add(to_server, "note", name)
        elif message.error is not None:
            self.add(to_server, "error", f"error {message.error.code} (id {message.id})")
        else:
            self.add(to_server, "result", f"result (id {message.id})")


class StdioTap:
    """Reads the lines of both directions of stdio."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._parsers = {True: LineParser(), False: LineParser()}

    def __call__(self, to_server: bool, data: bytes) -> None:
        """Take bytes."""
        for line in self._parsers[to_server].feed(data):
            if not isinstance(line, TooLong):
                self._recorder.add_json(to_server, line)
