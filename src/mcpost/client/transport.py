"""What a client wants of a wire: send one request, hear its notifications, get its response.

`http.HttpTransport` speaks this revision over HTTP and `inprocess.InProcess` to a server object in
the same process; the earlier revisions and stdio are further ones.

Spec: basic/transports.
"""

from __future__ import annotations

from typing import Protocol

from mcpost.client.attempt import Attempt, Outgoing, Reply

__all__ = ("Transport",)


class Transport(Protocol):
    """A way to a server."""

    @property
    def mirrors(self) -> bool:
        """Whether arguments are mirrored into headers here, so that bad marks matter (H-05)."""
        ...

    @property
    def name(self) -> str:
        """What it leads to, for messages, and as the key of what is remembered."""
        ...

    @property
    def open_connections(self) -> int:
        """How many connections, or children, are open."""
        ...

    async def send(self, out: Outgoing, attempt: Attempt) -> Reply:
        """Send a request and wait for its response.

        Args:
            out: The request.
            attempt: Is told when the request goes out (`sending`), of each sign of life (`heard`)
                and of the end (`finish`), and hears the notifications, in the task of the caller.

        Raises:
            TransportError: There is no response.

        Cancelling it cancels the request at the server, in the way of this transport.
        """
        ...

    async def close(self) -> None:
        """End everything that was started; what is under way fails with `ConnectionLost`."""
        ...
