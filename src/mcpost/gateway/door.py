"""The exchange of a gateway: knows what was found in its head, and passes ready-made heads on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpost.http11.encode import Encoded
from mcpost.http11.exchange import Exchange, State

if TYPE_CHECKING:
    from mcpost.gateway.generation import Generation, Plan

__all__ = ("Door",)

_WAITING, _OVER = State.WAITING, State.OVER


class Door(Exchange):
    """An exchange of a gateway."""

    __slots__ = ("generation", "plan")

    generation: Generation
    plan: Plan
    """Set where the body has to be read first."""

    def unwatch(self) -> None:
        """Tell nobody any more; those who were told hold this, and it them."""
        self._on_gone = self._on_drained = None

    def pass_on(self, head: Encoded, body: bytes) -> None:
        """Send a whole answer of an upstream.

        Args:
            head: Made by `encode_response`, of a status that has content; its `date` is kept.
            body: The content.
        """
        if self.state is not _WAITING:
            self._check_gone()
            return
        connection = self._connection
        date = b"" if head.dated else connection.date_line()
        more = b"" if connection.keeps() else b"connection: close\r\n"
        self.state = _OVER
        connection.send(
            b"%b%b%bcontent-length: %d\r\n\r\n%b"
            % (head.lines, date, more, len(body), b"" if self._bare else body)
        )
        connection.finish()
