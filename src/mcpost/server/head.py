"""The head of a request and the whole of an answer, as doors and the endpoint pass them on.

Spec: RFC 9110, 6; streamable-http.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from mcpost.server.call import Principal

__all__ = ("Answer", "Door", "Head", "HeaderLines")

HeaderLines = Sequence[tuple[bytes, bytes]]


class Head:
    """What is known of a request before its body."""

    __slots__ = ("headers", "method", "path", "peer", "principal")

    def __init__(
        self, method: str, path: str, headers: HeaderLines, peer: str | None = None
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        """Header lines in order; names in lower case."""
        self.peer = peer
        """Address of whoever is connected, where the door knows it."""
        self.principal: Principal | None = None
        """Who calls, once authentication has found out."""

    def values(self, name: bytes) -> list[bytes]:
        """The values of all lines of a header."""
        return [value for each, value in self.headers if each == name]


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    """Without `Content-Length`, which the door writes."""
    body: bytes


class Door(Protocol):
    """What a transport can do for one answer. Plain functions: none of them waits."""

    def answer(self, answer: Answer) -> None:
        """Send a whole answer."""
        ...

    def start(self, status: int, headers: HeaderLines) -> None:
        """Open a stream."""
        ...

    def write(self, chunk: bytes) -> None:
        """Send a piece of the stream; what is written in one turn of the loop goes out as one."""
        ...

    def end(self) -> None:
        """End the stream."""
        ...

    def abort(self) -> None:
        """Cut the connection, so that the peer sees that the answer is not whole."""
        ...

    def pending(self) -> int:
        """Tell how many bytes wait for the peer to take them."""
        ...

    def watch(self, gone: Callable[[], None]) -> None:
        """Call a function when the peer has left."""
        ...
