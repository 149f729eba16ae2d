"""What a server's connection asks of others: of the application, and of its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mcpost.http11.exchange import Exchange
from mcpost.http11.head import Request

if TYPE_CHECKING:
    from mcpost.http11.server import ServerConnection

__all__ = ("Application", "Owner")

E_contra = TypeVar("E_contra", bound=Exchange, contravariant=True)


class Application(Protocol[E_contra]):
    """What answers requests. Plain functions: neither of them waits."""

    def open(self, request: Request, exchange: E_contra) -> None:
        """A head has come: refuse it by answering now, or `receive` its body piece by piece."""
        ...

    def handle(self, request: Request, body: bytes, exchange: E_contra) -> None:
        """A whole request has come: answer it, now or later."""
        ...


class Owner(Protocol):
    """Whom a connection tells about itself."""

    def made(self, connection: ServerConnection[Any]) -> bool:
        """A client has connected; whether there is room for it."""
        ...

    def lost(self, connection: ServerConnection[Any]) -> None:
        """The connection is over."""
        ...

    def refused(self, status: int) -> None:
        """A request was refused for its form or its time."""
        ...
