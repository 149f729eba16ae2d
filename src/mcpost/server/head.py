"""What an endpoint and its doors say to each other.

A door knows one way of serving HTTP (an ASGI server, our own engine). It gives the endpoint a
`Head` and then the body, and does what the endpoint asks of it: one whole answer, or a stream. It
has no rules of its own.

Spec: RFC 9110, 6; streamable-http.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from mcpost.server.call import Principal
from mcpost.wire.accept import BOTH, Accepted
from mcpost.wire.agreement import Routing

__all__ = ("JSON", "STREAM", "Answer", "Door", "Head", "HeaderLines")

HeaderLines = tuple[tuple[bytes, bytes], ...]

JSON: Final = (b"content-type", b"application/json")
STREAM: Final[HeaderLines] = (
    (b"content-type", b"text/event-stream"),
    # Proxies are told neither to keep nor to collect it (T-12).
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)


class Head:
    """The head of an HTTP request, and what the endpoint has found out from it.

    Args:
        method: The HTTP method, as in `POST`.
        path: The path, decoded, without the query.
        headers: Header lines in their order, names in lower case. A parser may have left blanks
            at the end of values (llhttp does).
        peer: Address of whoever is connected, where it is known.
        fields: The header lines by name, where the door has them so already; of lines that are
            repeated any one.
    """

    __slots__ = (
        "accepted",
        "fields",
        "headers",
        "lines",
        "method",
        "path",
        "peer",
        "principal",
        "routing",
    )

    def __init__(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]],
        peer: str | None = None,
        fields: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.fields = dict(headers) if fields is None else fields
        self.peer = peer
        self.principal: Principal | None = None
        """Who calls, once that is found out."""
        self.accepted: Accepted = BOTH
        """The forms of an answer that the caller takes."""
        self.lines: HeaderLines = ()
        """Header lines that every answer to this request carries."""
        self.routing: Routing | None = None
        """What the mirrored headers say, where they say it plainly."""

    def get(self, name: bytes) -> bytes | None:
        """The value of the only line of a name; `None` if there is none, or more than one."""
        found = self.get_all(name)
        return found[0] if len(found) == 1 else None

    def get_all(self, name: bytes) -> list[bytes]:
        """The values of all lines of a name (in lower case), in order, without outer blanks."""
        return [value.strip(b" \t") for key, value in self.headers if key == name]


class Answer(NamedTuple):
    """A whole HTTP response."""

    status: int
    headers: HeaderLines
    """All lines, `content-length` among them where there is a body."""
    body: bytes = b""


class Door(Protocol):
    """What a transport does for one answer. None of it blocks; all of it is called on the loop."""

    in_task: bool
    """Whether `begin` is called in a task of its own, so that a handler may take its first step
    there; else all of it is left to what `begin` returns."""

    def answer(self, answer: Answer) -> None:
        """Send one whole answer."""

    def answer_json(self, status: int, body: bytes, lines: HeaderLines) -> None:
        """Send one whole answer of a JSON object, with some header lines besides its own."""

    def start(self, status: int, headers: HeaderLines) -> None:
        """Send the head of a stream."""

    def write(self, chunk: bytes) -> None:
        """Send a piece of the stream: the first at once, those of one loop turn joined."""

    def end(self) -> None:
        """End the stream, once all of it is sent."""

    def abort(self) -> None:
        """Cut the stream off, so that the peer sees that it is not whole; throw away what waits."""

    def pending(self) -> int:
        """Tell how many bytes wait for the peer to take them."""
        ...

    def watch(self, gone: Callable[[], None]) -> None:
        """Call `gone` once if the peer leaves before the answer ends; asked for once at most."""
