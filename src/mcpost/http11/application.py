"""What a server's connection asks of others: of the application, and of its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcpost.http11.encode import HeaderLines
from mcpost.http11.exchange import Exchange
from mcpost.http11.head import KnownHeads, Request

if TYPE_CHECKING:
    from mcpost.http11.server import ServerConnection

__all__ = ("Application", "Owner")

_TEXT = ((b"content-type", b"text/plain; charset=utf-8"),)

E_contra = TypeVar("E_contra", bound=Exchange, contravariant=True)


class Application(Protocol[E_contra]):
    """What answers requests. Plain functions: none of them waits."""

    def open(self, request: Request, exchange: E_contra) -> None:
        """A head has come: refuse it by answering now, or `receive` its body piece by piece."""
        ...

    def handle(self, request: Request, body: bytes, exchange: E_contra) -> None:
        """A whole request has come: answer it, now or later."""
        ...

    def word(self, status: int, reason: str) -> tuple[HeaderLines, bytes]:
        """Say a refusal that the connection makes by itself: header lines, and the body."""
        return _TEXT, reason.encode("utf-8") + b"\n"


class Owner(Protocol):
    """Whom a connection tells about itself."""

    heads: KnownHeads
    """What clients of the application say again and again."""

    def made(self, connection: ServerConnection[Any]) -> bool:
        """A client has connected; whether there is room for it."""
        ...

    def lost(self, connection: ServerConnection[Any]) -> None:
        """The connection is over."""
        ...

    def refused(self, status: int) -> None:
        """A request was refused for its form or its time."""
        ...
